"""Random join cases: schemas, rows, conditions, orders that the rows keep, and scripts of pushes."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import oracle
import pyarrow as pa
from hypothesis import strategies as st
from join import conditions as c
from join.cases import Case, Event, OrderSpec
from join.conditions import Term
from join.tables import DAY, KINDS, NANOS, Kind, column, compared
from weights import SOAK

Draw = Callable[[st.SearchStrategy[Any]], Any]

# Kinds that meet in one comparison: left, right.
BANDS = (
    *((k, k) for k in KINDS if k not in ("fixed", "binary", "tsz_tokyo", "large_string", "string_view", "dictionary")),
    ("int32", "int64"), ("int8", "int32"), ("uint8", "int16"), ("int64", "uint32"), ("float32", "float64"),
    ("int32", "float64"), ("int32", "dec10"), ("ts_s", "ts_us"), ("ts_ms", "ts_ns"), ("tsz_s", "tsz_us"),
    ("tsz_us", "tsz_tokyo"), ("date32", "date64"), ("dur_s", "dur_us"), ("string", "large_string"),
    ("dict_int", "int64"), ("dec10", "dec20"), ("int64", "uint64"), ("dictionary", "string_view"),
)
KEYS = (
    *((k, k) for k in KINDS), ("int32", "int64"), ("int8", "int64"), ("float32", "float64"), ("ts_s", "ts_us"),
    ("dictionary", "string"), ("string", "large_string"), ("string_view", "dictionary"), ("tsz_us", "tsz_tokyo"),
)
PLAIN = ("int32", "int64", "float64", "ts_us", "date32")  # drawn more often: here pruning has most to do
BOUNDABLE = ("int", "uint", "date", "ts", "dec")
ROWS = 40 if SOAK else 14


def has_distance(kind: Kind) -> bool:
    return kind.family in ("int", "uint", "f32", "f64", "dec", "date", "ts", "dur")


def orderable(kind: Kind) -> bool:
    return kind.family not in ("str", "bin") and kind.name != "dec20"


def band_condition(draw: Draw, ka: Kind, kb: Kind) -> Term:
    """A conjunction over ``a`` of both sides that is about a window."""
    a, b = c.col("l", "a", ka), c.col("r", "a", kb)
    low, high = c.col("l", "b", ka), c.col("r", "b", kb)
    less, more = draw(st.sampled_from((("<=", ">="), ("<", ">"), ("<", ">="), ("<=", ">"))))
    comparisons: list[Callable[[], Term]] = [
        lambda: c.compare(a, draw(st.sampled_from(("<", "<=", ">", ">=", "=", "<=>"))), b),
        lambda: c.all_of(c.compare(b, ">=", a), c.compare(b, "<=", low)),
        lambda: c.between(a, b, high),
        lambda: c.negation(c.compare(a, less, b)),
        lambda: c.any_of(c.compare(a, "=", b), c.compare(low, more, high)),
        lambda: c.compare(c.extreme(draw(st.sampled_from(("least", "greatest"))), a, low), less, b),
        lambda: c.compare(c.first_value(a, low), more, b),
        lambda: c.any_of(c.is_null(a), c.compare(a, less, b)),
        lambda: c.compare(c.choose(c.compare(c.col("l", "x", KINDS["int32"]), ">", c.number(2)), a, low), more, b),
        lambda: c.all_of(c.compare(b, "<=", a), draw(st.sampled_from(c.open_ends(c.compare(a, less, high), a, high)))),
        lambda: c.all_of(c.compare(b, "<=", a), c.negation(c.compare(a, more, c.first_value(high, low)))),
    ]
    if not (has_distance(ka) and has_distance(kb)):
        return draw(st.sampled_from(comparisons))()
    near, far, wide = (c.span(ka, draw(st.integers(0, n))) for n in (4, 6, 20))
    plus = lambda x, y: c.arith("+", x, y)  # noqa: E731
    minus = lambda x, y: c.arith("-", x, y)  # noqa: E731
    if ka.family == "dur":  # a duration column meets a day-time interval; both are durations
        plus, minus = (lambda x, y: c.arith("+", x, y)), (lambda x, y: c.arith("-", x, y))
    windows: list[Callable[[], Term]] = [
        lambda: c.all_of(c.compare(a, more, minus(b, near)), c.compare(a, less, plus(b, far))),
        lambda: c.all_of(c.compare(plus(a, near), more, b), c.compare(minus(a, far), less, b)),
        lambda: c.compare(a, less, plus(b, near)), lambda: c.compare(b, less, plus(a, near)),
        lambda: c.between(a, minus(b, near), plus(b, far)), lambda: c.between(b, minus(a, near), plus(a, wide)),
        lambda: c.negation(c.compare(a, less, plus(b, near))),
        lambda: c.any_of(c.between(a, minus(b, near), b), c.between(a, plus(b, far), plus(b, wide))),
        lambda: c.all_of(c.compare(a, "=", b), c.compare(low, less, plus(high, near))),
        lambda: c.choose(
            c.compare(c.col("r", "x", KINDS["int32"]), ">", c.number(1)),
            c.between(a, minus(b, near), b),
            c.between(a, b, plus(b, far)),
        ),
    ]
    if ka.family != "uint" or kb.family != "uint":
        signed: list[Callable[[], Term]] = [
            lambda: c.between(minus(a, b), _negative(ka, draw(st.integers(0, 4))), c.span(ka, draw(st.integers(0, 4)))),
            lambda: c.compare(minus(a, b), less, c.span(ka, draw(st.integers(0, 4)))),
        ]
        windows += signed
        if ka.family in ("int", "uint", "f64", "f32", "dec"):
            windows += [
                lambda: c.compare(c.absolute(minus(a, b)), less, near),
                lambda: c.compare(plus(a, a), more, minus(plus(b, b), near)),
            ]
        if {ka.name, kb.name} <= {"int32", "int64", "float64", "dict_int"}:
            x, w = c.col("l", "x", KINDS["int32"]), c.col("r", "w", KINDS["int32"])
            two = c.number(2)
            windows += [
                lambda: c.compare(c.arith("*", minus(a, b), minus(a, b)), less, c.arith("*", far, far)),
                lambda: c.compare(c.arith("*", two, a), less, plus(c.arith("*", two, b), near)),
                lambda: c.all_of(c.compare(a, more, b), c.compare(a, less, plus(b, w))),
                lambda: c.between(a, minus(b, w), plus(b, w)),
                lambda: c.compare(c.arith("*", a, w), less, c.arith("*", b, c.number(3))),
                lambda: c.compare(plus(a, x), more, plus(b, w)),
                lambda: c.compare(c.arith("*", c.number(-1), a), more, minus(c.number(3), b)),
            ]
        if {ka.name, kb.name} <= {"int32", "int64"}:
            rest = [c.remainder(a, 5), c.remainder(b, 5)]
            windows += [
                lambda: c.compare(rest[0], "=", rest[1]),
                lambda: c.within(minus(a, b), [-2, 0, 3]),
                lambda: c.all_of(
                    c.compare(a, ">", c.number(0)),
                    c.compare(b, ">", c.number(0)),
                    c.compare(
                        c.ratio(a, c.choose(c.compare(b, ">", c.number(0)), b, c.number(1))),
                        "<",
                        c.lit("1.3D", 1.3, "f64", "1.3::DOUBLE"),
                    ),
                ),
                lambda: c.about_one(c.ratio(a, c.choose(c.compare(b, "=", c.number(0)), c.number(1), b))),
                lambda: c.about_one(c.ratio(minus(a, b), c.lit("4D", 4.0, "f64", "4::DOUBLE"))),
            ]
    return draw(st.sampled_from(windows if draw(st.integers(0, 3)) else comparisons))()


def _negative(kind: Kind, n: int) -> Term:
    return c.span(kind, -n)


def residual(draw: Draw, ka: Kind) -> Term:
    """A conjunct of another sort."""
    x, y = c.col("l", "x", KINDS["int32"]), c.col("r", "x", KINDS["int32"])
    s, t = c.col("l", "s", KINDS["string"]), c.col("r", "s", KINDS["string"])
    w, a = c.col("l", "w", KINDS["int32"]), c.col("l", "a", ka)
    choices: list[Callable[[], Term]] = [
        lambda: c.compare(x, "<>", y),
        lambda: c.like(s, draw(st.sampled_from(("a%", "%b", "_", "%a%")))),
        lambda: c.compare(s, "<>", t), lambda: c.compare(s, "<=", t), lambda: c.within(x, [1, 2, 3]),
        lambda: c.compare(x, ">", c.number(0)), lambda: c.compare(y, "<=", c.number(1)), lambda: c.compare(x, "<=>", y),
        lambda: c.any_of(c.is_null(x), c.compare(y, ">", c.number(0))),
        lambda: c.negation(c.is_null(t)),
        lambda: c.negation(c.within(y, [0, 1])),
        lambda: c.compare(c.arith("+", x, y), ">", w),
        lambda: c.compare(c.choose(c.compare(x, "<", y), s, t), ">=", c.lit("'a'", "a", "str")),
        lambda: c.any_of(c.compare(x, "=", y), c.like(s, "a%")),
    ]
    if ka.family in ("int", "uint", "f64", "f32", "dec", "date", "ts", "str", "bool"):
        value = draw(st.sampled_from(ka.domain))
        choices.append(lambda: c.compare(a, draw(st.sampled_from(("<", ">=", "<>"))), c.constant(ka, value)))
    return draw(st.sampled_from(choices))()


def branches(draw: Draw, ka: Kind, kb: Kind, depth: int = 2) -> Term:
    """OR, AND, NOT, CASE and COALESCE of bands, of conditions on one side, and now and then of something else."""
    again = lambda: branches(draw, ka, kb, depth - 1)  # noqa: E731
    way = draw(st.integers(0, 7)) if depth else 7
    if way < 2:
        return c.any_of(*(again() for _ in range(draw(st.integers(2, 3)))))
    if way < 4:
        return c.all_of(*(again() for _ in range(2)))
    if way == 4:
        return c.negation(again())
    if way == 5:
        return c.choose(again(), again(), again())
    if way == 6:
        return c.first_value(again(), again())
    a, b = c.col("l", "a", ka), c.col("r", "a", kb)
    x, y = c.col("l", "x", KINDS["int32"]), c.col("r", "x", KINDS["int32"])
    w, s, t = c.col("r", "w", KINDS["int32"]), c.col("l", "s", KINDS["string"]), c.col("r", "s", KINDS["string"])
    sign = draw(st.sampled_from(("<", "<=", ">", ">=", "=", "<>")))
    near = c.number(draw(st.integers(-2, 5)))
    leaves: list[Callable[[], Term]] = [
        lambda: c.compare(a, sign, b),
        lambda: c.compare(x, draw(st.sampled_from((sign, "<=>"))), y),
        lambda: c.compare(c.arith("-", x, y), sign, near),
        lambda: c.between(x, c.arith("-", y, near), c.arith("+", w, y)),
        lambda: c.within(c.arith("-", x, w), [0, 1, 4]),
        lambda: c.compare(c.absolute(c.arith("-", x, w)), sign, near),
        lambda: c.compare(draw(st.sampled_from((x, y, w))), sign, near),
        lambda: c.within(draw(st.sampled_from((x, y))), [1, 3]),
        lambda: c.is_null(draw(st.sampled_from((a, b, x, y, s)))),
        lambda: c.compare(draw(st.sampled_from((s, t))), sign, c.lit("'a'", "a", "str")),
        lambda: c.compare(s, sign, t),
        lambda: c.compare(c.arith("*", x, y), sign, near),
        lambda: c.compare(c.choose(c.compare(x, sign, near), x, w), "<", y),
    ]
    if has_distance(ka) and has_distance(kb):
        far = c.span(ka, draw(st.integers(0, 12)))
        leaves += 3 * [lambda: c.between(a, b, c.arith("+", b, far)), lambda: c.compare(a, sign, c.arith("+", b, far))]
    return draw(st.sampled_from(leaves))()


def key_condition(draw: Draw, ka: Kind, kb: Kind) -> Term | None:
    """An equality inside the condition."""
    which = draw(st.integers(0, 9))
    if which < 6:
        return None
    x, y = c.col("l", "x", KINDS["int32"]), c.col("r", "x", KINDS["int32"])
    k, j = c.col("l", "k", ka), c.col("r", "j", kb)
    return {
        6: c.compare(k, "=", j), 7: c.compare(k, "<=>", j), 8: c.compare(c.arith("+", x, c.number(1)), "=", y),
        9: c.compare(x, "<=>", y),
    }[which]


def values(draw: Draw, kind: Kind, n: int, nulls: bool, window: tuple[int, int] = (0, 100)) -> list[Any]:
    """Values out of a part of the domain, (start, length), so that the two sides meet."""
    domain = list(kind.domain[min(window[0], len(kind.domain) - 1) :][: window[1]])
    if nulls:
        domain = [None, *domain]
    return draw(st.lists(st.sampled_from(domain), min_size=n, max_size=n))


def _exact(v: Any) -> Any:
    if isinstance(v, float):
        return v if math.isinf(v) else Fraction(v)
    return Fraction(v)


def keeps_order(seen: Sequence[Any], slack: Any) -> bool:
    """Whether values (ascending, exact) never fall more than ``slack`` below the greatest before them."""
    top: Any = None
    for v in seen:
        if top is not None and (v < top if math.isinf(v) or math.isinf(top) else v < top - slack):
            return False
        top = v if top is None or v > top else top
    return True


def arranged(draw: Draw, seen: list[Any], descending: bool, slack: Any, nulls: str | None) -> list[int]:
    """A permutation of positions after which the values keep the order; nulls and NaN stay where they stand."""
    quiet = [v is None or v != v for v in seen]
    live = [i for i, q in enumerate(quiet) if not q]
    turned = {i: -_exact(seen[i]) if descending else _exact(seen[i]) for i in live}
    best = sorted(live, key=lambda i: turned[i])
    if slack:
        jitter = {i: draw(st.sampled_from((0, slack))) for i in live}
        loose = sorted(live, key=lambda i: turned[i] if isinstance(turned[i], float) else turned[i] + jitter[i])
        if keeps_order([turned[i] for i in loose], slack):
            best = loose
    placed = iter(best)
    order = [next(placed) if not q else i for i, q in enumerate(quiet)]
    if nulls:
        order.sort(key=lambda i: (seen[i] is None) == (nulls == "last"))
    return order


def python_value(kind: Kind, v: Any, up: bool) -> Any:
    """A physical value as a caller would write it; times finer than a microsecond are rounded outward."""
    if kind.family == "date":
        return dt.date(1970, 1, 1) + dt.timedelta(days=v // (DAY * 1000) if kind.name == "date64" else v)
    if kind.family in ("ts", "dur"):
        nanos = v * NANOS[kind.type.unit]
        span = dt.timedelta(microseconds=-(-nanos // 1000) if up else nanos // 1000)
        if kind.family == "dur":
            return span
        epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC if kind.type.tz else None)
        return epoch + span
    return v


def slack_value(kind: Kind, n: int) -> tuple[Any, Fraction]:
    """A slack of n steps: as given to ``Order``, and as an exact distance of comparison values."""
    if kind.family == "date":
        return dt.timedelta(days=n), Fraction(n)
    if kind.family in ("ts", "dur"):
        return dt.timedelta(milliseconds=500 * n), Fraction(n * NANOS["s"] // 2)
    if kind.family == "dec":
        return Decimal(n) / 2, Fraction(n, 2)
    if kind.is_float:
        return n * 0.3, Fraction(n * 0.3)
    return n, Fraction(n)


class SideDraw:
    """One side while it is being drawn: its columns, then the orders they are put in."""

    def __init__(
        self, draw: Draw, key_name: str, key: Kind, band: Kind, rows: int, windows: Sequence[tuple[int, int]],
    ) -> None:
        self.draw = draw
        nulls = draw(st.booleans())
        self.kinds = {
            "n": KINDS["int64"], key_name: key, "a": band, "b": band, "x": KINDS["int32"], "w": KINDS["int32"],
            "s": KINDS["string"],
        }
        self.data: dict[str, list[Any]] = {
            "n": list(range(rows)),
            key_name: values(draw, key, rows, nulls, windows[0]),
            "a": values(draw, band, rows, nulls, windows[1]),
            "b": values(draw, band, rows, nulls, windows[1]),
            "x": [
                None if v == 9 else v
                for v in draw(st.lists(st.integers(-1, 9 if nulls else 4), min_size=rows, max_size=rows))
            ],
            "w": draw(st.lists(st.integers(0, 4), min_size=rows, max_size=rows)),
            "s": values(draw, KINDS["string"], rows, nulls),
        }
        self.orders: list[OrderSpec] = []
        self.rows = rows

    def seen(self, name: str) -> list[Any]:
        return compared(column(self.kinds[name], self.data[name]))

    def declare(self) -> None:
        """Choose orders and move the rows so that they keep them."""
        draw = self.draw
        which = draw(st.sampled_from(("none", "a", "a", "a", "a,b", "x", "a+", "x+w", "b")))
        if which == "none":
            return
        if which == "x+w":
            total = [None if x is None else x + w for x, w in zip(self.data["x"], self.data["w"])]
            self._move(list(self.data), total, KINDS["int32"], "x + w")
            return
        for name in which.rstrip("+").split(","):
            kind = self.kinds[name]
            if orderable(kind):
                text = name
                if which == "a+" and has_distance(kind) and kind.family != "uint":
                    text = f"a + {c.span(kind, draw(st.integers(0, 4))).sql}"
                # Columns are independent of each other, so each may be put in order by itself.
                self._move([name], self.seen(name), kind, text)

    def _move(self, names: list[str], seen: list[Any], kind: Kind, text: str) -> None:
        draw = self.draw
        descending = draw(st.integers(0, 3)) == 0
        nulls = draw(st.sampled_from((None, None, None, "first", "last")))
        slack, distance = (None, Fraction(0))
        if draw(st.integers(0, 2)) == 0 and kind.family not in ("bool", "time"):
            slack, distance = slack_value(kind, draw(st.integers(0, 5)))
        if kind.is_float and "+" in text and slack is not None:
            # The sum is rounded; its own values must keep the promise, so keep to no slack there.
            slack, distance = None, Fraction(0)
        order = arranged(draw, seen, descending, distance, nulls)
        for name in names:
            self.data[name] = [self.data[name][i] for i in order]
        self.data["n"] = sorted(self.data["n"])
        self.orders.append(OrderSpec(text, descending, slack, nulls))

    def table(self) -> pa.Table:
        return pa.table({name: column(self.kinds[name], v) for name, v in self.data.items()})

    def bounds(self) -> dict[str, Any] | None:
        if self.draw(st.integers(0, 4)):
            return None
        out = {}
        for name in ("a", "x"):
            live = [v for v in self.data[name] if v is not None]
            kind = self.kinds[name]
            if live and kind.family in BOUNDABLE and orderable(kind):
                low = python_value(kind, min(live), up=False)
                high = python_value(kind, max(live), up=True)
                out[name] = self.draw(st.sampled_from(((low, high), (low, None), (None, high))))
        return out or None

    def watermark(self, pushed: int) -> tuple[str, Any] | None:
        """A promise about the rows not yet pushed."""
        name = self.draw(st.sampled_from(("a", "x")))
        kind = self.kinds[name]
        if kind.family not in ("int", "uint", "f64", "date", "ts", "dur", "dec") or not orderable(kind):
            return None
        falls = any(o.expr == name and o.descending for o in self.orders)
        live = [v for v in self.data[name][pushed:] if v is not None and v == v]
        if not live:
            live = [v for v in kind.domain if v == v]
        v = max(live) if falls else min(live)
        return name, python_value(kind, v, up=falls)


def script(draw: Draw, left: SideDraw, right: SideDraw) -> list[Event]:
    """Batches of each side in any interleaving, with snapshots, watermarks and early ends between."""
    sides = {"left": left, "right": right}
    size = {s: draw(st.sampled_from((1, 2, 7, ROWS, 3))) for s in sides}
    at, ended = {"left": 0, "right": 0}, set()
    extras = draw(st.sampled_from(((), (), ("snapshot",), ("advance",), ("snapshot", "advance"))))
    finishes = draw(st.booleans())
    events: list[Event] = []
    while any(at[s] < sides[s].rows for s in sides):
        left_next = draw(st.booleans())
        side = "left" if (left_next and at["left"] < left.rows) or at["right"] >= right.rows else "right"
        stop = min(at[side] + size[side], sides[side].rows)
        events.append(("push", side, at[side], stop))
        at[side] = stop
        if finishes and stop == sides[side].rows and side not in ended:
            ended.add(side)
            events.append(("finish", side))
        if "snapshot" in extras:
            events.append(("snapshot",))
        if "advance" in extras and draw(st.integers(0, 2)) == 0:
            for s in sides:
                mark = sides[s].watermark(at[s]) if s not in ended else None
                if mark:
                    events.append(("advance", s, *mark))
    return events


@st.composite
def cases(draw: Draw, max_rows: int = ROWS) -> Case:
    """Any join of two small inputs that keep their promises."""
    common = draw(st.booleans())
    ka, kb = (
        KINDS[k] for k in (draw(st.sampled_from([(p, p) for p in PLAIN])) if common else draw(st.sampled_from(BANDS)))
    )
    keyed = draw(st.sampled_from(("none", "same", "same", "two", "pair", "pair")))
    kl, kr = (KINDS[k] for k in draw(st.sampled_from(KEYS)))
    rows = [
        draw(st.integers(0, max_rows) if draw(st.integers(0, 3)) == 0 else st.integers(max_rows // 2, max_rows))
        for _ in range(2)
    ]
    right_key = "j" if keyed in ("pair", "none") else "k"
    windows = [
        (draw(st.integers(0, 12)), draw(st.sampled_from((1, 2, 4)))),
        draw(st.sampled_from(((0, 100), (3, 8), (8, 8)))),
    ]
    left, right = SideDraw(draw, "k", kl, ka, rows[0], windows), SideDraw(draw, right_key, kr, kb, rows[1], windows)
    left.declare()
    right.declare()
    conjuncts = [band_condition(draw, ka, kb) for _ in range(draw(st.sampled_from((0, 1, 1, 1, 2))))]
    if keyed == "none":
        extra = key_condition(draw, kl, kr)
        conjuncts += [extra] if extra else []
    conjuncts += [residual(draw, ka) for _ in range(draw(st.sampled_from((0, 0, 1, 2))))]
    if draw(st.integers(0, 3)) == 0:
        conjuncts.append(branches(draw, ka, kb))
    if len(conjuncts) > 1:
        conjuncts = draw(st.permutations(conjuncts))
    names = {"none": (), "same": (("k", "k"),), "two": (("k", "k"), ("x", "x")), "pair": (("k", "j"),)}[keyed]
    return Case(
        left.table(), right.table(), draw(st.sampled_from(oracle.HOWS)), names,
        c.all_of(*conjuncts) if conjuncts else None, tuple(left.orders), tuple(right.orders), left.bounds(),
        right.bounds(), draw(st.sampled_from((1, 2, 5, 65536))), tuple(script(draw, left, right)), draw(st.booleans()),
        {"on_late": draw(st.sampled_from(("raise", "raise", "drop", "join")))},
    )
