"""Encode the state of a bucket for Spark's state store.

The state has a format version, the identity of its join, and a payload: the operator's snapshot, or the log of the
turns since the snapshot (``journal``). Payloads are compressed, because Spark moves a group's state from the JVM to
Python and back in each micro-batch.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from ivjoin.errors import SnapshotError
from ivjoin.spark.spread.spec import differences

__all__ = [
    "FORMAT", "STATE_SCHEMA", "BucketState", "compressed", "expanded", "meta_text", "new_token", "note_and_state",
    "read_state", "with_note",
]  # fmt: skip

FORMAT = 5
_SIZE_BYTES = 8
_NOTED = '"routing": "plans'  # the part of the meta text that marks a state with a note
STATE_SCHEMA = StructType([
    StructField("format", IntegerType()), StructField("meta", StringType()), StructField("token", StringType()),
    StructField("payload", BinaryType()),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class BucketState:
    token: str  # from the turn that wrote the state; an operator in memory equals this state if it has this token
    payload: bytes  # ``SymmetricHashJoin.snapshot()`` or a packed ``Log``, compressed
    moved: bool = False  # whether the query that wrote the state has other arguments that may change, such as a slack


@cache
def _codec() -> pa.Codec:
    return pa.Codec("zstd", compression_level=1)


def compressed(snapshot: bytes) -> bytes:
    """Return the size of the bytes as uint64, and the bytes compressed."""
    return len(snapshot).to_bytes(_SIZE_BYTES, "little") + _codec().compress(snapshot, asbytes=True)


def expanded(payload: bytes) -> bytes:
    size = int.from_bytes(payload[:_SIZE_BYTES], "little")
    return _codec().decompress(memoryview(payload)[_SIZE_BYTES:], size, asbytes=True)


def meta_text(identity: dict[str, Any], buckets: int) -> str:
    return json.dumps({**identity, "buckets": str(buckets)}, sort_keys=True)


def new_token() -> str:
    return secrets.token_hex(16)


def read_state(stored: tuple[int, str, str, bytes], meta: str) -> BucketState:
    """Return the state from a checkpoint. Raise SnapshotError if the format differs, or if another join wrote it."""
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
