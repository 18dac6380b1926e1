"""Route the rows of a stream by plans. Without a folder, the first plan never changes. With one, plans follow the rows.

Map tasks send rows by the plans in the folder, and one bucket, the planner, writes new plans::

    map task of micro-batch m    reads the newest plan-<n>.json with n < m and sends each row by it. It reports to the
                                 planner the row counts of its frequent keys and the range of its rows.
    planner, in micro-batch m    receives all reports. If another plan is better, it writes plan-<m>.json before the
                                 micro-batch commits.

Only these files decide, so all tasks of a micro-batch agree, and a repeated task sees the same plans. No state moves. A
file appears with all of its bytes and never changes (``files.once``), because a plan depends on the rows alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.errors import IvjoinError, SnapshotError, came
from ivjoin.files.atomic import FileError, reason_of
from ivjoin.files.once import once_folder, try_once
from ivjoin.files.places import scheme_of
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.routing.along import PlanList
from ivjoin.routing.endless import EndlessPlan, buckets_of, cell_keys, endless_plans
from ivjoin.routing.replanning import Counts, Note, next_plans
from ivjoin.spark.spread.buckets import count_in_task, with_cells
from ivjoin.spark.spread.spec import FREE, identity, spelling_digest

__all__ = ["PlanFile", "PlanFiles", "StreamPlans", "TaskWay", "checked_folder", "live_plans"]

_VERSION = 1
_KIND = "ivjoin routing plans"
_NAME = re.compile(r"plan-(0|[1-9][0-9]*)\.json")


@dataclass(frozen=True)
class PlanFile:
    """The content of one file."""

    number: int  # of the micro-batch that wrote it
    query: str  # the query's id, which its checkpoint stores
    join: str  # a digest of the join's arguments, which identifies the join in the query
    plans: Mapping[str, Any]  # the list of plans in its JSON form

    def text(self) -> bytes:
        body = {
            "kind": _KIND, "version": _VERSION, "number": self.number, "query": self.query, "join": self.join,
            "plans": self.plans,
        }  # fmt: skip
        return json.dumps({**body, "digest": _digest(body)}, indent=1, sort_keys=True).encode()


class PlanFiles:
    """The folder of one query's plans. ``join`` is the digest of :class:`PlanFile`."""

    def __init__(self, folder: str, join: str) -> None:
        self.folder, self._join = folder, join
        self._files = once_folder("routing_dir", folder)

    def numbers(self) -> list[int]:
        try:
            found = self._files.names()
        except OSError as e:
            raise FileError(
                f"routing_dir {self.folder!r} cannot be read ({reason_of(e)}); expected a folder that every worker can "
                "read and write, such as one on a shared file system"
            ) from e
        return sorted(int(m[1]) for name in found if (m := _NAME.fullmatch(name)))

    def read(self, number: int, query: str | None) -> PlanFile:
        """Read a file; SnapshotError if it is damaged, or belongs to another join or query. None means any query."""
        name = self._name(number)
        try:
            raw = self._files.read(_file_name(number))
        except OSError as e:
            raise FileError(f"the routing plan {name!r} cannot be read: {reason_of(e)}") from e
        try:
            d = json.loads(raw)
            kind, version = d["kind"], d["version"]
        except (ValueError, TypeError, KeyError) as e:
            raise SnapshotError(f"{name!r} is no routing plan of a stream, or is damaged. {_START}") from e
        if kind != _KIND or version != _VERSION:
            raise SnapshotError(
                f"{name!r} contains {came(kind)} of version {came(version)}; this ivjoin reads {_KIND!r} of version "
                f"{_VERSION}. {_START}"
            )
        digest = d.pop("digest", None)
        if digest != _digest(d) or d.get("number") != number or not isinstance(d.get("plans"), dict):
            raise SnapshotError(f"{name!r} is damaged: its digest does not fit its contents. {_START}")
        if d["join"] != self._join or (query is not None and d["query"] != query):
            raise SnapshotError(
                f"{name!r} was written by another query, or by this one with other arguments or before its checkpoint "
                "was removed; expected a routing_dir of its own for each join and checkpoint"
            )
        return PlanFile(number, d["query"], d["join"], d["plans"])

    def newest(self, batch: int, query: str) -> PlanFile | None:
        """Return the plans that micro-batch ``batch`` follows; None if no file exists yet."""
        numbers = self.numbers()
        if numbers and numbers[-1] > batch:
            raise SnapshotError(
                f"{self._name(numbers[-1])!r} is of a later micro-batch than this one, {batch}: the folder is another "
                "query's, or the checkpoint was removed; expected a routing_dir of its own for each checkpoint"
            )
        before = [n for n in numbers if n < batch]
        return self.read(before[-1], query) if before else None

    def create(self, file: PlanFile) -> None:
        """Write a file, unless a file with its number exists. An existing file must belong to the query."""
        try:
            self._files.create(_file_name(file.number), file.text())
        except OSError as e:
            raise FileError(f"routing_dir {self.folder!r} cannot be written: {reason_of(e)}") from e
        self.read(file.number, file.query)

    def _name(self, number: int) -> str:
        return f"{self.folder.rstrip('/')}/{_file_name(number)}"


def _file_name(number: int) -> str:
    return f"plan-{number}.json"


_START = "Put it back as it was, or start with a new routing_dir and a new checkpointLocation"


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def checked_folder(given: object) -> str:
    """Return the folder of ``routing_dir``. Create it if necessary, and check that files can be written once there."""
    text = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise IvjoinError(f"routing_dir is {came(given)}; expected the path of a folder that all workers share")
    if not scheme_of(text):
        text = os.path.abspath(text)
    try_once("routing_dir", text)
    return text


_PROPERTIES = ("sql.streaming.queryId", "streaming.sql.batchId")


@dataclass(frozen=True)
class StreamPlans:
    """The settings that Spark sends to the tasks."""

    spec: JoinSpec  # of the caller
    folder: str | None  # of the plans; None for a plan that never changes
    buckets: int | None  # None if the caller did not set their number
    pinned: tuple[int, ...] = ()  # hashes of the keys that are always heavy
    by_keys: bool = True  # False: no key can spread the rows, so all of them are spread along the band

    def __str__(self) -> str:
        first = self.plans(None)
        plan, axis = first.plans[0], first.axis
        assert isinstance(plan, EndlessPlan)
        return f"slices of {plan.width} ordinals along {axis} of the {SIDES[axis.divided]} side"

    @property
    def files(self) -> PlanFiles:
        assert self.folder is not None
        return PlanFiles(self.folder, self.join)

    @property
    def join(self) -> str:
        """Return a digest of the arguments that must not change."""
        fixed = {name: said for name, said in identity(self.spec).items() if name != FREE}
        fixed |= {"heavy": sorted(self.pinned), "spelling": spelling_digest(self.spec)}
        return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()[:32]

    def plans(self, file: PlanFile | None) -> PlanList:
        """Return the plans in a file; for None, the plans before the first file."""
        first = _first(self.spec, self.pinned, self.by_keys)
        return first if file is None else _plans_of(file, first)

    def way(self, side: int) -> TaskWay:
        """Return the object that sends rows of a side in a map task. Call this in the task."""
        if self.folder is None:
            return TaskWay(self.plans(None), side, count_in_task(self.buckets))
        query, batch = _query_and_batch()
        file = self.files.newest(batch, query)
        return TaskWay(self.plans(file), side, count_in_task(self.buckets), -1 if file is None else file.number)

    def planned(self, said: str, heard: Sequence[dict[str, Any]], seen: Sequence[Sequence[int | None]]) -> str:
        """Write the next plans if they change, in the task of the planner. Return the note for the next micro-batch.

        ``said`` is the note of the previous micro-batch, empty in the first one. ``heard`` are the reports of all map
        tasks, and ``seen`` the greatest values of the orders of both sides. Raise an error if a plan file is missing,
        damaged or another query's.
        """
        query, batch = _query_and_batch()
        files = self.files
        note = Note.of(said) if said else Note()
        file = files.newest(batch, query)
        number = -1 if file is None else file.number
        if (said and number != note.newest) or any(h["plan"] != number for h in heard):
            found = sorted({number, *(h["plan"] for h in heard)})
            raise SnapshotError(
                f"routing_dir {files.folder!r}: the newest plan is {note.newest if said else number}, but tasks found "
                f"{', '.join(map(str, found))}: a file is missing, or not all workers see the same folder. Put it back"
            )
        plans = self.plans(file)
        counts = Counts()
        for h in heard:
            counts.merge(h)
        buckets = count_in_task(self.buckets)
        note = note.after(plans, counts, seen, buckets)
        more = next_plans(plans, note, buckets, self.pinned)
        if more is not None or not said:
            # the first micro-batch always writes its plans, which marks the folder as this query's
            files.create(PlanFile(batch, query, self.join, _as_json(more or plans)))
            note = note.numbered(batch)
        return note.text()


class TaskWay:
    """Send the rows of a side. ``number`` is the file of the plans, -1 before the first; None if plans never change."""

    def __init__(self, plans: PlanList, side: int, buckets: int, number: int | None = None) -> None:
        self._plans, self._side, self._buckets, self._number = plans, side, buckets, number
        self._counts = Counts()

    def __call__(self, batch: pa.RecordBatch, _hashes: np.ndarray) -> tuple[pa.RecordBatch, np.ndarray]:
        """Return one row for each copy, with its cell and whether it is owned, and the buckets of the copies."""
        sent = self._plans.sent(SIDES[self._side], batch)
        f = sent.features
        if self._number is not None:
            self._counts.add(self._side, f.key, f.lone, f.n, sent.edge, self._buckets)
        copies = with_cells(batch, sent.rows, cell_keys(sent), sent.owned)
        return copies, buckets_of(self._plans, sent, batch, self._buckets)

    @property
    def heard(self) -> dict[str, Any] | None:
        """Return the report to the planner; None if the plans never change."""
        return None if self._number is None else {**self._counts.as_json, "plan": self._number}


def live_plans(plans: StreamPlans) -> PlanList:
    """Return the plans of the newest file, or the first plans of a stream if no file exists."""
    files = plans.files
    numbers = files.numbers()
    return plans.plans(files.read(numbers[-1], None) if numbers else None)


def _query_and_batch() -> tuple[str, int]:
    """Return the id of a task's query, and the number of its micro-batch."""
    from pyspark import TaskContext

    context = TaskContext.get()
    said = [context.getLocalProperty(name) if context is not None else None for name in _PROPERTIES]
    if said[0] is None or said[1] is None:
        raise IvjoinError(
            f"this Spark does not give its tasks {' and '.join(_PROPERTIES)}, which routing_dir needs; omit routing_dir"
        )
    return said[0], int(said[1])


@lru_cache(maxsize=16)
def _first(spec: JoinSpec, pinned: tuple[int, ...], by_keys: bool) -> PlanList:
    plans = endless_plans(plan_of(spec), pinned, by_keys)
    assert not isinstance(plans, str)
    return plans


def _as_json(plans: PlanList) -> dict[str, Any]:
    return {
        "first": plans.first, "starts": list(plans.starts),
        "plans": [p.as_json for p in plans.plans if isinstance(p, EndlessPlan)],
    }  # fmt: skip


def _plans_of(file: PlanFile, first: PlanList) -> PlanList:
    start = first.plans[0]
    assert isinstance(start, EndlessPlan)
    try:
        made = tuple(start.with_json(p) for p in file.plans["plans"])
        starts = tuple(int(t) for t in file.plans["starts"])
        number = int(file.plans["first"])
        if not made or len(starts) != len(made) - 1 or list(starts) != sorted(set(starts)) or number < 0:
            raise ValueError(f"{len(made)} plans that begin at {starts}")
    except (ValueError, TypeError, KeyError, OverflowError) as e:
        raise SnapshotError(f"plan-{file.number}.json holds no plans of a stream: {e}") from e
    return PlanList(made, starts, first.axis, first.both, first.falling, number)
