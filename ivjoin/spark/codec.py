"""The state of a bucket as Spark keeps it: a format version, what the state belongs to, and the operator's snapshot.

The snapshot is compressed. Spark carries a group's state from the JVM to Python and back in each micro-batch, at some
45 ms a megabyte; zstd takes 2 ms, and halves the bytes or better.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from ivjoin.errors import SnapshotError

__all__ = [
    "FORMAT", "STATE_SCHEMA", "BucketState", "compressed", "expanded", "meta_text", "read_state", "version_token",
]

FORMAT = 2
_SIZE_BYTES = 8
STATE_SCHEMA = "format int, meta string, token string, payload binary"


@dataclass(frozen=True, slots=True)
class BucketState:
    """A bucket's state.

    Attributes
    ----------
    token : str
        Digest of the payload: an operator kept in memory is this state if and only if it wrote this token.
    payload : bytes
        ``SymmetricHashJoin.snapshot()``, compressed.
    """

    token: str
    payload: bytes


@cache
def _codec() -> pa.Codec:
    return pa.Codec("zstd", compression_level=1)


def compressed(snapshot: bytes) -> bytes:
    """A snapshot as it is stored: its size (uint64, little-endian), then zstd."""
    return len(snapshot).to_bytes(_SIZE_BYTES, "little") + _codec().compress(snapshot, asbytes=True)


def expanded(payload: bytes) -> bytes:
    """The snapshot that :func:`compressed` stored."""
    size = int.from_bytes(payload[:_SIZE_BYTES], "little")
    return bytes(_codec().decompress(memoryview(payload)[_SIZE_BYTES:], size, asbytes=True))


def meta_text(identity: dict[str, str], buckets: int) -> str:
    """What a state belongs to, as the text that is stored beside it."""
    return json.dumps({**identity, "buckets": str(buckets)}, sort_keys=True)


def version_token(payload: bytes) -> str:
    return hashlib.blake2b(payload, digest_size=16).hexdigest()


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
