"""Pass joins to frames of other libraries: check text, and build a polars LazyFrame that reads only needed columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivjoin.errors import EvaluationError
from ivjoin.shj.plain import no_rows

if TYPE_CHECKING:
    import polars as pl

__all__ = ["in_utf8", "lazy_frame"]


def in_utf8(table: pa.Table) -> pa.Table:
    """Return the table unchanged.

    Text that is not UTF-8 raises an EvaluationError; pandas, polars and DuckDB need UTF-8.
    """
    for field, column in zip(table.schema, table.columns, strict=True):
        if "string" not in str(field.type):
            continue
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as e:
            if "UTF8" not in str(e):
                raise
            raise EvaluationError(
                f"the column {field.name!r} has text that is not in UTF-8, which frames cannot have; read the column "
                "as binary, convert it before the join, or use to_arrow()"
            ) from e
    return table


def lazy_frame(pl: Any, schema: pa.Schema, run: Callable[[Sequence[str] | None], Any]) -> pl.LazyFrame:
    """Return a polars LazyFrame over a join with the output ``schema``.

    ``run`` takes the needed columns, or None for all, and returns the stream. It runs once for each scan.
    """
    def scan(
        with_columns: list[str] | None, predicate: Any, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        with run(with_columns) as stream:
            yield from _frames(pl, stream, with_columns, predicate, n_rows)

    frame = pl.from_arrow(pa.Table.from_batches([no_rows(schema)]))
    return import_module("polars.io.plugins").register_io_source(scan, schema=frame.schema)


def _frames(
    pl: Any, stream: Any, names: list[str] | None, predicate: Any, rows: int | None
) -> Iterator[pl.DataFrame]:
    for batch in stream:
        frame = pl.from_arrow(in_utf8(pa.Table.from_batches([batch])))
        if rows is not None:
            frame = frame.head(rows)
            rows -= len(frame)
        if names is not None:
            frame = frame.select(names)
        yield frame if predicate is None else frame.filter(predicate)
        if rows == 0:
            return
