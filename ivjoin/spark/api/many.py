"""``ivjoin.spark.multi_join``: join many DataFrames on a hypercube."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from ivjoin.arguments import known_options, warn_caller, worker_count
from ivjoin.errors import ConditionError, IvjoinError, UnsupportedError
from ivjoin.expr.literals import zone_named
from ivjoin.expr.nodes import columns_of
from ivjoin.frontier.order import Order
from ivjoin.multi.question import multi_spec, named_inputs
from ivjoin.multi.spec import MultiSpec, wide_column
from ivjoin.multi.spread import attributes, cube, skewed_names
from ivjoin.routing.grids.hypercube import SCHEMES
from ivjoin.spark.api.schema import arrow_schema, refuse_collation
from ivjoin.spark.conditions.columns import is_column
from ivjoin.spark.conditions.dialect import AnsiWarning, ansi_note, backquoted
from ivjoin.spark.conditions.sqlwriter import quoted_name
from ivjoin.spark.rows.arrow import as_spark_sql
from ivjoin.spark.runtime.environment import settings_of
from ivjoin.spark.runtime.eventtime import delays, watermarks_of, with_watermarks, without_watermark
from ivjoin.spark.runtime.workers import kernels_early
from ivjoin.spark.spread.sampling import are_small, sound_bytes
from ivjoin.stream.sources.columns import places_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ivjoin.expr.literals import Params
    from ivjoin.multi.question import AliasBounds, AliasOrders

__all__ = ["multi_join"]

# The default for streams, for any session, because a checkpoint retains its grid.
_CELLS = 16


@known_options("multi_join")
def multi_join(
    inputs: Mapping[str, DataFrame], condition: str | None = None, *, orders: AliasOrders | None = None,
    scheme: Literal["auto", "hash", "random", "hybrid"] = "auto", skewed: Iterable[str | tuple[str, str]] | None = None,
    bounds: AliasBounds | None = None, batch_size: int = 65536, on_late: Literal["raise", "drop", "join"] = "raise",
    timezone: str | None = None, allow_cross: bool = False, workers: int | None = None,
    columns: Sequence[str] | None = None, params: Params | None = None,
) -> DataFrame:
    """Join two to eight DataFrames with at most one shuffle, which sends each row to the cells where it can match.

    Parameters
    ----------
    inputs : mapping of alias to DataFrame
        All static or all streaming. One frame may have several aliases.
    condition : str
        SQL text over columns ``alias.name``.
    orders : mapping of alias to str, Order, or a list of these, optional
        For streams, the order in which rows arrive. A watermark counts as an order, with its delay as the slack.
    scheme : {"auto", "hash", "random", "hybrid"}
        How rows are spread (:func:`ivjoin.routing.hypercube`). The default is the scheme with the least load.
    skewed : iterable of str, optional
        Columns in which most rows have one of a few values: ``"alias.column"``, or the column's name alone for all
        inputs.
    bounds : mapping of alias to mapping of column to (least, greatest), optional
    batch_size : int, default 65536
        Maximum number of rows in an output batch of an operator.
    on_late : {"raise", "drop", "join"}
        For streams, what to do with a row that violates its input's order or bounds. A row of a static frame that
        violates its bounds always raises LateRowError, unless a null or a filter on its own input excludes it from
        every result.
    timezone : str, optional
        By default, the time zone of the session.
    allow_cross : bool, default False
        Whether to join inputs that the condition does not connect.
    workers : int, optional
        Maximum number of cells; by default ``spark.sql.shuffle.partitions`` for static frames, and 16 for streams. If
        static inputs are small and ``scheme`` is "auto", the default is one cell, in a task that reads all inputs. A
        checkpoint retains its grid.
    params : mapping of str to value, optional
        The values of ``:name`` in the condition.
    columns : list of str, optional
        Names of the output columns, as ``alias_name``, in the order you want; all by default. A checkpoint retains
        them.

    Returns
    -------
    DataFrame
        The columns of the inputs, as ``alias_name``.

    Raises
    ------
    IvjoinError
        A subclass, before the query starts. The message states the given value, the expected value and a fix.

    Warns
    -----
    AnsiWarning, WatermarkWarning
        As :func:`ivjoin.spark.band_join`.
    """
    frames = named_inputs(inputs)
    streaming = _streaming(frames)
    if scheme not in SCHEMES:
        raise IvjoinError(f"scheme is {scheme!r}; expected {', '.join(map(repr, SCHEMES))}")
    settings = settings_of(next(iter(frames.values())).sparkSession)
    zone = timezone or settings.timezone
    zone_named(zone)
    if is_column(condition):
        raise ConditionError("condition is a Column; a join of many inputs takes SQL text with alias.name for columns")
    if settings.quoted_names and isinstance(condition, str):
        condition = backquoted(condition)
    schemas: dict[str, pa.Schema] = {a: arrow_schema(f.schema, zone) for a, f in frames.items()}
    spec = multi_spec(
        schemas, condition, orders=orders, bounds=bounds, batch_size=batch_size, timezone=zone,
        on_late=on_late if streaming else "raise",  # only for bounds, because static inputs are sorted here
        allow_cross=allow_cross, case_sensitive=settings.case_sensitive, params=params,
    )
    _refuse_collated(spec, frames)
    if columns is not None:
        columns = [spec.schema.names[i] for i in places_of(spec.schema.names, columns)]
        watermarked = [f"{a}_{f.name}" for a, frame in frames.items() for f in frame.schema if delays([f])]
        spec = spec.of_columns([*columns, *watermarked])
        frames = {a: frame.select(*map(quoted_name, spec.schemas[a].names)) for a, frame in frames.items()}
    if spec.condition is not None and not settings.ansi and (note := ansi_note(spec.condition)):
        warn_caller(AnsiWarning(note))
    sizes = {alias: None if streaming else sound_bytes(frame) for alias, frame in frames.items()}
    free = workers is None and scheme == "auto"
    default = _CELLS if streaming else settings.partitions
    small = free and are_small(list(frames.values()), list(sizes.values()))
    most = 1 if small else default if workers is None else workers
    _refuse_unhashed(spec)
    plan = cube(spec, worker_count(most), _multiples(sizes), scheme, skewed_names(spec, skewed))
    out = StructType([
        StructField(f"{a}_{f.name}", f.dataType, True, without_watermark(f.metadata))
        for a, frame in frames.items() for f in frame.schema
    ])
    first = next(iter(frames.values()))
    kernels_early(first)
    if streaming:
        from ivjoin.spark.state.cell_state import streamed_in_cells

        spec = spec.with_orders({a: _orders(spec, a, frame) for a, frame in frames.items()})
        joined = streamed_in_cells(frames, spec, plan, out)
    else:
        from ivjoin.spark.spread.cells import joined_in_cells

        joined = joined_in_cells(frames, spec, plan, out, workers is not None)
    return joined if columns is None else joined.select(*map(quoted_name, columns))


def _streaming(frames: Mapping[str, Any]) -> bool:
    """Return whether all inputs are streams. Refuse a mixture, and inputs that are not DataFrames."""
    for alias, frame in frames.items():
        if not hasattr(frame, "isStreaming") or not hasattr(frame, "mapInArrow"):
            raise IvjoinError(f"input {alias!r} is a {type(frame).__name__}; expected a PySpark DataFrame")
    streams = [alias for alias, frame in frames.items() if frame.isStreaming]
    if streams and len(streams) < len(frames):
        static = next(a for a in frames if a not in streams)
        raise UnsupportedError(
            f"input {streams[0]!r} is a stream and {static!r} is static: its rows would have to be read again in every "
            "micro-batch. Read all as streams (spark.readStream on the same files), or all as static frames"
        )
    return bool(streams)


def _orders(spec: MultiSpec, alias: str, frame: Any) -> tuple[Order, ...]:
    declared = spec.inputs[alias].orders[0]
    delay, no_order, notes = watermarks_of(frame, alias, lambda i: wide_column(spec.wide(alias).field(i)), declared)
    for note in notes:
        warn_caller(note)
    return tuple(with_watermarks(declared, delay, no_order))


def _refuse_unhashed(spec: MultiSpec) -> None:
    for name, own in attributes(spec).items():
        for alias, node in own.items():
            if as_spark_sql(node, spec.wide(alias).names) is None:
                raise UnsupportedError(f"the equality of {name!r} compares {node}, which Spark cannot hash; cast it")


def _refuse_collated(spec: MultiSpec, frames: Mapping[str, Any]) -> None:
    for column in columns_of(spec.condition) if spec.condition is not None else ():
        alias, name = column.params
        for f in frames[alias].schema:
            if f.name == name:
                refuse_collation(f, alias, "multi_join")


def _multiples(sizes: Mapping[str, float | None]) -> dict[str, float]:
    """Return sizes as multiples of the least size; all are equal if one is not known."""
    least = min(size or 0.0 for size in sizes.values())
    return {a: (size or 0.0) / least if least else 1.0 for a, size in sizes.items()}
