"""Encode the state of a bucket for Spark's state store.

The state has a format version, the identity of its join, and a payload: the operator's snapshot, or the log of the
turns since the snapshot (``journal``). Payloads are compressed, because Spark moves a group's state from the JVM to
Python and back in each micro-batch. A snapshot consists mostly of columns of eight-byte numbers, whose leading bytes
are alike from row to row. Therefore the bytes are grouped by their position in the word before zstd compresses them.
Text compresses worse in this form, so a sample of each block decides::

    size uint64 | transposed? one bit a block | zstd of all blocks
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from ivjoin.errors import SnapshotError
from ivjoin.spark.spread.spec import differences

__all__ = [
    "FORMAT", "STATE_SCHEMA", "BucketState", "compressed", "expanded", "meta_text", "new_token", "note_and_state",
    "read_state", "with_note",
]  # fmt: skip

FORMAT = 4
_SIZE_BYTES = 8
_WORD = 8
_NOTED = '"routing": "plans'  # the part of the meta text that marks a state with a note
_BLOCK, _SAMPLE = 1 << 19, 1 << 14
STATE_SCHEMA = StructType([
    StructField("format", IntegerType()), StructField("meta", StringType()), StructField("token", StringType()),
    StructField("payload", BinaryType()),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class BucketState:
    token: str  # from the turn that wrote the state; an operator in memory equals this state if it has this token
    payload: bytes  # ``SymmetricHashJoin.snapshot()`` or a packed ``Log``, compressed
    moved: bool = False  # whether the query that wrote the state differs in what may change, such as a slack


@cache
def _codec() -> pa.Codec:
    return pa.Codec("zstd", compression_level=1)


def compressed(snapshot: bytes) -> bytes:
    """Return bytes in their stored form, which the module's docstring shows."""
    given = np.frombuffer(snapshot, np.uint8)
    out = given.copy()
    bits = np.zeros(-(-len(given) // _BLOCK), np.uint8)
    for i, (block, target) in enumerate(_blocks(given, out)):
        bits[i] = _gains(block)
        if bits[i]:
            _transpose(block, target)
    size = len(snapshot).to_bytes(_SIZE_BYTES, "little")
    return b"".join((size, np.packbits(bits).tobytes(), _codec().compress(out, asbytes=True)))


def expanded(payload: bytes) -> bytes:
    size = int.from_bytes(payload[:_SIZE_BYTES], "little")
    count = -(-size // _BLOCK)
    end = _SIZE_BYTES + -(-count // 8)
    bits = np.unpackbits(np.frombuffer(payload, np.uint8, end - _SIZE_BYTES, _SIZE_BYTES), count=count)
    stored = np.frombuffer(_codec().decompress(memoryview(payload)[end:], size), np.uint8)
    out = stored.copy()
    for bit, (block, target) in zip(bits, _blocks(stored, out), strict=True):
        if bit:
            words = len(block) // _WORD * _WORD
            target[:words].reshape(-1, _WORD)[:] = block[:words].reshape(_WORD, -1).T
    return out.tobytes()


def _blocks(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    return ((a[begin : begin + _BLOCK], b[begin : begin + _BLOCK]) for begin in range(0, len(a), _BLOCK))


def _gains(block: np.ndarray) -> bool:
    """Return whether the middle of a block compresses better when it is transposed."""
    begin = max(0, (len(block) - _SAMPLE) // 2)
    sample = np.ascontiguousarray(block[begin : begin + _SAMPLE])
    transposed = sample.copy()
    _transpose(sample, transposed)
    return len(_codec().compress(transposed)) < len(_codec().compress(sample))


def _transpose(block: np.ndarray, out: np.ndarray) -> None:
    """Write the first bytes of all words, then all second bytes, and so on, except for bytes after the last word."""
    words = len(block) // _WORD * _WORD
    out[:words].reshape(_WORD, -1)[:] = block[:words].reshape(-1, _WORD).T


def meta_text(identity: dict[str, Any], buckets: int) -> str:
    return json.dumps({**identity, "buckets": str(buckets)}, sort_keys=True)


def new_token() -> str:
    return secrets.token_hex(16)


def read_state(stored: tuple[int, str, str, bytes], meta: str) -> BucketState:
    """Return the state from a checkpoint; raise SnapshotError if the format differs, or another join wrote it."""
    version, was, token, payload = stored
    if version != FORMAT:
        raise SnapshotError(
            f"the checkpoint holds band_join state of format {version}; this ivjoin reads format {FORMAT}: "
            f"{'upgrade ivjoin' if version > FORMAT else 'start from a new checkpoint'}"
        )
    lines = [] if was == meta else differences(json.loads(was), json.loads(meta))
    if lines:
        raise SnapshotError(
            f"the checkpoint was written by another band_join: {'; '.join(lines)}. "
            "Start the query as it was, or with a new checkpointLocation"
        )
    return BucketState(token, bytes(payload), was != meta)


def with_note(note: str, payload: bytes) -> bytes:
    """Return a payload with a note before it. Buckets of a join with changing routing plans store it in this form."""
    head = note.encode()
    return len(head).to_bytes(_SIZE_BYTES, "little") + head + payload


def note_and_state(stored: tuple[int, str, str, bytes]) -> tuple[str, tuple[int, str, str, bytes]]:
    """Split a stored state into its note and the state without it. A state of another format is returned unchanged."""
    version, was, token, payload = stored
    if version != FORMAT or _NOTED not in was:
        return "", (version, was, token, payload)
    begin = _SIZE_BYTES + int.from_bytes(payload[:_SIZE_BYTES], "little")
    return bytes(payload[_SIZE_BYTES:begin]).decode(), (version, was, token, bytes(payload[begin:]))
