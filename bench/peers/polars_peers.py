"""Polars: an equality join with a filter behind it on the streaming engine, and the inequality join."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from bench.case import Case
from bench.peers.base import Peer, Take, timestamps

__all__ = ["PolarsInequality", "PolarsStreaming"]


class _Polars(Peer):
    packages: ClassVar[tuple[str, ...]] = ("polars",)
    cores: ClassVar[int] = 2

    @classmethod
    def refuses(cls, case: Case, candidates: int) -> str | None:
        if case.how != "inner":
            return f"no {case.how} join with a condition"
        if case.holds is not None:
            return "written for bands alone"
        return None

    def prepare(self, case: Case, left: pa.Table, right: pa.Table, batch: int | None, folder: Path) -> None:
        import polars as pl

        self._case = case
        frames = pl.from_arrow(left), pl.from_arrow(right)
        assert isinstance(frames[0], pl.DataFrame)
        assert isinstance(frames[1], pl.DataFrame)
        self._frames = frames[0].lazy(), frames[1].lazy()
        self._names = [name for _, _, name in case.columns_out(left.schema, right.schema)]
        b = case.band
        other = pl.col(f"{b.column}_right")
        if timestamps(left.schema):
            ends = [pl.lit(timedelta(microseconds=v), pl.Duration("us")) for v in (b.lo, b.hi)]
        else:
            ends = [pl.lit(v, pl.Int64) for v in (b.lo, b.hi)]
            other = other.cast(pl.Int64)
        mine = pl.col(b.column)
        self._band: list[Any] = [mine >= other + ends[0], mine <= other + ends[1]]

    def _collect(self, take: Take, lazy: Any) -> None:
        for batch in lazy.select(self._names).collect(engine="streaming").to_arrow().to_batches():
            take(batch)


class PolarsStreaming(_Polars):
    name: ClassVar[str] = "Polars, join and filter"

    @classmethod
    def refuses(cls, case: Case, candidates: int) -> str | None:
        return super().refuses(case, candidates) or (None if case.on else "needs an equality key")

    def run(self, take: Take) -> None:
        left, right = self._frames
        self._collect(take, left.join(right, on=list(self._case.on), suffix="_right").filter(*self._band))


class PolarsInequality(_Polars):
    """``join_where`` on the band alone, which is the inequality join; equality of the keys is filtered behind it."""

    name: ClassVar[str] = "Polars join_where"

    def run(self, take: Take) -> None:
        import polars as pl

        left, right = self._frames
        joined = left.join_where(right, *self._band, suffix="_right")
        if self._case.on:
            joined = joined.filter(*(pl.col(k) == pl.col(f"{k}_right") for k in self._case.on))
        self._collect(take, joined)
