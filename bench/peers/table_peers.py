"""Joins of whole tables that look at every pair of equal keys: Arrow's Acero and pandas."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.case import Case
from bench.peers.base import Peer, Take

__all__ = ["Acero", "Pandas"]

_HOWS = {"inner": "inner", "left": "left outer", "right": "right outer", "full": "full outer"}


class Acero(Peer):
    """Arrow's hash join node with the band as its filter."""

    name: ClassVar[str] = "Acero"
    packages: ClassVar[tuple[str, ...]] = ("pyarrow",)
    cores: ClassVar[int] = 2

    @classmethod
    def refuses(cls, case: Case, candidates: int) -> str | None:
        if not case.on:
            return "needs an equality key"
        if case.holds is not None:
            return "written for bands alone"
        return f"{candidates:.1e} pairs of equal keys" if candidates > 10**10 else None

    def prepare(self, case: Case, left: pa.Table, right: pa.Table, batch: int | None, folder: Path) -> None:
        b, self._case, self._left = case.band, case, left
        if pa.types.is_timestamp(left.schema.field(b.column).type):
            ends: list[Any] = [pa.scalar(v, pa.duration("us")) for v in (b.lo, b.hi)]
        else:
            ends = [pa.scalar(v, left.schema.field(b.column).type) for v in (b.lo, b.hi)]
        # Acero resolves a filter's fields over both inputs before suffixes: the right columns need names of their own.
        self._right = right.rename_columns([n if n in case.on else f"{n}_right" for n in right.column_names])
        difference = pc.field(b.column) - pc.field(f"{b.column}_right")
        self._filter = (difference >= ends[0]) & (difference <= ends[1])
        self._out = {
            (f"{column}_right" if side == "r" else column): name
            for side, column, name in case.columns_out(left.schema, right.schema)
        }

    def run(self, take: Take) -> None:
        case = self._case
        done = self._left.join(
            self._right, keys=list(case.on), join_type=_HOWS[case.how], coalesce_keys=True,
            filter_expression=self._filter,
        )  # fmt: skip
        for batch in done.select(list(self._out)).rename_columns(list(self._out.values())).to_batches():
            take(batch)


class Pandas(Peer):
    """``merge`` on the keys, then the band."""

    name: ClassVar[str] = "pandas"
    packages: ClassVar[tuple[str, ...]] = ("pandas",)

    @classmethod
    def refuses(cls, case: Case, candidates: int) -> str | None:
        if not case.on:
            return "needs an equality key"
        if case.how != "inner":
            return f"no {case.how} join with a condition"
        return f"would hold {candidates:.1e} pairs" if candidates > 10**8 else None

    def prepare(self, case: Case, left: pa.Table, right: pa.Table, batch: int | None, folder: Path) -> None:
        self._case, self._schemas = case, (left.schema, right.schema)
        self._left, self._right = left.to_pandas(), right.to_pandas()

    def run(self, take: Take) -> None:
        case, (left, right) = self._case, self._schemas
        merged = self._left.merge(self._right, on=list(case.on), suffixes=("", "_right"))
        b = case.band
        difference = merged[b.column] - merged[f"{b.column}_right"]
        if pa.types.is_timestamp(left.field(b.column).type):
            # the unit of the difference is the column's own, whatever pandas makes of it
            difference = difference.astype("timedelta64[us]").astype(np.int64)
        merged = merged[(difference >= b.lo) & (difference <= b.hi)]
        out = case.columns_out(left, right)
        if case.holds is not None:
            sides = {
                s: {c: merged[name].to_numpy() for side, c, name in out if side == s or c in case.on} for s in "lr"
            }
            merged = merged[case.holds(sides["l"], sides["r"])]
        take(pa.RecordBatch.from_pandas(merged[[name for _, _, name in out]], preserve_index=False))
