"""Random expressions over ints, decimals and truth values against an evaluator of a few lines of exact Python.

The reference knows numbers as Fractions and a row at a time; ERROR and None travel by the rules of SEMANTICS: an error
in an argument is an error, except where AND, OR, CASE and COALESCE do not look at it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from evaluating import ERROR, answers, col
from seeds import each, in_blocks

from ivjoin.expr import build
from ivjoin.expr.nodes import Node, make, walk
from ivjoin.expr.types import Type, decimal, from_arrow, to_arrow

Row = Mapping[str, Any]
N = 40


def half_up(x: Fraction) -> int:
    n, d = abs(x).numerator, abs(x).denominator
    q = (2 * n + d) // (2 * d)
    return q if x >= 0 else -q


def fit(x: Fraction, t: Type) -> Any:
    """The value in a type: rounded at its scale; ERROR if it does not fit."""
    if t.kind == "decimal":
        n = half_up(x * 10**t.scale)
        return Fraction(n, 10**t.scale) if abs(n) < 10**t.precision else ERROR
    n = int(x)  # toward zero
    low, high = t.limits
    return Fraction(n) if low <= n <= high else ERROR


def truncated(x: Fraction) -> Fraction:
    return Fraction(int(x))


def reference(node: Node, row: Row) -> Any:
    """The value of a row: ERROR, None, bool or Fraction."""
    op, t = node.op, node.type
    if op == "column":
        return row[node.params[1]]
    if op == "literal":
        v = node.params[0]
        return v if v is None or isinstance(v, bool) else Fraction(v, 10**t.scale if t.kind == "decimal" else 1)
    args = [reference(a, row) for a in node.args]
    if op in ("and", "or"):
        null = False
        for v in args:
            if v is ERROR or v is (op == "or"):
                return v
            null |= v is None
        return None if null else op == "and"
    if op == "case":
        for when, then in zip(args[:-1:2], args[1:-1:2]):
            if when is ERROR:
                return ERROR
            if when:
                return then
        return args[-1]
    if op == "coalesce":
        return next((v for v in args if v is not None), None)
    if ERROR in args:
        return ERROR
    if op == "is_null":
        return args[0] is None
    if op == "eq_null_safe":
        return args[0] == args[1]
    if op in ("least", "greatest"):
        present = [v for v in args if v is not None]
        return (min if op == "least" else max)(present) if present else None
    if op == "in":
        if args[0] is None:
            return None
        listed = [reference(make("literal", (), (v,), node.args[0].type), row) for v in node.params]
        return True if args[0] in listed else None if None in listed else False
    if None in args:
        return None
    if op == "not":
        return not args[0]
    x, y = args[0], args[-1]
    if op in ("div", "intdiv", "mod", "pmod") and y == 0:
        return ERROR
    compared = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
    if op in compared:
        return compared[op]
    if op in ("mod", "pmod"):
        r = x - y * truncated(x / y)
        return fit(r + y if op == "pmod" and r < 0 < y else r, t)
    if op in ("floor", "ceil"):
        return fit(Fraction(x // 1 if op == "floor" else -(-x // 1)), t)
    if op == "round":
        (digits,) = node.params
        return fit(half_up(x * Fraction(10) ** digits) / Fraction(10) ** digits, t)
    value = {
        "add": lambda: x + y, "sub": lambda: x - y, "mul": lambda: x * y, "div": lambda: x / y,
        "intdiv": lambda: truncated(x / y), "neg": lambda: -x, "abs": lambda: abs(x), "cast": lambda: x,
    }[op]()  # fmt: skip
    return fit(working(op, value, node) if t.kind == "decimal" else value, t)


def working(op: str, x: Fraction, node: Node) -> Fraction:
    """What Spark rounds to the result's scale: a product of 38 significant digits, a quotient of 38 fraction digits."""
    if op == "div":
        return Fraction(half_up(x * 10**38), 10**38)
    scale = sum(a.type.scale for a in node.args) if op == "mul" else 0
    digits = len(str(abs(int(x * 10**scale))))
    if op == "mul" and digits > 38:
        unit = 10 ** (digits - 38)
        return Fraction(half_up(x * 10**scale / unit) * unit, 10**scale)
    return x


INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()]
DECIMALS = [pa.decimal128(3, 1), pa.decimal128(9, 2), pa.decimal128(18, 6), pa.decimal128(20, 0), pa.decimal128(38, 10)]
TYPES = {f"c{i}": t for i, t in enumerate([*INTS, *DECIMALS])} | {"p": pa.bool_(), "q": pa.bool_()}


def value_of(rng: random.Random, t: Type) -> Any:
    """A physical value; the corners of the type and small numbers are likely."""
    if rng.random() < 0.15:
        return None
    if t.kind == "bool":
        return rng.random() < 0.5
    low, high = t.limits
    v = rng.choice(
        [rng.choice([low, low + 1, high, high - 1, 0, 1]), rng.randint(max(low, -20), min(high, 20)),
            rng.randint(low, high)]
    )
    return v


def column(rng: random.Random, t: pa.DataType) -> tuple[pa.Array, list[Any]]:
    kind = from_arrow(t)
    physical = [value_of(rng, kind) for _ in range(N)]
    if kind.kind == "decimal":
        return decimals(physical, kind)
    return pa.array(physical, t), [v if v is None or isinstance(v, bool) else Fraction(v) for v in physical]


def decimals(unscaled: list[int | None], t: Type) -> tuple[pa.Array, list[Any]]:
    exact = [None if v is None else Decimal(v).scaleb(-t.scale, Context(prec=80)) for v in unscaled]
    return pa.array(exact, to_arrow(t)), [None if v is None else Fraction(v, 10**t.scale) for v in unscaled]


def number(rng: random.Random, depth: int) -> Node:
    if depth <= 0 or rng.random() < 0.15:
        if rng.random() < 0.3:
            return build.literal(rng.choice([0, 1, -1, 2, 7, 127, 2**31 - 1, 2**63 - 1, Decimal("0.5"),
                Decimal("-3.25")]))
        name = rng.choice([n for n in TYPES if n.startswith("c")])
        return col(name, TYPES[name])
    a = number(rng, depth - 1)
    op = rng.choice(["add", "sub", "mul", "div", "intdiv", "mod", "pmod", "neg", "abs", "least", "greatest", "floor",
        "ceil",
                     "round", "case", "coalesce", "cast"])  # fmt: skip
    if op in ("neg", "abs", "floor", "ceil"):
        return getattr(build, {"abs": "abs_"}.get(op, op))(a)
    if op == "round":
        return build.round_(a, rng.choice([-2, -1, 0, 1, 3]))
    if op == "cast":
        return build.cast(a, from_arrow(rng.choice([*INTS, *DECIMALS])))
    if op == "case":
        return build.case([(truth(rng, depth - 1), a)], number(rng, depth - 1))
    if op == "coalesce":
        return build.coalesce(a, number(rng, depth - 1), number(rng, depth - 2))
    b = number(rng, depth - 1)
    if op == "intdiv" and "float" in (a.type.kind, b.type.kind):
        op = "mod"
    return getattr(build, op)(a, b)


def truth(rng: random.Random, depth: int) -> Node:
    if depth <= 0:
        name = rng.choice(["p", "q"])
        return col(name, TYPES[name])
    op = rng.choice(["eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe", "and_", "or_", "not_", "is_null", "in_"])
    if op in ("and_", "or_"):
        return getattr(build, op)(truth(rng, depth - 1), truth(rng, depth - 1), truth(rng, depth - 2))
    if op == "not_":
        return build.not_(truth(rng, depth - 1))
    if op == "is_null":
        return build.is_null(number(rng, depth - 1))
    if op == "in_":
        items = [build.literal(v) for v in rng.sample([0, 1, 2, 3, None, 5, 6, 7, 8, 9, 10, 11],
            rng.choice([2, 3, 11]))]
        return build.in_(number(rng, depth - 1), items)
    return getattr(build, op)(number(rng, depth - 1), number(rng, depth - 1))


def shown(value: Any, t: Type) -> Any:
    if value is ERROR or value is None or isinstance(value, bool):
        return value
    return int(value * 10**t.scale) if t.kind == "decimal" else int(value)


def has_float(node: Node) -> bool:
    return any(n.type.kind == "float" for n in walk(node))


@pytest.mark.parametrize("seeds", in_blocks(range(60), 11))
def test_random_expressions(seeds: list[int]) -> None:
    each(seeds, compare)


def compare(seed: int) -> None:
    rng = random.Random(seed)
    columns, values = {}, {}
    for name, t in TYPES.items():
        columns[name], values[name] = column(rng, t)
    rows = [{name: v[i] for name, v in values.items()} for i in range(N)]
    compared = 0
    for _ in range(12):
        node = (number if rng.random() < 0.6 else truth)(rng, rng.choice([1, 2, 3, 4]))
        if has_float(node):
            continue
        got = answers(node, columns)
        want = [shown(reference(node, row), node.type) for row in rows]
        assert got == want, f"{node}: {next((r, g, w) for r, g, w in zip(rows, got, want) if g != w)}"
        compared += 1
    assert compared > 0


def test_sliced_columns_give_the_slice_of_the_answer() -> None:
    rng = random.Random(7)
    columns = {name: column(rng, t)[0] for name, t in TYPES.items()}
    for seed in range(40):
        node = number(random.Random(seed), 3)
        full = answers(node, columns)
        for start, stop in ((3, 20), (0, 1), (39, 40), (5, 5)):
            part = {name: c.slice(start, stop - start) for name, c in columns.items()}
            assert repr(answers(node, part)) == repr(full[start:stop])


# Decimals whose unscaled integers are the ends of an int64, the type of small ones.
LEAST = -(2**63)
ENDS = [LEAST, LEAST + 1, -(10**18), -(2**31), -1, 0, 1, 5, 2**31, 10**18, 2**63 - 2, 2**63 - 1]
WIDE = [decimal(38, 18), decimal(38, 4), decimal(30, 2), decimal(20, 20), decimal(19, 0)]


def compare_at_ends(node: Node, **values: tuple[int, Type]) -> None:
    """One row at a time, lest a neighbour turn it to Python's integers."""
    columns, row = {}, {}
    for name, (v, t) in values.items():
        columns[name], (row[name],) = decimals([v], t)
    assert answers(node, columns) == [shown(reference(node, row), node.type)], values


@pytest.mark.parametrize("name", ["floor", "ceil", "neg", "abs_"])
@pytest.mark.parametrize("t", WIDE, ids=str)
def test_decimals_at_the_ends_of_int64(name: str, t: Type) -> None:
    node = getattr(build, name)(col("x", t))
    for v in ENDS:
        compare_at_ends(node, x=(v, t))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("t", WIDE, ids=str)
@pytest.mark.parametrize("u", WIDE, ids=str)
def test_quotients_of_decimals_at_the_ends_of_int64(t: Type, u: Type) -> None:
    node = build.div(col("x", t), col("y", u))
    for v, w in itertools.product(ENDS, ENDS):
        compare_at_ends(node, x=(v, t), y=(w, u))
