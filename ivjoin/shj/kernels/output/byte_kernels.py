"""Copy byte strings of variable size."""

from __future__ import annotations

from ivjoin.shj.kernels import pointers as mem
from ivjoin.shj.kernels.compiling import I8, IN1, IN_U8, IO1, IO_U8, VOID, compiled
from ivjoin.shj.kernels.output.batch_memory import copy_all

_LINE, _LINES = 64, 256  # bytes of a cache line, and bytes of a piece that are prefetched

__all__ = ["concat_pieces", "gather_bytes", "gather_pieces"]


@compiled(I8(IN1, IN1, I8, I8))
def gather_bytes(starts, sizes, source, out):
    """Copy ``sizes[i]`` bytes from ``source + starts[i]``, one piece after another, to ``out``; return the bytes.

    The ranges may overlap if no piece moves towards the end.
    """
    top = 0
    for i in range(starts.shape[0]):
        copy_all(out + top, source + starts[i], sizes[i])
        top += sizes[i]
    return top


@compiled(VOID(I8, IN1, I8, I8, IN1, IN1, IN1, IN1, I8))
def gather_pieces(source, segments, first, shift, which, begins, sizes, outs, out):
    """Copy ``sizes[i]`` bytes from position ``begins[i]`` of a log to ``out + outs[i]``, for each i in ``which``.

    Position p lies in segment ``p >> shift``; segment ``first + s`` begins at ``source + segments[s]``.
    """
    n = which.shape[0]
    for k in range(n):
        if k + mem.AHEAD < n:
            i = which[k + mem.AHEAD]
            if sizes[i] > 0:  # an empty piece may begin past the last segment
                at = begins[i]
                at += source + segments[(at >> shift) - first] - ((at >> shift) << shift)
                for line in range(0, min(sizes[i], _LINES), _LINE):
                    mem.prefetch(at + line)
        i = which[k]
        at = begins[i]
        left = sizes[i]
        target = out + outs[i]
        while left > 0:
            segment = at >> shift
            size = min(left, ((segment + 1) << shift) - at)
            copy_all(target, source + segments[segment - first] + at - (segment << shift), size)
            at += size
            target += size
            left -= size


@compiled(VOID(IN1, IN_U8, IN1, IN_U8, IO1, IO_U8))
def concat_pieces(offsets_a, a, offsets_b, b, offsets, out):
    """Write ``size(a_i) ++ a_i ++ b_i`` for each row: unambiguous, so equal results mean equal pieces."""
    top = 0
    offsets[0] = 0
    for i in range(offsets_a.shape[0] - 1):
        size = offsets_a[i + 1] - offsets_a[i]
        for s in range(4):
            out[top + s] = (size >> (8 * s)) & 255
        top += 4
        for k in range(offsets_a[i], offsets_a[i + 1]):
            out[top] = a[k]
            top += 1
        for k in range(offsets_b[i], offsets_b[i + 1]):
            out[top] = b[k]
            top += 1
        offsets[i + 1] = top
