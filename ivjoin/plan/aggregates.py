"""Check the ``aggregate`` argument of a join, and find the types of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ivjoin.arguments import text
from ivjoin.errors import ColumnError, OptionError, SchemaError, UnsupportedError, came
from ivjoin.expr.build.casting import cast
from ivjoin.expr.codec import decode, encode
from ivjoin.expr.nodes import Node
from ivjoin.expr.terms import BandTerm
from ivjoin.expr.types import FLOAT64, to_arrow
from ivjoin.shj.plain import value_type

__all__ = ["FUNCTIONS", "SPREADS", "Aggregate", "aggregates_of", "check_previous", "result_schema", "result_type"]

SPREADS = ("stddev", "stddev_pop", "variance", "var_pop")
FUNCTIONS = ("count", "sum", "mean", "min", "max", "first", "last", *SPREADS, "array_agg")
_DIGITS = 38  # the precision of a sum of decimals


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One output column: its name, its function, and its argument, an expression over right rows (None for ``*``)."""

    name: str
    function: str
    node: Node | None

    def __str__(self) -> str:
        return f"{self.name} = {self.function}({'*' if self.node is None else self.node})"

    def as_json(self) -> list[Any]:
        return [self.name, self.function, encode(self.node)]

    @classmethod
    def from_json(cls, saved: list[Any]) -> Aggregate:
        name, function, node = saved
        return cls(name, function, decode(node))


def aggregates_of(given: Any, resolve: Callable[[Any], Node], left: pa.Schema, right: pa.Schema
) -> tuple[Aggregate, ...]:
    """Return the aggregates of ``{name: (column or expression, function)}``.

    ``resolve`` returns the node of a column or expression of the right side. Only count accepts ``"*"``. An invalid
    argument raises an OptionError.
    """
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise OptionError(f"aggregate is {came(given)}; expected {_SHAPE}")
    if not given:
        raise OptionError(f"aggregate is empty; expected {_SHAPE}")
    out = []
    for name, pair in given.items():
        text("the name of an aggregate", name, "mean_price")
        if name in left.names:
            raise SchemaError(f"the aggregate {name!r} has the name of a left column; choose another")
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise OptionError(f"the aggregate {name!r} is {came(pair)}; expected a pair such as ('price', 'mean')")
        column, function = pair
        if function == "avg":
            function = "mean"
        if not isinstance(function, str) or function not in FUNCTIONS:
            hint = "; the column comes first" if isinstance(column, str) and column in FUNCTIONS else ""
            raise OptionError(f"the function of {name!r} is {came(function)}; expected {_listed()}{hint}")
        if isinstance(column, str) and column == "*":
            if function != "count":
                raise ColumnError(f"{name!r} is ('*', {function!r}); expected a column: only count takes *")
            out.append(Aggregate(name, function, None))
            continue
        node = resolve(column)
        if node.type.kind == "null" and function in ("sum", "mean", *SPREADS):
            node = cast(node, FLOAT64)  # the column contains only nulls
        made = Aggregate(name, function, node)
        result_type(made, right)
        out.append(made)
    return tuple(out)


_SHAPE = "{name: (column, function)} such as {'n': ('*', 'count'), 'mean_price': ('price', 'mean')}"


def _listed() -> str:
    return f"{', '.join(map(repr, FUNCTIONS[:-1]))} or {FUNCTIONS[-1]!r}"


def own_type(node: Node, right: pa.Schema) -> pa.DataType:
    if node.op == "column":
        return right.field(node.params[1]).type
    return to_arrow(node.type)


def result_type(a: Aggregate, right: pa.Schema) -> pa.DataType:
    """Return the Arrow type of an aggregate, or raise UnsupportedError.

    - count is int64, and mean is float64.
    - sum is int64 for whole numbers (uint64 for unsigned ones), decimal128(38, s) for decimals, the same type for
      durations, and float64 for floats.
    - min, max, first and last have the type of their argument. For an encoded column, min and max have the type of the
      decoded values.
    - variances and standard deviations are float64.
    - array_agg is a list of the values of its argument.
    """
    if a.node is None or a.function == "count":
        return pa.int64()
    t, own = a.node.type, own_type(a.node, right)
    if a.function in ("first", "last"):
        return own
    if a.function == "array_agg":
        return pa.list_(value_type(own))
    if a.function in ("min", "max"):
        if t.is_ordered:
            if pa.types.is_dictionary(own) or pa.types.is_run_end_encoded(own):
                return own.value_type
            return to_arrow(t) if t.kind == "months" else own
        if t.kind == "null":
            return own
        raise UnsupportedError(f"{a.function}({a.node}) is of {own}, which has no order; count, first and last take it")
    if a.function in SPREADS and t.kind in ("int", "float", "decimal", "decimal256"):
        return pa.float64()
    if a.function in SPREADS:
        raise UnsupportedError(f"{a.function}({a.node}) is over {t}; expected a number. Cast it, such as to DOUBLE")
    if t.kind in ("int", "bool") or (t.kind == "duration" and a.function == "sum"):
        if a.function == "mean":
            return pa.float64()
        return to_arrow(t) if t.kind == "duration" else pa.int64() if t.kind == "bool" or t.signed else pa.uint64()
    if t.kind == "float":
        return pa.float64()
    if t.kind == "decimal":
        return pa.float64() if a.function == "mean" else pa.decimal128(_DIGITS, t.scale)
    raise UnsupportedError(
        f"{a.function}({a.node}) is of {own}; expected a number of at most {_DIGITS} digits: "
        "count, min, max, first and last take others"
    )


def result_schema(left: pa.Schema, right: pa.Schema, aggregates: tuple[Aggregate, ...]) -> pa.Schema:
    made = [pa.field(a.name, result_type(a, right), nullable=a.function != "count") for a in aggregates]
    return pa.schema([*left, *made], metadata=left.metadata)


def check_previous(terms: Sequence[BandTerm], residual: Sequence[Node]) -> None:
    """Raise UnsupportedError unless the condition consists of keys and one window with a lower end.

    Without a lower end, no row precedes the window.
    """
    if len({t.right for t in terms}) != 1 or all(t.hi is None for t in terms) or residual:
        raise UnsupportedError(
            "include_previous=True expects keys and one window with a lower end, such as "
            "'r.ts BETWEEN l.ts - 5 AND l.ts'; move other conditions to FILTER (WHERE ...) of the aggregates"
        )
