"""The state of a bucket as Spark keeps it: a format version, what the state belongs to, and the operator's snapshot."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from ivjoin.errors import SnapshotError

__all__ = ["FORMAT", "STATE_SCHEMA", "BucketState", "meta_text", "read_state", "version_token"]

FORMAT = 1
STATE_SCHEMA = "format int, meta string, token string, payload binary"


@dataclass(frozen=True, slots=True)
class BucketState:
    """A bucket's state.

    Attributes
    ----------
    token : str
        Digest of the payload: an operator kept in memory is this state if and only if it wrote this token.
    payload : bytes
        ``SymmetricHashJoin.snapshot()``.
    """

    token: str
    payload: bytes


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
        If the format is newer, or the join differs from the one that wrote the checkpoint; says in what.
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
