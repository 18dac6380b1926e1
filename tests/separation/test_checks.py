"""Checks of a condition, evaluated one by one, against the whole condition: the same pairs, the same errors."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ivjoin.conditions import condition
from ivjoin.conditions.evaluate import Vector, evaluate
from ivjoin.expr import Scope
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.ordinal import ordinals
from ivjoin.expr.types import BOOL
from ivjoin.separation.checks import ASK, FALSE, TRUE, Check
from ivjoin.separation.separate import Separation, separate

NAN, INF = float("nan"), float("inf")
FIELDS = {
    "i": pa.int64(), "j": pa.int64(), "n": pa.int32(), "t": pa.int8(), "u": pa.uint64(), "f": pa.float64(),
    "d": pa.timestamp("us"), "m": pa.decimal128(9, 2), "s": pa.string(), "b": pa.bool_(),
}  # fmt: skip
SCHEMA = pa.schema(FIELDS)
SCOPE = Scope(SCHEMA, SCHEMA)
NEAR = [-3, -1, 0, 1, 2, 5]
VALUES: dict[str, list[Any]] = {
    "i": [*NEAR, -(2**63), 2**63 - 1, 2**62, -(2**62) - 1, None], "j": [*NEAR, 2**53 + 1, None],
    "n": [*NEAR, 2**31 - 1, -(2**31), None], "t": [*NEAR, 127, -128, None], "u": [0, 1, 2, 5, 2**63, 2**64 - 1, None],
    "f": [-1.0, -0.0, 0.0, 0.1, 1.0, 1e308, NAN, INF, -INF, None], "d": [*NEAR, 10**15, None], "m": [0, 1, -2, None],
    "s": ["", "a", "ab", None], "b": [True, False, None],
}  # fmt: skip


def separated(text: str) -> Separation:
    return separate(condition(text, SCOPE))


def table(rng: random.Random, n: int) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array([rng.choice(VALUES[name]) for _ in range(n)], t) for name, t in FIELDS.items()], schema=SCHEMA
    )


def vector(node: Node, left: pa.RecordBatch, right: pa.RecordBatch) -> Vector:
    (v,) = evaluate([node], lambda side, name: (left if side == "left" else right).column(name), left.num_rows)
    return v


def missing(v: Vector, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Where it is null, and where it errs."""
    null = np.zeros(n, dtype=bool) if v.valid is None else ~v.valid
    return null, np.zeros(n, dtype=bool) if v.error is None else v.error


def outcomes(sep: Separation, left: pa.RecordBatch, right: pa.RecordBatch) -> np.ndarray:
    """Where the checks end for each pair of rows."""
    at = np.zeros(left.num_rows, dtype=np.int64)
    for _ in sep.checks:
        for i, c in enumerate(sep.checks):
            here = at == i
            at[here] = ends(c, left, right)[here]
    return at


def ends(c: Check, left: pa.RecordBatch, right: pa.RecordBatch) -> np.ndarray:
    n = left.num_rows
    total, null = np.zeros(n, dtype=object), np.zeros(n, dtype=bool)
    for node, sign in ((c.left, 1), (c.right, 1 if c.left is None else -1)):
        if node is not None:
            v = vector(node, left, right)
            total = total + sign * ordinals(v.values, node.type).astype(object)
            null |= missing(v, n)[0]
    inside = np.array([(c.lo is None or c.lo <= x) and (c.hi is None or x <= c.hi) for x in total], dtype=bool)
    return np.where(null, c.null, np.where(inside, c.true, c.false))


def guarded(sep: Separation, left: pa.RecordBatch, right: pa.RecordBatch) -> np.ndarray:
    """The pairs for which the checks are meaningful: no remaining node raises, and every guard is TRUE."""
    n = left.num_rows
    good = np.ones(n, dtype=bool)
    for node in (x for c in sep.checks for x in (c.left, c.right) if x is not None):
        good &= ~missing(vector(node, left, right), n)[1]
    for g in sep.guards:
        v = vector(g.node, left, right)
        null, erred = missing(v, n)
        good &= ~erred & (null | ((v.values >= g.lo) & (v.values <= g.hi)))
    return good


def meaning(nodes: tuple[Node, ...], left: pa.RecordBatch, right: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    """Where all hold, and where one errs before another is FALSE."""
    n = left.num_rows
    true, open_, errs = (np.full(n, x) for x in (True, True, False))
    for node in nodes:
        v = vector(node, left, right)
        null, erred = missing(v, n)
        value = np.asarray(v.values, dtype=bool)
        errs |= erred & open_
        true &= value & ~null & ~erred
        open_ &= value | null | erred
    return true, errs


def drawn(rng: random.Random, depth: int) -> str:
    """A condition over both sides, as text."""
    if depth and rng.random() < 0.75:
        a, b, test = (drawn(rng, depth - 1) for _ in range(3))
        return rng.choice([
            f"({a} OR {b})", f"({a} OR {b} OR {test})", f"({a} AND {b})", f"NOT ({a})", f"coalesce({a}, {b})",
            f"(CASE WHEN {test} THEN {a} ELSE {b} END)", f"(CASE WHEN {test} THEN {a} WHEN {a} THEN {b} END)",
            f"(({a}) IS NULL)", f"(({a}) = TRUE)", f"(({a}) = FALSE)",
        ])  # fmt: skip
    x, k = rng.choice("iijntufdmsb"), rng.randint(-3, 5)
    op = rng.choice(["<", "<=", ">", ">=", "=", "<>", "<=>"])
    number = rng.choice("ijntf")
    return rng.choice([
        f"l.{x} {op} r.{x}", f"r.{x} {op} l.{x}", f"l.i - r.i {op} {k}", f"l.i - r.i IN ({k}, {k + 1}, 7)",
        f"l.n - r.n BETWEEN {k} AND {k + 3}", f"abs(l.i - r.i) {op} {k}", f"l.i + {k} {op} r.j", f"l.f {op} r.f + {k}D",
        f"l.f - r.f {op} {k}D", f"l.{number} {op} {k}", f"{k} {op} r.{number}", f"l.s {op} 'a'", "r.s LIKE 'a%'",
        f"l.{x} IS NULL", f"r.{x} IS NOT NULL", "l.b", "r.b", f"l.t - r.t {op} {k}", f"l.t + {k} {op} r.t",
        f"l.i * r.j {op} {k}", f"l.i div r.j {op} {k}", f"l.j % r.n {op} 0", f"l.u {op} r.u", f"l.u - r.u {op} 2",
        f"l.d - r.d {op} INTERVAL '0.000003' SECOND", f"l.m - r.m {op} {k}", f"l.i + r.j {op} {k}",
        f"(CASE WHEN l.n > {k} THEN l.i ELSE r.j END) {op} {k}", "NULL", "TRUE", f"l.n IN ({k}, NULL)",
        f"l.i - r.i IN ({k}, NULL)", f"l.j + l.n {op} r.i", f"least(l.j, l.n) {op} r.i", f"2 * l.n {op} 2 * r.n + {k}",
    ])  # fmt: skip


def compare(text: str, left: pa.RecordBatch, right: pa.RecordBatch) -> int:
    """How many pairs are decided by checks, all of them rightly."""
    sep = separated(text)
    if not sep.checks:
        assert not sep.decided
        return 0
    at = outcomes(sep, left, right)
    assert set(at.tolist()) <= {TRUE, FALSE, ASK}
    true, errs = meaning(sep.residual, left, right)
    good = guarded(sep, left, right)
    want = np.where(errs, ASK, np.where(true, TRUE, FALSE))
    wrong = good & (at != ASK) & (at != want)
    if wrong.any():
        i = int(wrong.argmax())
        raise AssertionError(f"{text}: {at[i]}, not {want[i]}, of {left.slice(i, 1).to_pylist()} and "
                             f"{right.slice(i, 1).to_pylist()}; {sep.checks}")  # fmt: skip
    if sep.decided.issuperset(sep.residual):
        assert ASK not in at.tolist()
    return int(np.count_nonzero(good & (at != ASK)))


@pytest.mark.one_in(7)
@pytest.mark.parametrize("seed", range(12))
def test_checks_agree_with_the_condition(seed: int) -> None:
    rng = random.Random(seed)
    left, right = table(rng, 300), table(rng, 300)
    decided = sum(compare(drawn(rng, rng.randint(1, 3)), left, right) for _ in range(40))
    assert decided > 500


DECIDED = [
    "l.i BETWEEN r.i - 5 AND r.i OR l.i BETWEEN r.i + 9 AND r.i + 12",
    "CASE WHEN l.n > r.n THEN l.n <> 3 ELSE r.n > 5 END",
    "(l.s = 'a' AND l.i - r.i < 5) OR (l.s = 'ab' AND l.i - r.i < 50)",
    "CASE WHEN l.n = 1 THEN l.i - r.i WHEN l.n = 2 THEN l.i - r.j ELSE 0 END < 5",
    "l.i - r.i IN (1, 2, 7)", "NOT (l.i - r.i BETWEEN 3 AND 5)", "abs(l.i - r.i) > 3", "l.i <> r.i", "l.f <> r.f",
    "l.f BETWEEN r.f - 1D AND r.f OR l.f > r.f + 9D", "l.n <=> r.n OR l.u < r.u", "l.b OR r.b",
    "coalesce(l.i < r.i, l.n < r.n, l.f IS NULL)", "l.d < r.d OR l.d > r.d + INTERVAL 1 SECOND", "l.m < r.m OR l.b",
]  # fmt: skip


@pytest.mark.parametrize("text", DECIDED)
def test_bands_in_branches_are_decided_in_full(text: str) -> None:
    sep = separated(text)
    assert sep.residual and sep.decided.issuperset(sep.residual)
    rng = random.Random(text)
    assert compare(text, table(rng, 500), table(rng, 500)) > 50


ASKED = {
    "l.i * r.j < 9": False, "l.s < r.s": False, "l.t - r.t < 5 OR l.t = r.t": False, "l.i div r.j > 3 OR l.b": False,
    "l.i < r.i OR l.i * r.j < 9": True, "l.b AND l.i * r.j < 9 OR r.b": True, "l.s <> r.s AND l.f <> r.f": True,
    "l.f - r.f < 1D OR l.i = r.j": False, "l.i = r.j OR l.u - r.u < 3": True,
}  # fmt: skip


@pytest.mark.parametrize("text, some", ASKED.items())
def test_conjuncts_that_may_err_or_are_not_bands_are_residual(text: str, some: bool) -> None:
    sep = separated(text)
    assert not sep.decided.issuperset(sep.residual)
    assert bool(sep.checks) == some
    assert not some or any(ASK in (c.true, c.false, c.null) for c in sep.checks)


def test_an_error_after_a_true_operand_is_not_raised_and_one_before_it_is() -> None:
    rows = [pa.record_batch({"i": [1], "j": [0], "n": pa.array([1], pa.int32())}) for _ in range(2)]
    rows = [r.select(["i", "j"]) for r in rows]
    scope = Scope(rows[0].schema, rows[1].schema)
    behind = separate(condition("l.i = r.i OR l.i div r.j > 3", scope))
    before = separate(condition("l.i div r.j > 3 OR l.i = r.i", scope))
    assert outcomes(behind, *rows).tolist() == [TRUE]
    assert not before.checks


def test_two_ends_of_a_band_are_one_check() -> None:
    sep = separated("l.i BETWEEN r.i - 5 AND r.i - 1 OR l.i BETWEEN r.i + 1 AND r.i + 4")
    assert [(c.lo, c.hi, c.true, c.false, c.null) for c in sep.checks] == [
        (-5, -1, TRUE, 1, 1), (1, 4, TRUE, FALSE, FALSE),
    ]  # fmt: skip


def test_conditions_without_errors_are_evaluated_last() -> None:
    sep = separated("l.s <> r.s AND (l.i < r.i OR l.j < r.j)")
    assert [(str(c.left), c.true) for c in sep.checks] == [("l.i", ASK), ("l.j", ASK)]


def test_a_condition_too_long_to_check_is_left_as_it_is() -> None:
    many = " OR ".join(f"l.i - r.i = {3 * k}" for k in range(200))
    deep = condition("l.i < r.i", SCOPE)
    for k in range(90):
        deep = make("coalesce", (deep, condition(f"l.j < r.j + {k}", SCOPE)), (), BOOL)
    for sep in (separated(many), separate(deep)):
        assert sep.residual and not sep.decided and not sep.checks
    sums = " OR ".join(f"l.i + {k} * l.j < r.i" for k in range(2, 14))
    wide = separated(f"(l.n < r.n OR l.n > r.n + 5) AND ({sums})")
    assert [c in wide.decided for c in wide.residual] == [True, False]
    assert len({c.left for c in wide.checks}) <= 8


def test_unsigned_and_float_ends_differ() -> None:
    ends_of: dict[str, tuple[int | None, int | None]] = {}
    for text in ("l.u >= 18446744073709551615", "l.f > CAST('Infinity' AS DOUBLE)", "l.n < -2147483648"):
        (c, *_) = separated(f"{text} OR l.i < r.i").checks
        ends_of[text.partition(" ")[0]] = c.lo, c.hi
    assert ends_of == {"l.u": (2**63 - 1, None), "l.f": (0x7FF0_0000_0000_0001, None), "l.n": (None, -(2**31) - 1)}
