"""The text of an expression, parsed again, gives the same text, except for the width of some number literals."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from weights import examples

from ivjoin.conditions.read.sqltext import parse_scalar
from ivjoin.conditions.text import to_text
from ivjoin.expr import Scope
from ivjoin.expr.nodes import columns_of, walk

FIELDS = [
    ("i8", pa.int8()), ("a", pa.int32()), ("b", pa.int64()), ("f", pa.float32()), ("x", pa.float64()),
    ("d", pa.date32()), ("ts", pa.timestamp("us", "UTC")), ("dec", pa.decimal128(10, 2)), ("s", pa.string()),
    ("bo", pa.bool_()), ("du", pa.duration("us")), ("na`me", pa.int32()),
]
SCOPE = Scope(pa.schema(FIELDS), pa.schema(FIELDS))

side = st.sampled_from(["l", "r"])


def columns(*names: str) -> st.SearchStrategy[str]:
    return st.builds("{}.{}".format, side, st.sampled_from(names))


def joined(template: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(template.format, *parts)


def grown(
    leaves: st.SearchStrategy[str], grow: Callable[..., st.SearchStrategy[str]], depth: int
) -> st.SearchStrategy[str]:
    return leaves if depth == 0 else leaves | grow(grown(leaves, grow, depth - 1))


numbers = grown(
    columns("i8", "a", "b", "x", "dec", "`na``me`")
    | st.sampled_from(["1", "0", "-7", "2.50", "-0.5", "1e0", "-3.25D", "3000000000", "9BD"]),
    lambda n: st.one_of(
        joined("({} {} {})", n, st.sampled_from("+-*/%"), n), joined("-({})", n), joined("abs({})", n),
        joined("coalesce({}, {})", n, n), joined("least({}, {}, 1)", n, n), joined("pmod({}, 3)", n),
        joined("CASE WHEN {} > 1 THEN {} END", n, n), joined("CAST({} AS DECIMAL(20,4))", n), joined("sqrt({})", n),
    ),
    3,
)
times = grown(
    columns("d", "ts") | st.sampled_from(["DATE '2024-02-29'", "TIMESTAMP '1969-12-31 23:59:59.000001Z'"]),
    lambda t: st.one_of(
        joined(
            "({} + INTERVAL '{}' {})", t, st.sampled_from(["1", "-3", "40"]), st.sampled_from(["DAY", "HOUR", "MONTH"])
        ),
        joined("({} - INTERVAL '1.5' SECOND)", t),
        joined("date_trunc('{}', {})", st.sampled_from(["day", "week", "minute"]), t),
        joined("CAST({} AS DATE)", t),
        joined("date_add({}, 3)", t),
    ),
    2,
)
texts = (
    columns("s")
    | st.sampled_from([r"'it\'s'", r"'a\\b\n'", "''", "'é%'"])
    | joined("upper(concat({}, 'x'))", columns("s"))
)
comparison = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
truths = grown(
    st.one_of(
        joined("{} {} {}", numbers, comparison, numbers), joined("{} {} {}", times, comparison, times),
        joined("{} {} {}", texts, comparison, texts), joined("{} IN (1, 2)", columns("a", "b")),
        joined("{} LIKE 'a\\\\%b_'", texts), joined("{} IS NULL", numbers),
        joined("(l.ts - r.ts) {} INTERVAL '90' MINUTE", comparison),
        columns("bo"),
    ),
    lambda b: st.one_of(
        joined("({} AND {})", b, b), joined("({} OR {})", b, b), joined("NOT ({})", b), joined("({}) IS NOT NULL", b),
        joined("({}) = ({})", b, b),
    ),
    2,
)


@pytest.mark.slow
@examples()
@given(truths)
@example("l.i8 = (l.i8 * CAST(1 AS DECIMAL(20,4)))")
@example("l.i8 = (l.i8 % l.dec)")
def test_round_trip(sql):
    node = parse_scalar(sql, SCOPE)
    # A constant under an operator has no column whose type it would meet again when its text is read.
    assume(all(columns_of(n) or n.op == "literal" for n in walk(node)))
    text = to_text(node)
    assert to_text(parse_scalar(text, SCOPE)) == text


@pytest.mark.parametrize(("sql", "expected"), [
    ("INTERVAL 0 SECONDS", "INTERVAL '0' SECOND"), ("INTERVAL 86400 SECONDS", "INTERVAL '1' DAY"),
    ("INTERVAL -90 SECONDS", "INTERVAL '-90' SECOND"), ("INTERVAL '0.25' SECOND", "INTERVAL '0.25' SECOND"),
    ("INTERVAL 1500 MICROSECONDS", "INTERVAL '0.0015' SECOND"),
    ("INTERVAL 24 MONTHS", "INTERVAL '2' YEAR"),
    ("TIMESTAMP '1969-12-31 23:59:59.5'", "TIMESTAMP '1969-12-31 23:59:59.5Z'"),
    ("1.50", "1.50"),
    ("l.dec * 2.5", "l.dec * 2.5"),
    ("l.i8 * CAST(1 AS DECIMAL(20,4))", "CAST(l.i8 AS DECIMAL(3,0)) * CAST(1.0000 AS DECIMAL(20,4))"),
    ("-5BD", "-5BD"), ("cast('NaN' as double)", "CAST('NaN' AS DOUBLE)"),
    ("cast('-inf' as double)", "CAST('-Infinity' AS DOUBLE)"), ("l.a - (l.a - (l.a - 1))", "l.a - (l.a - (l.a - 1))"),
    ("(l.a - l.a) - 1", "l.a - l.a - 1"), ("l.a * (l.a + 1)", "l.a * (l.a + 1)"), ("-(-l.a)", "-(-l.a)"),
    ("l.a - -1", "l.a - -1"), ("(l.bo and r.bo) or l.bo", "l.bo AND r.bo OR l.bo"),
    ("l.bo and (r.bo or l.bo)", "l.bo AND (r.bo OR l.bo)"), ("(l.bo and r.bo) = l.bo", "(l.bo AND r.bo) = l.bo"),
    ("(not l.bo) is null", "(NOT l.bo) IS NULL"),
])  # fmt: skip
def test_text(sql, expected):
    assert to_text(parse_scalar(sql, SCOPE)) == expected
    assert str(parse_scalar(sql, SCOPE)) == expected
