"""Read aggregates as SQL text: the aggregates that the engine computes, and the output columns computed from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivjoin import expr
from ivjoin.arguments import text
from ivjoin.conditions.evaluate import check_supported, evaluate, first_error
from ivjoin.conditions.read.aggregates import AGGREGATES, Call, parse_aggregate
from ivjoin.errors import ColumnError, ConditionError, EvaluationError, OptionError, SchemaError, UnsupportedError, came
from ivjoin.expr import build
from ivjoin.expr.nodes import Node, columns_of, make
from ivjoin.expr.types import BOOL, FLOAT64, from_arrow, to_arrow
from ivjoin.outer.values import plain_array
from ivjoin.plan.aggregates import FUNCTIONS, Aggregate, result_type
from ivjoin.plan.question import side_expression
from ivjoin.stream.window.lists import reduced

if TYPE_CHECKING:
    from ivjoin.expr.literals import Params

__all__ = ["Asked", "Output", "asked_of"]

_NUMBERS = ("int", "float", "decimal", "decimal256", "null")
_SHAPE = "{name: text} such as {'n': 'count(*)', 'vwap': 'sum(r.price * r.qty) / sum(r.qty)'}"


@dataclass(frozen=True, slots=True)
class Reduction:
    """A column computed from a column of lists. A column of lists of bools may select the values."""

    function: str
    lists: str
    mask: str | None
    fraction: float | None


@dataclass(frozen=True, slots=True)
class Output:
    """An aggregate of the output: its name, its expression over left and computed columns, and its field."""

    name: str
    node: Node
    field: pa.Field


class Asked:
    """The aggregates of a call, split into the engine's aggregates and the results computed from them.

    ``engine`` has the names of the columns that the engine returns. ``reductions`` are computed from the engine's
    lists.
    """

    def __init__(
        self, left: pa.Schema, right: pa.Schema, zone: str, params: Params | None, alias: str | None,
        case_sensitive: bool,
    ) -> None:
        self._left, self._right, self._zone = left, right, zone
        empty = pa.schema([])
        names = {} if alias is None else {alias: "right"}
        self._outer, self._inner = (
            expr.Scope(a, b, aliases=names, params=params, case_sensitive=case_sensitive)
            for a, b in ((left, empty), (empty, right))
        )
        self._names: dict[Any, str] = {}
        self.engine: dict[str, Aggregate] = {}
        self.reductions: dict[str, Reduction] = {}
        self.types: dict[str, pa.DataType] = {}
        self.outputs: list[Output] = []

    def add(self, name: str, given: Any) -> None:
        """Add an aggregate of the output."""
        if isinstance(given, str):
            node = parse_aggregate(given, self._outer, self._inner, self._zone, self._column)
        else:
            node = self._column(self._called(name, given))
        check_supported(node)
        if node.op == "column" and node.params[1] in self.types:
            own, never = self.types[node.params[1]], self._counts(node.params[1])
        else:
            own, never = to_arrow(node.type), False
        self.outputs.append(Output(name, node, pa.field(name, own, nullable=not never)))

    def _counts(self, name: str) -> bool:
        made = self.engine.get(name) or self.reductions[name]
        return made.function in ("count", "count_distinct")

    def _called(self, name: str, given: Any) -> Call:
        if not isinstance(given, (tuple, list)) or not 2 <= len(given) <= 3:
            raise OptionError(
                f"the aggregate {name!r} is {came(given)}; expected SQL text such as 'mean(r.price)', or a pair such "
                "as ('price', 'mean')"
            )
        column, function, *rest = given
        known = AGGREGATES.get(function) if isinstance(function, str) else None
        if known is None or known == "count_if":
            hint = "; the column comes first" if isinstance(column, str) and column in AGGREGATES else ""
            raise OptionError(
                f"the function of {name!r} is {came(function)}; expected one of {', '.join(sorted(AGGREGATES))}{hint}"
            )
        if (known == "quantile") != bool(rest) or (rest and not _is_fraction(rest[0])):
            raise OptionError(
                f"the aggregate {name!r} is {came(given)}; expected ('price', 'quantile', 0.9) with a number from 0 "
                "to 1 for quantile, and a pair for other functions"
            )
        if isinstance(column, str) and column == "*":
            if known != "count":
                raise OptionError(f"{name!r} is ('*', {function!r}); expected a column: only count takes *")
            return Call(known, None)
        node = side_expression(column, 1, self._right, self._zone, "aggregate")
        return Call(known, node, None, float(rest[0]) if rest else None)

    def _column(self, call: Call) -> Node:
        """Return the column that replaces a call."""
        node, where = call.node, call.where
        for n in (node, where):
            if n is not None:
                check_supported(n)
        self._check(call)
        function = {"bool_and": "min", "bool_or": "max"}.get(call.function, call.function)
        if function == "any_value" and node is not None and node.type.is_ordered:
            function = "min"
        skips_nulls = function not in ("first", "last", "array_agg")
        if where is not None and skips_nulls:
            node, where = build.case([(where, build.literal(1) if node is None else node)]), None
        if node is not None and node.type.kind == "null" and function not in ("count", "min", "max", "first", "last"):
            node = build.cast(node, FLOAT64)  # a column without any value
        if function in FUNCTIONS and where is None:
            name = self._engine(function, node)
            return make("column", (), ("left", name), from_arrow(self.types[name]))
        assert node is not None
        lists = self._engine("array_agg", node)
        mask = None if where is None else self._engine("array_agg", where)
        made = Reduction(function, lists, mask, call.fraction)
        if made not in self._names:
            name = self._named(made, f"{function}({lists})")
            self.reductions[name] = made
            empty = pa.nulls(0, self.types[lists])
            self.types[name] = reduced(function, empty, None, call.fraction).type
        name = self._names[made]
        return make("column", (), ("left", name), from_arrow(self.types[name]))

    def _engine(self, function: str, node: Node | None) -> str:
        key = function, node
        if key not in self._names:
            # The columns of a Spark frame cannot have dots or backquotes in their names.
            text = "*" if node is None else re.sub(r"\br\.|`", "", str(node)).replace(".", "_")
            name = self._named(key, f"{function}({text})")
            self.engine[name] = made = Aggregate(name, function, node)
            try:
                self.types[name] = result_type(made, self._right)
            except Exception:
                del self.engine[name], self._names[key]
                raise
        return self._names[key]

    def _named(self, key: Any, name: str) -> str:
        """Return a new column name for a key. Errors show this name."""
        while name in self._left.names or name in self._names.values():
            name += "_"
        self._names[key] = name
        return name

    def _check(self, call: Call) -> None:
        """Raise an error if the function does not accept the type of the argument."""
        node = call.node
        if node is None:
            return
        kind, f = node.type.kind, call.function
        if f in ("bool_and", "bool_or") and kind not in ("bool", "null"):
            raise ConditionError(f"{f}({node}) is over {node.type}; expected a condition, such as {f}(r.x > 0)")
        if f in ("median", "quantile") and kind not in _NUMBERS:
            raise UnsupportedError(f"{f}({node}) is over {node.type}; expected a number. Cast it, such as to DOUBLE")
        if f == "count_distinct" and node.type != BOOL and not node.type.is_ordered and kind != "null":
            raise UnsupportedError(f"{f}({node}) is over {node.type}; expected a number, a time, text or bytes")

    # -- the output -------------------------------------------------------------------------------------------------

    def needs(self, outputs: list[Output]) -> tuple[set[str], set[str]]:
        """Return the left columns and the engine's columns that these outputs read."""
        left: set[str] = set()
        engine: set[str] = set()
        for output in outputs:
            for column in columns_of(output.node):
                name = column.params[1]
                made = self.reductions.get(name)
                if made is not None:
                    engine |= {made.lists} | ({made.mask} if made.mask is not None else set())
                else:
                    (engine if name in self.engine else left).add(name)
        return left, engine

    def made(self, batch: pa.RecordBatch, outputs: list[Output]) -> list[pa.Array]:
        """Return the outputs for a batch of the engine.

        An expression with an error for a row raises an EvaluationError.
        """
        known: dict[str, pa.Array] = {}

        def column(_: str, name: str) -> pa.Array:
            if name not in known:
                r = self.reductions.get(name)
                known[name] = batch.column(name) if r is None else reduced(
                    r.function, batch.column(r.lists), None if r.mask is None else batch.column(r.mask), r.fraction
                )
            return known[name]

        computed = [o.node for o in outputs if not self._passes(o)]
        vectors = dict(zip(computed, evaluate(computed, column, batch.num_rows), strict=True)) if computed else {}
        out = []
        for o in outputs:
            if self._passes(o):
                out.append(column("left", o.node.params[1]))
                continue
            v = vectors[o.node]
            if v.error is not None and v.error.any():
                raise EvaluationError(f"{o.name}: {first_error(o.node, column, int(v.error.argmax()))}")
            null = o.node.type.kind == "null"
            out.append(pa.nulls(batch.num_rows) if null else plain_array(v, o.node))
        return out

    def _passes(self, output: Output) -> bool:
        return output.node.op == "column" and output.node.params[1] in self.types


def asked_of(
    given: Any, left: pa.Schema, right: pa.Schema, zone: str, params: Params | None = None, alias: str | None = None,
    case_sensitive: bool = True,
) -> Asked:
    """Return the checked aggregates of ``{name: text}``. ``alias`` also names the right side."""
    if not isinstance(given, Mapping) or not given:
        raise OptionError(f"aggregate is {came(given)}; expected {_SHAPE}")
    asked = Asked(left, right, zone, params, alias, case_sensitive)
    for name, wanted in given.items():
        text("the name of an aggregate", name, "mean_price")
        if name in left.names:
            raise SchemaError(f"the aggregate {name!r} has the name of a left column; choose another")
        try:
            asked.add(name, wanted)
        except (ColumnError, ConditionError, UnsupportedError) as e:
            raise e.saying(f"the aggregate {name!r}: {e}") from None
    return asked


def _is_fraction(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and 0 <= x <= 1
