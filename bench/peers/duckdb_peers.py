"""DuckDB: the join as its planner takes it, and rewritten by hand with time buckets."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from bench.case import Case
from bench.peers.base import Peer, Take

__all__ = ["DuckBuckets", "DuckPlanned"]


class DuckPlanned(Peer):
    """The SQL as it stands, over tables loaded into DuckDB beforehand."""

    name: ClassVar[str] = "DuckDB"
    packages: ClassVar[tuple[str, ...]] = ("duckdb",)
    cores: ClassVar[int] = 2

    def _load(self, left: pa.Table, right: pa.Table) -> Any:
        import duckdb

        connection = duckdb.connect(config={"threads": self.cores})
        for name, table in (("l", left), ("r", right)):
            connection.register("incoming", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
            connection.unregister("incoming")
        return connection

    def prepare(self, case: Case, left: pa.Table, right: pa.Table, batch: int | None, folder: Path) -> None:
        self._connection = self._load(left, right)
        sql = case.sql(left.schema, right.schema)
        self._sql = sql.replace(" LEFT SEMI ", " SEMI ").replace(" LEFT ANTI ", " ANTI ")

    def run(self, take: Take) -> None:
        for batch in self._connection.sql(self._sql).to_arrow_reader(100_000):
            take(batch)


class DuckBuckets(DuckPlanned):
    """Both sides cut into buckets of the ordered value, the right side copied into each bucket it can reach.

    Equal (key, bucket) becomes a hash join that looks at few pairs. The width of a bucket is what the author of such
    SQL tunes: widths of 1 to 64 windows are tried before the timing and the fastest is taken.
    """

    name: ClassVar[str] = "DuckDB, buckets by hand"

    @classmethod
    def refuses(cls, case: Case, candidates: int) -> str | None:
        return f"not written for {case.how}" if case.how not in ("inner", "left", "full") else None

    def prepare(self, case: Case, left: pa.Table, right: pa.Table, batch: int | None, folder: Path) -> None:
        self._connection = self._load(left, right)
        best = None
        for factor in (1, 4, 16, 64):
            sql = self._written(case, left.schema, right.schema, (case.band.hi - case.band.lo + 1) * factor)
            begun = time.perf_counter()
            self._connection.sql(sql).to_arrow_table()
            spent = time.perf_counter() - begun
            if best is None or spent < best[0]:
                best = (spent, sql)
            elif spent > 2 * best[0]:
                break
        assert best is not None
        self._sql = best[1]

    @staticmethod
    def _written(case: Case, left: pa.Schema, right: pa.Schema, width: int) -> str:
        b = case.band
        ticks = f"epoch_us({b.column})" if pa.types.is_timestamp(left.field(b.column).type) else f"{b.column}::BIGINT"

        def own(table: str) -> str:
            return f"SELECT *, {ticks} // {width} AS bucket FROM {table}"

        def reach(table: str, lo: int, hi: int) -> str:
            first, last = f"({ticks} + {lo}) // {width}", f"({ticks} + {hi}) // {width}"
            return (
                f"SELECT *, {first} AS bucket FROM {table} UNION ALL BY NAME "
                f"SELECT *, unnest(range({first} + 1, {last} + 1)) AS bucket FROM {table} WHERE {last} > {first}"
            )

        on = " AND ".join([f"l.{k} = r.{k}" for k in case.on] + ["l.bucket = r.bucket", f"({case.condition})"])
        out = case.columns_out(left, right)
        sql = ", ".join(f"{side}.{column} AS {name}" for side, column, name in out)
        join = "JOIN" if case.how == "inner" else "LEFT JOIN"
        text = f"SELECT {sql} FROM ({own('l')}) l {join} ({reach('r', b.lo, b.hi)}) r ON {on}"
        if case.how == "full":
            lone = ", ".join(
                f"r.{column} AS {name}" if side == "r" or column in case.on else f"NULL AS {name}"
                for side, column, name in out
            )
            text += (
                f" UNION ALL SELECT {lone} FROM ({own('r')}) r WHERE NOT EXISTS "
                f"(SELECT 1 FROM ({reach('l', -b.hi, -b.lo)}) l WHERE {on})"
            )
        return text
