"""A join as a polars LazyFrame, which reads only the columns that the query of polars needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivjoin.shj.plain import no_rows

if TYPE_CHECKING:
    import polars as pl

__all__ = ["lazy_frame"]


def lazy_frame(pl: Any, schema: pa.Schema, run: Callable[[Sequence[str] | None], Any]) -> pl.LazyFrame:
    """Return a LazyFrame over a join.

    Parameters
    ----------
    pl : module
        polars.
    schema : pa.Schema
        Of the whole output.
    run : callable
        Takes the columns that are needed, None for all, and returns the stream. It runs once for each scan.
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
        frame = pl.from_arrow(pa.Table.from_batches([batch]))
        if rows is not None:
            frame = frame.head(rows)
            rows -= len(frame)
        if names is not None:
            frame = frame.select(names)
        yield frame if predicate is None else frame.filter(predicate)
        if rows == 0:
            return
