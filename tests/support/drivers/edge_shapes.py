"""Condition shapes over one column a side, and what they mean over Python's integers and floats, without ivjoin.

An expression carries its SQL text, its type and a function of the two columns' values. A value is an int, a float, a
bool, or None for NULL; what errs raises `Erred`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


class Erred(Exception):
    """The condition errs for this pair: overflow, or a division by zero.

    ``path`` is the part that errs, what that stands in, and so on to the whole.
    """

    def __init__(self) -> None:
        super().__init__()
        self.path: list[E] = []


@dataclass(frozen=True)
class T:
    """int8..int64, uint8..uint64, float32, float64, "decimal" (of no fraction), "bool"."""

    name: str

    @property
    def is_float(self) -> bool:
        return self.name.startswith("float")

    @property
    def bits(self) -> int:
        return int(self.name.lstrip("uintfloa"))

    @property
    def signed(self) -> bool:
        return not self.name.startswith("u")

    @property
    def span(self) -> tuple[int, int]:
        if self.name == "decimal":
            return 1 - 10**38, 10**38 - 1
        return (-(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1) if self.signed else (0, 2**self.bits - 1)


BOOL, DOUBLE, DECIMAL, INT, BIGINT, TINYINT = map(T, ("bool", "float64", "decimal", "int32", "int64", "int8"))


def common(a: T, b: T) -> T:
    """Where two numbers meet."""
    if a == b:
        return a
    if a.is_float or b.is_float:
        return DOUBLE
    if DECIMAL in (a, b):
        return DECIMAL
    if a.signed == b.signed:
        return max(a, b, key=lambda t: t.bits)
    bits = max(t.bits if t.signed else 2 * t.bits for t in (a, b))
    return T(f"int{bits}") if bits <= 64 else DECIMAL


@dataclass(frozen=True, eq=False)
class E:
    """Leaves are columns and literals: ``op`` is "l", "r" or ""."""

    sql: str
    type: T
    value: Callable[[Any, Any], Any]
    op: str = ""
    args: tuple[E, ...] = ()

    def of(self, a: Any, b: Any) -> Any:
        try:
            return self.value(a, b)
        except Erred as e:
            e.path.append(self)
            raise

    def columns(self) -> set[str]:
        """Which of "l" and "r" it reads."""
        return {self.op} & {"l", "r"} | {c for x in self.args for c in x.columns()}

    def __add__(self, other: Any) -> E:
        return _arithmetic("+", self, other, lambda x, y: x + y)

    def __sub__(self, other: Any) -> E:
        return _arithmetic("-", self, other, lambda x, y: x - y)

    def __mul__(self, other: Any) -> E:
        return _arithmetic("*", self, other, lambda x, y: x * y)

    def __radd__(self, other: Any) -> E:
        return lit(other) + self

    def __rsub__(self, other: Any) -> E:
        return lit(other) - self

    def __rmul__(self, other: Any) -> E:
        return lit(other) * self

    def __neg__(self) -> E:
        return E(f"-{self.sql}", self.type, _strict(lambda x: fitted(-x, self.type), self), "neg", (self,))

    def __mod__(self, other: Any) -> E:
        return _arithmetic("%", self, other, _remainder)

    def __le__(self, other: Any) -> E:
        return _comparison("<=", self, other, lambda c: c <= 0)

    def __lt__(self, other: Any) -> E:
        return _comparison("<", self, other, lambda c: c < 0)

    def __ge__(self, other: Any) -> E:
        return _comparison(">=", self, other, lambda c: c >= 0)

    def __gt__(self, other: Any) -> E:
        return _comparison(">", self, other, lambda c: c > 0)

    def eq(self, other: Any) -> E:
        return _comparison("=", self, other, lambda c: c == 0)

    def ne(self, other: Any) -> E:
        return _comparison("<>", self, other, lambda c: c != 0)

    def same(self, other: E) -> E:
        def of(a: Any, b: Any) -> bool:
            x, y = self.of(a, b), other.of(a, b)
            return x is y is None or (x is not None and y is not None and order(*_met(self, other, x, y)) == 0)

        return E(f"({self.sql} <=> {other.sql})", BOOL, of, "<=>", (self, other))

    def between(self, low: Any, high: Any) -> E:
        low, high = lit(low), lit(high)
        both = (self >= low) & (self <= high)
        return E(f"({self.sql} BETWEEN {low.sql} AND {high.sql})", BOOL, both.of, both.op, both.args)

    def __and__(self, other: E) -> E:
        value = lambda a, b: _connected(self, other, a, b, False)  # noqa: E731
        return E(f"({self.sql} AND {other.sql})", BOOL, value, "and", (self, other))

    def __or__(self, other: E) -> E:
        value = lambda a, b: _connected(self, other, a, b, True)  # noqa: E731
        return E(f"({self.sql} OR {other.sql})", BOOL, value, "or", (self, other))

    def __invert__(self) -> E:
        return E(f"(NOT {self.sql})", BOOL, _strict(lambda x: not x, self), "not", (self,))

    def is_null(self) -> E:
        return E(f"({self.sql} IS NULL)", BOOL, lambda a, b: self.of(a, b) is None, "null", (self,))


def lit(x: Any) -> E:
    if isinstance(x, E):
        return x
    if isinstance(x, bool):
        return E(str(x).upper(), BOOL, lambda a, b: x)
    if isinstance(x, float):
        return E(f"{x:.17e}", DOUBLE, lambda a, b: x)
    t = INT if -(2**31) <= x < 2**31 else BIGINT if -(2**63) <= x < 2**63 else DECIMAL
    return E(str(x) if x >= 0 else f"({x})", t, lambda a, b: x)


def fitted(x: Any, t: T) -> Any:
    """A result in its type: rounded for a float, an error past the ends of any other."""
    if t.is_float:
        return single(x) if t.bits == 32 else x
    low, high = t.span
    if not low <= x <= high:
        raise Erred
    return x


def single(x: float) -> float:
    """The nearest float32."""
    if not math.isfinite(x):
        return x
    try:
        return float(struct.unpack("<f", struct.pack("<f", x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def converted(x: Any, t: T) -> Any:
    """A number as another type; an integer is rounded to a float, a float cut to an integer."""
    if t.is_float:
        return fitted(float(x), t)
    if isinstance(x, float):
        if not math.isfinite(x):
            raise Erred
        if t == BIGINT and x == 2.0**63:  # as in Java
            return 2**63 - 1
        x = math.trunc(Fraction(x))
    return fitted(x, t)


def order(x: Any, y: Any) -> int:
    """-1, 0 or 1: NaN is equal to itself and greater than any other."""
    if x != x or y != y:
        return (x != x) - (y != y)
    return (x > y) - (x < y)


def _strict(f: Callable[..., Any], *args: E) -> Callable[[Any, Any], Any]:
    """NULL where an argument is."""

    def of(a: Any, b: Any) -> Any:
        values = [x.of(a, b) for x in args]
        return None if any(v is None for v in values) else f(*values)

    return of


def _met(p: E, q: E, x: Any, y: Any) -> tuple[Any, Any]:
    t = common(p.type, q.type)
    return (float(x), float(y)) if t.is_float else (x, y)


def _arithmetic(sign: str, p: E, q: Any, f: Callable[[Any, Any], Any]) -> E:
    q = lit(q)
    t = common(p.type, q.type)
    value = _strict(lambda x, y: fitted(f(*_met(p, q, x, y)), t), p, q)
    return E(f"({p.sql} {sign} {q.sql})", t, value, sign, (p, q))


def _remainder(x: Any, y: Any) -> Any:
    if y == 0:
        raise Erred
    if isinstance(x, float):
        return math.nan if not math.isfinite(x) or y != y else math.fmod(x, y)
    return x - y * _quotient(x, y)


def _quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _comparison(sign: str, p: E, q: Any, f: Callable[[int], bool]) -> E:
    q = lit(q)
    value = _strict(lambda x, y: f(order(*_met(p, q, x, y))), p, q)
    return E(f"({p.sql} {sign} {q.sql})", BOOL, value, sign, (p, q))


def _connected(p: E, q: E, a: Any, b: Any, decisive: bool) -> Any:
    x = p.of(a, b)
    if x is decisive:
        return x
    y = q.of(a, b)
    return y if y is decisive or x is not None else None


def absolute(p: E) -> E:
    return E(f"abs({p.sql})", p.type, _strict(lambda x: fitted(abs(x), p.type), p), "abs", (p,))


def whole_quotient(p: E, q: Any) -> E:
    q = lit(q)

    def of(x: int, y: int) -> int:
        if y == 0:
            raise Erred
        return fitted(_quotient(x, y), BIGINT)

    return E(f"({p.sql} div {q.sql})", BIGINT, _strict(of, p, q), "div", (p, q))


def quotient(p: E, q: Any) -> E:
    q = lit(q)

    def of(x: Any, y: Any) -> float:
        x, y = float(x), float(y)
        if y == 0:
            raise Erred
        if not math.isfinite(x) or not math.isfinite(y):
            return math.nan if x != x or y != y or math.isinf(x) == math.isinf(y) else x / y
        try:
            return x / y
        except OverflowError:
            return math.copysign(math.inf, x) * math.copysign(1, y)

    return E(f"({p.sql} / {q.sql})", DOUBLE, _strict(of, p, q), "/", (p, q))


def positive_remainder(p: E, k: int) -> E:
    t = common(p.type, INT)
    return E(f"pmod({p.sql}, {k})", t, _strict(lambda x: x % k, p), "pmod", (p,))


def cast(p: E, t: T) -> E:
    name = {DOUBLE: "DOUBLE", BIGINT: "BIGINT", TINYINT: "TINYINT", INT: "INT", T("float32"): "FLOAT"}[t]
    return E(f"CAST({p.sql} AS {name})", t, _strict(lambda x: converted(x, t), p), "cast", (p,))


def _extreme(name: str, sign: int, *args: Any) -> E:
    parts = [lit(x) for x in args]
    t = parts[0].type
    for p in parts[1:]:
        t = common(t, p.type)

    def of(a: Any, b: Any) -> Any:
        best = None
        for x in [p.of(a, b) for p in parts]:
            x = float(x) if t.is_float and x is not None else x
            if x is not None and (best is None or sign * order(x, best) > 0):
                best = x
        return best

    return E(f"{name}({', '.join(p.sql for p in parts)})", t, of, name, tuple(parts))


def greatest(*args: Any) -> E:
    return _extreme("greatest", 1, *args)


def least(*args: Any) -> E:
    return _extreme("least", -1, *args)


def coalesce(p: E, q: Any) -> E:
    q = lit(q)
    t = p.type if BOOL in (p.type, q.type) else common(p.type, q.type)

    def of(a: Any, b: Any) -> Any:
        x = p.of(a, b)
        x = q.of(a, b) if x is None else x
        return float(x) if t.is_float and x is not None else x

    return E(f"coalesce({p.sql}, {q.sql})", t, of, "coalesce", (p, q))


def case(test: E, then: Any, other: Any) -> E:
    then, other = lit(then), lit(other)
    t = then.type if then.type == BOOL else common(then.type, other.type)

    def of(a: Any, b: Any) -> Any:
        x = (then if test.of(a, b) is True else other).of(a, b)
        return float(x) if t.is_float and x is not None else x

    return E(f"(CASE WHEN {test.sql} THEN {then.sql} ELSE {other.sql} END)", t, of, "case", (test, then, other))


def shapes(t: T) -> dict[str, E]:
    """The conditions for columns of a type, by name."""
    x, y = E("l.a", t, lambda a, b: a, "l"), E("r.a", t, lambda a, b: b, "r")
    low, high = (-1.7976931348623157e308, 1.7976931348623157e308) if t.is_float else t.span
    half = high / 2 if t.is_float else high // 2 + 1
    big = 4e307 if t.is_float else 2**62 if t.bits == 64 else 2 ** (t.bits - 2)
    out = {
        "l < r": x < y, "l <= r": x <= y, "l > r": x > y, "l >= r": x >= y, "l = r": x.eq(y), "l <> r": x.ne(y),
        "l <=> r": x.same(y), "r <= l": y <= x,
        "sum <= 0": x + y <= 0, "sum >= 0": x + y >= 0, "sum < half": x + y < -half, "sum = 0": (x + y).eq(0),
        "sum >= low": x + y >= low, "sum = high": (x + y).eq(high), "sum between": (x + y).between(low, 0),
        "0 > sum": 0 - (x + y) > 5, "sum of 3": x + y + 1 <= 0, "sum <> 0": (x + y).ne(0),
        "difference <= 5": x - y <= 5, "difference between": (x - y).between(-4, 2), "difference = 0": (x - y).eq(0),
        "difference > 5": x - y > 5, "turned difference": -(x - y) <= 3, "difference plus": x - y + 5 >= 0,
        "difference >= half": y - x >= half, "difference in": (x - y).eq(0) | (x - y).eq(1) | (x - y).eq(7),
        "2 l + r": 2 * x + y <= 0, "l + 2 r": x + 2 * y <= 0, "l + -2 r": x + -2 * y <= 5,
        "3 l - 3 r": 3 * x - 3 * y <= 7,
        "doubled": x * 2 < y * 2 + 5, "twice": x + x > y + y - 40, "big steps": x + big >= y,
        "big steps back": x - big <= y,
        "to the end": x + high >= y, "from the end": high - x >= y, "from one": -1 - y >= x,
        "-l <= r": -x <= y, "-l >= r - 1": -x >= y - 1, "-l = r": (-x).eq(y), "-l - r": -x - y >= 0,
        "l = r + 1": x.eq(y + 1), "l - 1 = r + 1": (x - 1).eq(y + 1), "l + 0 <=> r": (x + 0).same(y),
        "window": (x >= y - 1) & (x <= y + 1), "between": x.between(y - 1, y + 1), "behind": y.between(x - 10, x),
        "near": absolute(x - y) <= 3, "equal sizes": absolute(x).eq(absolute(y)),
        "size of sum": absolute(x + y) <= high,
        "sizes": absolute(x) + absolute(y) <= 5, "l <= size": x <= absolute(y),
        "or": x.eq(y) | (x - y > 5), "two windows": (x < y) | (x > y + 10), "or of sums": (x + y <= 0) | (x + y <= -5),
        "or of halves": ((x > 0) & (x - y <= 5)) | ((x <= 0) & (y - x <= 3)),
        "or and product": (x - y <= 2) | ((y > 0) & (x * y < 9)), "not between": ~(x - y).between(-2, 2),
        "case of three": case(x.is_null(), y > 5, case(x - y > 2, y <= 0, x.same(y))),
        "null or": x.is_null() | (x <= y), "null or sum": y.is_null() | (x + y <= 0),
        "sum of null": (x + y).is_null() | (x < y),
        "square": (x - y) * (x - y) < 9, "product > 0": x * y > 0, "product = 0": (x * y).eq(0),
        "product <= l": x * y <= x,
        "remainder": (x % y).eq(0), "remainders": (x % 7).eq(y % 7), "quotient": quotient(x, y) < 1.5,
        "as double": cast(x, DOUBLE) >= y, "as tinyint": cast(x, TINYINT).eq(y),
        "as bigint": cast(x, BIGINT) - cast(y, BIGINT) <= 4,
        "as float": cast(x, T("float32")) <= y, "double of sum": cast(x + y, DOUBLE) <= 0,
        "tinyint or": (x - y <= 5) & ((y.eq(3)) | (cast(x, TINYINT).ne(3))),
        "case": case(x > 0, x - y < 5, x + y < 5), "case value": case(x > 0, x, 0 - x) <= y,
        "case sum": x + case(y > 0, y, 0) <= 5,
        "case guard": case(x.ne(0), (y % x).eq(0), False), "if apart": case(x > y, x - y, y - x) <= 3,
        "coalesce": coalesce(x, 0) <= y, "coalesce sum": coalesce(x + y, 0) <= 0,
        "coalesce test": coalesce(x + y <= 0, x < y),
        "least": least(x, y).eq(x), "greatest": greatest(x, y) <= 5, "greatest sum": greatest(x + y, x) <= 0,
        "least sum": least(x + y, y - 3) >= 0, "spread": greatest(x, y) - least(x, y) <= 3,
        "greatest diff": greatest(x - y, y - x) <= 3,
        "not sum": ~(x + y > 0), "not and": ~((x.eq(y)) & (x > 0)), "not or": ~((x > y) | (x + 1 <= y)),
        "constants": (x <= y) & (lit(1) <= 2), "constant sum": x + (lit(1) + 2) >= y - (lit(2) * 3),
        "constant overflow": lit(2**31 - 1) + 1 < 0, "constant by zero": (x <= y) & (quotient(lit(1), 0) > 0),
        "constant remainder": (lit(1) % 0).eq(5), "constant cast": (cast(lit(300), TINYINT) < 0) & (x < y),
        "constant coalesce": coalesce(quotient(lit(1), 0), 3).eq(5),
        "constant or": (quotient(lit(1), 0) < 0) | x.eq(99),
        "constant after a filter": (x > 0) & (quotient(lit(1), 0) > 0),
        "sum in a sum": x - y + x <= 9, "sum of a side": x.eq(y) | ((x + x > 3) & (x - y > 5)),
        "band after": (x - y <= 2) & (x >= y), "apart after": (x - y <= 2) & x.ne(y),
        "both": (x <= y) & (x + 1 > y), "not equal and": x.ne(y) & (x - y <= 1), "and sum": (x <= 5) & (x + y <= 0),
        "one-sided": (x >= 0) & (y + 1 > 0) & (x - y <= 2),
    }  # fmt: skip
    if not t.is_float:
        out |= {
            "half": whole_quotient(x, 2) >= y, "div": whole_quotient(x, y).eq(0),
            "div sum": whole_quotient(x + y, 2) <= 0,
            "div in or": x.eq(y) | ((whole_quotient(lit(100), y) > 2) & (x - y > 5)),
            "div in case": case(whole_quotient(lit(100), y) > 2, x - y <= 3, x - y <= 5),
            "product in greatest": greatest(x * y, x - y) <= 3,
            "pmod": positive_remainder(x, 5).eq(positive_remainder(y, 5)),
        }  # fmt: skip
    return out


def other_shapes(kind: str) -> dict[str, E]:
    """The conditions for durations, timestamps and dates, whose values are ticks, and for decimals without fraction."""
    t = {"date32": INT, "decimal": DECIMAL}.get(kind, BIGINT)
    x, y = E("l.a", t, lambda a, b: a, "l"), E("r.a", t, lambda a, b: b, "r")

    def span(n: int) -> E:
        if kind in ("decimal", "date32"):
            return lit(n)
        return E(f"INTERVAL '{n}' SECOND", BIGINT, lambda a, b: n * 1_000_000)

    out = {
        "l < r": x < y, "l <= r": x <= y, "l > r": x > y, "l = r": x.eq(y), "l <=> r": x.same(y), "l <> r": x.ne(y),
        "difference <= 5": x - y <= span(5), "difference > 5": x - y > span(5),
        "near": (x - y).between(span(-4), span(2)),
        "window": x.between(y - span(1), y + span(1)), "behind": y.between(x - span(10), x), "later": x >= y + span(10),
        "case": case(x - y > span(0), x - y <= span(3), y - x <= span(3)), "null or": x.is_null() | (x <= y),
        "coalesce": coalesce(x - y, span(0)) <= span(0), "greatest": greatest(x, y + span(1)) <= y + span(2),
        "not": ~(x - y > span(0)), "or": (x - y <= span(0)) | (x - y <= span(-5)),
        "difference = 0": (x - y).eq(span(0)),
    }  # fmt: skip
    if kind in ("duration", "decimal"):
        out |= {
            "sum <= 0": x + y <= span(0), "sum >= 0": x + y >= span(0), "-l <= r": -x <= y, "l <= -r": x <= -y,
            "-l - r": -x - y >= span(1), "2 l + r": 2 * x + y <= span(0), "l + 2 r": x + 2 * y <= span(0),
            "sum = 0": (x + y).eq(span(0)), "not sum": ~(x + y > span(0)),
            "greatest sum": greatest(x + y, x) <= span(0),
            "l + -2 r": x + -2 * y <= span(5), "from one": span(-1) - y >= x,
        }  # fmt: skip
    return out


def edges(t: T) -> list[Any]:
    """The values of a type at which arithmetic goes wrong, NULL among them."""
    if t.is_float:
        ints = [0.0, 1.0, 2.0**31, 2.0**53, 2.0**62, 2.0**63]
        top = {64: 1.7976931348623157e308, 32: 3.4028234663852886e38}[t.bits]
        tiny = {64: 5e-324, 32: 1.401298464324817e-45}[t.bits]
        beside = {64: math.nextafter(1.0, 2.0), 32: 1.0 + 2.0**-23}[t.bits]
        sizes = [*ints, top, top / 2, tiny, beside, 0.1 if t.bits == 64 else single(0.1), math.inf]
        return [*sizes, *(-x for x in sizes), math.nan, None]
    low, high = (1 - 10**18, 10**18 - 1) if t == DECIMAL else t.span
    found = {0, 1, 2, low, low + 1, high, high - 1}
    for n in (1, 2**7, 2**31, 2**53, 2**62, 2**63, high // 2 + 1):
        found |= {n - 1, n, n + 1, -n - 1, -n, 1 - n}
    return [*sorted(x for x in found if low <= x <= high), None]
