"""The evaluator as a whole: laziness of errors, constants, empty batches, sharing, messages, and refusals."""

from __future__ import annotations

import datetime as dt
import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from evaluating import ERROR, answers, check_vector, col, same

from ivjoin.conditions import evaluate as module
from ivjoin.conditions import scalar
from ivjoin.conditions.evaluate import check_supported, compiled, evaluate, first_error
from ivjoin.errors import UnsupportedError
from ivjoin.expr import Scope, build
from ivjoin.expr import types as ty
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import Type

# Truth columns: t and f are constant, n is NULL, e errs.
ZERO = pa.array([0], pa.int32())
ROW = {"t": pa.array([True]), "f": pa.array([False]), "n": pa.array([None], pa.bool_()), "z": ZERO,
    "one": pa.array([1], pa.int32())}
SCHEMA = pa.schema([(name, array.type) for name, array in ROW.items()])


def parsed(text: str) -> Node:
    return scalar(text, Scope(SCHEMA, pa.schema([])))


ERRS = "(1 div z = 1)"
LAZY: list[tuple[str, Any]] = [
    ("f and {e}", False), ("{e} and f", ERROR), ("t and {e}", ERROR), ("n and {e}", ERROR), ("{e} and n", ERROR),
    ("t or {e}", True), ("{e} or t", ERROR), ("f or {e}", ERROR), ("n or {e}", ERROR),
    ("f and n", False), ("n and f", False), ("t and n", None), ("n and n", None), ("n or t", True), ("f or n", None),
    ("t and f and {e}", False), ("t and {e} and f", ERROR), ("n and f and {e}", False), ("n and {e} and f", ERROR),
    ("f or t or {e}", True), ("not (f and {e})", True), ("not {e}", ERROR), ("{e} is null", ERROR),
    ("case when t then 1 else 1 div z end", 1), ("case when f then 1 div z else 2 end", 2),
    ("case when {e} then 1 else 2 end", ERROR), ("case when t then 1 when {e} then 2 else 3 end", 1),
    ("case when n then 1 div z when t then 5 end", 5), ("case when f then 1 when {e} then 2 else 3 end", ERROR),
    ("case when t then 1 div z else 2 end", ERROR), ("case when f then 1 else null end", None),
    ("coalesce(one, 1 div z)", 1), ("coalesce(cast(null as int), 1 div z)", ERROR), ("coalesce(1 div z, one)", ERROR),
    ("coalesce(n, f, {e})", False), ("coalesce(n, {e}, t)", ERROR),
    ("least(one, 1 div z)", ERROR), ("greatest(cast(null as bigint), 1 div z)", ERROR),
    ("1 div z + cast(null as int)", ERROR), ("{e} <=> n", ERROR), ("z in (1 div z, 0)",
        ERROR), ("one in (1, 1 div z)", True),
    ("z between one and 1 div z", False), ("one between one and 1 div z", ERROR), ("nullif(one, 1)", None),
]  # fmt: skip


@pytest.mark.parametrize("text, want", LAZY, ids=[t for t, _ in LAZY])
def test_errors_are_lazy(text: str, want: Any) -> None:
    assert answers(parsed(text.format(e=ERRS)), ROW) == [want]


BY_KIND: dict[str, tuple[Any, Any, Any]] = {
    "bool": (pa.bool_(), False, True), "int8": (pa.int8(), -1, 2), "uint64": (pa.uint64(), 3, 2**64 - 1),
    "float32": (pa.float32(), -1.5, 2.5), "float64": (pa.float64(), -1.5, 2.5),
    "decimal": (pa.decimal128(10, 2), Decimal("-1.25"), Decimal("3.50")),
    "wide decimal": (pa.decimal128(38, 2), Decimal("-1.25"), Decimal("123456789012345678901234567890.50")),
    "date": (pa.date32(), dt.date(1969, 1, 1), dt.date(2024, 2, 29)),
    "timestamp": (pa.timestamp("us", "UTC"), dt.datetime(1969, 1, 1), dt.datetime(2024, 2, 29)),
    "duration": (pa.duration("ms"), dt.timedelta(seconds=-1), dt.timedelta(days=1)),
    "time": (pa.time64("us"), dt.time(1), dt.time(23, 59)),
    "string": (pa.string(), "a", "b"), "binary": (pa.binary(), b"\x00", b"\xff"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BY_KIND)
def test_choice_and_comparison_for_every_kind(kind: str) -> None:
    t, low, high = BY_KIND[kind]
    columns = {"a": pa.array([low, high, None, low, None], t), "b": pa.array([high, high, low, None, None], t),
               "p": pa.array([True, False, None, True, False])}  # fmt: skip
    a, b, p = col("a", t), col("b", t), col("p", pa.bool_())
    lo, hi = answers(a, columns)[:2]

    def got(op: str, *args: Node, params: tuple[Any, ...] = (), type: Type | None = None) -> list[Any]:
        return answers(make(op, args, params, type or a.type), columns)

    assert got("lt", a, b, type=ty.BOOL) == [True, False, None, None, None]
    assert got("ge", a, b, type=ty.BOOL) == [False, True, None, None, None]
    assert got("eq", a, b, type=ty.BOOL) == [False, True, None, None, None]
    assert got("eq_null_safe", a, b, type=ty.BOOL) == [False, True, False, False, True]
    assert got("is_null", a, type=ty.BOOL) == [False, False, True, False, True]
    assert got("least", a, b) == [lo, hi, lo, lo, None]
    assert got("greatest", a, b) == [hi, hi, lo, lo, None]
    assert got("coalesce", a, b) == [lo, hi, lo, lo, None]
    assert got("case", p, a, b) == [lo, hi, lo, lo, None]
    value = make("literal", (), (lo,), a.type)
    other = make("literal", (), (hi,), a.type)
    null = make("literal", (), (None,), a.type)
    assert got("eq", a, value, type=ty.BOOL) == [True, False, None, True, None]
    assert got("gt", value, a, type=ty.BOOL) == [False] * 2 + [None, False, None]
    assert got("lt", a, null, type=ty.BOOL) == [None] * 5
    assert got("eq_null_safe", a, null, type=ty.BOOL) == [False, False, True, False, True]
    assert got("eq_null_safe", a, value, type=ty.BOOL) == [True, False, False, True, False]
    assert got("coalesce", a, value) == [lo, hi, lo, lo, lo]
    assert got("coalesce", null, b) == [hi, hi, lo, None, None]
    assert got("coalesce", value, b) == [lo] * 5
    assert got("case", p, value, other) == [lo, hi, hi, lo, hi]
    assert got("case", p, value, null) == [lo, None, None, lo, None]
    assert got("least", a, value) == [lo] * 5
    assert got("greatest", value, null, a) == [lo, hi, lo, lo, lo]
    (x,), (y,) = value.params, other.params
    assert got("in", a, params=(x, None), type=ty.BOOL) == [True, None, None, True, None]
    assert got("in", a, params=(None,), type=ty.BOOL) == [None] * 5
    assert got("in", a, params=(y,) * 10, type=ty.BOOL) == [False, True, None, False, None]
    assert got("in", a, params=(*(y,) * 10, None), type=ty.BOOL) == [None, True, None, None, None]


@pytest.mark.parametrize("kind", BY_KIND)
def test_no_rows(kind: str) -> None:
    t, low, _ = BY_KIND[kind]
    columns = {"a": pa.array([], t), "p": pa.array([], pa.bool_())}
    a, p = col("a", t), col("p", pa.bool_())
    (physical,) = answers(a, {"a": pa.array([low], t)})
    value, null = make("literal", (), (physical,), a.type), make("literal", (), (None,), a.type)
    nodes = [
        a, value, null, make("lt", (a, value), (), ty.BOOL), make("lt", (a, null), (), ty.BOOL),
        make("eq_null_safe", (a, value), (), ty.BOOL), make("coalesce", (a, value), (), a.type),
        make("case", (p, a, value), (), a.type), make("least", (a, value, null), (), a.type),
        make("in", (a,), (physical, None), ty.BOOL), make("is_null", (a,), (), ty.BOOL),
    ]  # fmt: skip
    for node, v in zip(nodes, evaluate(nodes, lambda _, name: columns[name], 0), strict=True):
        check_vector(v, node.type, 0)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_constants_fill_the_rows(n: int) -> None:
    t = ty.INT32
    one, top = build.literal(1, t), build.literal(2**31 - 1, t)
    nodes = [one, make("add", (top, one), (), t), build.literal(None, t), build.literal("x"),
        build.literal(None, ty.STRING),
             build.literal(10**20, ty.decimal(30, 0)), make("and",
                 (build.literal(False), build.literal(None, ty.BOOL)), (), ty.BOOL)]  # fmt: skip
    vectors = evaluate(nodes, lambda _s, _n: pytest.fail("a constant reads no column"), n)
    from evaluating import plain

    got = [plain(v, node.type, n) for node, v in zip(nodes, vectors, strict=True)]
    assert got == [[x] * n for x in (1, ERROR, None, "x", None, 10**20, False)]


def test_an_error_in_a_constant_shows_only_where_it_is_looked_at() -> None:
    e = make("intdiv", (build.literal(1, ty.INT64), build.literal(0, ty.INT64)), (), ty.INT64)
    a = col("a", pa.int64())
    columns = {"a": pa.array([1, None, 3])}
    assert answers(make("coalesce", (a, e), (), ty.INT64), columns) == [1, ERROR, 3]
    assert answers(make("add", (a, e), (), ty.INT64), columns) == [ERROR] * 3
    assert answers(make("and", (make("gt", (a, build.literal(2, ty.INT64)), (), ty.BOOL),
                                make("eq", (e, a), (), ty.BOOL)), (), ty.BOOL), columns) == [False, ERROR,
                                ERROR]  # fmt: skip


def test_shared_nodes_are_read_once() -> None:
    reads: list[str] = []
    a = col("a", pa.int64())
    total = make("add", (a, a), (), ty.INT64)

    def column(_: str, name: str) -> pa.Array:
        reads.append(name)
        return pa.array([1, 2])

    first, second, third = evaluate([total, a, make("mul", (total, total), (), ty.INT64)], column, 2)
    assert reads == ["a"]
    assert (first.values.tolist(), second.values.tolist(), third.values.tolist()) == ([2, 4], [1, 2], [4, 16])


def test_sides_are_kept_apart() -> None:
    node = make("sub", (col("a", pa.int64()), col("a", pa.int64(), "right")), (), ty.INT64)
    (v,) = evaluate([node], lambda side, _: pa.array([1, 2] if side == "left" else [10, 20]), 2)
    assert v.values.tolist() == [-9, -18]


def test_inputs_are_not_changed() -> None:
    values = np.arange(5)
    array = pa.array(values)
    a = col("a", array.type)
    for op in ("neg", "abs"):
        answers(make(op, (a,), (), ty.INT64), {"a": array})
    answers(make("pmod", (a, build.literal(0, ty.INT64)), (), ty.INT64), {"a": array})
    assert values.tolist() == [0, 1, 2, 3, 4]


def test_numpy_warns_of_nothing() -> None:
    floats = pa.array([0.0, -1.0, 1e308, float("nan"), float("inf")])
    ints = pa.array([0, -1, 2**63 - 1, -(2**63), 1])
    x, i = col("x", floats.type), col("i", ints.type)
    ops = ["sqrt", "ln", "exp", "floor", "ceil", "abs", "neg"]
    nodes = [make(op, (x,), (), ty.INT64 if op in ("floor", "ceil") else ty.FLOAT64) for op in ops]
    nodes += [make(op, (x, x), (), ty.FLOAT64) for op in ("add", "mul", "div", "mod", "pmod", "pow")]
    nodes += [make(op, (i, i), (), ty.INT64) for op in ("add", "mul", "intdiv", "mod", "pmod")]
    nodes += [make("cast", (x,), (t, "UTC"), t) for t in (ty.INT8, ty.UINT64, ty.FLOAT32, ty.decimal(5, 2), ty.STRING)]
    nodes += [make("round", (x,), (2,), ty.FLOAT64)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vectors = evaluate(nodes, lambda _, name: {"x": floats, "i": ints}[name], 5)
    assert len(vectors) == len(nodes)


MESSAGES: list[tuple[str, str]] = [
    ("a + 10", "integer overflow in l.a + 10 (int32) at l.a = 2147483647"),
    ("b > 0 and 7 % (a - 2147483647) = 1", "division by zero in"),
    ("case when b = 1 then a + b else 0 end", "integer overflow in l.a + l.b (int32) at l.a = 2147483647, l.b = 1"),
    ("cast(s as int) > 1", "cannot"),
    ("abs(a + 1) < 5", "integer overflow in l.a + 1 (int32) at l.a = 2147483647"),
    ("ts + make_dt_interval(100000000)", "timestamp overflow in"),
    ("d + a", "date overflow in"),
    ("x / 0D", "division by zero in l.x / 0.0"),
    ("coalesce(cast(null as int), a + 1)", "integer overflow in l.a + 1"),
    ("floor(x * 1e300D)", "integer overflow in"),
]  # fmt: skip


@pytest.mark.parametrize("text, want", MESSAGES, ids=[t for t, _ in MESSAGES])
def test_messages(text: str, want: str) -> None:
    columns = {
        "a": pa.array([1, 2**31 - 1], pa.int32()), "b": pa.array([1, 1], pa.int32()), "s": pa.array(["1", "x1"]),
        "ts": pa.array([0, 2**63 - 1], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "d": pa.array([dt.date(2024, 1, 1)] * 2), "x": pa.array([1.0, 1e10]),
    }  # fmt: skip
    node = scalar(text, Scope(pa.schema([(n, c.type) for n, c in columns.items()]), pa.schema([])))
    message = first_error(node, lambda _, name: columns[name], 1)
    assert want in message
    if "cast(s" in text:
        assert "CAST(l.s AS INT)" in message and "'x1'" in message


UNSUPPORTED: list[tuple[Node, str]] = [
    (make("add", (col("s", pa.string()), col("s", pa.string())), (), ty.STRING), "add(string, string)"),
    (make("add", (col("a", pa.int64()), col("b", pa.int32())), (), ty.INT64), "int64, int32"),
    (make("sqrt", (col("a", pa.int64()),), (), ty.FLOAT64), "sqrt(int64)"),
    (make("nonsense", (col("a", pa.int64()),), (), ty.FLOAT64), "nonsense"),
    (make("lt", (col("o", pa.list_(pa.int32())), col("o", pa.list_(pa.int32()))), (), ty.BOOL), "lt("),
    (make("cast", (col("d", pa.date32()),), (ty.INT32, "UTC"), ty.INT32), "cast(date)"),
    (make("function", (col("s", pa.string()),), ("no_such_function",), ty.STRING), "no_such_function"),
    (make("function", (col("s", pa.string()),), ("utf8_lpad", "x"), ty.STRING), "cannot be evaluated"),
    (make("and", (col("a", pa.int64()), col("a", pa.int64())), (), ty.BOOL), "expected bool"),
    (make("like", (col("a", pa.int64()),), ("%", "\\"), ty.BOOL), "like(int64)"),
    (make("date_trunc", (col("t", pa.timestamp("us")),), ("fortnight", "UTC"), ty.timestamp("us")), "date_trunc"),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("node, want", UNSUPPORTED, ids=[w for _, w in UNSUPPORTED])
def test_what_cannot_be_evaluated_is_refused_at_plan_time(node: Node, want: str) -> None:
    deep = make("is_null", (node,), (), ty.BOOL)
    with pytest.raises(UnsupportedError) as e:
        check_supported(deep)
    assert want in str(e.value)
    with pytest.raises(UnsupportedError):
        compiled([deep])


def test_opaque_columns_can_be_tested_for_null() -> None:
    array = pa.array([[1], None])
    assert answers(make("is_null", (col("o", array.type),), (), ty.BOOL), {"o": array}) == [False, True]


def test_untyped_nulls_compare() -> None:
    null = make("column", (), ("left", "u"), ty.NULL)
    columns = {"u": pa.nulls(2), "s": pa.array(["a", None]), "a": pa.array([1, None])}
    for name, t in (("s", pa.string()), ("a", pa.int64())):
        for args in ((null, col(name, t)), (col(name, t), null)):
            assert answers(make("lt", args, (), ty.BOOL), columns) == [None, None]
            assert answers(make("eq_null_safe", args, (), ty.BOOL), columns) == [False, True]
    cast = make("cast", (null,), (ty.INT64, "UTC"), ty.INT64)
    assert answers(make("coalesce", (cast, col("a", pa.int64())), (), ty.INT64), columns) == [1, None]


FLOATS = [float("-inf"), -1.5, -5e-324, -0.0, 0.0, 1.0, 1e300, float("inf"), float("nan")]


@pytest.mark.parametrize("t", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe"])
def test_float_comparisons_have_nan_on_top(op: str, t: pa.DataType) -> None:
    both = [(a, b) for a in FLOATS for b in FLOATS]
    values = {"a": pa.array([a for a, _ in both], t), "b": pa.array([b for _, b in both], t)}
    a, b = col("a", t), col("b", t)
    rank = {x: i for i, x in enumerate(sorted({v for v in values["a"].to_pylist() if v == v}))}

    def place(x: float) -> int:
        return rank.get(x, len(rank))

    f = {"eq": int.__eq__, "ne": int.__ne__, "lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__,
         "eq_null_safe": int.__eq__}[op]  # fmt: skip
    xs, ys = values["a"].to_pylist(), values["b"].to_pylist()
    want = [f(place(x), place(y)) for x, y in zip(xs, ys)]
    assert answers(make(op, (a, b), (), ty.BOOL), values) == want
    for y in FLOATS:
        literal = make("literal", (), (pa.scalar(y, t).as_py(),), a.type)
        got = answers(make(op, (a, literal), (), ty.BOOL), values)
        assert got == [f(place(x), place(pa.scalar(y, t).as_py())) for x in xs], y
        got = answers(make(op, (literal, a), (), ty.BOOL), values)
        assert got == [f(place(pa.scalar(y, t).as_py()), place(x)) for x in xs], y


def test_least_and_greatest_of_floats() -> None:
    nan = float("nan")
    a, b = col("a", pa.float64()), col("b", pa.float64())
    columns = {"a": pa.array([nan, nan, 1.0, None, None]), "b": pa.array([1.0, nan, 2.0, nan, None])}
    assert same(answers(make("least", (a, b), (), ty.FLOAT64), columns), [1.0, nan, 1.0, nan, None])
    assert same(answers(make("greatest", (a, b), (), ty.FLOAT64), columns), [nan, nan, 2.0, nan, None])


def test_neighbouring_floats() -> None:
    x = pa.array([0.0, 1.0, -1.0, float("inf"), float("nan")])
    up = answers(make("next_up", (col("x", x.type),), (), ty.FLOAT64), {"x": x})
    down = answers(make("next_down", (col("x", x.type),), (), ty.FLOAT64), {"x": x})
    inf = float("inf")
    assert same(up, [5e-324, 1.0000000000000002, -0.9999999999999999, inf, float("nan")])
    assert same(down, [-5e-324, 0.9999999999999999, -1.0000000000000002, 1.7976931348623157e308, float("nan")])


def test_many_programs_do_not_pile_up() -> None:
    a = col("a", pa.int64())
    for i in range(600):
        node = make("add", (a, build.literal(i, ty.INT64)), (), ty.INT64)
        assert answers(node, {"a": pa.array([1])}) == [i + 1]
    assert module._program.cache_info().currsize <= 256
