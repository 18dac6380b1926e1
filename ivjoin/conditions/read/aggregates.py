"""Read SQL text with aggregates, such as ``sum(r.price * r.qty) / sum(r.qty)``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ivjoin.conditions.read.deep import deeply, refuse_deep
from ivjoin.conditions.read.sqlfunctions import FUNCTIONS, call
from ivjoin.conditions.read.sqlgrammar import placed, tree
from ivjoin.conditions.read.sqltext import Reader
from ivjoin.errors import ColumnError, ConditionError, IvjoinError, UnsupportedError
from ivjoin.expr.build import case
from ivjoin.expr.literals import is_literal, literal
from ivjoin.expr.nodes import LEFT, Node
from ivjoin.expr.scope import Scope
from ivjoin.expr.types import BOOL

__all__ = ["AGGREGATES", "Call", "parse_aggregate"]

# The aggregate functions by SQL name.
AGGREGATES = {
    "count": "count", "sum": "sum", "min": "min", "max": "max", "mean": "mean", "avg": "mean", "first": "first",
    "first_value": "first", "last": "last", "last_value": "last", "stddev": "stddev", "stddev_samp": "stddev",
    "std": "stddev", "stddev_pop": "stddev_pop", "variance": "variance", "var_samp": "variance", "var": "variance",
    "var_pop": "var_pop", "median": "median", "quantile": "quantile", "quantile_cont": "quantile",
    "percentile": "quantile", "count_distinct": "count_distinct", "array_agg": "array_agg", "any_value": "any_value",
    "bool_and": "bool_and", "every": "bool_and", "bool_or": "bool_or", "count_if": "count_if",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an aggregate function.

    ``function`` is a value of :data:`AGGREGATES`. ``node`` is the argument over right columns (None for ``*``).
    ``where`` is the condition of FILTER, and ``fraction`` is the second argument of quantile.
    """

    function: str
    node: Node | None
    where: Node | None = None
    fraction: float | None = None


def parse_aggregate(
    text: str, outer: Scope, inner: Scope, timezone: str, resolve: Callable[[Call], Node]
) -> Node:
    """Return the node of an expression over aggregates.

    ``outer`` resolves columns outside of calls, and ``inner`` resolves columns inside them. ``resolve`` returns the
    node of a call. Text that cannot be read raises a ConditionError, which marks the place. An unknown column raises a
    ColumnError, and an unknown function an UnsupportedError.
    """
    if not text.strip():
        raise ConditionError("an aggregate is empty; expected SQL text such as 'sum(r.qty)'")
    node = deeply(lambda: _AggregateReader(text, outer, inner, timezone, resolve).read(tree(text)))
    refuse_deep(node)
    return node


class _AggregateReader(Reader):
    """Convert a text to a node, in which columns stand for the aggregates."""

    def __init__(
        self, text: str, outer: Scope, inner: Scope, zone: str, resolve: Callable[[Call], Node]
    ) -> None:
        super().__init__(text, outer, zone)
        self._inner = _ArgumentReader(text, inner, zone)
        self._resolve = resolve

    def read(self, e: Any) -> Node:
        from sqlglot import exp

        where = None
        inside = e
        if isinstance(e, exp.Filter):
            inside, where = e.this, e.expression.this
        if isinstance(inside, exp.Anonymous) and str(inside.this).lower() in AGGREGATES:
            try:
                return self._resolve(self._called(inside, where))
            except IvjoinError as error:
                raise placed(error, inside, self.text) from None
        if isinstance(e, (exp.Window, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)):
            raise placed(_refused(e), e, self.text)
        if isinstance(e, exp.Column):
            self._check_outside(e)
        if isinstance(e, exp.Anonymous) and str(e.this).lower() not in FUNCTIONS:
            try:
                call(str(e.this), [], self.zone)
            except IvjoinError as error:
                raise placed(error, e, self.text) from None
        return super().read(e)

    def _check_outside(self, e: Any) -> None:
        """Raise an error for a right column outside an aggregate function."""
        try:
            self.column(e)
        except ColumnError:
            try:
                self._inner.column(e)
            except IvjoinError:
                return
            raise placed(ConditionError(
                f"{e.sql('spark')} is outside an aggregate function; put it into one, such as "
                f"max({e.sql('spark')})"
            ), e, self.text) from None  # fmt: skip

    def _called(self, e: Any, where: Any) -> Call:
        from sqlglot import exp

        written = str(e.this).lower()
        function = AGGREGATES[written]
        args = list(e.expressions)
        if len(args) == 1 and isinstance(args[0], exp.Distinct):
            args = list(args[0].expressions)
            if function in ("count", "count_distinct"):
                function = "count_distinct"
            elif function not in ("min", "max"):
                raise UnsupportedError(f"DISTINCT is supported only in count, not in {written}")
        if len(args) == 1 and isinstance(args[0], exp.Order):
            raise UnsupportedError(
                f"ORDER BY in {written} is not supported; rows are in the order of the right side that is declared "
                "first, else by the band"
            )
        wanted = 2 if function == "quantile" else 1
        if len(args) != wanted:
            such = "quantile(r.x, 0.9)" if wanted == 2 else f"{written}({'*' if function == 'count' else 'r.x'})"
            raise ConditionError(f"{written} has {len(args)} arguments; expected {wanted}, as in {such}")
        star = isinstance(args[0], exp.Star)
        if star and function != "count":
            raise ConditionError(f"{written}(*): only count takes *; name a column, as in {written}(r.x)")
        node = None if star else self._inner.read(args[0])
        given = None if where is None else self._condition(where)
        if function == "count_if":
            test = self._condition(args[0])
            return Call("count", case([(test, literal(1))], None, self.zone), given)
        return Call(function, node, given, self._fraction(args[1]) if wanted == 2 else None)

    def _condition(self, e: Any) -> Node:
        from ivjoin.expr.build import cast

        node = self._inner.read(e)
        if node.type.kind not in ("bool", "null"):
            raise ConditionError(f"{e.sql('spark')} is {node.type}; expected a condition")
        return cast(node, BOOL)

    def _fraction(self, e: Any) -> float:
        node = self._inner.read(e)
        fraction = -1.0
        if is_literal(node) and isinstance(node.params[0], (int, float)):
            fraction = node.params[0] / 10**node.type.scale if node.type.kind == "decimal" else float(node.params[0])
        if not 0 <= fraction <= 1:
            raise ConditionError(f"the fraction of quantile is {e.sql('spark')}; expected a number from 0 to 1")
        return fraction


class _ArgumentReader(Reader):
    """Read the argument of an aggregate function, which may use only right columns."""

    def read(self, e: Any) -> Node:
        from sqlglot import exp

        if isinstance(e, exp.Filter) or (isinstance(e, exp.Anonymous) and str(e.this).lower() in AGGREGATES):
            raise placed(ConditionError("an aggregate function is within another one"), e, self.text)
        if isinstance(e, exp.Column) and self.scope.side_of(e.parts[0].name) == LEFT and len(e.parts) > 1:
            raise placed(ColumnError(
                f"{e.sql('spark')} is a left column in an aggregate function; expected right columns. A left column "
                "is the same for the whole window: move it out of the function"
            ), e, self.text)  # fmt: skip
        return super().read(e)


def _refused(e: Any) -> UnsupportedError:
    from sqlglot import exp

    if isinstance(e, exp.Window):
        return UnsupportedError("OVER is not supported: the matches of a left row are the window; leave OVER out")
    if isinstance(e, exp.WithinGroup):
        return UnsupportedError("WITHIN GROUP is not supported; write quantile(r.x, 0.9)")
    return UnsupportedError("IGNORE NULLS and RESPECT NULLS are not supported; use FILTER (WHERE r.x IS NOT NULL)")
