"""Define the interface of an engine's memory limit and of its rows in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa

from ivjoin.operator.memory.budget import Budget
from ivjoin.shj.store.rows.spilled_rows import ReadRows, SpilledRows

__all__ = ["Limit", "RowsInFiles"]


class Limit(Protocol):
    """The memory limit of a running operator. Its methods are called between two steps."""

    budget: Budget

    def stepped(self) -> None:
        """Release file pages and the memory of freed arrays."""

    def stay_within(self) -> None:
        """Free the memory that the last step allocated without a check."""

    def fit(self) -> None:
        """Free memory for a rebuilt state, as far as possible."""


class RowsInFiles(Protocol):
    """The rows of an operator whose index is in files. See ``spilled_join``."""

    sides: tuple[SpilledRows, ...]
    careful: bool

    @property
    def nbytes(self) -> int: ...
    @property
    def live(self) -> int: ...
    @property
    def runs_in_memory(self) -> int: ...
    def move_runs(self, moved: Callable[[np.ndarray], np.ndarray]) -> None: ...
    def spill_rows(self, s: int, rows: int) -> bool: ...
    def free_memory(self, p: int, n: int, excess: int, most: int) -> bool: ...
    def adopt(
        self, s: int, arrays: list[pa.Array], axes: np.ndarray, matched: np.ndarray, absent: dict[int, np.ndarray]
    ) -> None: ...
    def rebuilt(self) -> Iterator[tuple[int, list[pa.Array], np.ndarray]]: ...
    def pieces(self, s: int) -> Iterator[tuple[ReadRows, np.ndarray]]: ...
    def asks(self, p: int) -> bool: ...
    def probe(self, p: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]: ...
    def retire(self, s: int) -> Iterator[pa.RecordBatch]: ...
