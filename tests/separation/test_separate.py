"""The parts of a condition that separate() finds: keys, bands with their bounds, filters, residual, guards."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from ivjoin.conditions import condition
from ivjoin.expr import Scope
from ivjoin.expr.conjuncts import conjuncts_of
from ivjoin.expr.nodes import make
from ivjoin.expr.types import BOOL
from ivjoin.separation.separate import Separation, separate

SCHEMA = pa.schema(
    {
        "t": pa.int8(), "a": pa.int64(), "b": pa.int64(), "i": pa.int32(), "s": pa.int32(), "w": pa.int32(),
        "n": pa.int32(),
        "ts": pa.timestamp("us", "UTC"), "t0": pa.timestamp("us", "UTC"), "t1": pa.timestamp("us", "UTC"),
        "ms": pa.timestamp("ms", "UTC"), "ns": pa.timestamp("ns", "UTC"), "dur": pa.duration("us"), "d": pa.date32(),
        "x": pa.float64(), "y": pa.float64(), "f": pa.float32(), "k": pa.string(), "ok": pa.bool_(), "u": pa.uint64(),
        "p": pa.decimal128(10, 2), "q": pa.decimal128(12, 4), "big": pa.decimal128(30, 2),
    }
)  # fmt: skip
SCOPE = Scope(SCHEMA, SCHEMA)


def split(text: str, timezone: str = "UTC") -> Separation:
    return separate(condition(text, SCOPE, timezone))


def bands(text: str, timezone: str = "UTC") -> list[str]:
    out = []
    for t in split(text, timezone).bands:
        low = "" if t.lo is None else f"{t.lo} <= "
        high = "" if t.hi is None else f" <= {t.hi}"
        out.append(f"{low}{t.left} ~ {t.right}{high}{'' if t.exact else ' ?'}")
    return out


def texts(nodes) -> list[str]:
    return [str(n) for n in nodes]


# A band reads "lo <= left ~ right <= hi"; a question mark says that it is relaxed.
EXACT = [
    ("l.ts >= r.ts - INTERVAL 10 SECONDS AND l.ts <= r.ts + INTERVAL 5 SECONDS",
     ["-10000000 <= l.ts ~ r.ts <= 5000000"]),
    ("r.ts <= l.ts AND r.ts + INTERVAL 1 MINUTE > l.ts", ["0 <= l.ts ~ r.ts <= 59999999"]),
    ("l.ts BETWEEN r.ts AND r.ts + INTERVAL 1 DAY", ["0 <= l.ts ~ r.ts <= 86400000000"]),
    ("l.ts - r.ts < INTERVAL 5 MINUTES AND r.ts - l.ts < INTERVAL 5 MINUTES",
     ["-299999999 <= l.ts ~ r.ts <= 299999999"]),
    ("2 * l.a < 2 * r.a + 5", ["l.a ~ r.a <= 2"]),
    ("l.a + l.a > r.a + r.a - 40", ["-19 <= l.a ~ r.a"]),
    ("l.a - r.a BETWEEN -10 AND 10", ["-10 <= l.a ~ r.a <= 10"]),
    ("abs(l.a - r.a) < 20", ["-19 <= l.a ~ r.a <= 19"]),
    ("20 >= abs(r.a - l.a)", ["-20 <= l.a ~ r.a <= 20"]),
    ("abs(2 * l.i - 2 * r.i) <= 7", ["-3 <= l.i ~ r.i <= 3"]),
    ("(l.a - r.a) * (l.a - r.a) < 400", ["-19 <= l.a ~ r.a <= 19"]),
    ("(l.a - r.a) * (r.a - l.a) > -400", ["-19 <= l.a ~ r.a <= 19"]),
    ("8 >= (2 * l.i - 2 * r.i) * (l.i - r.i)", ["-2 <= l.i ~ r.i <= 2"]),
    ("l.a BETWEEN r.a AND r.a + r.w", ["0 <= l.a ~ r.a", "l.a ~ r.a + CAST(r.w AS BIGINT) <= 0"]),
    ("l.a - r.a <= r.b", ["l.a ~ r.a + r.b <= 0"]),
    ("2 * l.a + l.b <= 3 * r.b", ["2 * l.a + l.b ~ 3 * r.b <= 0"]),
    ("l.a + l.b >= r.a - 5 AND l.a + l.b <= r.a + 5", ["-5 <= l.a + l.b ~ r.a <= 5"]),
    ("l.a + r.a <= 5 AND l.a + r.a >= 3", ["3 <= l.a ~ -r.a <= 5"]),
    ("l.t <= r.i + 3", ["CAST(l.t AS INT) ~ r.i <= 3"]),
    ("l.t0 <= r.ts AND r.ts <= l.t1", ["l.t0 ~ r.ts <= 0", "0 <= l.t1 ~ r.ts"]),
    ("l.ts <= r.ts + r.dur", ["l.ts ~ r.ts + r.dur <= 0"]),
    ("l.ts <= r.ts + r.n * INTERVAL 1 SECOND", ["l.ts ~ r.ts + INTERVAL '1' SECOND * CAST(r.n AS BIGINT) <= 0"]),
    ("l.ms >= r.ts - INTERVAL 1 SECOND", ["-1000000 <= CAST(l.ms AS TIMESTAMP) ~ r.ts"]),
    ("abs(unix_seconds(l.ts) - unix_seconds(r.ts)) <= 60", ["-60 <= unix_seconds(l.ts) ~ unix_seconds(r.ts) <= 60"]),
    ("abs(unix_timestamp(l.ts) - unix_timestamp(r.ts)) <= 60",
     ["-60 <= unix_micros(l.ts) div 1000000 ~ unix_micros(r.ts) div 1000000 <= 60"]),
    ("unix_millis(l.ts) >= unix_millis(r.ts) - 1000", ["-1000 <= unix_millis(l.ts) ~ unix_millis(r.ts)"]),
    ("l.d <= r.d + 3 AND l.d >= r.d", ["0 <= l.d ~ r.d <= 3"]),
    ("datediff(l.d, r.d) BETWEEN 0 AND 7", ["0 <= l.d ~ r.d <= 7"]),
    ("l.d - r.d <= INTERVAL 2 DAYS", ["l.d ~ r.d <= 2"]),
    ("NOT (l.a < r.a OR l.a > r.a + 7)", ["0 <= l.a ~ r.a <= 7"]),
    ("NOT (NOT (l.a >= r.a) OR NOT l.a <= r.a + 7)", ["0 <= l.a ~ r.a <= 7"]),
    ("NOT (l.a NOT BETWEEN r.a AND r.a + 5)", ["0 <= l.a ~ r.a <= 5"]),
    ("coalesce(l.a >= r.a, false) AND (l.a <= r.a + 10) = true", ["0 <= l.a ~ r.a <= 10"]),
    ("l.a - r.a < 10.5", ["l.a ~ r.a <= 10"]),
    ("l.p >= r.q - 1.5 AND l.p <= r.q + 1.5", ["-15000 <= CAST(l.p AS DECIMAL(12,4)) ~ r.q <= 15000"]),
    ("l.p + 0.5 > r.p", ["-49 <= l.p ~ r.p"]), ("l.u >= r.u - 5", ["-5 <= l.u ~ r.u"]),
    ("l.x + 1.0 >= r.x", ["0 <= l.x + 1.0D ~ r.x"]), ("r.x < l.x", ["1 <= l.x ~ r.x"]),
    ("floor(l.x) >= r.y + 1.5", ["0 <= CAST(floor(l.x) AS DOUBLE) ~ r.y + 1.5D"]),
    ("l.ok <= r.ok", ["l.ok ~ r.ok <= 0"]),
    ("l.d + INTERVAL 1 MONTH <= r.d", ["l.d + INTERVAL '1' MONTH ~ r.d <= 0"]),
    ("l.a - r.a = 5", ["5 <= l.a ~ r.a <= 5"]),
]  # fmt: skip


@pytest.mark.parametrize("text, expected", EXACT)
def test_a_separable_conjunct_becomes_an_exact_band(text, expected):
    assert bands(text) == expected
    assert split(text).residual == ()


RELAXED = [
    ("(l.a - r.a) * (l.a - r.a) <= r.b", ["2 * l.a ~ r.b + 2 * r.a <= 1 ?", "-1 <= 2 * l.a ~ 2 * r.a - r.b ?"]),
    ("(l.t - r.t) * (l.t - r.t) < 9", ["-2 <= l.t ~ r.t <= 2 ?"]),
    ("pow(l.a - r.a, 2) < 400", ["-20 <= l.a ~ r.a <= 20 ?"]),
    ("(l.a - r.a)*(l.a - r.a) + (l.b - r.b)*(l.b - r.b) <= 25", ["-5 <= l.a ~ r.a <= 5 ?", "-5 <= l.b ~ r.b <= 5 ?"]),
    ("abs(l.a - r.a) + abs(l.b - r.b) <= 10", ["-10 <= l.a ~ r.a <= 10 ?", "-10 <= l.b ~ r.b <= 10 ?"]),
    ("abs(l.a - r.a) = 5", ["-5 <= l.a ~ r.a <= 5 ?"]),
    ("CASE WHEN l.i > r.i THEN l.a - r.a BETWEEN -10 AND 0 ELSE abs(l.a - r.a) < 20 END", ["-19 <= l.a ~ r.a <= 19 ?"]),
    ("CASE WHEN l.i > r.i THEN abs(l.a - r.a) ELSE abs(l.a - r.a) + 5 END < 20", ["-19 <= l.a ~ r.a <= 19 ?"]),
    ("20 > CASE WHEN l.i > r.i THEN l.a - r.a ELSE 30 END", ["1 <= l.i ~ r.i ?", "l.a ~ r.a <= 19 ?"]),
    ("IF(l.i > r.i, l.a = r.a, NULL)", ["1 <= l.i ~ r.i ?", "0 <= l.a ~ r.a <= 0 ?"]),
    ("coalesce(l.a > r.a - 3, l.a > r.a - 5)", ["-4 <= l.a ~ r.a ?"]),
    ("l.a*l.a - 2*l.a*r.a + r.a*r.a < 400", ["-19 <= l.a ~ r.a <= 19 ?"]),
    ("l.i*l.i - 2*l.i*r.i + r.i*r.i + 4*(l.i - r.i) < 46", ["-9 <= l.i ~ r.i <= 5 ?"]),
    ("(l.a + r.a) * (l.a - r.a) < 10", ["l.a * l.a ~ r.a * r.a <= 9 ?"]),
    ("(l.a - r.a) * (l.a - r.a) * (l.a - r.a) <= 30", ["l.a ~ r.a <= 3 ?"]),
    ("(l.a - r.a) * (l.a - r.a) * (l.a - r.a) <= -27", ["l.a ~ r.a <= -3 ?"]),
    ("(l.a - r.a) * (l.a - r.a) * (l.a - r.a) <= -28", ["l.a ~ r.a <= -4 ?"]),
    ("CAST(l.p - r.p AS DECIMAL(10,1)) <= 0.5", ["l.p ~ r.p <= 55 ?"]),
    ("CAST(l.p AS DECIMAL(38,30)) - CAST(r.p AS DECIMAL(38,10)) <= 0.5", ["l.p ~ r.p <= 50 ?"]),
    ("l.a - r.a IN (1, 2, 5)", ["1 <= l.a ~ r.a <= 5 ?"]),
    ("(l.a - r.a) div 10 < 3", ["l.a ~ r.a <= 29 ?"]),
    ("(unix_seconds(l.ts) - unix_seconds(r.ts)) / 60 < 5", ["unix_seconds(l.ts) ~ unix_seconds(r.ts) <= 300 ?"]),
    ("(l.a BETWEEN r.a AND r.a + 10) OR (l.a BETWEEN r.a + 50 AND r.a + 60)", ["0 <= l.a ~ r.a <= 60 ?"]),
    ("(l.ts = r.ts AND l.b > 3) OR l.ts = r.ts + INTERVAL 1 SECOND", ["0 <= l.ts ~ r.ts <= 1000000 ?"]),
    ("(l.x BETWEEN r.x AND r.x + 10) OR (l.x BETWEEN r.x + 50 AND r.x + 60)",
     ["0 <= l.x ~ r.x ?", "l.x ~ r.x + 60.0D <= 0 ?"]),
    ("abs(l.x - r.x) < 20", ["l.x ~ r.x + 20.0D <= 0 ?", "0 <= l.x ~ r.x + -20.0D ?"]),
    ("l.x - r.x BETWEEN -10 AND 10",
     ["0 <= l.x ~ r.x + -10.000000000000002D ?", "l.x ~ r.x + 10.000000000000002D <= 0 ?"]),
    ("l.x - r.x <= l.y", ["CASE WHEN isnan(l.x - next_up(l.y)) THEN CAST('-Infinity' AS DOUBLE) ELSE "
                          "l.x - next_up(l.y) END ~ r.x <= 0 ?"]),
    ("l.big > r.big", ["0 <= CAST(l.big AS DOUBLE) ~ CAST(r.big AS DOUBLE) ?"]),
    # An unsigned difference errs below zero: no box of rows keeps it from erring, so it stays in the residual.
    ("l.u - r.u < 5", ["l.u ~ r.u <= 4 ?"]),
    # The same for a cast that few values survive.
    ("CAST(l.a AS INT) - CAST(r.a AS INT) < 10", ["l.a ~ r.a <= 9 ?"]),
    # l.a - l.a is null where l.a is.
    ("l.a - l.a + l.b <= r.b", ["l.b ~ r.b <= 0 ?"]),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text, expected", RELAXED)
def test_a_conjunct_that_only_implies_a_band_stays_in_the_residual(text, expected):
    assert bands(text) == expected
    assert list(split(text).residual) == conjuncts_of(condition(text, SCOPE))


NOTHING = [
    "l.x <> r.y", "abs(l.a - r.a) > 5", "l.k < r.k", "NOT (l.a = r.a)", "l.a * r.a < 100",
    "CASE WHEN l.a > 3 THEN r.b ELSE 1 END > 0", "l.x - r.x > CAST('-Infinity' AS DOUBLE)", "l.k LIKE '%' OR r.a > 3",
]  # fmt: skip


@pytest.mark.parametrize("text", NOTHING)
def test_conjuncts_without_an_order_are_residual(text):
    sep = split(text)
    assert (sep.bands, sep.keys, sep.left_filter, sep.right_filter) == ((), (), (), ())
    assert len(sep.residual) == 1


def test_ratios_bound_each_other_where_they_are_positive():
    first, second = split("l.a / r.a < 1.01 AND r.a / l.a < 1.01").bands
    assert (str(first.left), first.lo, first.hi) == ("CAST(l.a AS DOUBLE)", None, 0)
    assert (str(second.right), second.lo, second.hi) == ("CAST(r.a AS DOUBLE)", 0, None)


# Keys


@pytest.mark.parametrize("text, left, right, band", [
    ("l.a = r.a", "l.a", "r.a", ["0 <= l.a ~ r.a <= 0"]),
    ("r.i = l.a", "l.a", "CAST(r.i AS BIGINT)", ["0 <= l.a ~ CAST(r.i AS BIGINT) <= 0"]),
    ("l.a = r.a + 5", "l.a", "r.a + 5", ["5 <= l.a ~ r.a <= 5"]),
    ("l.a - r.a = 0", "l.a", "r.a", ["0 <= l.a ~ r.a <= 0"]),
    ("l.ts = r.ts", "l.ts", "r.ts", ["0 <= l.ts ~ r.ts <= 0"]),
    ("l.x = r.x", "l.x", "r.x", ["0 <= l.x ~ r.x <= 0"]),
    ("lower(l.k) = r.k", "lower(l.k)", "r.k", []),
    ("NOT (l.a <> r.a)", "l.a", "r.a", ["0 <= l.a ~ r.a <= 0"]),
    ("date_trunc('day', l.ts) = date_trunc('day', r.ts)", "date_trunc('day', l.ts)", "date_trunc('day', r.ts)",
     ["0 <= date_trunc('day', l.ts) ~ date_trunc('day', r.ts) <= 0"]),
    ("l.a div 60 = r.a div 60", "l.a div 60", "r.a div 60", ["0 <= l.a div 60 ~ r.a div 60 <= 0"]),
])  # fmt: skip
def test_an_equality_is_a_key_and_a_band_where_there_is_an_order(text, left, right, band):
    sep = split(text)
    (key,) = sep.keys
    assert (str(key.left), str(key.right), key.null_safe) == (left, right, False)
    assert bands(text) == band
    assert sep.residual == ()


def test_a_null_safe_key_has_no_band():
    sep = split("l.a <=> r.a")
    (key,) = sep.keys
    assert (str(key.left), str(key.right), key.null_safe) == ("l.a", "r.a", True)
    assert (sep.bands, sep.residual) == ((), ())


def test_a_key_of_all_branches_of_an_or_is_a_key():
    sep = split("(l.k = r.k AND l.a > r.a) OR (l.k = r.k AND l.b > r.b)")
    assert [(str(k.left), str(k.right)) for k in sep.keys] == [("l.k", "r.k")]
    assert len(sep.residual) == 1
    assert split("(l.k = r.k AND l.a > r.a) OR l.b > r.b").keys == ()


# Filters


def test_conjuncts_go_to_the_side_they_read():
    sep = split("1 = 1 AND l.a > 2 AND r.a < 5 AND l.k LIKE 'a%' AND l.a >= r.a")
    assert texts(sep.left_filter) == ["l.a > 2", "l.k LIKE 'a%'"]
    assert texts(sep.right_filter) == ["r.a < 5"]
    assert texts(sep.constant) in ([], ["1 = 1"])
    assert len(sep.bands) == 1


def test_an_or_filters_a_side_that_all_its_branches_filter():
    sep = split("(l.b > 3 AND l.a >= r.a) OR (l.b < -3 AND l.a >= r.a + 5)")
    assert texts(sep.left_filter) == ["l.b > 3 OR l.b < -3"]
    assert sep.right_filter == ()
    assert len(sep.residual) == 1


def test_rows_with_nan_go_at_once_where_they_cannot_match():
    sep = split("abs(l.x - r.x) < 20")
    assert texts(sep.left_filter) == ["NOT isnan(l.x)"]
    assert texts(sep.right_filter) == ["NOT isnan(r.x)"]
    # Here a NaN makes the condition TRUE.
    assert split("l.x - r.x > 5").left_filter == ()
    assert split("l.x <= r.x + 1").left_filter == ()


def test_no_condition_is_nothing():
    assert separate(None) == Separation()
    assert separate(make("literal", (), (True,), BOOL)).constant == ()
    assert len(separate(make("literal", (), (False,), BOOL)).constant) == 1


# Guards


def guards(text: str) -> dict[str, tuple[int, int]]:
    return {str(g.node): (g.lo, g.hi) for g in split(text).guards}


def test_a_guard_keeps_out_the_rows_for_which_the_conjunct_errs():
    assert guards("l.ts >= r.ts - INTERVAL 10 SECONDS") == {"r.ts": (-(2**63) + 10**7, 2**63 - 1)}
    assert guards("l.i >= r.i + 7") == {"r.i": (-(2**31), 2**31 - 8)}
    assert guards("l.i - r.i <= 7") == {"l.i": (-(2**30), 2**30 - 1), "r.i": (-(2**30) + 1, 2**30)}
    assert guards("abs(l.i - r.i) < 20") == dict.fromkeys(("l.i", "r.i"), (-(2**30) + 1, 2**30 - 1))
    assert guards("l.a - r.t <= 7") == {"l.a": (-(2**63) + 127, 2**63 - 129)}
    assert guards("l.a - r.a + r.t <= 7") == {"l.a": (-(2**62) + 64, 2**62 - 64), "r.a": (-(2**62) + 64, 2**62 - 64)}
    assert guards("2 * l.a < 2 * r.a + 4") == {"l.a": (-(2**62), 2**62 - 1), "r.a": (-(2**62), 2**62 - 3)}


@pytest.mark.parametrize("text", [
    "l.a >= r.a",
    "l.t >= r.t + 100",  # int8 with an int32 literal is computed in int32
    "l.a + l.b >= r.a",  # l.a + l.b errs by itself, at its row
    "l.x + 1 >= r.x", "abs(unix_seconds(l.ts) - unix_seconds(r.ts)) <= 60", "l.a + 1 = r.a", "l.p + 1 >= r.p",
])  # fmt: skip
def test_no_guard_where_nothing_can_err_unseen(text):
    assert guards(text) == {}


def test_guards_of_conjuncts_meet():
    assert guards("l.i <= r.i + 7 AND l.i >= r.i - 9") == {"r.i": (-(2**31) + 9, 2**31 - 8)}


# Zones


def test_a_calendar_day_is_not_24_hours_in_a_zone_with_summer_time():
    text = "l.ts <= r.ts + INTERVAL 1 DAY"
    assert bands(text) == ["l.ts ~ r.ts <= 86400000000"]
    assert bands(text, "Europe/Berlin") == ["l.ts ~ r.ts + INTERVAL '1' DAY <= 0"]
    short = "l.ts <= r.ts + INTERVAL 1 HOUR"
    assert bands(short, "Europe/Berlin") == bands(short) == ["l.ts ~ r.ts <= 3600000000"]


def test_a_difference_of_local_times_is_widened_by_the_range_of_offsets():
    text = "l.ts - r.ts < INTERVAL 1 HOUR"
    assert bands(text) == ["l.ts ~ r.ts <= 3599999999"]
    assert bands(text, "Europe/Berlin") == [f"l.ts ~ r.ts <= {37 * 3600 * 10**6 - 1} ?"]


# Sharing and cost


def test_terms_on_one_pair_of_nodes_are_one_term():
    text = "l.a >= r.a - 10 AND 2 * l.a <= 2 * r.a + 5 AND l.a - r.a < 9 AND r.a <= l.a + 20"
    assert bands(text) == ["-10 <= l.a ~ r.a <= 2"]


def test_sum_in_the_condition_is_used_unchanged():
    text = "l.i + l.s <= r.i AND l.i >= r.i - 5 - l.s"
    (term,) = split(text).bands
    assert str(term.left) == "l.i + l.s"
    assert term.left.type.bits == 32


def test_a_conjunct_that_does_not_separate_hides_no_other():
    text = "l.a >= r.a AND l.a <= r.a + 5 AND l.x <> r.y AND CASE WHEN l.a > 3 THEN r.b ELSE 1 END > 0"
    assert bands(text) == ["0 <= l.a ~ r.a <= 5"]
    assert len(split(text).residual) == 2


@pytest.mark.slow
def test_polynomial_conjuncts_need_no_sympy():
    text = " AND ".join(f"l.a + {i} <= r.b + l.b - {i} AND abs(l.i - r.s) < {i + 5}" for i in range(10))
    text += " AND l.i * l.i - 2 * l.i * r.s + r.s * r.s < 400"
    code = (
        "import sys, pyarrow as pa\n"
        "from ivjoin.conditions import condition\nfrom ivjoin.expr import Scope\n"
        "from ivjoin.separation.separate import separate\n"
        "s = pa.schema({n: pa.int64() for n in 'abis'})\n"
        f"bands = separate(condition({text!r}, Scope(s, s))).bands\n"
        "assert len(bands) == 2, bands\n"
        "assert 'sympy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_a_long_sum_and_a_deep_condition_do_not_exhaust_the_stack():
    column = condition("l.a >= r.a", SCOPE).args[0]
    total = column
    for _ in range(3000):
        total = make("add", (total, column), (), column.type)
    other = condition("l.a >= r.a", SCOPE).args[1]
    node = make("ge", (total, other), (), BOOL)
    for _ in range(3000):
        node = make("not", (node,), (), BOOL)
    (term,) = separate(node).bands
    assert (term.lo, term.hi) == (0, None)


@pytest.mark.slow
def test_linear_conditions_do_not_load_sympy():
    code = (
        "import sys, ivjoin, pyarrow as pa\n"
        "from ivjoin.expr.nodes import make\n"
        "from ivjoin.separation.separate import separate\n"
        "from ivjoin.expr.types import BOOL, INT64\n"
        "a, b = (make('column', (), (s, 'a'), INT64) for s in ('left', 'right'))\n"
        "d = make('abs', (make('sub', (a, b), (), INT64),), (), INT64)\n"
        "sep = separate(make('lt', (d, make('literal', (), (20,), INT64)), (), BOOL))\n"
        "assert len(sep.bands) == 1 and 'sympy' not in sys.modules and 'sqlglot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("column", ["x", "f"])
@pytest.mark.parametrize("text", [
    "(l.x - r.x) + NULL > 1e0", "NULL - (l.x - r.x) > 1e0", "l.x - r.x - NULL < 1e0", "abs(l.x - r.x - NULL) < 3e0",
    "sqrt(l.x - r.x + NULL) < 1e0", "(l.x - r.x) / NULL <= 2e0", "NULL * (l.x + r.x) = 2e0",
])  # fmt: skip
def test_a_null_among_floats_bounds_nothing(text: str, column: str):
    text = text.replace(".x", f".{column}").replace("NULL", "CAST(NULL AS DOUBLE)")
    assert bands(text) == []
    assert len(split(text).residual) == 1
