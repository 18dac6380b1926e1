"""Rows of small Parquet files that the driver opens by itself: a job of Spark's would take longer than the join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ivjoin.spark.pack import fitted

__all__ = ["UNIT", "opened", "paths_of", "rows_of_files"]

UNIT = "us"  # of Spark's timestamps

_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"


def rows_of_files(
    frame: Any, names: Sequence[str], schema: pa.Schema, most: int, drawn: int, seed: int,
    paths: Sequence[str] | None = None,
) -> tuple[pa.RecordBatch, int] | None:
    """Columns of a frame, of ``drawn`` rows drawn evenly; and how many rows there are.

    Parameters
    ----------
    frame : DataFrame
    names : sequence of str
        The columns.
    schema : pa.Schema
        What they are to be called, and their types.
    most : int
        So many rows are not read.
    paths : sequence of str, optional
        The frame's files, where they are known.

    Returns
    -------
    (RecordBatch, int) or None
        None where the frame is more than columns of Parquet files on this machine, or has ``most`` rows.
    """
    try:
        if paths is None:
            found = paths_of(frame, names)
            if found is None:
                return None
            paths = found[0]
        files = [opened(path) for path in paths]
        count = sum(file.metadata.num_rows for file in files)
        if count >= most or not count:
            return None
        numbers = np.arange(count)
        if drawn < count:
            numbers = np.sort(np.random.default_rng(seed).choice(count, drawn, replace=False))
        table = pa.concat_tables(_of_numbers(files, list(names), numbers))
        (batch,) = table.select(list(names)).combine_chunks().to_batches()
        return fitted(batch, schema), count
    except Exception:  # whatever stands in the way: Spark reads them
        return None


def opened(path: str) -> pq.ParquetFile:
    """A file whose INT96 are read as Spark's timestamps."""
    return pq.ParquetFile(path, coerce_int96_timestamp_unit=UNIT)


def _of_numbers(files: Sequence[pq.ParquetFile], names: list[str], numbers: np.ndarray) -> Iterator[pa.Table]:
    """The rows of these numbers, counted over all files, in order; one row group is held at a time."""
    begin = 0
    for file in files:
        for i in range(file.num_row_groups):
            end = begin + file.metadata.row_group(i).num_rows
            own = numbers[np.searchsorted(numbers, begin) : np.searchsorted(numbers, end)] - begin
            if len(own):
                rows = file.read_row_group(i, columns=names, use_threads=False)
                yield rows if len(own) == rows.num_rows else rows.take(pa.array(own))
            begin = end


def paths_of(frame: Any, names: Sequence[str]) -> tuple[list[str], Any] | None:
    """The files of a frame of which these columns are theirs, by the same names; and Spark's relation."""
    plan = frame.alias("seen")._jdf.queryExecution().optimizedPlan()  # a new one knows what was cached meanwhile
    if str(plan.nodeName()) == "Project":
        kept = plan.projectList()
        if any(str(kept.apply(i).nodeName()) != "AttributeReference" for i in range(kept.size())):
            return None
        plan = plan.child()
    if str(plan.nodeName()) != "LogicalRelation":
        return None
    relation = plan.relation()
    if str(relation.fileFormat().getClass().getName()) != _PARQUET:
        return None
    stored = set(relation.dataSchema().fieldNames())
    # those that a frame says it is of name each once, also if it is read twice
    found = [urlsplit(str(uri)) for uri in relation.location().inputFiles()]
    if not stored.issuperset(names) or any(uri.scheme != "file" for uri in found):
        return None
    return [path for path in (unquote(uri.path) for uri in found) if _is_read(path)], relation


def _is_read(path: str) -> bool:
    """Whether Spark reads a file that it has listed: it lists ``_metadata`` too, and what was named to it."""
    name = path.rsplit("/", 1)[-1]
    return not name.startswith(".") and ("=" in name or not name.startswith("_"))
