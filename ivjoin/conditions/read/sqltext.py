"""Read conditions as SQL text in Spark's dialect: sqlglot parses the grammar, and this module resolves names and types.

sqlglot's table of functions is empty here, so that every call reaches ``sqlfunctions`` unchanged. If sqlglot's operator
precedence differs from Spark's, the text must have parentheses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ivjoin.conditions.read.deep import deeply, refuse_deep
from ivjoin.conditions.read.sqlfunctions import MOMENTS, call
from ivjoin.conditions.read.sqlgrammar import described, placed, refuse_chains, refuse_mixed_bits, tree
from ivjoin.conditions.read.sqllists import Constants
from ivjoin.conditions.read.sqlliterals import constant, has_clock, hex_string, type_of, typed_literal
from ivjoin.errors import ColumnError, ConditionError, IvjoinError, UnsupportedError
from ivjoin.expr import build
from ivjoin.expr.build import chrono, strings
from ivjoin.expr.build.coerce import local_text
from ivjoin.expr.build.nested import field
from ivjoin.expr.literals import literal, zone_named
from ivjoin.expr.nodes import COMPARISONS, Node
from ivjoin.expr.scope import Scope
from ivjoin.expr.types import DATE, FLOAT64, timestamp
from ivjoin.functions.logic.attempts import tried
from ivjoin.functions.table import OPERATORS
from ivjoin.functions.values import patterns, spans
from ivjoin.functions.values.times import extracted

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["node_of", "parse_scalar"]


def parse_scalar(text: str, scope: Scope, timezone: str = "UTC") -> Node:
    """Return the node of a Spark SQL expression of any type. Local times are in ``timezone``.

    Text that cannot be read raises a ConditionError, which marks the place. An unknown column raises a ColumnError, and
    an unknown function an UnsupportedError.
    """
    zone_named(timezone)
    if not text.strip():
        raise ConditionError("the condition is empty; pass None for no condition")
    node = deeply(lambda: Reader(text, scope, timezone).read(tree(text)))
    refuse_deep(node)
    return node


def node_of(e: exp.Expression, text: str, scope: Scope, timezone: str) -> Node:
    """Return the node of ``e``, a part of the parsed ``text``. See :func:`parse_scalar`."""
    node = deeply(lambda: Reader(text, scope, timezone).read(e))
    refuse_deep(node)
    return node


class Reader:
    """Convert one parsed text to a node."""

    def __init__(self, text: str, scope: Scope, zone: str) -> None:
        self.text, self.scope, self.zone = text, scope, zone

    def read(self, e: exp.Expression) -> Node:
        reader = _readers().get(e.__class__)
        try:
            if reader is None:
                raise UnsupportedError(f"{described(e)} cannot be used in a condition")
            return reader(self, e)
        except IvjoinError as error:
            raise placed(error, e, self.text) from None
        except (ValueError, ArithmeticError) as error:  # for example, a number with too many digits for Python
            raise placed(ConditionError(f"{described(e)} cannot be read: {error}"), e, self.text) from error

    # Leaves

    def column(self, e: Any) -> Node:
        try:
            node, fields = self.scope.path([p.name for p in e.parts])
        except ColumnError:
            if len(e.parts) == 1 and e.name.lower() in MOMENTS and not e.this.args.get("quoted"):
                return call(e.name, [], self.zone)
            raise
        return functools.reduce(self._field, fields, node)

    def _field(self, node: Node, name: str) -> Node:
        return field(node, name, self.scope.case_sensitive)

    def dot(self, e: Any) -> Node:
        return self._field(self.read(e.this), e.expression.name)

    def adjacent_strings(self, e: Any) -> Node:
        return literal("".join(str(x.this) for x in e.expressions))

    def interval(self, e: Any) -> Node:
        from sqlglot import exp

        value, unit = e.this, e.args.get("unit")
        if value is None:
            raise ConditionError("INTERVAL needs a number or a text, such as INTERVAL 10 SECONDS")
        sign = 1
        while isinstance(value, (exp.Neg, exp.Paren)):
            sign = -sign if isinstance(value, exp.Neg) else sign
            value = value.this
        if isinstance(unit, exp.IntervalSpan):
            if not isinstance(value, exp.Literal):
                raise UnsupportedError("INTERVAL ... TO ... needs a text in quotes")
            out = chrono.interval_text(str(value.this), unit.this.name, unit.expression.name)
        elif isinstance(value, exp.Literal):
            out = chrono.interval_text(str(value.this), None if unit is None else unit.name)
        elif unit is None:
            raise ConditionError("INTERVAL needs a unit, such as INTERVAL 10 SECONDS")
        else:
            out = build.mul(chrono.interval(1, unit.name), self.read(value))
        return build.neg(out) if sign < 0 else out

    def parameter(self, e: Any) -> Node:
        if not e.name.isidentifier():
            raise UnsupportedError("the placeholder ? has no name; write :w, and pass params={'w': value}")
        return self.scope.parameter(e.name)

    # Operators

    def plus(self, e: Any) -> Node:
        return build.add(*self._summands(e), self.zone)

    def minus(self, e: Any) -> Node:
        return build.sub(*self._summands(e), self.zone)

    def _summands(self, e: Any) -> tuple[Node, Node]:
        a, b = self.read(e.this), self.read(e.expression)
        # A date plus an interval in hours is a timestamp, even if the interval is a whole number of days.
        if a.type == DATE and b.type.kind == "duration" and has_clock(e.expression):
            a = build.cast(a, timestamp("us", self.zone), self.zone)
        elif b.type == DATE and a.type.kind == "duration" and has_clock(e.this):
            b = build.cast(b, timestamp("us", self.zone), self.zone)
        return a, b

    def negative(self, e: Any) -> Node:
        from sqlglot import exp

        inner = e.this
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return constant(inner, -1)
        if isinstance(inner, exp.TryCast) and isinstance(inner.this, exp.Literal) and not inner.args.get("safe"):
            # -128Y is one literal with a suffix, because -(128Y) would overflow.
            if not inner.this.is_string or str(inner.this.this).replace(".", "").isdigit():
                number, to = Decimal(str(inner.this.this)), type_of(inner.args["to"], self.zone)
                if to == FLOAT64:
                    return literal(-float(number))
                return build.cast(literal(-number), to, self.zone)
        return build.neg(self.read(inner))

    def comparison(self, e: Any, op: str) -> Node:
        refuse_chains(e)
        return build.compare(op, self.read(e.this), self.read(e.expression), self.zone)

    def joined(self, e: Any, make: Callable[..., Node]) -> Node:
        kind = e.__class__
        parts, rest = [], e
        while isinstance(rest, kind):
            parts.append(rest.args["expression"])
            rest = rest.this
        parts.append(rest)
        return make(*(self.read(p) for p in reversed(parts)))

    def between(self, e: Any) -> Node:
        if e.args.get("symmetric"):
            raise UnsupportedError("BETWEEN SYMMETRIC; use BETWEEN least(a, b) AND greatest(a, b)")
        return build.between(self.read(e.this), self.read(e.args["low"]), self.read(e.args["high"]), self.zone)

    def membership(self, e: Any) -> Node:
        if any(e.args.get(k) for k in ("query", "unnest", "field")):
            raise UnsupportedError("IN takes a list of values in parentheses, not a query; use how='left_semi' for it")
        if not e.expressions:
            raise ConditionError("IN needs at least one value in its parentheses")
        if isinstance(listed := e.expressions[0].this, Constants):
            return build.in_constants(self.read(e.this), listed.values, self.zone)
        return build.in_(self.read(e.this), [self.read(x) for x in e.expressions], self.zone)

    def overlaps(self, e: Any) -> Node:
        from sqlglot import exp

        periods = [x for side in (e.this, e.expression) if isinstance(side, exp.Tuple) for x in side.expressions]
        if len(periods) != 4:
            raise ConditionError("OVERLAPS takes two periods: (start, end) OVERLAPS (start, end)")
        return call("overlaps", [self.read(x) for x in periods], self.zone)

    def is_(self, e: Any) -> Node:
        from sqlglot import exp

        x = self.read(e.this)
        if isinstance(e.expression, exp.Null):
            return build.is_null(x)
        if isinstance(e.expression, exp.Boolean):
            return build.eq_null_safe(x, literal(bool(e.expression.this)), self.zone)
        raise ConditionError(f"IS takes NULL, TRUE, FALSE or [NOT] DISTINCT FROM, not {e.expression.sql('spark')}")

    def text_of(self, e: Any) -> Node:
        """Return the argument as text. The text of an instant is its local time."""
        return local_text(self.read(e), self.zone)

    def like(self, e: Any, escape: str = "\\") -> Node:
        from sqlglot import exp

        if isinstance(e.expression, (exp.Any, exp.All)):
            raise UnsupportedError("LIKE ANY and LIKE ALL; join single LIKEs with OR or AND")
        make = patterns.ilike if isinstance(e, exp.ILike) else patterns.like
        out = make(self.text_of(e.this), self.text_of(e.expression), escape)
        return build.not_(out) if e.args.get("negate") else out

    def escaped(self, e: Any) -> Node:
        return self.like(e.this, strings.constant_text(self.read(e.expression), "the ESCAPE of LIKE"))

    def rlike(self, e: Any) -> Node:
        out = patterns.rlike(self.text_of(e.this), self.text_of(e.expression))
        return build.not_(out) if e.args.get("negate") else out

    def pipes(self, e: Any) -> Node:
        from sqlglot import exp

        if isinstance(e.expression, (exp.Add, exp.Sub)):
            raise ConditionError("|| is next to + or -; put parentheses around one of them")
        refuse_mixed_bits(e)
        return strings.concat(self.text_of(e.this), self.text_of(e.expression))

    def case(self, e: Any) -> Node:
        subject = self.read(e.this) if e.this is not None else None
        whens = []
        for branch in e.args["ifs"]:
            test = self.read(branch.this)
            if subject is not None:
                test = build.eq(subject, test, self.zone)
            whens.append((test, self.read(branch.args["true"])))
        default = e.args.get("default")
        return build.case(whens, None if default is None else self.read(default), self.zone)

    def if_(self, e: Any) -> Node:
        other = e.args.get("false")
        return build.case([(self.read(e.this), self.read(e.args["true"]))], None if other is None else self.read(other),
                          self.zone)  # fmt: skip

    def cast(self, e: Any) -> Node:
        from sqlglot import exp

        if e.args.get("safe"):
            given = self.read(e.this)
            made = build.cast(given, type_of(e.args["to"], self.zone), self.zone)
            return given if made is given else tried(made)
        if e.args.get("format"):
            raise UnsupportedError("CAST with a FORMAT")
        t = type_of(e.args["to"], self.zone)
        if type(e) is exp.Cast and isinstance(e.this, exp.Literal) and e.this.is_string:
            return typed_literal(str(e.this.this), t, self.zone)
        return build.cast(self.read(e.this), t, self.zone)

    def extract(self, e: Any) -> Node:
        return extracted(e.this.name, self.read(e.expression), self.zone)

    def trim(self, e: Any) -> Node:
        characters = e.args.get("expression")
        what = " " if characters is None else strings.constant_text(self.read(characters), "what TRIM removes")
        end = {"LEADING": "l", "TRAILING": "r"}.get(str(e.args.get("position") or ""), "")
        return strings.of_text(f"utf8_{end}trim", f"{end}trim", self.text_of(e.this), what)

    def function(self, e: Any) -> Node:
        name, args = str(e.this), list(e.expressions)
        if len(args) == 3 and name.lower() in ("timestampadd", "dateadd", "date_add"):
            return chrono.add_interval(self.read(args[2]), self.read(args[1]), args[0].name, self.zone)
        if len(args) == 3 and name.lower() in ("datediff", "date_diff", "timestampdiff"):
            if name.lower() != "timestampdiff" and args[0].name.lower() == "day":
                return build.days_apart(self.read(args[2]), self.read(args[1]), self.zone)
            return spans.units_between(args[0].name, self.read(args[1]), self.read(args[2]), self.zone)
        return call(name, [self.read(a) for a in args], self.zone)


@functools.cache
def _readers() -> dict[type, Callable[[Reader, Any], Node]]:
    from sqlglot import exp

    out: dict[type, Callable[[Reader, Any], Node]] = {
        exp.Column: Reader.column,
        exp.Dot: Reader.dot,
        exp.Literal: lambda r, e: constant(e),
        exp.Null: lambda r, e: literal(None),
        exp.Boolean: lambda r, e: literal(bool(e.this)),
        exp.RawString: lambda r, e: literal(str(e.this)),
        exp.HexString: lambda r, e: hex_string(e),
        exp.Concat: Reader.adjacent_strings,
        exp.Interval: Reader.interval,
        exp.Paren: lambda r, e: r.read(e.this),
        exp.Add: Reader.plus,
        exp.Sub: Reader.minus,
        exp.Neg: Reader.negative,
        exp.Between: Reader.between,
        exp.In: Reader.membership,
        exp.Is: Reader.is_,
        exp.Like: Reader.like,
        exp.ILike: Reader.like,
        exp.Escape: Reader.escaped,
        exp.RegexpLike: Reader.rlike,
        exp.DPipe: Reader.pipes,
        exp.Case: Reader.case,
        exp.If: Reader.if_,
        exp.Cast: Reader.cast,
        exp.TryCast: Reader.cast,
        exp.Extract: Reader.extract,
        exp.Trim: Reader.trim,
        exp.Anonymous: Reader.function,
        exp.Overlaps: Reader.overlaps,
        exp.Placeholder: Reader.parameter,
        exp.And: lambda r, e: r.joined(e, build.and_),
        exp.Or: lambda r, e: r.joined(e, build.or_),
        exp.Not: lambda r, e: build.not_(r.read(e.this)),
        exp.NullSafeNEQ: lambda r, e: build.not_(r.comparison(e, "eq_null_safe")),
    }
    for operator in OPERATORS.values():
        kind = getattr(exp, operator.infix) if operator.infix else None
        if kind is not None and kind not in out:
            out[kind] = functools.partial(_compared if operator.name in COMPARISONS else _infix, operator.name)
    return out


def _compared(op: str, r: Reader, e: Any) -> Node:
    return r.comparison(e, op)


def _infix(op: str, r: Reader, e: Any) -> Node:
    make = OPERATORS[op].build
    assert make is not None
    if op.startswith(("bit_", "shift")):
        refuse_mixed_bits(e)
    return make([r.read(x) for x in (e.this, e.args.get("expression")) if x is not None], r.zone)
