"""Forward and backward rules of casts, rounding and calendar functions.

The forward rule of a monotone operator is the machine's own answer at the two ends, got from the exact evaluator; the
backward rule is written out where the preimage is plain.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import pyarrow as pa

from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import TICKS_PER_SECOND, Type
from ivjoin.interim.domain import Dom, next_above, next_below

__all__ = ["RULES"]

_DAY = 86_400
_LONGEST = {
    "microsecond": 1e-6, "millisecond": 1e-3, "second": 1, "minute": 60, "hour": 3600, "day": 27 * 3600,
    "week": 8 * _DAY, "month": 32 * _DAY, "quarter": 93 * _DAY, "year": 367 * _DAY, "decade": 3654 * _DAY,
    "century": 36526 * _DAY, "millennium": 365252 * _DAY,
}


@lru_cache(maxsize=4096)
def _at(op: str, params: tuple[Any, ...], out: Type, t: Type, value: Any, rest: tuple[Node, ...]) -> Any:
    """The machine's value of a unary operator at a point, None if it errs or is NULL."""
    from ivjoin.expr.evaluate import evaluate

    node = make(op, (make("literal", (), (value,), t), *rest), params, out)
    v = evaluate([node], _no_column, 1)[0]
    if (v.valid is not None and not v.valid[0]) or (v.error is not None and v.error[0]):
        return None
    x = v.values[0]
    x = x.item() if hasattr(x, "item") else x
    return None if isinstance(x, float) and x != x else x


def _no_column(side: str, name: str) -> pa.Array:
    raise AssertionError("a literal reads no column")


def _monotone(node: Node, t: Type) -> bool:
    """Whether the operator never falls as its first argument rises."""
    if node.op in ("floor", "ceil", "round", "bround", "trunc", "rint", "date_trunc", "trunc_date", "unix_seconds",
                   "unix_millis", "unix_micros", "unix_date", "sqrt", "cbrt", "sign", "next_up", "next_down"):
        return True
    if node.op in ("add_months", "add_days"):
        return len(node.args) == 2 and node.args[1].op == "literal"
    if node.op == "cast":
        kinds = t.kind, node.type.kind
        numbers = ("int", "float", "decimal")
        if kinds[0] in numbers and kinds[1] in numbers:
            return True
        if kinds == ("timestamp", "timestamp"):
            return (t.tz is None) == (node.type.tz is None)
        if kinds == ("timestamp", "date") or kinds == ("date", "timestamp"):
            return True
        return kinds in (("duration", "duration"), ("time", "time"), ("bool", "int"), ("timestamp", "int"))
    return False


def forward(node: Node, args: list[Dom]) -> Dom:
    a = args[0]
    null = any(x.may_null for x in args)
    launders = node.op in ("floor", "ceil") and node.type.kind == "int"
    if a.lo is None or not _monotone(node, a.type):
        return Dom.of(node.type, null=True)
    if a.is_empty:
        out = Dom.empty(node.type, null, a.may_nan)
    else:
        lo, hi = (_at(node.op, node.params, node.type, a.type, v, node.args[1:]) for v in (a.lo, a.hi))
        loose = node.op == "cbrt"
        if loose and isinstance(lo, float):
            lo = next_below(next_below(lo, 64), 64)
        if loose and isinstance(hi, float):
            hi = next_above(next_above(hi, 64), 64)
        nan = a.may_nan or (node.op == "sqrt" and a.lo < 0)
        if node.op == "sqrt" and lo is None:
            lo = 0.0
        out = Dom.of(node.type, lo, hi, null, nan)
    if launders and a.may_nan:
        # floor(NaN) is 0
        out = out.join(Dom.of(node.type, 0, 0, null))
    return out


def backward(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    a = args[0]
    if out.may_null or out.is_empty or out.lo is None or a.lo is None or a.is_empty or not _monotone(node, a.type):
        return args
    rest = [x.known() for x in args[1:]]
    pre = _preimage(node, out, a.type)
    if pre is None:
        return [a.known(), *rest]
    lo, hi = pre
    met = a.within(a.lo if lo is None else lo, a.hi if hi is None else hi)
    if a.may_nan and not (node.op in ("floor", "ceil") and out.lo <= 0 <= out.hi) and node.type.kind != "float":
        met = met.number()
    return [met, *rest]


def _preimage(node: Node, out: Dom, t: Type) -> tuple[Any, Any] | None:
    """Values that the operator may send into [out.lo, out.hi]; None for no answer."""
    op = node.op
    if op == "floor" and t.kind == "float":
        return next_below(float(out.lo), 64), next_above(float(out.hi) + 1, 64)
    if op == "ceil" and t.kind == "float":
        return next_below(float(out.lo) - 1, 64), next_above(float(out.hi), 64)
    if op in ("unix_seconds", "unix_millis", "unix_micros"):
        per = {"unix_seconds": 1, "unix_millis": 1_000, "unix_micros": 1_000_000}[op]
        ticks = TICKS_PER_SECOND[t.unit]
        return out.lo * ticks // per, ((out.hi + 1) * ticks + per - 1) // per
    if op == "unix_date":
        return out.lo, out.hi
    if op == "date_trunc":
        longest = _LONGEST.get(str(node.params[0]).lower())
        if longest is None:
            return None
        return out.lo, out.hi + math.ceil(longest * TICKS_PER_SECOND[t.unit])
    if op == "trunc_date":
        longest = _LONGEST.get(str(node.params[0]).lower())
        return None if longest is None else (out.lo, out.hi + math.ceil(longest / _DAY))
    if op == "add_days" and node.args[1].op == "literal" and node.args[1].params[0] is not None:
        return out.lo - node.args[1].params[0], out.hi - node.args[1].params[0]
    if op == "add_months" and node.args[1].op == "literal" and node.args[1].params[0] is not None:
        months = node.args[1].params[0]
        days = sorted((months * 28, months * 32))
        per = 1 if t.kind == "date" else _DAY * TICKS_PER_SECOND[t.unit]
        return out.lo - (days[1] + 5) * per, out.hi - (days[0] - 5) * per
    if op == "cast":
        return _cast_preimage(node, out, t)
    return None


def _cast_preimage(node: Node, out: Dom, t: Type) -> tuple[Any, Any] | None:
    to = node.type
    if t.kind == to.kind == "int":
        return out.lo, out.hi
    if t.kind == "int" and to.kind == "float":
        lo, hi = next_below(out.lo, to.bits), next_above(out.hi, to.bits)
        return (None if lo == -math.inf else math.floor(lo)), (None if hi == math.inf else math.ceil(hi))
    if t.kind == "float" and to.kind == "int":
        return next_below(float(out.lo) - 1, 64), next_above(float(out.hi) + 1, 64)
    if t.kind == to.kind == "float":
        return next_below(out.lo, to.bits), next_above(out.hi, to.bits)
    if t.kind == "int" and to.kind == "decimal":
        scale = 10**to.scale
        return -(-out.lo // scale), out.hi // scale
    if t.kind == "decimal" and to.kind == "decimal":
        a, b = 10**t.scale, 10**to.scale
        half = 0 if to.scale >= t.scale else 1
        return (out.lo - half) * a // b, -(-(out.hi + half) * a // b)
    if t.kind == to.kind and t.kind in ("timestamp", "duration", "time"):
        a, b = TICKS_PER_SECOND[t.unit], TICKS_PER_SECOND[to.unit]
        return out.lo * a // b, (out.hi + 1) * a // b
    if t.kind == "timestamp" and to.kind == "date":
        per = _DAY * TICKS_PER_SECOND[t.unit]
        slack = 0 if t.tz in (None, "UTC") and node.params[-1] in (None, "UTC") else 15 * 3600 * per // _DAY
        return out.lo * per - slack, (out.hi + 1) * per - 1 + slack
    if t.kind == "date" and to.kind == "timestamp":
        per = _DAY * TICKS_PER_SECOND[to.unit]
        slack = 0 if to.tz is None or node.params[-1] in (None, "UTC") else 1
        return out.lo // per - slack, -(-out.hi // per) + slack
    return None


RULES = dict.fromkeys(
    (
        "add_days", "add_months", "bround", "cast", "cbrt", "ceil", "date_trunc", "floor", "next_down", "next_up", "rint",
        "round", "sign", "sqrt", "trunc", "trunc_date", "unix_date", "unix_micros", "unix_millis", "unix_seconds",
    ),
    (forward, backward),
)
