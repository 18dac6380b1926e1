"""Turns that other workers of this machine played, so that an operator which is a few behind is found again.

Spark hands a bucket to any of an executor's workers. Each keeps the operator of its own last turn, so that it often
holds one that is some turns old, while what it missed was played next door. Making an operator from the state costs in
proportion to the window; playing a turn costs in proportion to what the turn brought. So a worker leaves what came to a
bucket in a file, under the token of the state that it led to::

    <Spark's local folder>/ivjoin-turns/<bucket>/<token after>     token before, rows | the rows and ticks

    state's token  7c...  <-- 7c: before 31, rows  <-- 31: before a0, rows  <-- a0... is what this worker holds

The token that Spark hands in names the last turn, each turn the one before it. What Spark has not committed is never
named. Where a file is missing, or the turns bring more than the window holds, the state is read instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.rows.pack import Seen
from ivjoin.spark.state.bucket import Arrivals, play, taken

__all__ = ["arrivals_of", "found_again", "leave_turn", "turn_bytes"]

# A turn is played at the cost of opening the state where it brings this part of the rows that the state holds.
_WORTH = 2
_MOST_TURNS = 4  # files of a bucket
_FORGOTTEN = 3600  # seconds after which the turns of a query that was stopped go


def turn_bytes(came: Arrivals) -> bytes:
    """What came, as bytes: a line of JSON with the sizes and the edges, then the packed rows."""
    sizes = [[len(rows) for rows in side] for side in came.packed]
    head = json.dumps({"sizes": sizes, "seen": [s.edges for s in came.seen]}, separators=(",", ":"))
    return head.encode() + b"\n" + b"".join(rows for side in came.packed for rows in side)


def arrivals_of(spec: JoinSpec, turn: bytes) -> Arrivals:
    """What :func:`turn_bytes` wrote."""
    head, _, body = turn.partition(b"\n")
    said = json.loads(head)
    packed: tuple[list[bytes], list[bytes]] = ([], [])
    at = 0
    for side, sizes in enumerate(said["sizes"]):
        for size in sizes:
            packed[side].append(body[at : at + size])
            at += size
    seen = (Seen(plan_of(spec), 0), Seen(plan_of(spec), 1))
    for s, edges in zip(seen, said["seen"], strict=True):
        s.edges = edges
    return Arrivals(packed, seen)


def found_again(
    spec: JoinSpec, name: tuple[str, int], token: str, budget: Budget | None = None
) -> tuple[SymmetricHashJoin | None, int]:
    """The bucket's operator as the state with this token has it, if it is in memory; and the turns it had missed."""
    held = taken(name)
    if held is None:
        return None, 0
    since, op = held
    if op.account.limit != (None if budget is None else budget.limit):  # of a query before this one
        return None, 0
    turns = _turns_since(name, since, token, op.metrics.state_rows)
    if turns is None:
        return None, 0
    for turn in turns:
        for _ in play(op, spec, arrivals_of(spec, turn), again=True):
            pass  # another worker has put it out
    return op, len(turns)


def leave_turn(name: tuple[str, int], before: str, after: str, came: Arrivals, rows: int, state_rows: int) -> None:
    """Keep a turn for the other workers, where playing it is worth more than opening the state.

    ``came``, of so many rows, led from the state with the token ``before`` to that with the token ``after``. A folder
    that cannot be written to is no error: the state holds everything.
    """
    if not before or rows * _WORTH > state_rows:
        return
    with suppress(OSError):
        folder = _folder(name)
        if folder is None:
            return
        if not folder.exists():
            _sweep(folder.parent)
            folder.mkdir(parents=True, exist_ok=True)
        turn = turn_bytes(came)
        beside = folder / f".{after}-{os.getpid()}"
        try:
            with beside.open("wb") as f:
                f.write(json.dumps([before, rows, len(turn)]).encode() + b"\n")
                f.write(turn)
            beside.rename(folder / after)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        for old in sorted(folder.iterdir(), key=_changed, reverse=True)[_MOST_TURNS:]:
            old.unlink(missing_ok=True)


def _turns_since(name: tuple[str, int], since: str, now: str, state_rows: int) -> list[bytes] | None:
    """The turns that led from one state to another, oldest first; None where they are not to be had.

    Also where they bring so many rows that opening the state, which holds ``state_rows``, costs no more.
    """
    if now == since:
        return []
    folder = _folder(name)
    if folder is None:
        return None
    out: list[bytes] = []
    rows = 0
    while now != since:
        try:
            with (folder / now).open("rb") as f:
                now, brought, size = json.loads(f.readline())
                rows += brought
                if rows * _WORTH > state_rows or len(out) == _MOST_TURNS:
                    return None
                out.append(f.read())
        except (OSError, ValueError, TypeError):
            return None
        if len(out[-1]) != size:
            return None
    return out[::-1]


def _folder(name: tuple[str, int]) -> Path | None:
    """Of a bucket; in a folder that goes with the executor, None where Spark has named none."""
    local = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    bucket = hashlib.blake2b(f"{name[1]} {name[0]}".encode(), digest_size=12).hexdigest()
    return Path(local) / "ivjoin-turns" / bucket if local else None


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _sweep(folder: Path) -> None:
    """Away with the turns of buckets that none has come to for long."""
    for old in _listed(folder):
        if time.time() - _changed(old) > _FORGOTTEN:
            shutil.rmtree(old, ignore_errors=True)


def _listed(folder: Path) -> Iterator[Path]:
    yield from folder.iterdir() if folder.exists() else ()
