"""Results of functions, value by value: as in Spark's documentation, and as in DuckDB where the meaning is the same."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from evaluating import ERROR, plain

import ivjoin
from ivjoin.conditions import condition, scalar
from ivjoin.conditions.evaluate import evaluate, first_error
from ivjoin.errors import ColumnError, ConditionError, IvjoinError, UnsupportedError
from ivjoin.expr import Scope
from ivjoin.expr.nodes import Node

UTC = dt.UTC
I64, I32 = (1 << 63) - 1, (1 << 31) - 1
D, T = dt.date, dt.datetime
EMPTY = pa.schema([])
STRUCT = pa.struct([("q", pa.int64()), ("x", pa.float64())])
SPAN = pa.month_day_nano_interval()
LARGE = pa.large_list(pa.int64())


def struct(row: Any) -> pa.Array:
    return pa.array([row], type=STRUCT)


def at(*fields: int) -> dt.datetime:
    return dt.datetime(*fields, tzinfo=dt.UTC)  # type: ignore[misc, arg-type]


def given(**columns: Any) -> tuple[Scope, dict[str, pa.Array]]:
    arrays = {name: v if isinstance(v, pa.Array) else pa.array([v], type=_type(v)) for name, v in columns.items()}
    return Scope(pa.schema([(n, a.type) for n, a in arrays.items()]), EMPTY), arrays


def _type(v: Any) -> Any:
    if isinstance(v, dt.datetime):
        return pa.timestamp("us", "UTC" if v.tzinfo else None)
    return pa.int32() if isinstance(v, int) and not isinstance(v, bool) and abs(v) <= I32 else None


def value(text: str, columns: dict[str, Any], zone: str = "UTC") -> Any:
    """The value of an expression over columns of one row."""
    scope, arrays = given(**columns)
    node = scalar(text, scope, zone)
    (vector,) = evaluate([node], lambda _, name: arrays[name], 1)
    return plain(vector, node.type, 1)[0]


# expression, columns, what it gives; and what DuckDB calls it, if it means the same
FACTS: list[Any] = [
    # bits: Java's, and so Spark's: the count of a shift is taken modulo the width, and the top is lost
    ("l.a & l.b", {"a": 12, "b": 10}, 8, "l.a & l.b"),
    ("l.a | l.b", {"a": 12, "b": 10}, 14, "l.a | l.b"),
    ("l.a ^ l.b", {"a": 12, "b": 10}, 6, "xor(l.a, l.b)"),
    ("~l.a", {"a": 0}, -1, "~l.a"),
    ("l.a & l.b", {"a": -1, "b": I64}, I64, "l.a & l.b"),
    ("l.a & 1 = 0", {"a": 6}, True, None), ("shiftleft(l.a, 1)", {"a": 2}, 4, "l.a << 1"),
    ("l.a << 1", {"a": 2}, 4, "l.a << 1"), ("shiftleft(l.a, l.n)", {"a": 1, "n": 33}, 2, None),
    ("shiftleft(l.a, 1)", {"a": I64}, -2, None), ("shiftright(l.a, 1)", {"a": 4}, 2, "l.a >> 1"),
    ("shiftright(l.a, 1)", {"a": -5}, -3, None), ("shiftrightunsigned(l.a, 1)", {"a": 4}, 2, None),
    ("shiftrightunsigned(l.a, 1)", {"a": -1}, I32, None),
    ("bit_count(l.a)", {"a": 0}, 0, "bit_count(l.a)"),
    ("bit_count(l.a)", {"a": -1}, 64, None),
    # what IN compares meets in one type: that of all
    ("l.c IN (9007199254740992, 0.5D)", {"c": 2**53 + 1}, True, None),
    ("l.c IN (9007199254740993, l.x)", {"c": 2**53, "x": 0.5}, True, None),
    ("l.c NOT IN (9007199254740992, CAST(NULL AS DOUBLE))", {"c": 2**53 + 1}, False, None),
    ("l.p IN (0.1, 0.5D)", {"p": Decimal("0.1000000000000000000001")}, True, None),
    ("l.s IN ('1', 5)", {"s": "01"}, True, None),
    ("l.d IN ('2024-01-31 10:00:00', l.t)", {"d": D(2024, 1, 31), "t": at(2024, 2, 1)}, False, None),
    # an operation tried: its own error is NULL
    ("try_add(l.a, 1)", {"a": I64}, None, None),
    ("try_add(l.a, 1)", {"a": 1}, 2, None),
    ("try_subtract(l.a, 1)", {"a": -I64 - 1}, None, None),
    ("try_multiply(l.a, l.a)", {"a": 1 << 40}, None, None),
    ("try_divide(l.a, 0)", {"a": 3}, None, None),
    ("try_divide(l.a, 2)", {"a": 3}, 1.5, None),
    ("try_mod(l.a, 0)", {"a": 3}, None, None),
    ("try_add(l.a, 1 div l.b)", {"a": 1, "b": 0}, ERROR, None),
    ("TRY_CAST(l.s AS INT)", {"s": "a"}, None, "TRY_CAST(l.s AS INT)"),
    ("TRY_CAST(l.s AS INT)", {"s": "12"}, 12, "TRY_CAST(l.s AS INT)"),
    ("TRY_CAST(l.a AS TINYINT)", {"a": 128}, None, "TRY_CAST(l.a AS TINYINT)"),
    # to the type that it has: nothing is tried
    ("TRY_CAST(l.a + 1 AS BIGINT)", {"a": I64}, ERROR, None),
    ("TRY_CAST(-l.a AS BIGINT)", {"a": 3}, -3, None),
    ("coalesce(try_add(l.a, 1), 0)", {"a": I64}, 0, None),
    # texts
    ("levenshtein(l.s, l.u)", {"s": "kitten", "u": "sitting"}, 3, "levenshtein(l.s, l.u)"),
    ("levenshtein(l.s, l.u, 2)", {"s": "kitten", "u": "sitting"}, -1, None),
    ("levenshtein(l.s, l.u, 3)", {"s": "kitten", "u": "sitting"}, 3, None),
    ("levenshtein(l.s, l.u)", {"s": "", "u": "ß\U0001f600"}, 2, None),
    ("l.s LIKE l.u", {"s": "abc", "u": "a%"}, True, "l.s LIKE l.u"),
    ("l.s LIKE l.u", {"s": "abc", "u": "_b_"}, True, "l.s LIKE l.u"),
    ("l.s LIKE l.u", {"s": "a.c", "u": "a.d"}, False, "l.s LIKE l.u"),
    ("l.s LIKE l.u", {"s": "a%", "u": "a\\%"}, True, None),
    ("l.s LIKE l.u", {"s": "a", "u": "a\\b"}, ERROR, None),
    ("l.s NOT LIKE l.u", {"s": "abc", "u": "b%"}, True, "l.s NOT LIKE l.u"),
    ("l.s ILIKE l.u", {"s": "ABC", "u": "aB%"}, True, "l.s ILIKE l.u"),
    ("l.s RLIKE l.u", {"s": "xaab", "u": "a+b"}, True, "regexp_matches(l.s, l.u)"),
    ("l.s RLIKE l.u", {"s": "x", "u": "("}, ERROR, None),
    ("substring(l.s, l.n, 3)", {"s": "Spark SQL", "n": 5}, "k S", "substring(l.s, l.n, 3)"),
    ("substring(l.s, l.n)", {"s": "Spark SQL", "n": -3}, "SQL", "substring(l.s, l.n)"),
    ("substring(l.s, l.n, 3)", {"s": "abc", "n": -5}, "a", None),
    ("substring(l.s, l.n, 2)", {"s": "abc", "n": 0}, "ab", None),
    ("substring(l.s, l.n, l.n)", {"s": "abc", "n": I32}, "", None),
    ("left(l.s, l.n)", {"s": "Spark", "n": 3}, "Spa", "left(l.s, l.n)"),
    ("right(l.s, l.n)", {"s": "Spark", "n": 3}, "ark", "right(l.s, l.n)"),
    ("right(l.s, l.n)", {"s": "Spark", "n": 9}, "Spark", "right(l.s, l.n)"),
    ("right(l.s, l.n)", {"s": "Spark", "n": 0}, "", "right(l.s, l.n)"),
    ("right(l.s, l.n)", {"s": "Spark", "n": pa.array([-(1 << 31)], type=pa.int32())}, "", None),
    ("right(l.s, l.n)", {"s": "Spark", "n": (1 << 31) - 1}, "Spark", None),
    ("left(l.s, l.n)", {"s": "Spark", "n": pa.array([-(1 << 31)], type=pa.int32())}, "", None),
    ("upper(l.s) = concat('ST', 'RASSE')", {"s": "straße"}, True, None),
    # hashes, from the examples of Spark's documentation; those of arrays are the fold over the elements
    ("hash(l.s, 123, 2)", {"s": "Spark"}, -1321691492, None),
    ("xxhash64(l.s, 123, 2)", {"s": "Spark"}, 5602566077635097486, None),
    ("crc32(l.s)", {"s": "Spark"}, 1557323817, None),
    ("md5(l.s)", {"s": "Spark"}, "8cde774d6f7333752ed72cacddb05126", "md5(l.s)"),
    ("sha(l.s)", {"s": "Spark"}, "85f5955f4b27a9a4c2aab6ffe5d7189fc298b92c", "sha1(l.s)"),
    ("sha2(l.s, 256)", {"s": "Spark"},
     "529bc3b07127ecb7e53a4dcf1991d9152c24537d919178022b2c42657f79a26b", "sha256(l.s)"),
    # times
    ("timestampdiff(MONTH, l.t, l.v)", {"t": at(2021, 1, 31, 10), "v": at(2021, 3, 1, 9)}, 0, None),
    ("timestampdiff(MONTH, l.t, l.v)", {"t": at(2021, 2, 28, 12), "v": at(2021, 3, 28, 12)}, 1, None),
    ("timestampdiff(YEAR, l.d, l.e)", {"d": D(2020, 2, 29), "e": D(2021, 2, 28)}, 0, None),
    ("timestampdiff(QUARTER, l.d, l.e)", {"d": D(2021, 12, 31), "e": D(2021, 1, 1)}, -3,
     "datesub('quarter', l.d, l.e)"),
    ("timestampdiff(HOUR, l.t, l.v)", {"t": at(2021, 1, 1, 1, 59, 59), "v": at(2021, 1, 1)}, -1, None),
    ("timestampdiff(DAY, l.d, l.e)", {"d": D(2021, 1, 1), "e": D(2021, 3, 1)}, 59, "datesub('day', l.d, l.e)"),
    ("timestampdiff(WEEK, l.d, l.e)", {"d": D(2021, 1, 1), "e": D(2021, 3, 1)}, 8, "datesub('week', l.d, l.e)"),
    ("timestampdiff(MICROSECOND, l.t, l.v)", {"t": T(2021, 1, 1), "v": T(2021, 1, 1, 0, 0, 1)}, 1_000_000, None),
    ("datediff(MONTH, l.d, l.e)", {"d": D(2021, 1, 1), "e": D(2021, 3, 1)}, 2, "datesub('month', l.d, l.e)"),
    ("months_between(l.t, l.v)", {"t": T(1997, 2, 28, 10, 30), "v": T(1996, 10, 30)}, 3.94959677, None),
    ("months_between(l.t, l.v, FALSE)", {"t": T(1997, 2, 28, 10, 30), "v": T(1996, 10, 30)}, 3.9495967741935485, None),
    ("months_between(l.d, l.e)", {"d": D(2021, 2, 28), "e": D(2021, 1, 31)}, 1.0, None),
    ("next_day(l.d, 'TU')", {"d": D(2015, 1, 14)}, (D(2015, 1, 20) - D(1970, 1, 1)).days, None),
    ("next_day(l.d, 'Wednesday')", {"d": D(2015, 1, 14)}, (D(2015, 1, 21) - D(1970, 1, 1)).days, None),
    ("last_day(l.d)", {"d": D(2024, 2, 3)}, (D(2024, 2, 29) - D(1970, 1, 1)).days, None),
    ("add_months(l.d, l.n)", {"d": D(2016, 8, 31), "n": 6}, (D(2017, 2, 28) - D(1970, 1, 1)).days, None),
    ("trunc(l.d, 'quarter')", {"d": D(2019, 8, 4)}, (D(2019, 7, 1) - D(1970, 1, 1)).days, None),
    ("trunc(l.d, 'week')", {"d": D(2019, 8, 4)}, (D(2019, 7, 29) - D(1970, 1, 1)).days, None),
    ("unix_millis(l.t)", {"t": at(1969, 12, 31, 23, 59, 59, 999_500)}, -1, None),
    ("unix_timestamp(l.t)", {"t": at(1969, 12, 31, 23, 59, 58, 500_000)}, -1, None),
    ("unix_timestamp(l.t)", {"t": at(2024, 1, 1, 0, 0, 0, 999_999)}, 1704067200, None),
    ("unix_seconds(l.t)", {"t": at(1969, 12, 31, 23, 59, 59, 500_000)}, -1, None),
    # rounding to negative digits, choice, NaN
    ("round(l.a, -1)", {"a": 25}, 30, None), ("round(l.a, -1)", {"a": -25}, -30, None),
    ("round(l.a, -1)", {"a": I64}, ERROR, None), ("round(l.x, -2)", {"x": 250.0}, 300.0, None),
    ("round(l.p, -1)", {"p": Decimal("25.0")}, 30, None),
    ("if(l.a > 1, 'x', 'y')", {"a": 2}, "x", None),
    ("nullif(l.a, 2)", {"a": 2}, None, "nullif(l.a, 2)"),
    ("nvl(l.a, 3)", {"a": 2}, 2, None),
    ("isnan(l.x)", {"x": math.nan}, True, "isnan(l.x)"),
    ("sqrt(l.x)", {"x": 2.25}, 1.5, "sqrt(l.x)"),
    ("hypot(l.x, l.y)", {"x": 3.0, "y": -4.0}, 5.0, "sqrt(l.x * l.x + l.y * l.y)"),
    ("hypot(l.x, l.y)", {"x": 1e308, "y": 1e308}, 1.4142135623730951e308, None),
    ("hypot(l.x, l.y)", {"x": math.nan, "y": -math.inf}, math.inf, None),
    ("hypot(l.x, l.y)", {"x": 5e-324, "y": 0.0}, 5e-324, None),
    # nested values
    ("l.st.q + 1", {"st": struct({"q": 2, "x": 1.0})}, 3, "l.st.q + 1"),
    ("st.q", {"st": struct({"q": 2, "x": 1.0})}, 2, None),
    ("l.st.q", {"st": struct(None)}, None, "l.st.q"),
    ("size(l.xs)", {"xs": pa.array([[1, None]])}, 2, "len(l.xs)"),
    ("size(l.xs)", {"xs": pa.array([None], type=pa.list_(pa.int64()))}, None, "len(l.xs)"),
    ("size(l.xs)", {"xs": pa.array([[1, 2, 3]], type=pa.list_(pa.int64(), 3))}, 3, "len(l.xs)"),
    ("array_contains(l.xs, 2L)", {"xs": pa.array([[1, 2]])}, True, "list_contains(l.xs, 2)"),
    ("array_contains(l.xs, 2)", {"xs": pa.array([[1, None]])}, None, None),
    ("array_contains(l.xs, 2)", {"xs": pa.array([[1]], type=LARGE)}, False, "list_contains(l.xs, 2)"),
    ("array_contains(l.xs, 'b')", {"xs": pa.array([["a", "b"]])}, True, "list_contains(l.xs, 'b')"),
    ("l.st = l.tt", {"st": struct({"q": 1, "x": None}), "tt": struct({"q": 1, "x": None})}, True, "l.st = l.tt"),
    ("l.st = l.tt", {"st": struct({"q": 1, "x": 0.0}), "tt": struct({"q": 1, "x": -0.0})}, True, "l.st = l.tt"),
    ("l.st = l.tt", {"st": struct({"q": 1, "x": math.nan}),
                     "tt": struct({"q": 1, "x": math.nan})}, True, "l.st = l.tt"),
    ("l.st = l.tt", {"st": struct(None), "tt": struct(None)}, None, "l.st = l.tt"),
    ("l.st <=> l.tt", {"st": struct(None), "tt": struct(None)}, True, None),
    ("l.st <> l.tt", {"st": struct({"q": 1, "x": 0.0}), "tt": struct({"q": 2, "x": 0.0})}, True, "l.st <> l.tt"),
    ("l.xs = l.ys", {"xs": pa.array([[1, 2]]), "ys": pa.array([[1, 2]], type=pa.list_(pa.int32(), 2))}, True, None),
    ("l.xs = l.ys", {"xs": pa.array([[1, None]]), "ys": pa.array([[1, None]])}, True, "l.xs = l.ys"),
    ("l.xs = l.ys", {"xs": pa.array([[]], type=pa.list_(pa.int64())), "ys": pa.array([[0]])}, False, "l.xs = l.ys"),
    ("l.xs = NULL", {"xs": pa.array([[1]])}, None, None),
    ("l.i = l.j", {"i": pa.array([(1, 2, 3)], type=SPAN), "j": pa.array([(1, 2, 3)], type=SPAN)}, True, None),
    ("l.i = l.j", {"i": pa.array([(0, 30, 0)], type=SPAN), "j": pa.array([(1, 0, 0)], type=SPAN)}, False, None),
    ("l.i < l.j", {"i": pa.array([(0, 31, 0)], type=SPAN), "j": pa.array([(1, 0, 0)], type=SPAN)}, True, None),
    ("l.i < l.j", {"i": pa.array([(0, 0, -1000)], type=SPAN), "j": pa.array([(0, 0, 0)], type=SPAN)},
     True, "l.i < l.j"),
    ("l.st < l.tt", {"st": struct({"q": 1, "x": 9.0}), "tt": struct({"q": 2, "x": 0.0})}, True, "l.st < l.tt"),
    ("l.st < l.tt", {"st": struct({"q": 1, "x": math.nan}), "tt": struct({"q": 1, "x": math.inf})},
     False, "l.st < l.tt"),
    ("l.st < l.tt", {"st": struct({"q": 1, "x": None}), "tt": struct({"q": 1, "x": -math.inf})}, True, None),
    ("l.st < l.tt", {"st": struct(None), "tt": struct({"q": 1, "x": 0.0})}, None, "l.st < l.tt"),
    ("l.xs < l.ys", {"xs": pa.array([[1]]), "ys": pa.array([[1, 0]])}, True, "l.xs < l.ys"),
    ("l.xs > l.ys", {"xs": pa.array([[2]]), "ys": pa.array([[1, 0]])}, True, "l.xs > l.ys"),
    ("l.xs < l.ys", {"xs": pa.array([[None]], type=pa.list_(pa.int64())), "ys": pa.array([[-I64 - 1]])}, True, None),
    ("l.xs <= l.ys", {"xs": pa.array([["a", "b"]]), "ys": pa.array([["ab"]])}, True, "l.xs <= l.ys"),
]  # fmt: skip


@pytest.mark.one_in(7)
@pytest.mark.parametrize("text, columns, want, duck", FACTS, ids=lambda x: x if isinstance(x, str) else "")
def test_a_value(text: str, columns: dict[str, Any], want: Any, duck: str | None) -> None:
    got = value(text, columns)
    assert got == want and type(got) is type(want)
    if duck is not None:
        _, arrays = given(**columns)
        l = pa.table(arrays)  # noqa: E741, F841  named as the expression has it
        with duckdb.connect() as db:
            ((there,),) = db.execute(f"SELECT {duck} FROM l").fetchall()
        assert there == want


@pytest.mark.parametrize("text", [
    "(l.a + 1) <=> 99999999999", "(l.a + 1) <=> 1.5", "0.01 / (l.a - l.a) IS DISTINCT FROM 12",
])  # fmt: skip
def test_errors_are_raised_next_to_a_value_outside_the_type(text: str) -> None:
    assert value(text, {"a": I32}) is ERROR
    if "DISTINCT" not in text:
        assert value(text, {"a": 1}) is False
        assert value(text, {"a": pa.array([None], pa.int32())}) is False


def test_text_next_to_a_number_in_a_list_is_a_number() -> None:
    assert value("l.s IN (l.u, l.a)", {"s": "b", "u": "b", "a": 1}) is ERROR
    with pytest.raises(ConditionError, match="the text 'b' cannot be read as int64, which IN needs here"):
        value("l.s IN ('b', 5)", {"s": "b"})


@pytest.mark.parametrize("text, columns, want, duck", FACTS, ids=lambda x: x if isinstance(x, str) else "")
def test_null_gives_null_by_default(text: str, columns: dict[str, Any], want: Any, duck: str | None) -> None:
    name, *_ = columns
    _, arrays = given(**columns)
    scope = Scope(pa.schema([(n, a.type) for n, a in arrays.items()]), EMPTY)
    arrays[name] = pa.nulls(1, arrays[name].type)
    node = scalar(text, scope)
    (vector,) = evaluate([node], lambda _, column: arrays[column], 1)
    got = plain(vector, node.type, 1)[0]
    if any(word in text for word in ("<=>", "hash", "coalesce", "nvl", "isnan", "if(")):
        assert got is not ERROR and (got is not None or "(" in text)
    else:
        assert got in (None, ERROR) and (got is None or "div" in text)


def columns_of_rows(text: str, count: int) -> tuple[Node, dict[str, pa.Array], list[Any]]:
    rows = {"xs": [[i, None] if i % 3 else None for i in range(count)], "a": list(range(count)),
            "st": [{"q": i, "x": 0.5} if i % 4 else None for i in range(count)],
            "s": [f"text {i}" if i % 5 else None for i in range(count)],
            "u": [f"%{i % 7}" for i in range(count)]}  # fmt: skip
    types = {"st": STRUCT, "xs": pa.list_(pa.int64())}
    arrays = {n: pa.array(v, type=types.get(n)) for n, v in rows.items()}
    node = scalar(text, Scope(pa.schema([(n, a.type) for n, a in arrays.items()]), EMPTY))
    return node, arrays, [evaluated(node, {n: a.slice(i, 1) for n, a in arrays.items()}, 1)[0] for i in range(count)]


def evaluated(node: Node, arrays: dict[str, pa.Array], n: int) -> list[Any]:
    (vector,) = evaluate([node], lambda _, name: arrays[name], n)
    return plain(vector, node.type, n)


@pytest.mark.parametrize(
    "text", ["l.st.q", "size(l.xs)", "array_contains(l.xs, l.a)", "l.st = l.st", "l.xs = l.xs", "l.s LIKE l.u",
             "l.s RLIKE l.s", "substring(l.s, l.a % 9, 2)", "levenshtein(l.s, l.u)", "hash(l.s, l.a)", "md5(l.s)",
             "try_divide(l.a, l.a - 3)"])  # fmt: skip
def test_slices_batches_and_single_rows_agree(text: str) -> None:
    node, arrays, want = columns_of_rows(text.replace("l.a % 9", "CAST(l.a % 9 AS INT)"), 40)
    assert evaluated(node, arrays, 40) == want
    assert evaluated(node, {n: a.slice(7, 20) for n, a in arrays.items()}, 20) == want[7:27]
    assert evaluated(node, {n: a.slice(3, 0) for n, a in arrays.items()}, 0) == []
    assert len(set(map(str, want))) > 1


REFUSED = [
    ("l.k = l.a", {"k": True, "a": 1}, ConditionError, "= cannot take bool and int32"),
    ("l.k < l.x", {"k": True, "x": 1.0}, ConditionError, "< cannot take bool and float64"),
    ("l.k & l.k", {"k": True}, ConditionError, "& needs a whole number, not bool"),
    ("l.a & l.b | 1", {"a": 1, "b": 1}, UnsupportedError, "put parentheses around one of them"),
    ("l.a & l.b || l.s", {"a": 1, "b": 1, "s": "x"}, UnsupportedError, "put parentheses around one of them"),
    ("l.s || l.a & 1", {"a": 1, "s": "x"}, UnsupportedError, "put parentheses around one of them"),
    ("l.x << 1", {"x": 1.0}, ConditionError, "shiftleft needs a whole number"),
    ("l.st.z", {"st": struct(None)}, ConditionError, "none of its fields named 'z': q, x"),
    ("l.a.z", {"a": 1}, ConditionError, "has no field 'z'"),
    ("coalesce(l.st, l.st)", {"st": struct(None)}, UnsupportedError, "of a nested column there are"),
    ("current_date > l.d", {"d": D(2020, 1, 1)}, UnsupportedError, "depends on when it is called"),
    ("l.t <= CURRENT_TIMESTAMP", {"t": T(2020, 1, 1)}, UnsupportedError, "depends on when it is called"),
    ("`now` > l.d", {"d": D(2020, 1, 1)}, ColumnError, "column 'now' is not in"),
    ("l.st = l.xs", {"st": struct(None), "xs": pa.array([[1]])}, UnsupportedError, "with their like"),
    ("size(l.a)", {"a": 1}, ConditionError, "size needs an array or a map, not int32"),
    ("array_contains(l.xs, 'a')", {"xs": pa.array([[1]])}, UnsupportedError, "cannot find string among int64"),
    ("timestampdiff(FORTNIGHT, l.d, l.d)", {"d": D(2020, 1, 1)}, ConditionError, "unknown time unit"),
    ("next_day(l.d, 'someday')", {"d": D(2020, 1, 1)}, ConditionError, "not a day of the week"),
    ("sha2(l.s, 100)", {"s": "a"}, ConditionError, "224, 256, 384 or 512"),
    ("now() > l.t", {"t": T(2020, 1, 1)}, UnsupportedError, "depends on when it is called"),
]


@pytest.mark.parametrize("text, columns, error, message", REFUSED, ids=[r[0] for r in REFUSED])
def test_what_is_refused(text: str, columns: dict[str, Any], error: type[IvjoinError], message: str) -> None:
    scope, _ = given(**columns)
    with pytest.raises(error, match=message.replace("(", r"\(")):
        scalar(text, scope)


def test_the_error_of_an_argument_is_named() -> None:
    scope, arrays = given(a=1, b=0)
    node = condition("try_add(l.a, 1 div l.b) > 0", scope)
    assert node is not None
    said = first_error(node, lambda _, name: arrays[name], 0)
    assert said.startswith("division by zero in 1 div CAST(l.b AS BIGINT)")


def test_python_gives_the_same() -> None:
    scope, _ = given(a=1, s="a", st=struct({"q": 1, "x": 0.5}))
    a, s, st = ivjoin.left("a"), ivjoin.left("s"), ivjoin.left("st")
    said = {
        "l.a & 3": a.bit_and(3), "l.a | 3": a.bit_or(3), "l.a ^ 3": a.bit_xor(3), "~l.a": a.bit_not(),
        "shiftleft(l.a, 2)": a.shiftleft(2), "l.st.q + 1": st.field("q") + 1, "l.st = l.st": st == st,
        "l.s LIKE l.s": s.like(s), "try_add(l.a, 1)": a.try_add(1), "levenshtein(l.s, 'x')": s.levenshtein("x"),
        "substring(l.s, l.a, 2)": s.substring(a, 2), "months_between(DATE '2024-01-01', DATE '2024-02-01')":
        ivjoin.lit(dt.date(2024, 1, 1)).months_between(dt.date(2024, 2, 1)),
    }  # fmt: skip
    for text, expression in said.items():
        assert expression.resolve(scope) is scalar(text, scope)
    with pytest.raises(AttributeError, match="no method 'bit_nand'"):
        a.bit_nand(1)


def test_names_of_fields_are_as_case_sensitive_as_those_of_columns() -> None:
    schema = pa.schema([("St", STRUCT)])
    assert scalar("l.st.Q", Scope(schema, EMPTY, case_sensitive=False)).params == ("q",)
    with pytest.raises(IvjoinError):
        scalar("l.St.Q", Scope(schema, EMPTY))


def test_invalid_pattern_is_named() -> None:
    scope, arrays = given(s="a", u="(")
    said = first_error(scalar("l.s RLIKE l.u", scope), lambda _, name: arrays[name], 0)
    assert said == "a pattern that cannot be read in l.s RLIKE l.u (bool) at l.s = 'a', l.u = '('"


@pytest.mark.parametrize("t", [pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 2),
                               pa.list_view(pa.int64())], ids=str)  # fmt: skip
def test_every_kind_of_list(t: pa.DataType) -> None:
    rows = [[i % 3, None] if i % 4 else None for i in range(30)]
    arrays = {"xs": pa.array(rows, type=t), "a": pa.array([i % 2 for i in range(30)])}
    scope = Scope(pa.schema([(n, a.type) for n, a in arrays.items()]), EMPTY)
    want = {
        "size(l.xs)": [None if x is None else 2 for x in rows],
        "array_contains(l.xs, l.a)": [None if x is None or x[0] != i % 2 else True for i, x in enumerate(rows)],
        "l.xs <=> l.xs": [True] * 30,
        "l.xs = l.xs": [None if x is None else True for x in rows],
    }
    for text, values in want.items():
        node = scalar(text, scope)
        assert evaluated(node, arrays, 30) == values
        assert evaluated(node, {n: x.slice(5, 17) for n, x in arrays.items()}, 17) == values[5:22], text
        assert evaluated(node, {n: x.slice(5, 0) for n, x in arrays.items()}, 0) == []
