"""Find the row groups of a Parquet file that a predicate can match, from the statistics in the file's footer.

Statistics bound the values of a column chunk that are neither NULL nor NaN. A row group is skipped if the predicate
cannot be TRUE over these domains. Missing, nested or contradictory statistics skip nothing. Their meaning follows the
comments on ``Statistics`` and ``ColumnOrder`` in the format's ``parquet.thrift``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ivjoin import conditions, expr
from ivjoin.errors import IvjoinError, named
from ivjoin.expr.literals import zone_named
from ivjoin.files.parquet import open_parquet
from ivjoin.files.statistics import ColumnRanges
from ivjoin.plan.derived.row_groups import groups_within

if TYPE_CHECKING:
    from ivjoin.conditions.written import Expression
    from ivjoin.expr.literals import Params

__all__ = ["opened", "prune_row_groups"]


def prune_row_groups(
    parquet_file: str | os.PathLike[str] | BinaryIO | pq.ParquetFile, predicate: Expression, *, timezone: str = "UTC",
    params: Params | None = None,
) -> list[int]:
    """Return the row groups of a Parquet file that may have a row for which a predicate is TRUE.

    ivjoin reads only the footer. A skipped row group has no such row. A returned row group may not have one either. If
    the predicate would raise an error for a row of a skipped row group, no error is raised.

    Parameters
    ----------
    parquet_file : str, os.PathLike, file object or pyarrow.parquet.ParquetFile
        A file object must be able to seek. Its position changes.
    predicate : str, SymPy relation, fluent expression or Node
        A predicate over the columns of the file, which count as the left input: ``x`` or ``l.x`` in text,
        ``ivjoin.left("x")``. None is TRUE for every row.
    timezone : str
        The zone of calendar arithmetic and of timestamps without a zone.
    params : mapping of str to value, optional
        The values of ``:name`` in the predicate.

    Returns
    -------
    list of int
        Ascending indices, for ``ParquetFile.read_row_groups``. A row group without rows is never included.

    Raises
    ------
    ColumnError
        If the predicate names a column that the file does not have.
    ConditionError
        If the predicate cannot be parsed, or is not of type bool.
    IvjoinError
        If the file is not Parquet.
    OSError
        If the file cannot be opened.

    Examples
    --------
    >>> import io, pyarrow as pa, pyarrow.parquet as pq
    >>> file = io.BytesIO()
    >>> pq.write_table(pa.table({"t": list(range(100))}), file, row_group_size=25)
    >>> prune_row_groups(file, "t BETWEEN 20 AND 30")
    [0, 1]
    """
    zone_named(timezone)
    with opened(parquet_file) as file:
        ranges = ColumnRanges(file.schema_arrow, file.metadata, "left")
        scope = expr.Scope(ranges.schema, pa.schema([]), params=params)
        return groups_within(conditions.condition(predicate, scope, timezone=timezone), ranges)


@contextmanager
def opened(parquet_file: Any) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file by path or file object, or use an open one. Close it afterwards only if it was opened here.

    An IvjoinError is raised if the file is not Parquet, and an OSError if it cannot be opened.
    """
    if isinstance(parquet_file, pq.ParquetFile):
        yield parquet_file
        return
    if isinstance(parquet_file, os.PathLike):
        parquet_file = os.fspath(parquet_file)
    if isinstance(parquet_file, type) or not (
        isinstance(parquet_file, (str, pa.NativeFile)) or hasattr(parquet_file, "read")
    ):
        raise IvjoinError(
            f"a Parquet file cannot be made of a {type(parquet_file).__name__}; expected a path, a file object or a "
            "pyarrow.parquet.ParquetFile"
        )
    try:
        file = open_parquet(parquet_file)
    except (pa.ArrowException, ValueError, TypeError) as e:
        name = named(parquet_file) if isinstance(parquet_file, str) else "the file object"
        raise IvjoinError(f"cannot read {name} as parquet: {str(e).splitlines()[0].rstrip('.')}") from e
    try:
        yield file
    finally:
        file.close()
