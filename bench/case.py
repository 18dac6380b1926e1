"""A benchmark case: two tables, the join, and what a peer needs to express it in its own terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

__all__ = ["Band", "Case", "Columns"]

Columns = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Band:
    """``lo <= l.column - r.column <= hi``, in whole units of the column (microseconds for timestamps)."""

    column: str
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Case:
    """One join over two generated tables.

    Attributes
    ----------
    name : str
        ``family/parameters``; the family groups the cases in the report.
    source : str
        Where the case comes from.
    make : callable of () -> (pa.Table, pa.Table)
        The inputs, each in order of arrival; drawn from fixed seeds.
    condition : str
        SQL text over ``l.`` and ``r.`` that every SQL peer reads as ivjoin does.
    band : Band
        What the condition implies; the whole condition if ``holds`` is None. Peers that cannot read SQL use it.
    holds : callable of (Columns, Columns) -> bool[n], optional
        The rest of the condition over candidate pairs, for the reference answer and for pandas.
    slack : int
        Disorder of ``band.column``, in its units; peers that need sorted input refuse a case with slack.
    batches : tuple of int
        Batch sizes for peers that take a stream; static peers run once.
    tags : frozenset of str
        Profiles the case belongs to: ``smoke``, ``quick``, ``full``.
    peers : tuple of str, optional
        The only peers to run; None for all.
    """

    name: str
    source: str
    make: Callable[[], tuple[pa.Table, pa.Table]]
    condition: str
    band: Band
    on: tuple[str, ...] = ()
    how: str = "inner"
    holds: Callable[[Columns, Columns], np.ndarray] | None = None
    slack: int = 0
    batches: tuple[int, ...] = (4096,)
    tags: frozenset[str] = field(default_factory=frozenset)
    peers: tuple[str, ...] | None = None

    @property
    def alone(self) -> bool:
        """Whether output rows have left columns only: a semi or an anti join."""
        return self.how in ("left_semi", "left_anti")

    @property
    def family(self) -> str:
        return self.name.split("/", maxsplit=1)[0]

    def columns_out(self, left: pa.Schema, right: pa.Schema) -> list[tuple[str, str, str]]:
        """The output columns as (side, column, output name): left's, then right's without the keys."""
        out = [("l", n, n) for n in left.names]
        if self.alone:
            return out
        for n in right.names:
            if n not in self.on:
                out.append(("r", n, f"{n}_right" if n in left.names else n))
        return out

    def select_list(self, left: pa.Schema, right: pa.Schema) -> str:
        """The output columns as SQL, keys coalesced where an outer join may lack the left row."""
        parts = []
        for side, column, name in self.columns_out(left, right):
            if column in self.on and self.how in ("right", "full"):
                parts.append(f"COALESCE(l.{column}, r.{column}) AS {name}")
            else:
                parts.append(f"{side}.{column} AS {name}")
        return ", ".join(parts)

    def sql(self, left: pa.Schema, right: pa.Schema) -> str:
        """The whole join over tables named ``l`` and ``r``."""
        terms = [f"l.{k} = r.{k}" for k in self.on] + [self.condition]
        on = " AND ".join(f"({t})" if " OR " in t else t for t in terms)
        join = self.how.upper().replace("_", " ")
        return f"SELECT {self.select_list(left, right)} FROM l {join} JOIN r ON {on}"
