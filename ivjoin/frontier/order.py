"""Declared orders of an input, and ordinals of the values that a caller passes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ivjoin.conditions.evaluate import constant
from ivjoin.errors import IvjoinError, OrderError, came
from ivjoin.expr import build
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import NAN_ORDINAL, has_ordinal, ordinal_of, value_of
from ivjoin.expr.types import TICKS_PER_SECOND, Type
from ivjoin.frontier.durations import EXAMPLES, seconds_of_text
from ivjoin.frontier.slack import slack_of_text

if TYPE_CHECKING:
    from ivjoin.conditions.written import Expression, Slack

__all__ = ["Order", "ordinal_range", "physical_ordinal", "shown"]

_LEFT_OUT = "leave it out if nothing is known"
_MOST_DIGITS = 1000  # of a slack: more than the distance of any two values of a type


@dataclass(frozen=True)
class Order:
    """Promise that an expression of an input does not fall by more than ``slack`` below its greatest value so far.

    Parameters
    ----------
    expr : str or expression
        A column name, SQL text, an ``ivjoin.left(...)`` expression or a SymPy expression over one input.
    descending : bool
        If True, the promise is that the expression does not rise.
    slack : number, timedelta or str, optional
        The permitted disorder in the units of the expression; for times, a timedelta or text such as ``"10s"``.
    nulls : {"first", "last"}, optional
        Whether rows with a null value arrive first or last. By default they may arrive at any time.
    follows : bool
        Whether the planner derived it from another order of the input.

    Examples
    --------
    >>> from datetime import timedelta
    >>> Order("ts", slack=timedelta(seconds=10))
    Order(expr='ts', descending=False, slack=datetime.timedelta(seconds=10), nulls=None)
    """

    expr: Expression
    descending: bool = False
    slack: Slack | None = None
    nulls: Literal["first", "last"] | None = None
    follows: bool = field(default=False, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.descending, (bool, np.bool_)):
            raise OrderError(f"descending is {came(self.descending)}; expected True or False")
        if self.nulls is not None and not (isinstance(self.nulls, str) and self.nulls in ("first", "last")):
            raise OrderError(f"nulls is {came(self.nulls)}; expected 'first', 'last' or None")
        if isinstance(self.slack, str):
            object.__setattr__(self, "slack", slack_of_text(self.slack))
        if self.slack is not None:
            self._check_slack()

    @property
    def node(self) -> Node:
        """Return the expression after its names are resolved."""
        if not isinstance(self.expr, Node):
            raise TypeError(f"the names of {self.expr!r} are not resolved yet")
        return self.expr

    def _check_slack(self) -> None:
        slack = self.slack
        if isinstance(slack, bool) or not isinstance(slack, (int, float, Decimal, timedelta)):
            raise OrderError(
                f"slack is {came(slack)}; expected a number, or for times a timedelta or text such as '10s'"
            )
        # a signalling NaN cannot be compared, and a number with a billion digits is too slow
        unsound = slack.is_nan() or abs(slack.adjusted()) > _MOST_DIGITS if isinstance(slack, Decimal) else (
            isinstance(slack, int) and slack.bit_length() > 4 * _MOST_DIGITS
        )
        least: Any = timedelta(0) if isinstance(slack, timedelta) else 0
        if not unsound and slack >= least:
            return
        hint = "; leave the order out if nothing is promised" if unsound else ""
        raise OrderError(f"slack is {came(slack)}; expected zero or more{hint}")


@lru_cache(maxsize=256)
def ordinal_range(t: Type) -> tuple[int, int]:
    """Return the least and greatest ordinal of a type; NaN is the greatest of a float."""
    if t.kind == "float":
        return ordinal_of(float("-inf"), t), NAN_ORDINAL
    if t.kind == "bool":
        return 0, 1
    low, high = t.limits
    return ordinal_of(low, t), ordinal_of(high, t)


def physical_ordinal(value: Any, t: Type, what: str, up: bool = True, unknown: str = _LEFT_OUT) -> int:
    """Return the ordinal of a Python value, rounded ``up`` or down if it is between two values of the type.

    Raises OrderError if the type has no ordinals or does not contain the value; ``unknown`` is its advice for an
    unknown value.
    """
    if not has_ordinal(t):
        raise OrderError(f"{what} is {came(value)}, but values of type {t} cannot be ordered; give a number or time")
    if type(value) is int and t.kind == "int":
        least, most = t.limits
        if least <= value <= most:
            return ordinal_of(value, t)
    ours = isinstance(value, Node)  # read back from a snapshot: an ordinal of the type once
    if t.kind == "duration" and isinstance(value, str):
        seconds = seconds_of_text(value)
        ticks = None if seconds is None else seconds * TICKS_PER_SECOND[t.unit]
        if ticks is None or not t.limits[0] <= ticks <= t.limits[1]:
            raise OrderError(f"{what} is {came(value)}; expected a timedelta, or text such as {EXAMPLES}")
        return math.ceil(ticks) if up else math.floor(ticks)
    try:
        node = value if ours else build.literal(value)
    except (TypeError, ValueError, ArithmeticError) as e:
        raise OrderError(f"{what} is {came(value)}; expected a value of type {t}") from e
    if node.type.kind == "null" or (not ours and (node.type.kind == "bool") != (t.kind == "bool")):
        raise OrderError(f"{what} is {came(value)}; expected a value of type {t}")
    got = node.params[0]
    if not ours and got != got:
        raise OrderError(f"{what} is {came(value)}, which has no place in an order; {unknown}")
    if t.kind == "float" and node.type.is_numeric:
        # A quotient of ints is rounded once, to the nearest double.
        return ordinal_of(float(got) if node.type.kind != "decimal" else got / 10**node.type.scale, t)
    if t.kind in ("int", "decimal") and node.type.is_numeric and isinstance(got, (int, float)):
        least, most = t.limits
        infinite = isinstance(got, float) and not math.isfinite(got)
        exact = Fraction(0) if infinite else Fraction(got) / 10**node.type.scale * 10**t.scale
        whole = math.ceil(exact) if up else math.floor(exact)
        if infinite or not least <= whole <= most:
            raise OrderError(f"{what} is {came(value)}; {_limits(t)}; {unknown}")
        return ordinal_of(whole, t)
    if node.type.kind == t.kind == "bool":
        return int(got)
    if t.is_temporal != node.type.is_temporal and node.type.kind != "string":
        such = ", such as a date or a datetime" if t.is_temporal else ""
        raise OrderError(f"{what} is {came(value)}; expected a value of type {t}{such}")
    try:
        cast = build.cast(node, t)
    except IvjoinError as e:
        raise OrderError(f"{what} is {came(value)}; expected a value of type {t}") from e
    _, found = constant(cast)
    if found is None:
        raise OrderError(f"{what} is {came(value)}; {_limits(t)}; {unknown}")
    return ordinal_of(found, t)


def _limits(t: Type) -> str:
    low, high = ordinal_range(t)
    return f"expected a value of type {t}, from {shown(low, t)} to {shown(high, t)}"


def shown(ordinal: int, t: Type) -> str:
    """Return the text of an ordinal's value for a message."""
    from datetime import date, datetime

    v = value_of(ordinal, t)
    try:
        if t.kind in ("timestamp", "duration", "time"):
            seconds, rest = divmod(int(v), TICKS_PER_SECOND[t.unit])
            micros, nanos = divmod(rest * 1_000_000_000 // TICKS_PER_SECOND[t.unit], 1000)
            span = timedelta(seconds=seconds, microseconds=micros)
            if t.kind == "duration":
                return f"{span}{_nanos(micros, nanos)}"
            at = datetime(1970, 1, 1) + span
            if t.kind == "time":
                return f"{at.time()}{_nanos(micros, nanos)}"
            return at.isoformat(" ") + _nanos(micros, nanos) + (" UTC" if t.tz else "")
        if t.kind == "date":
            return date.fromordinal(date(1970, 1, 1).toordinal() + int(v)).isoformat()
        if t.kind == "decimal":
            return str(Decimal(int(v)).scaleb(-t.scale))
    except (OverflowError, ValueError):
        pass
    return repr(v)


def _nanos(micros: int, nanos: int) -> str:
    """Return the digits after the microseconds, if any."""
    return "" if not nanos else f"{nanos:03d}" if micros else f".000000{nanos:03d}"
