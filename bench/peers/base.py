"""A peer: a system that runs a case's join and returns the result as Arrow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from bench.case import Case

__all__ = ["Peer", "Take", "in_turn", "timestamps"]

Take = Callable[[pa.RecordBatch], None]


class Peer(ABC):
    """A system under test. One object runs one case at one batch size."""

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()
    streaming: ClassVar[bool] = False  # takes batches of a given size, holds a bounded state
    cores: ClassVar[int] = 1
    cannot: ClassVar[tuple[str, ...]] = ()  # parts of messages by which the system itself says that it lacks something

    @classmethod
    def installed(cls) -> bool:
        return all(find_spec(p) is not None for p in cls.packages)

    @classmethod
    def refuses(cls, case: Case, candidates: int) -> str | None:
        """Why this peer does not run a case, None if it does. ``candidates`` is the number of pairs of equal keys."""
        return None

    @abstractmethod
    def prepare(self, case: Case, left: pa.Table, right: pa.Table, batch: int | None, folder: Path) -> None:
        """All that is not timed: loading, registering, writing files."""

    @abstractmethod
    def run(self, take: Take) -> None:
        """The join; every piece of the output goes to ``take``."""

    def beside(self, slow: bool = False) -> dict[str, Any]:
        """Further figures of the last run, such as the state's peak or the time of its input alone.

        ``slow`` asks for no further run of the join.
        """
        return {}


def in_turn(left: pa.Table, right: pa.Table, batch: int) -> list[tuple[str, pa.RecordBatch]]:
    """Both sides' batches in the order in which two sources of proportional speed deliver them."""
    parts = []
    for p, (side, table) in enumerate((("left", left), ("right", right))):
        done = 0
        for b in table.combine_chunks().to_batches(max_chunksize=batch):
            parts.append((done / max(table.num_rows, 1), p, side, b))
            done += b.num_rows
    parts.sort(key=lambda x: x[:2])
    return [(side, b) for _, _, side, b in parts]


def timestamps(schema: pa.Schema) -> bool:
    return any(pa.types.is_timestamp(f.type) for f in schema)
