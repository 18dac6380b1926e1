"""DataFusion through its Python wheel: the pruning symmetric hash join over unbounded tables, and the plain hash join.

The engine plans ``SymmetricHashJoinExec`` when both inputs are unbounded; from Python that takes an external table,
whose rows are read from CSV. Reading is therefore timed apart, at the same batch size: the same tables through a
filter that no row passes, so that neither Python nor a sink is part of it.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.csv

from bench.case import Case
from bench.peers.base import Peer, Take

__all__ = ["DataFusionHash", "DataFusionSymmetric", "create_external", "session", "state_bytes"]

_UNITS = {"B": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "": 1.0}


def session(batch: int | None, cores: int = 1) -> Any:
    import datafusion

    config = datafusion.SessionConfig().with_target_partitions(cores)
    return datafusion.SessionContext(config.with_batch_size(batch) if batch else config)


def _sql_type(t: pa.DataType) -> str:
    if pa.types.is_timestamp(t):
        return "TIMESTAMP"  # nanoseconds: with other units the engine plans the same join but prunes nothing
    if pa.types.is_decimal(t):
        return f"DECIMAL({t.precision}, {t.scale})"
    if pa.types.is_string(t):
        return "VARCHAR"
    if pa.types.is_unsigned_integer(t):
        return {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}[t.bit_width] + " UNSIGNED"
    return {
        pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT", pa.float32(): "FLOAT",
        pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN", pa.date32(): "DATE",
    }[t]  # fmt: skip


def create_external(ctx: Any, name: str, table: pa.Table, order: str | None, folder: Path) -> None:
    """Write a table as CSV and declare it: with an ``order`` (``s ASC`` and the like) as an endless, ordered input."""
    path = folder / f"{name}.csv"
    pyarrow.csv.write_csv(table, path)
    columns = ", ".join(f"{f.name} {_sql_type(f.type)}" for f in table.schema)
    ctx.sql(
        f"CREATE {'UNBOUNDED ' if order else ''}EXTERNAL TABLE {name} ({columns}) STORED AS CSV "
        f"{f'WITH ORDER ({order})' if order else ''} LOCATION '{path}' OPTIONS ('format.has_header' 'true')"
    ).collect()


def state_bytes(ctx: Any, sql: str) -> int | None:
    """The state that the symmetric join reports when it ends, None for a plan without one."""
    text = "".join(str(row) for b in ctx.sql(f"EXPLAIN ANALYZE {sql}").collect() for row in b.to_pydict()["plan"])
    found = re.search(r"stream_memory_usage=([\d.]+) ?([KMG]?)", text)
    return int(float(found[1]) * _UNITS[found[2]]) if found else None


class DataFusionSymmetric(Peer):
    """SymmetricHashJoinExec over two unbounded CSV tables."""

    name: ClassVar[str] = "DataFusion SHJ"
    packages: ClassVar[tuple[str, ...]] = ("datafusion",)
    streaming: ClassVar[bool] = True
    cannot: ClassVar[tuple[str, ...]] = (
        "Only intervals with the same data type are comparable",
        "OR operator cannot yet propagate true intervals",
        "Interval arithmetic does not support the operator",
    )

    @classmethod
    def refuses(cls, case: Case, candidates: int) -> str | None:
        if case.slack:
            return "cannot declare an order with slack"
        if not case.on:
            return "needs an equality key"
        return None

    def prepare(self, case: Case, left: pa.Table, right: pa.Table, batch: int | None, folder: Path) -> None:
        self._ctx = session(batch)
        order = case.band.column
        for name, table in (("l", left), ("r", right)):
            create_external(self._ctx, name, table, f"{order} ASC", folder)
        self._sql = case.sql(left.schema, right.schema)
        plan = self._ctx.sql(self._sql).execution_plan().display_indent()
        if "SymmetricHashJoinExec" not in plan:
            raise RuntimeError(f"the engine planned no symmetric hash join:\n{plan}")
        low = -(2**31)
        limit = "TIMESTAMP '1700-01-01'" if pa.types.is_timestamp(left.schema.field(order).type) else str(low)
        self._readings = [f"SELECT * FROM {t} WHERE {order} < {limit}" for t in "lr"]

    def run(self, take: Take) -> None:
        for batch in self._ctx.sql(self._sql).execute_stream():
            take(batch.to_pyarrow())

    def read(self) -> tuple[float, float]:
        """Seconds, on the clock and of the processor, for reading both inputs alone."""
        begun, spent = time.perf_counter(), time.process_time()
        for sql in self._readings:
            assert sum(b.to_pyarrow().num_rows for b in self._ctx.sql(sql).execute_stream()) == 0
        return time.perf_counter() - begun, time.process_time() - spent

    def beside(self, slow: bool = False) -> dict[str, Any]:
        wall, cpu = zip(*(self.read() for _ in range(5)), strict=True)
        out: dict[str, Any] = {"input_seconds": median(wall), "input_cpu_seconds": median(cpu)}
        if slow:
            return out
        # EXPLAIN ANALYZE runs the whole join and drops its output inside the engine: what Python adds is left out.
        engine: list[tuple[float, float]] = []
        while len(engine) < 3 and sum(s for s, _ in engine) < 5:
            begun, spent = time.perf_counter(), time.process_time()
            held = state_bytes(self._ctx, self._sql)
            engine.append((time.perf_counter() - begun, time.process_time() - spent))
            if held is not None:
                out["end_state_bytes"] = held
        wall, cpu = zip(*engine, strict=True)
        return out | {"engine_seconds": median(wall), "engine_cpu_seconds": median(cpu)}


class DataFusionHash(Peer):
    """HashJoinExec over tables in memory."""

    name: ClassVar[str] = "DataFusion hash join"
    packages: ClassVar[tuple[str, ...]] = ("datafusion",)
    cores: ClassVar[int] = 2

    def prepare(self, case: Case, left: pa.Table, right: pa.Table, batch: int | None, folder: Path) -> None:
        self._ctx = session(None, self.cores)
        self._ctx.register_record_batches("l", [left.to_batches(max_chunksize=8192)])
        self._ctx.register_record_batches("r", [right.to_batches(max_chunksize=8192)])
        self._sql = case.sql(left.schema, right.schema)

    def run(self, take: Take) -> None:
        for batch in self._ctx.sql(self._sql).execute_stream():
            take(batch.to_pyarrow())
