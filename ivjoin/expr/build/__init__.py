"""Typed constructors of expression nodes. They insert casts, so that the arguments of an operator have one type.

Rules in addition to the catalogue of ``ivjoin.expr.nodes``:

- A comparison with a literal converts the literal exactly, so that the column is compared unchanged. Over an int, ``a <
  1.5`` becomes ``a <= 1``. Literals past the type's range are clipped in the same way.
- Decimal ``add sub mod pmod intdiv`` and comparisons have one decimal type wherever 38 digits hold both arguments.
  ``mul`` and ``div`` leave each argument's type. The result type is Spark's, from the types before the cast.
- date - date is ``date_diff``, an int32 count of days. ``abs``, negation, ``least`` and ``greatest`` of such counts
  compare with day intervals too. In any other operation the count becomes a duration.
- ``mul`` also takes (duration, int64) -> duration; a column of counts times ``INTERVAL 1 SECOND`` is one.
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
