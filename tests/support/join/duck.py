"""DuckDB as a second opinion: which rows of two small tables meet, as positions."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from join.tables import compared

_SEMI = ("left_semi", "left_anti", "right_semi", "right_anti")


def _seen(table: pa.Table) -> pa.Table:
    """The table as DuckDB gets it: times as whole numbers, with row numbers in ``_i``."""
    out: dict[str, pa.Array] = {}
    for name in table.schema.names:
        c = table.column(name)
        if pa.types.is_temporal(c.type):
            c = pa.array(compared(c), pa.int64())
        elif pa.types.is_dictionary(c.type):
            c = pc.cast(c, c.type.value_type)
        elif pa.types.is_integer(c.type):
            c = pc.cast(c, pa.int64())  # DuckDB would take a literal for a UINT8 beside one
        out[name] = c
    return pa.table({**out, "_i": pa.array(range(table.num_rows), pa.int64())})


def pairs(left: pa.Table, right: pa.Table, how: str, condition: str) -> list[tuple[int | None, int | None]]:
    """As ``oracle.pairs``, for a condition (keys included) in DuckDB's words."""
    with duckdb.connect(":memory:", config={"threads": 1}) as db:
        db.register("lt", _seen(left))
        db.register("rt", _seen(right))
        if how in _SEMI:
            kept, other = ("l", "r") if how.startswith("left") else ("r", "l")
            word = "NOT EXISTS" if how.endswith("anti") else "EXISTS"
            sql = (
                f"SELECT {kept}._i FROM {kept}t {kept} WHERE {word} (SELECT 1 FROM {other}t {other} WHERE {condition})"
            )
            got = [i for (i,) in db.sql(sql).fetchall()]
            return [(i, None) if kept == "l" else (None, i) for i in got]
        met = db.sql(f"SELECT l._i, r._i FROM lt l {how.upper()} JOIN rt r ON {condition}").fetchall()
        return [(i, j) for i, j in met]
