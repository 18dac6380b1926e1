"""Look up a function by its SQL name. The error for an unsupported function gives the reason."""

from __future__ import annotations

from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr.nodes import Node
from ivjoin.expr.scope import nearest
from ivjoin.functions.records.record import ANY
from ivjoin.functions.table import FUNCTIONS

__all__ = ["FUNCTIONS", "MOMENTS", "call"]

# Functions whose value depends on the time of the call. SQL also allows the first ones without parentheses.
MOMENTS = ("current_date", "current_timestamp", "current_time", "localtimestamp", "now", "curdate", "current_timezone")


def call(name: str, args: list[Node], zone: str) -> Node:
    """Return the node of ``name(args)``.

    An unknown name raises an UnsupportedError that suggests similar names. A wrong number or type of arguments raises a
    ConditionError.
    """
    f = FUNCTIONS.get(name.lower())
    if f is None:
        reason = _REFUSED.get(name.lower())
        if reason is not None:
            raise UnsupportedError(f"the function {name}() is not supported in a condition: {reason}")
        raise UnsupportedError(f"the function {name}() is not known here{nearest(name, FUNCTIONS)}")
    if not f.least <= len(args) <= f.most:
        count = (
            str(f.least) if f.least == f.most else f"{f.least} or more" if f.most == ANY else f"{f.least} to {f.most}"
        )
        raise ConditionError(f"{name}() takes {count} argument{'' if count == '1' else 's'}, got {len(args)}")
    return f.make(args, zone)


_REFUSED = {
    **dict.fromkeys(("rand", "random", "randn", "uuid", "shuffle", "monotonically_increasing_id"),
                    "it has another value at each call"),
    **dict.fromkeys(MOMENTS,
                    "its value depends on when it is called; put the time into the text as a literal"),
    **dict.fromkeys(("sum", "count", "avg", "min", "max", "first", "last", "collect_list", "collect_set"),
                    "it is an aggregate; use window_join, or compute it in a column before the join"),
    **dict.fromkeys(("row_number", "rank", "lag", "lead", "ntile", "dense_rank"),
                    "it is a window function; compute it in a column before the join"),
    **dict.fromkeys(("explode", "array", "map", "struct", "named_struct", "element_at"),
                    "nested values are read, not made: fields (l.s.f), size(), array_contains() and comparisons"),
}  # fmt: skip
