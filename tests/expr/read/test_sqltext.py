"""Conditions as SQL text: what each construct becomes, and where errors are placed."""

from __future__ import annotations

import subprocess
import sys
import time

import pyarrow as pa
import pytest

from ivjoin.conditions import condition, scalar
from ivjoin.conditions.read.sqltext import parse_scalar
from ivjoin.conditions.text import to_text
from ivjoin.errors import ColumnError, ConditionError, UnsupportedError
from ivjoin.expr import Scope

FIELDS = [
    ("i8", pa.int8()), ("a", pa.int32()), ("b", pa.int64()), ("u8", pa.uint8()), ("f", pa.float32()),
    ("x", pa.float64()), ("d", pa.date32()), ("ts", pa.timestamp("us", "UTC")), ("tss", pa.timestamp("s", "UTC")),
    ("tn", pa.timestamp("ns")), ("dec", pa.decimal128(10, 2)), ("s", pa.string()), ("bin", pa.binary()),
    ("t", pa.time64("us")), ("du", pa.duration("us")), ("bo", pa.bool_()), ("w", pa.int32()),
    ("st", pa.struct([("k", pa.int8())])), ("we ird", pa.int32()), ("end", pa.int32()), ("select", pa.int32()),
]
SCOPE = Scope(pa.schema(FIELDS), pa.schema([*FIELDS, ("only", pa.int32())]))


def text(sql: str, zone: str = "UTC") -> str:
    return to_text(parse_scalar(sql, SCOPE, zone))


@pytest.mark.parametrize(("sql", "expected"), [
    # names
    ("left.a = RIGHT.a", "l.a = r.a"),
    ("only > l.`we ird`", "r.only > l.`we ird`"),
    ("l.end > r.select", "l.end > r.select"),
    # operators and their strength
    ("l.a + 2 * l.b - -3 > 1", "CAST(l.a AS BIGINT) + 2 * l.b - -3 > 1"),
    ("l.a - (l.w - 1) > 1", "l.a - (l.w - 1) > 1"),
    ("l.a + l.w div 2 > 1", "CAST(l.a AS BIGINT) + CAST(l.w AS BIGINT) div 2 > 1"),
    ("l.a % 3 == 0", "l.a % 3 = 0"),
    ("l.a <=> r.a", "l.a <=> r.a"),
    ("l.a != 1 and not l.a <> 2 or l.bo", "l.a <> 1 AND NOT l.a <> 2 OR l.bo"),
    ("not (l.bo or r.bo)", "NOT (l.bo OR r.bo)"),
    ("!l.bo", "NOT l.bo"),
    ("l.a between r.a - 1 and r.a and l.bo", "l.a >= r.a - 1 AND l.a <= r.a AND l.bo"),
    ("l.a not between 1 and 2", "NOT (l.a >= 1 AND l.a <= 2)"),
    ("l.a in (1, 2.0, 2.5)", "l.a IN (1, 2)"),
    ("l.a not in (1, 2)", "NOT l.a IN (1, 2)"),
    ("l.a is null or l.s is not null", "l.a IS NULL OR l.s IS NOT NULL"),
    ("l.a = r.a is null", "(l.a = r.a) IS NULL"), ("l.bo is true", "l.bo <=> TRUE"),
    ("l.bo is not false", "NOT l.bo <=> FALSE"), ("l.a is distinct from r.a", "NOT l.a <=> r.a"),
    ("l.a is not distinct from r.a", "l.a <=> r.a"),
    # numbers
    ("l.x > 1.5", "l.x > 1.5D"), ("l.dec > 1.5", "l.dec > 1.50"), ("l.b = 3L", "l.b = 3"),
    ("l.x = 1e2", "l.x = 100.0D"), ("l.dec = 1.5BD", "l.dec = 1.50"), ("l.i8 = -128Y", "l.i8 = -128"),
    ("l.x = -1e-300D", "l.x = -1e-300D"),
    ("l.b = -9223372036854775808L", "l.b = -9223372036854775808"),
    ("abs(l.a - r.a) < 20", "abs(l.a - r.a) < 20"),
    ("pmod(l.a, 3) = mod(r.a, 3)", "pmod(l.a, 3) = r.a % 3"),
    ("log(2, l.x) < log(l.x)", "ln(l.x) / ln(2.0D) < ln(l.x)"),
    ("power(l.x, 2) < sqrt(l.x)", "pow(l.x, 2.0D) < sqrt(l.x)"),
    ("round(l.dec, 1) = bround(l.dec)", "round(l.dec, 1) = CAST(bround(l.dec) AS DECIMAL(10,1))"),
    ("l.a::double = cast(l.b as float)", "CAST(l.a AS DOUBLE) = CAST(CAST(l.b AS FLOAT) AS DOUBLE)"),
    ("greatest(l.a, r.a, 1) > least(l.i8, 2)", "greatest(l.a, r.a, 1) > least(CAST(l.i8 AS INT), 2)"),
    # choice
    ("case when l.a > 1 then 'x' else 'y' end = l.s", "CASE WHEN l.a > 1 THEN 'x' ELSE 'y' END = l.s"),
    ("case l.a when 1 then 2 end > 1", "CASE WHEN l.a = 1 THEN 2 ELSE CAST(NULL AS INT) END > 1"),
    ("nvl(l.a, 0) = ifnull(r.a, coalesce(l.w, 1))", "coalesce(l.a, 0) = coalesce(r.a, coalesce(l.w, 1))"),
    (
        "if(l.bo, 1, 2) = nvl2(l.a, 1, 2)",
        "CASE WHEN l.bo THEN 1 ELSE 2 END = CASE WHEN l.a IS NOT NULL THEN 1 ELSE 2 END",
    ),
    # times
    ("l.ts >= r.ts - INTERVAL 10 SECONDS", "l.ts >= r.ts - INTERVAL '10' SECOND"),
    ("l.ts < r.ts + INTERVAL '1 02:03:04' DAY TO SECOND", "l.ts < r.ts + INTERVAL '93784' SECOND"),
    ("l.ts - r.ts <= INTERVAL 1 DAY 2 HOURS", "l.ts - r.ts <= INTERVAL '26' HOUR"),
    ("l.ts > r.ts - INTERVAL 1 DAY 2 HOURS", "l.ts > r.ts - INTERVAL '26' HOUR"),
    ("l.ts <= r.ts + INTERVAL r.w SECONDS", "l.ts <= r.ts + INTERVAL '1' SECOND * CAST(r.w AS BIGINT)"),
    ("l.ts <= r.ts + r.w * INTERVAL 1 SECOND", "l.ts <= r.ts + INTERVAL '1' SECOND * CAST(r.w AS BIGINT)"),
    ("l.d + INTERVAL 1 DAY <= r.d", "l.d + INTERVAL '1' DAY <= r.d"),
    ("l.d + INTERVAL 24 HOURS <= r.ts", "CAST(l.d AS TIMESTAMP) + INTERVAL '1' DAY <= r.ts"),
    ("l.d + INTERVAL '1-2' YEAR TO MONTH <= r.d", "l.d + INTERVAL '14' MONTH <= r.d"),
    ("l.d - r.d <= INTERVAL 36 HOURS", "l.d - r.d <= 1"),
    ("l.ts > DATE '2024-01-31'", "l.ts > TIMESTAMP '2024-01-31 00:00:00Z'"),
    ("l.tn >= TIMESTAMP '2024-01-01 00:00:00'", "l.tn >= TIMESTAMP_NTZ '2024-01-01 00:00:00'"),
    ("l.tss >= '2024-01-01 00:00:00.5'", "l.tss > TIMESTAMP '2024-01-01 00:00:00Z'"),
    ("date_trunc('MON', l.ts) = r.ts", "date_trunc('month', l.ts) = r.ts"),
    ("trunc(l.ts, 'Q') = r.d", "trunc(CAST(l.ts AS DATE), 'quarter') = r.d"),
    ("date_add(l.d, 3) > date_sub(r.d, 2)", "l.d + INTERVAL '3' DAY > r.d - INTERVAL '2' DAY"),
    ("datediff(l.d, r.d) < 3 and datediff(day, l.d, r.d) < 3", "l.d - r.d < 3 AND r.d - l.d < 3"),
    ("timestampadd(HOUR, 2, l.ts) > r.ts", "l.ts + INTERVAL '2' HOUR > r.ts"),
    ("extract(year from l.ts) = date_part('week', r.d)", "year(l.ts) = weekofyear(r.d)"),
    (
        "unix_millis(l.ts) > timestamp_seconds(r.a)::bigint",
        "unix_millis(l.ts) > CAST(TIMESTAMP '1970-01-01 00:00:00Z' + INTERVAL '1' SECOND * CAST(r.a AS BIGINT) "
        "AS BIGINT)",
    ),
    ("l.t >= '10:30'", "l.t >= TIME '10:30:00'"),
    # strings
    ("l.s like 'a\\\\_%' escape '#'", r"l.s LIKE 'a\\_%' ESCAPE '#'"),
    ("l.s not like 'a%'", "NOT l.s LIKE 'a%'"),
    ("l.s ilike 'A%'", "lower(l.s) LIKE 'a%'"),
    ("l.s rlike '^a+'", "rlike(l.s, '^a+')"),
    ("upper(l.s) || 'x' = r.s", "concat(upper(l.s), 'x') = r.s"),
    ("trim(l.s) = trim(leading 'x' from r.s)", "trim(l.s) = trim(LEADING 'x' FROM r.s)"),
    ("substring(l.s, 2, 3) = left(r.s, 3)", "substring(l.s, 2, 3) = substring(r.s, 1, 3)"),
    ("l.s = 'it''s'", r"l.s = 'it\'s'"), ("l.s = 'a' 'b'", "l.s = 'ab'"), ("l.s = r'a\\n'", r"l.s = 'a\\n'"),
    ('l.s > "x"', "l.s > 'x'"), ("l.bin = X'0aFF'", "l.bin = X'0aff'"),
    # blanks, comments, a closing semicolon
    ("l.a\n  > -- why\n 1 /* so */;", "l.a > 1"),
])  # fmt: skip
def test_parse(sql, expected):
    assert text(sql) == expected


@pytest.mark.parametrize(("sql", "expected"), [
    ("1", "int32"), ("1L", "int64"), ("2S", "int16"), ("1.0", "decimal(2,1)"), ("1e0", "float64"),
    ("1D", "float64"), ("1.5F", "float32"), ("12345678901234567890", "decimal(20,0)"), ("00.50", "decimal(2,2)"),
    ("null", "null"), ("cast(l.a as decimal)", "decimal(10,0)"), ("l.a::tinyint", "int8"),
    ("cast(l.s as timestamp_ntz)", "timestamp[us]"), ("length(l.bin)", "int32"),
    ("concat(l.bin, l.bin)", "binary"), ("to_date(l.s)", "date"), ("rint(l.a)", "float64"),
])  # fmt: skip
def test_type(sql, expected):
    assert str(parse_scalar(sql, SCOPE).type) == expected


@pytest.mark.parametrize(("sql", "zone", "micros"), [
    ("TIMESTAMP '2024-03-31 02:30:00'", "Europe/Paris", 1_711_848_600_000_000),
    ("TIMESTAMP '2024-10-27 02:30:00'", "Europe/Paris", 1_729_989_000_000_000),
    ("TIMESTAMP '2024-01-01 10:00:00+05:30'", "Europe/Paris", 1_704_083_400_000_000),
    ("TIMESTAMP '2024-01-01 10:00:00 America/New_York'", "UTC", 1_704_121_200_000_000),
    ("TIMESTAMP '2024-01-01T10'", "UTC", 1_704_103_200_000_000),
    ("TIMESTAMP '1890-01-01 00:00:00'", "Europe/Paris", -2_524_522_161_000_000),
    ("TIMESTAMP_NTZ '2024-01-01 10:00:00+05:30'", "Europe/Paris", 1_704_103_200_000_000),
    ("CAST(DATE '2024-03-31' AS TIMESTAMP)", "Europe/Paris", 1_711_839_600_000_000),
    ("CAST(TIMESTAMP '2024-10-27 01:30:00Z' AS TIMESTAMP_NTZ)", "Europe/Paris", 1_729_996_200_000_000),
])  # fmt: skip
def test_literal_times_are_those_of_spark(sql, zone, micros):
    assert parse_scalar(sql, SCOPE, zone).params == (micros,)


@pytest.mark.parametrize(("sql", "micros"), [
    ("INTERVAL '-1 02:03:04.000001' DAY TO SECOND", -93_784_000_001),
    ("INTERVAL '02:03' HOUR TO MINUTE", 7_380_000_000), ("INTERVAL '3:4.5' MINUTE TO SECOND", 184_500_000),
    ("INTERVAL -10 SECONDS", -10_000_000), ("- INTERVAL '-10' SECONDS", 10_000_000),
    ("INTERVAL 2 WEEKS", 1_209_600_000_000), ("INTERVAL '1 day -2 hours'", 79_200_000_000),
    ("INTERVAL 3 MILLISECONDS", 3000), ("INTERVAL '1.5' SECOND", 1_500_000), ("INTERVAL 2 DAYS * 3", 518_400_000_000),
    ("make_dt_interval(1, 2, 3, 4.5)", 93_784_500_000),
])  # fmt: skip
def test_intervals(sql, micros):
    node = parse_scalar(sql, SCOPE)
    assert (str(node.type), node.params) == ("duration[us]", (micros,))


def test_intervals_of_months_and_nanoseconds():
    assert parse_scalar("INTERVAL '-1-2' YEAR TO MONTH", SCOPE).params == (-14,)
    assert parse_scalar("INTERVAL 1 YEAR 2 MONTHS", SCOPE).params == (14,)
    assert parse_scalar("INTERVAL '1' QUARTER", SCOPE).params == (3,)
    node = parse_scalar("INTERVAL 5 NANOSECONDS", SCOPE)
    assert (node.type.unit, node.params) == ("ns", (5,))


@pytest.mark.parametrize(("sql", "error", "says", "marked"), [
    ("l.a = ", ConditionError, "something is missing", "="),
    ("l.a = 1 r.a = 2", ConditionError, "not expected here", "r"),
    ("(l.a = 1", ConditionError, r"Expecting \)", "1"),
    ("l.a = 1 as foo", ConditionError, "not expected here", "as"),
    ("l.a = 1 and l.tS > r.ts", ColumnError, "did you mean 'ts'", "l.tS"),
    ("l.a = 1 and\n  fooo(r.b) > 1", UnsupportedError, r"fooo\(\) is not known here", "fooo(r.b"),
    ("floor(l.a, 2) = 1", ConditionError, r"takes 1 argument, got 2", "floor(l.a"),
    ("l.ts - r.ts <= 10", ConditionError, "INTERVAL 10 SECONDS", "l.ts - r.ts"),
    ("l.a < r.a < 3", ConditionError, "do not chain", "l.a < r.a"),
    ("l.a = r.a between 1 and 2", ConditionError, "do not chain", "l.a = r.a"),
    ("l.st.z = 1", ConditionError, "none of its fields named 'z'", "l.st.z"),
    ("l.a.k = 1", ConditionError, "which has no field 'k'", "l.a.k"),
    ("rand() < l.x", UnsupportedError, "another value at each call", "rand("),
    ("sum(l.a) > 1", UnsupportedError, "aggregate", "sum(l.a"),
    ("l.a & 1 | 2 = 1", UnsupportedError, "put parentheses", "l.a"),
    ("l.a in (select 1)", UnsupportedError, "not a query", "l.a"),
    ("try_cast(l.s as map<int, int>) = 1", UnsupportedError, "a cast to", "l.s"),
    ("l.s rlike '(?<=a)b'", UnsupportedError, "RE2 cannot read", "l.s"),
    ("l.s like r.s escape 'ab'", ConditionError, "is one character", "l.s like r.s"),
    ("extract(second from l.ts) > 1", UnsupportedError, r"second\(x\)", "l.ts"),
    ("date_trunc('eon', l.ts) > r.ts", ConditionError, "unknown time unit 'eon'", "date_trunc("),
    ("l.a::decimal(40,2) > 1", ConditionError, "at most 38", "l.a"),
])  # fmt: skip
def test_errors_mark_the_place(sql, error, says, marked):
    with pytest.raises(error, match=says) as caught:
        parse_scalar(sql, SCOPE)
    *_, shown, carets = str(caught.value).splitlines()
    start = carets.index("^")
    assert shown[start : start + len(carets.strip())].startswith(marked)


@pytest.mark.parametrize(("sql", "says"), [
    ("", "empty"), ("  \n", "empty"), (";", "0 statements"), ("l.a = 1; l.b = 2", "2 statements"),
    ("l.a", "of type int32"), ("l.a = 'unclosed", "cannot be read"), ("drop table x", "not expected"),
    ("l.a = 0x1F", "not a number of Spark SQL"), ("l.x < 1e400", "beyond the range of a double"),
    ("l.ts > TIMESTAMP 'soon'", "'soon' is not a timestamp"), ("l.d > DATE '2024-02-30'", "is not a date"),
    ("l.a between symmetric 3 and 1", "SYMMETRIC"),
    ("l.ts > INTERVAL '1 25:00:00' DAY TO SECOND", "expected"),
    ("INTERVAL 'x' DAY > l.du", "one number"),
    ("l.ts > r.ts + INTERVAL 1 FORTNIGHT", "."),
    ("l.a in ()", "at least one"),
    ("l.d > r.d + INTERVAL 1 MONTH 2 DAYS", "one after the other"),
    ("l.s like 'a#'  escape '#'", "must precede"), ("now() > l.ts", "put the time into the text"),
    ("l.a = ?", "placeholder"), ("(l.a, l.b) = (r.a, r.b)", "a tuple"), ("l.s || l.a + 1 = 'x'", "parentheses"),
    ("cast(l.a as array<int>) is null", "not supported"),
])  # fmt: skip
def test_refused(sql, says):
    with pytest.raises(ConditionError, match=says):
        condition(sql, SCOPE)


def test_unknown_time_zone():
    with pytest.raises(ConditionError, match="unknown time zone 'Mars/Base'"):
        parse_scalar("l.ts > r.ts", SCOPE, "Mars/Base")


@pytest.mark.slow
def test_long_and_deep_conditions():
    wide = parse_scalar(" AND ".join(f"l.a <> {i}" for i in range(1500)), SCOPE)
    assert (wide.op, len(wide.args)) == ("and", 1500)
    with pytest.raises(ConditionError, match="nested too deeply"):
        parse_scalar("(" * 5000 + "l.bo" + ")" * 5000, SCOPE)


def test_the_same_text_is_the_same_node():
    sql = "l.ts >= r.ts - INTERVAL 10 SECONDS AND abs(l.a - r.a) < 20"
    assert parse_scalar(sql, SCOPE) is parse_scalar(f"  {sql.lower()} ", SCOPE)


def test_twenty_conjuncts_parse_quickly():
    sql = " AND ".join(f"l.ts >= r.ts - INTERVAL {i} SECONDS" for i in range(20))
    parse_scalar(sql, SCOPE)
    start = time.perf_counter()
    parse_scalar(sql.replace("10", "11"), SCOPE)
    assert time.perf_counter() - start < 0.5


def test_condition_and_scalar():
    assert condition(None, SCOPE) is None
    node = condition("l.a > 1", SCOPE)
    assert condition(node, SCOPE) is node
    assert str(condition("null", SCOPE).type) == "bool"
    assert str(scalar("l.a", SCOPE).type) == "int32"
    with pytest.raises(ConditionError, match="of type int32"):
        condition("l.a + 1", SCOPE)
    with pytest.raises(ConditionError, match=r"Python's False.*Eq\(a, b\)"):
        condition(False, SCOPE)
    with pytest.raises(ConditionError, match=r"cannot be made of builtins\.int"):
        condition(3, SCOPE)
    with pytest.raises(ConditionError, match="int64 in the input"):
        condition(node, Scope(pa.schema([("a", pa.int64())]), pa.schema([])))


@pytest.mark.slow
def test_sqlglot_and_sympy_are_loaded_when_needed():
    code = (
        "import sys, ivjoin.expr, ivjoin.expr.build, ivjoin.conditions.read.fluent, ivjoin.conditions.read.sqltext\n"
        "import ivjoin.conditions.read.sympyform, ivjoin.conditions.text\n"
        "sys.exit(bool({'sympy', 'sqlglot', 'numba', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_digit_of_a_number_is_lost() -> None:
    digits = "1.2345678901234567890123456789012345678"
    for text in (digits, "-" + digits):
        node = parse_scalar(text, SCOPE)
        assert node.params[0] == int(text.replace(".", "")), text
        assert (node.type.precision, node.type.scale) == (38, 37)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("text", [
    pytest.param("l.a > " + "9" * 5000, id="whole number"),
    pytest.param("l.a > -" + "9" * 5000, id="negative number"),
    pytest.param("l.a > 0." + "9" * 5000, id="decimal"),
    pytest.param("l.a > 1e" + "9" * 5000, id="exponent"),
    pytest.param("CAST(l.a AS DECIMAL(" + "9" * 5000 + ", 1)) > 3", id="type"),
    pytest.param("l.a > INTERVAL " + "9" * 5000 + " DAY", id="interval"),
    pytest.param("l.a > INTERVAL '" + "9" * 5000 + "' DAY", id="interval in quotes"),
    pytest.param("l.a > '\ud800'", id="half a character"),
])  # fmt: skip
def test_numbers_that_do_not_fit(text: str) -> None:
    with pytest.raises(ConditionError):
        parse_scalar(text, SCOPE)
