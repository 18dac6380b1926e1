"""The state of a bucket as Spark keeps it: a format version, what the state belongs to, and the operator's snapshot,
or the log of what came since (``journal``).

Both are compressed. Spark carries a group's state from the JVM to Python and back in each micro-batch, at some
45 ms a megabyte. Most of a snapshot are columns of eight-byte numbers, whose leading bytes are alike from row to row:
sorted by their place in the word, the bytes compress in half the time, and to three quarters of the size, of what zstd
makes of them as they stand. Text loses by that, so a sample of each block decides::

    size uint64 | transposed? one bit a block | zstd of all blocks
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from ivjoin.errors import SnapshotError

__all__ = [
    "FORMAT", "STATE_SCHEMA", "BucketState", "compressed", "expanded", "meta_text", "new_token", "note_and_state",
    "read_state", "with_note",
]  # fmt: skip

FORMAT = 3
_SIZE_BYTES = 8
_WORD = 8
_NOTED = '"routing": "plans'  # how the meta text of buckets with a note tells of it
_BLOCK, _SAMPLE = 1 << 19, 1 << 14
STATE_SCHEMA = StructType([
    StructField("format", IntegerType()), StructField("meta", StringType()), StructField("token", StringType()),
    StructField("payload", BinaryType()),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class BucketState:
    """A bucket's state.

    Attributes
    ----------
    token : str
        Given by the turn that wrote it: an operator in memory is this state if and only if it has this token.
    payload : bytes
        ``SymmetricHashJoin.snapshot()`` or a packed ``Log``, compressed.
    """

    token: str
    payload: bytes


@cache
def _codec() -> pa.Codec:
    return pa.Codec("zstd", compression_level=1)


def compressed(snapshot: bytes) -> bytes:
    """Bytes as they are stored; the form is drawn above."""
    given = np.frombuffer(snapshot, np.uint8)
    out = np.empty_like(given)
    bits = np.zeros(-(-len(given) // _BLOCK), np.uint8)
    for i, (block, target) in enumerate(_blocks(given, out)):
        bits[i] = _gains(block)
        if bits[i]:
            _transpose(block, target)
        else:
            target[:] = block
    size = len(snapshot).to_bytes(_SIZE_BYTES, "little")
    return b"".join((size, np.packbits(bits).tobytes(), _codec().compress(out, asbytes=True)))


def expanded(payload: bytes) -> bytes:
    """The bytes that :func:`compressed` stored."""
    size = int.from_bytes(payload[:_SIZE_BYTES], "little")
    count = -(-size // _BLOCK)
    end = _SIZE_BYTES + -(-count // 8)
    bits = np.unpackbits(np.frombuffer(payload, np.uint8, end - _SIZE_BYTES, _SIZE_BYTES), count=count)
    held = np.frombuffer(_codec().decompress(memoryview(payload)[end:], size), np.uint8)
    out = np.empty_like(held)
    for bit, (block, target) in zip(bits, _blocks(held, out), strict=True):
        if bit:
            _transpose_back(block, target)
        else:
            target[:] = block
    return out.tobytes()


def _blocks(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Both arrays, of one length, block by block."""
    return ((a[begin : begin + _BLOCK], b[begin : begin + _BLOCK]) for begin in range(0, len(a), _BLOCK))


def _gains(block: np.ndarray) -> bool:
    """Whether the middle of a block is smaller for being transposed."""
    begin = max(0, (len(block) - _SAMPLE) // 2)
    sample = np.ascontiguousarray(block[begin : begin + _SAMPLE])
    transposed = np.empty_like(sample)
    _transpose(sample, transposed)
    return len(_codec().compress(transposed)) < len(_codec().compress(sample))


def _transpose(block: np.ndarray, out: np.ndarray) -> None:
    """First bytes of all words, then all second bytes, and so on; what is left over at the end stays there."""
    whole = len(block) // _WORD * _WORD
    out[:whole].reshape(_WORD, -1)[:] = block[:whole].reshape(-1, _WORD).T
    out[whole:] = block[whole:]


def _transpose_back(block: np.ndarray, out: np.ndarray) -> None:
    whole = len(block) // _WORD * _WORD
    out[:whole].reshape(-1, _WORD)[:] = block[:whole].reshape(_WORD, -1).T
    out[whole:] = block[whole:]


def meta_text(identity: dict[str, str], buckets: int) -> str:
    """What a state belongs to, as the text that is stored beside it."""
    return json.dumps({**identity, "buckets": str(buckets)}, sort_keys=True)


def new_token() -> str:
    """A name for the state that a turn leaves, which no other turn gives, nor the same one when it is done again."""
    return secrets.token_hex(16)


def read_state(stored: tuple[int, str, str, bytes], meta: str) -> BucketState:
    """The state that a checkpoint holds, if it belongs to this join.

    Raises
    ------
    SnapshotError
        If the format is another one, or the join differs from the one that wrote the checkpoint; says in what.
    """
    version, was, token, payload = stored
    if version != FORMAT:
        raise SnapshotError(
            f"the checkpoint holds band_join state of format {version}; this ivjoin reads format {FORMAT}: "
            f"{'upgrade ivjoin' if version > FORMAT else 'start from a new checkpoint'}"
        )
    if was != meta:
        raise SnapshotError(changes(was, meta))
    return BucketState(token, bytes(payload))


def with_note(note: str, payload: bytes) -> bytes:
    """A payload with a note before it, as buckets keep it whose rows are sent by plans that change."""
    head = note.encode()
    return len(head).to_bytes(_SIZE_BYTES, "little") + head + payload


def note_and_state(stored: tuple[int, str, str, bytes]) -> tuple[str, tuple[int, str, str, bytes]]:
    """The note that stands before a stored payload, and the state without it; of another format nothing is taken."""
    version, was, token, payload = stored
    if version != FORMAT or _NOTED not in was:
        return "", (version, was, token, payload)
    begin = _SIZE_BYTES + int.from_bytes(payload[:_SIZE_BYTES], "little")
    return bytes(payload[_SIZE_BYTES:begin]).decode(), (version, was, token, bytes(payload[begin:]))


def changes(was: str, now: str) -> str:
    """Which arguments differ between a checkpoint and the query that was started on it."""
    old, new = json.loads(was), json.loads(now)
    lines = [
        f"{name} was {old.get(name)!r} and is now {new.get(name)!r}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name) and name != "condition form"
    ] or ["condition: it reads the same but was built from other types or functions"]
    return (
        f"the checkpoint was written by another band_join: {'; '.join(lines)}. "
        "Start the query as it was, or with a new checkpointLocation"
    )
