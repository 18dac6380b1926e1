"""Translate an as-of join into a condition and a pick."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from ivjoin.arguments import one_of
from ivjoin.conditions.read.fluent import Expr, left, lit, right, when
from ivjoin.errors import ColumnError, ConditionError, came
from ivjoin.expr import build
from ivjoin.expr.literals import seconds_of
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.expr.types import INT64, TICKS_PER_SECOND, Type, from_arrow, to_arrow
from ivjoin.frontier.durations import EXAMPLES, seconds_of_text
from ivjoin.outer.jointype import join_type
from ivjoin.plan import spec
from ivjoin.plan.picking.choice import Pick
from ivjoin.plan.picking.pick import RANKED, meeting
from ivjoin.plan.question import on_pairs, side_expression

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DIRECTIONS", "AsOf", "Tolerance", "as_of", "shift_of"]

DIRECTIONS = ("backward", "forward", "nearest")
Tolerance: TypeAlias = "int | float | Decimal | timedelta | str"
_PICKS = {"backward": "last", "forward": "first", "nearest": "nearest"}
_TIMES = ("date", "timestamp", "duration", "time")


@dataclass(frozen=True)
class AsOf:
    """The arguments of the band join that computes an as-of join."""

    on: tuple[str, str]  # the columns to compare, left and right
    condition: Expr | None
    pick: Pick | spec.Pick  # an ``ivjoin.Pick`` if all matches of a left row must be compared


def as_of(
    schemas: tuple[pa.Schema, pa.Schema], on: Any, direction: Any, tolerance: Any, allow_exact_matches: Any,
    ties: str | Sequence[str] | None = None, how: str = "left", offset: Any = None, *, zone: str,
) -> AsOf:
    """Return the band join for the arguments of an as-of join. ``offset`` is added to the left column."""
    pairs = on_pairs(on, schemas) if isinstance(on, (str, tuple, list)) else []
    if len(pairs) != 1:
        several = "; keys that must be equal go to by=" if len(pairs) > 1 else ""
        raise ColumnError(
            f"on is {came(on)}; expected the column of time, or a pair (left column, right column){several}"
        )
    pair, = pairs
    types = [from_arrow(schema.field(name).type) for name, schema in zip(pair, schemas, strict=True)]
    unknown = [t.kind == "null" for t in types]  # a column of nulls gets the type of the other column
    types = [INT64 if all(unknown) else types[1 - s] if unknown[s] else types[s] for s in (0, 1)]
    kind = types[1]
    if not has_ordinal(kind):
        raise ConditionError(
            f"on {pair[1]!r} is {kind} on the right side; expected a number, a time or a decimal of at most 18 digits. "
            "Cast it on both sides. (Text can break ties, as ties=; ivjoin.Pick(...) for band_join picks by text)"
        )
    one_of("direction", direction, DIRECTIONS)
    if not isinstance(allow_exact_matches, bool):
        raise ConditionError(f"allow_exact_matches is {came(allow_exact_matches)}; expected True or False")
    a, b = left(pair[0]), right(pair[1])
    a = a.cast(to_arrow(types[0])) if unknown[0] else a
    b = b.cast(to_arrow(types[1])) if unknown[1] else b
    if offset is not None:
        a = a + _step(offset, types[0])
    exact = allow_exact_matches
    parts: list[Expr] = []
    if direction == "backward":
        parts.append(b <= a if exact else b < a)
    elif direction == "forward":
        parts.append(b >= a if exact else b > a)
    elif not exact:
        parts.append(b != a)
    every = isinstance(ties, str) and ties == "all"
    kind_of_join = join_type(how)
    compared = every or kind_of_join.keep[1]  # all matches of a left row must be compared
    if "time" in (t.kind for t in types) and (tolerance is not None or (direction == "nearest" and compared)):
        raise ConditionError(
            f"on {pair[0]!r} and {pair[1]!r} are times of day, which have no differences: tolerance=, and 'nearest' "
            "with how='right', how='full' or ties='all', need them. Convert both columns in the input, such as "
            "column.cast('int64') of pyarrow"
        )
    if direction == "nearest" and compared:
        parts += [a.is_not_null(), b.is_not_null()]
    if tolerance is not None:
        parts += _within(direction, a, b, (types[0], types[1]), tolerance)
    condition = None
    for part in parts:
        condition = part if condition is None else condition & part
    names = [] if every or ties is None else [ties] if isinstance(ties, str) else ties
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
        raise ColumnError(f"ties is {came(ties)}; expected a right column, a list of them, or 'all'")
    by = [b, *(right(n) for n in names)]
    if compared:
        if direction == "nearest":
            by = [*_distance(a, b, types), *([] if every else by)]
        keep: Literal["first", "last"] = "last" if direction == "backward" else "first"
        return AsOf((pair[0], pair[1]), condition, Pick(by, keep, ties="all" if every else "any"))
    if kind_of_join.single is not None:
        raise ConditionError(
            f"how is {came(how)}; expected 'left', 'inner', 'right' or 'full'. A semi or anti join takes no right row: "
            "use band_join"
        )
    nodes = tuple(_place(x, names[i - 1] if i else pair[1], schemas[1], zone) for i, x in enumerate(by))
    near = side_expression(a, 0, schemas[0], zone, "on") if direction == "nearest" else None
    if near is not None:
        meeting(near, nodes[0], zone)
    return AsOf((pair[0], pair[1]), condition, spec.Pick(_PICKS[direction], nodes, near, unbounded=True))


def _distance(a: Expr, b: Expr, types: Sequence[Type]) -> list[Expr]:
    """Return expressions that order matches by distance; the later ones break ties.

    Equal values have distance 0, also infinities and NaN.
    """
    if any(t.kind == "float" for t in types):
        apart = a - b
        back = apart - a  # Knuth's TwoSum gives the rounding error, which breaks ties of rounded distances
        error = (a - (apart - back)) - (b + back)
        return [when(a == b, 0.0).otherwise(abs(apart)), when(a == b, 0.0).when(apart < 0.0, -error).otherwise(error)]
    if all(t.kind == "int" for t in types):
        low, high = min(t.limits[0] for t in types), max(t.limits[1] for t in types)
        if high - low < 2**63:  # the difference of small or unsigned values would overflow in their own type
            return [abs(a.cast("bigint") - b.cast("bigint"))]
        if high >= 2**63:
            return [abs(a.cast("decimal(20,0)") - b.cast("decimal(20,0)"))]
    return [abs(a - b)]


def _place(x: Expr, name: str, schema: pa.Schema, zone: str) -> Node:
    """Return the node of a right expression that orders matches or breaks ties."""
    node = side_expression(x, 1, schema, zone, "ties")
    if node.type.kind == "null":
        return build.cast(node, INT64)  # all values are NULL, so any type is correct
    if not has_ordinal(node.type) and node.type.kind not in RANKED:
        raise ConditionError(f"ties has {name!r}, a {node.type}; expected a number, a bool, a time, text or bytes")
    return node


def _step(given: Any, t: Type) -> Expr:
    """Return an offset as an expression that can be added to a column of type ``t``."""
    value = _signed(given, "offsets")
    if isinstance(value, Fraction) != (t.kind in _TIMES):
        raise ConditionError(f"offsets has {came(given)}, but the column is {t}; give {_expected(t.kind in _TIMES)}")
    if not isinstance(value, Fraction):
        return lit(value)
    if t.kind == "date":
        days = value / 86_400
        if days.denominator != 1:
            raise ConditionError(f"offsets has {came(given)}, but the column is {t}; give whole days, such as '2 days'")
        return lit(int(days))
    ticks = value * 10**9
    if ticks.denominator != 1 or not -(2**63) < ticks < 2**63:
        raise ConditionError(f"offsets has {came(given)}; expected whole nanoseconds, 292 years at most")
    if ticks % 1000:
        return lit(pa.scalar(int(ticks), pa.duration("ns")))
    return lit(pa.scalar(int(ticks) // 1000, pa.duration("us")))


def shift_of(given: Any) -> float:
    """Return an offset as a float: nanoseconds for a length of time, and the number itself otherwise."""
    value = _signed(given, "offsets")
    return float(value * 10**9) if isinstance(value, Fraction) else float(value)


def _signed(given: Any, what: str) -> int | float | Decimal | Fraction:
    """Return a finite number unchanged, or a length of time as a Fraction of seconds."""
    value = _read(given, what)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, Fraction)) or not math.isfinite(value):
        raise ConditionError(f"{what} is {came(given)}; expected a number, or a time such as {EXAMPLES}")
    return value


def _within(direction: str, a: Expr, b: Expr, types: tuple[Type, Type], given: Any) -> list[Expr]:
    """Return the conjuncts that limit the distance of ``a`` and ``b`` to the tolerance."""
    limit = _limit(given, types)
    if isinstance(limit, Fraction):
        return _within_time(direction, a, b, types, limit)
    if {t.kind for t in types} == {"int"}:  # a difference of decimals cannot overflow
        a, b = a.cast("decimal(20,0)"), b.cast("decimal(20,0)")
    out = []
    if direction != "forward":
        out.append(b >= a - lit(limit))
    if direction != "backward":
        out.append(b <= a + lit(limit))
    return out


def _within_time(direction: str, a: Expr, b: Expr, types: tuple[Type, Type], seconds: Fraction) -> list[Expr]:
    """Return the conjuncts that limit the distance of two times, in ticks of the finer of their units.

    A still finer unit would have a smaller range. A tolerance above every distance adds no conjunct.
    """
    unit = max((t.unit for t in types), key=("", "s", "ms", "us", "ns").index)
    per_second = Fraction(TICKS_PER_SECOND[unit] if unit else 1, 1 if unit else 86_400)
    steps = math.floor(seconds * per_second)
    if steps >= 2**64:
        return []
    if steps >= 2**63:
        most = timedelta(microseconds=math.floor((2**63 - 1) / per_second * 10**6))
        raise ConditionError(
            f"tolerance is {float(seconds):,.0f} seconds, longer than a duration[{unit}] can be; expected {most} at "
            "most, or None for no limit"
        )
    step = lit(pa.scalar(steps, pa.duration(unit))) if unit else lit(steps)
    if all(t.kind == "duration" for t in types):  # a duration literal has microseconds or a finer unit
        step = step.cast(f"duration[{unit}]")
    out = []
    if direction != "forward":
        out.append(b >= a - step)
    if direction != "backward":
        out.append(a >= b - step)
    return out


def _limit(given: Any, types: tuple[Type, Type]) -> int | float | Decimal | Fraction:
    """Return the tolerance as a number in the unit of the columns, or for times as a Fraction of seconds."""
    value = _read(given, "tolerance")
    times = any(t.kind in _TIMES for t in types)
    kind = f"{types[0]}" if types[0] == types[1] else f"{types[0]} and {types[1]}"
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, Fraction)):
        raise ConditionError(f"tolerance is {came(given)}; expected {_expected(times)}, for {kind}")
    if isinstance(value, Fraction) != times:
        raise ConditionError(f"tolerance is {came(given)}, but what is compared is {kind}; give {_expected(times)}")
    if not math.isfinite(value) or value < 0:
        raise ConditionError(f"tolerance is {came(given)}; expected zero or more, or None for no limit")
    if isinstance(value, Fraction):
        return value
    if all(t.kind == "int" for t in types):
        return min(math.floor(value), 2**64)
    if any(t.kind == "decimal" for t in types) and not any(t.kind == "float" for t in types):
        return value if isinstance(value, int) else Decimal(str(value))
    return float(value)


def _expected(times: bool) -> str:
    return "a timedelta, or text such as '5 minutes'" if times else "a number"


def _read(given: Any, what: str) -> Any:
    """Convert a text or a NumPy value to a Python number, and a length of time to a Fraction of seconds."""
    value = _parsed(given, what) if isinstance(given, str) else given
    if isinstance(value, np.generic):
        ticks = isinstance(value, np.timedelta64) and np.datetime_data(value.dtype)[0] == "ns"
        value = Fraction(int(value.astype(np.int64)), 10**9) if ticks and not np.isnat(value) else value.item()
    return seconds_of(value) if isinstance(value, timedelta) else value


def _parsed(text: str, what: str) -> int | Decimal | Fraction:
    seconds = seconds_of_text(text)
    if seconds is not None:
        return seconds
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise ConditionError(f"{what} is {came(text)}; expected a number, or a time such as {EXAMPLES}") from None
    return int(number) if number.is_finite() and number == number.to_integral_value() and len(text) < 400 else number
