"""Commit each micro-batch to a Delta table under the query's id, as an application transaction of Delta.

Workers write Parquet files into the table's folder. Readers do not see these files until the log names them. The commit
contains the query's id, the micro-batch and its files. If a micro-batch finds its own commit in the log, it drops its
files.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivjoin.errors import IvjoinError, MissingPackageError, UnsupportedError
from ivjoin.spark.rows.arrow import retyped
from ivjoin.spark.sink.layout import Layout, partition_of, unique
from ivjoin.spark.sink.parts import Part
from ivjoin.spark.sink.publishing import inline_rows

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["DeltaFolder", "delta_schema"]

# What deltalake 1.6 decodes in a plain path, reads as another separator, or stops at.
_OTHERWISE = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f]")


def delta_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema in Delta's types: times in UTC and microseconds."""
    return pa.schema([f.with_type(retyped(f.type, _delta_type, "element")) for f in schema], schema.metadata)


def _delta_type(t: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", "UTC" if t.tz else None) if pa.types.is_timestamp(t) else t


def _is_of_delta(t: pa.DataType) -> bool:
    """Return whether Delta has a type, given as :func:`delta_schema` writes it."""
    kinds = pa.types
    if kinds.is_struct(t):
        return all(_is_of_delta(t.field(i).type) for i in range(t.num_fields))
    if kinds.is_list(t):
        return _is_of_delta(t.value_type)
    if kinds.is_map(t):
        return _is_of_delta(t.key_type) and _is_of_delta(t.item_type)
    whole = kinds.is_signed_integer(t) or kinds.is_boolean(t) or kinds.is_date32(t) or kinds.is_timestamp(t)
    real = kinds.is_float32(t) or kinds.is_float64(t) or kinds.is_decimal128(t)
    return whole or real or kinds.is_string(t) or kinds.is_binary(t) or kinds.is_null(t)


class DeltaFolder:
    def __init__(self, layout: Layout) -> None:
        try:
            import deltalake  # noqa: F401
        except ImportError as e:
            raise MissingPackageError(
                'format="delta" needs the package deltalake: pip install \'ivjoin[delta]\''
            ) from e
        self._layout = layout
        self._table: DeltaTable | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_layout": self._layout, "_table": None}

    def check(self) -> None:
        """Create the table if it does not exist. Refuse a table with other columns or partitions."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        layout = self._layout
        if _OTHERWISE.search(layout.folder):
            raise UnsupportedError(
                f'format="delta" into {layout.folder!r}: the package deltalake reads this as another folder\'s name; '
                "expected a path without backslashes, control characters, or % before two hexadecimal digits"
            )
        wrong = ", ".join(f"{f.name} {f.type}" for f in layout.schema if not _is_of_delta(f.type))
        if wrong:
            raise IvjoinError(f"Delta cannot hold these columns: {wrong}; cast or drop them before write_stream")
        os.makedirs(layout.folder, exist_ok=True)
        if not DeltaTable.is_deltatable(layout.folder) and next(Path(layout.folder).rglob("part-*"), None):
            raise IvjoinError(
                f"the folder {layout.folder!r} has files that no Delta table names; write to another folder, or in the "
                "format of those files"
            )
        try:
            if not DeltaTable.is_deltatable(layout.folder):
                DeltaTable.create(layout.folder, layout.schema, mode="ignore", partition_by=list(layout.partition_by))
        except (DeltaError, OSError) as e:
            raise IvjoinError(
                f"the Delta table {layout.folder!r} cannot be made: {str(e).splitlines()[0]}; expected a folder in "
                "which files and folders can be made, or one that holds a Delta table"
            ) from e
        table = self._opened()
        there = [(f.name, f.type) for f in pa.schema(table.schema().to_arrow())]
        ours = [(f.name, f.type) for f in layout.schema]
        if [(n, _plain(t)) for n, t in there] != [(n, _plain(t)) for n, t in ours]:
            raise IvjoinError(
                f"the Delta table {layout.folder!r} has the columns {_listed(there)}; the rows have {_listed(ours)}"
            )
        by = tuple(table.metadata().partition_columns)
        if by != layout.partition_by:
            raise IvjoinError(f"the Delta table {layout.folder!r} is partitioned by {by}, not by {layout.partition_by}")

    def publish(self, query: str, batch: int, parts: Sequence[Part]) -> None:
        """Commit the rows of a query's micro-batch, unless the table already has them."""
        if not parts:
            return
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import AddAction

        layout = self._layout
        table = self._opened()
        table.update_incremental()
        files = [f for p in parts for f in p.files]
        done = table.transaction_version(query)
        if done is not None and done >= batch:
            for f in files:
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(layout.folder, f.path))
            return
        rows = inline_rows(parts)
        if rows:
            files += layout.write(rows, layout.folder, unique("driver") + "-{i}" + layout.suffix)
        now = int(time.time() * 1000)
        actions: list[Any] = [
            AddAction(f.path, f.size, partition_of(f.path), now, True, f.stats) for f in files
        ]
        table.create_write_transaction(
            actions, "append", table.schema(), list(layout.partition_by),
            commit_properties=CommitProperties(app_transactions=[Transaction(query, batch)]),
        )

    def _opened(self) -> DeltaTable:
        from deltalake import DeltaTable

        if self._table is None:
            self._table = DeltaTable(self._layout.folder)
        return self._table


def _plain(t: Any) -> str:
    return str(pa.DataType._import_from_c_capsule(t.__arrow_c_schema__()) if not isinstance(t, pa.DataType) else t)


def _listed(columns: Sequence[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {_plain(t)}" for name, t in columns)
