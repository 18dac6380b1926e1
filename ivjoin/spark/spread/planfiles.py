"""Store the routing plans of a stream as files. Micro-batch n writes ``plan-<n>.json`` once, and it never changes.

A file contains the whole list of plans that later micro-batches follow, until a file with a higher number exists. Tasks
of micro-batch m only read numbers below m. So all tasks, and all attempts of a task, see the same plans.

A file appears with all of its bytes. If a micro-batch runs twice, only one attempt writes the file (``files.once``).
Both would write the same bytes, because a plan depends on the rows alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ivjoin.errors import IvjoinError, SnapshotError, came
from ivjoin.files.atomic import FileError
from ivjoin.files.once import once_folder, reason, try_once
from ivjoin.files.places import scheme_of

__all__ = ["PlanFile", "PlanFiles", "checked_folder"]

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
                f"routing_dir {self.folder!r} cannot be read ({reason(e)}); expected a folder that every worker can "
                "read and write, such as one on a shared file system"
            ) from e
        return sorted(int(m[1]) for name in found if (m := _NAME.fullmatch(name)))

    def read(self, number: int, query: str | None) -> PlanFile:
        """Read a file and check that it belongs to this join and query. With ``query`` None, do not check the query.

        Raise SnapshotError if it does not, or is damaged, and FileError if it cannot be read.
        """
        name = self._name(number)
        try:
            raw = self._files.read(_file_name(number))
        except OSError as e:
            raise FileError(f"the routing plan {name!r} cannot be read: {reason(e)}") from e
        try:
            d = json.loads(raw)
            kind, version = d["kind"], d["version"]
        except (ValueError, TypeError, KeyError) as e:
            raise SnapshotError(f"{name!r} is no routing plan of a stream, or is damaged. {_START}") from e
        if kind != _KIND or version != _VERSION:
            raise SnapshotError(
                f"{name!r} holds {came(kind)} of version {came(version)}; this ivjoin reads {_KIND!r} of version "
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
            raise FileError(f"routing_dir {self.folder!r} cannot be written: {reason(e)}") from e
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
