"""Typed constructors of expression nodes. They insert casts, so that the arguments of an operator have one type.

These rules add to the catalogue in ``ivjoin.expr.nodes``:

- A comparison with a literal converts the literal exactly, so that the column is compared unchanged. For an int column,
  ``a < 1.5`` becomes ``a <= 1``. Literals outside the range of the type are replaced in the same manner.
- For decimals, ``add sub mod pmod intdiv`` and comparisons cast both arguments to one decimal type if 38 digits are
  enough. ``mul`` and ``div`` do not cast. The result type is Spark's type for the arguments before the casts.
- date - date is ``date_diff``, an int32 number of days. ``abs``, negation, ``least`` and ``greatest`` of such numbers
  can also be compared with day intervals. In any other operation, the number becomes a duration.
- ``mul`` also accepts (duration, int64) -> duration, such as a column of integers times ``INTERVAL 1 SECOND``.
- ``timestamp_seconds(n)`` and related functions are the epoch plus such a product, in UTC.
- ``function`` params are (name, *options): ``getattr(pyarrow.compute, name)(*arguments, *options)``.
"""

from __future__ import annotations

from ivjoin.errors import ConditionError
from ivjoin.expr.build.arith import add, div, intdiv, mod, mul, neg, pmod, sub
from ivjoin.expr.build.casting import cast
from ivjoin.expr.build.choice import and_, case, coalesce, if_, is_not_null, is_null, not_, or_
from ivjoin.expr.build.chrono import (
    add_days,
    add_interval,
    add_months,
    date_trunc,
    days_apart,
    extract,
    interval,
    trunc_date,
    unix_date,
    unix_micros,
    unix_millis,
    unix_seconds,
)
from ivjoin.expr.build.common import common_type
from ivjoin.expr.build.comparison import (
    between,
    compare,
    eq,
    eq_null_safe,
    ge,
    gt,
    in_,
    in_constants,
    le,
    lt,
    ne,
    nullif,
)
from ivjoin.expr.build.numeric import abs_, bround, ceil, floor, greatest, is_nan, least, real, rint, round_, sign
from ivjoin.expr.build.strings import concat, like
from ivjoin.expr.literals import literal
from ivjoin.expr.nodes import LEFT, RIGHT, Node, make
from ivjoin.expr.types import Type

__all__ = [
    "abs_", "add", "add_days", "add_interval", "add_months", "and_", "between", "bround", "case", "cast", "ceil",
    "coalesce", "column", "common_type", "compare", "concat", "date_trunc", "days_apart", "div", "eq", "eq_null_safe",
    "extract", "floor", "ge", "greatest", "gt", "if_", "in_", "in_constants", "intdiv", "interval", "is_nan",
    "is_not_null", "is_null", "le", "least", "like", "literal", "lt", "mod", "mul", "ne", "neg", "not_", "nullif",
    "or_", "pmod", "real", "rint", "round_", "sign", "sub", "trunc_date", "unix_date", "unix_micros", "unix_millis",
    "unix_seconds",
]  # fmt: skip


def column(side: str, name: str, type: Type) -> Node:
    """Return the node of a column of the left or right input."""
    if side not in (LEFT, RIGHT):
        raise ConditionError(f"a side is 'left' or 'right', not {side!r}")
    return make("column", (), (side, name), type)
