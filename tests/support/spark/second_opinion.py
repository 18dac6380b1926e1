"""DuckDB's answer to a join of two small tables, in the columns that band_join gives."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
from spark.script import rows_of

_SEMI = {
    "left_semi": ("l", "r", ""), "left_anti": ("l", "r", "NOT "),
    "right_semi": ("r", "l", ""), "right_anti": ("r", "l", "NOT "),
}  # fmt: skip


def joined(left: pa.Table, right: pa.Table, how: str, condition: str, columns: str) -> Counter[tuple[Any, ...]]:
    """Rows of ``SELECT columns FROM l <how> JOIN r ON condition``; semi and anti joins take the side's own columns."""
    with duckdb.connect(":memory:", config={"threads": 1}) as db:
        db.register("lt", _local(left))
        db.register("rt", _local(right))
        if how in _SEMI:
            kept, other, no = _SEMI[how]
            test = f"{no}EXISTS (SELECT 1 FROM {other}t {other} WHERE {condition})"
            sql = f"SELECT {kept}.* FROM {kept}t {kept} WHERE {test}"
        else:
            sql = f"SELECT {columns} FROM lt l {how.upper()} JOIN rt r ON {condition}"
        out = db.sql(sql).arrow()
        return rows_of(out.read_all() if hasattr(out, "read_all") else out)


def _local(table: pa.Table) -> pa.Table:
    """Instants as local times of UTC: DuckDB needs an extension for zones."""
    plain = [pa.field(f.name, pa.timestamp("us") if pa.types.is_timestamp(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(plain))
