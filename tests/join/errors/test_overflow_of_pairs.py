"""Arithmetic over both sides that overflows: every pair of edge values against Python's integers, checked by hand.

No order is declared, so nothing may be hidden but what ``docs/semantics.md`` names.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import oracle
import pyarrow as pa
import pytest
from join.tables import rows

from ivjoin import EvaluationError, SymmetricHashJoin, band_join
from ivjoin.operator.match.blocks import VARIABLE


class Machine:
    """A whole number of a type whose arithmetic raises OverflowError where it leaves the type."""

    def __init__(self, value: int, low: int, high: int) -> None:
        if not low <= value <= high:
            raise OverflowError(value)
        self.value, self.low, self.high = value, low, high

    def _with(self, value: int) -> Machine:
        return Machine(value, self.low, self.high)

    def __sub__(self, other: Machine) -> Machine:
        return self._with(self.value - other.value)

    def __add__(self, other: Machine) -> Machine:
        return self._with(self.value + other.value)

    def __abs__(self) -> Machine:
        return self._with(abs(self.value))


TYPES = {
    **{f"int{b}": (getattr(pa, f"int{b}")(), -(2 ** (b - 1)), 2 ** (b - 1) - 1) for b in (8, 16, 32, 64)},
    **{f"uint{b}": (getattr(pa, f"uint{b}")(), 0, 2**b - 1) for b in (8, 16, 32, 64)},
}  # fmt: skip
Pair = Callable[[Machine, Machine], bool]
CONDITIONS: dict[str, Pair] = {
    "l.a - r.a BETWEEN -4 AND 2": lambda x, y: -4 <= (x - y).value <= 2,
    "l.a - r.a <= 2": lambda x, y: (x - y).value <= 2,
    "l.a - r.a >= 1": lambda x, y: (x - y).value >= 1,
    "r.a - l.a < 3": lambda x, y: (y - x).value < 3,
    "NOT (l.a - r.a > 2)": lambda x, y: (x - y).value <= 2,
    "l.a - r.a IN (1, 3)": lambda x, y: (x - y).value in (1, 3),
    "abs(l.a - r.a) <= 2": lambda x, y: abs(x - y).value <= 2,
    "l.a + r.a <= 4": lambda x, y: (x + y).value <= 4,
    "l.a + r.a >= 4": lambda x, y: (x + y).value >= 4,
    "l.a = r.a OR l.a - r.a > 5": lambda x, y: x.value == y.value or (x - y).value > 5,
    "l.a = r.a OR l.a - r.a = 1": lambda x, y: x.value == y.value or (x - y).value == 1,
    "CASE WHEN l.a > 9 THEN l.a - r.a <= 3 ELSE l.a - r.a <= 5 END":
        lambda x, y: (x - y).value <= (3 if x.value > 9 else 5),
}  # fmt: skip


def edges(low: int, high: int) -> list[int]:
    around = {low, low + 1, low + 2, -1, 0, 1, 5, 100, high // 2, high // 2 + 1, high - 2, high - 1, high}
    return sorted(v for v in around | {low // 2, low // 2 - 1, 2**31, 2**53, 2**62} if low <= v <= high)


def batch(t: pa.DataType, *values: tuple[int, int]) -> pa.RecordBatch:
    return pa.record_batch(
        {"k": pa.array([k for k, _ in values], pa.int64()), "a": pa.array([a for _, a in values], t)}
    )


def answers(name: str, condition: Pair) -> dict[tuple[int, int], bool | None]:
    """Of every pair of edge values whether it matches, None where it errs."""
    _, low, high = TYPES[name]
    out: dict[tuple[int, int], bool | None] = {}
    for x, y in product(edges(low, high), repeat=2):
        try:
            out[x, y] = condition(Machine(x, low, high), Machine(y, low, high))
        except OverflowError:
            out[x, y] = None
    return out


@pytest.mark.one_in(73)
@pytest.mark.parametrize("text", CONDITIONS)
@pytest.mark.parametrize("name", TYPES)
def test_every_pair_of_edge_values_raises_or_is_decided(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = TYPES[name][0]
    expected = answers(name, CONDITIONS[text])
    schema = batch(t).schema
    good = [pair for pair, known in expected.items() if known is not None]
    lefts, rights = (batch(t, *((k, pair[s]) for k, pair in enumerate(good))) for s in (0, 1))
    for first, second, compiled in (("left", "right", True), ("right", "left", False)):
        monkeypatch.setenv(VARIABLE, str(int(compiled)))
        op = SymmetricHashJoin(schema, schema, on="k", condition=text)
        out = [*op.push(first, lefts if first == "left" else rights)]
        out += [*op.push(second, lefts if second == "left" else rights)]
        got = {r[0] for b in out for r in rows(b)}
        assert got == {k for k, pair in enumerate(good) if expected[pair]}
        for x, y in (pair for pair, known in expected.items() if known is None):
            op = SymmetricHashJoin(schema, schema, on="k", condition=text)
            # among other rows of the same key and of others, with which it does not err
            others = [(1, a) for a in edges(*TYPES[name][1:]) if expected.get((x, a) if first == "left" else (a, y))]
            list(op.push(first, batch(t, (0, x), (1, x), (2, y)) if first == "left" else batch(t, (1, y), (0, x))))
            with pytest.raises(EvaluationError, match="overflow|range"):
                list(op.push(second, batch(t, *others, (1, y)) if second == "right" else batch(t, *others, (1, x))))


@pytest.mark.parametrize(
    ("t", "condition", "x", "y"),
    [
        (pa.timestamp("us"), "l.a = r.a OR l.a - r.a > INTERVAL 5 SECONDS", -(2**63), 1),
        (pa.timestamp("ns", "UTC"), "l.a = r.a OR l.a - r.a > INTERVAL 5 SECONDS", -(2**63), 1),
        (pa.duration("ms"), "l.a = r.a OR l.a + r.a < INTERVAL 5 SECONDS", 2**63 - 1, 1),
        (pa.date32(), "l.a = r.a OR l.a - r.a > 5", -(2**31), 1),
        (pa.int32(), "l.a = r.a OR l.a + 10 < r.a", 2**31 - 1, 1),
        (pa.int32(), "greatest(l.a - r.a, l.k) < 3", 2**31 - 1, -5),
        (pa.int64(), "l.a = r.a OR CAST(l.a - r.a AS TINYINT) = 1", 300, 1),
    ],
)
def test_other_types_and_shapes(t: pa.DataType, condition: str, x: int, y: int) -> None:
    plain = pa.int32() if t == pa.date32() else pa.int64()
    left, right = (
        pa.record_batch({"k": pa.array([1], pa.int64()), "a": pa.array([v], plain).cast(t)}) for v in (x, y)
    )
    with pytest.raises(EvaluationError, match="overflow|cannot be cast"):
        list(band_join(left, right, on="k", condition=condition))
    assert sum(b.num_rows for b in band_join(left, left, on="k", condition="l.a = r.a")) == 1


@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("keyed", [True, False])
def test_every_join_type_raises(how: str, keyed: bool) -> None:
    left, right = batch(pa.uint32(), (1, 1010)), batch(pa.uint32(), (1, 1013))
    with pytest.raises(EvaluationError, match="overflow"):
        list(band_join(left, right, on="k" if keyed else None, condition="l.a - r.a BETWEEN -4 AND 2", how=how))
    left, right = batch(pa.uint32(), (1, 1013), (2, 7)), batch(pa.uint32(), (1, 1011), (2, 0))
    out = [r for b in band_join(left, right, on="k", condition="l.a - r.a BETWEEN -4 AND 2", how=how) for r in rows(b)]
    assert len(out) == {"inner": 1, "left": 2, "right": 2, "full": 3}.get(how, 1)


@pytest.mark.parametrize(
    ("t", "condition", "x", "y"),
    [(pa.uint32(), "l.a - r.a <= 2", 1, 5), (pa.int32(), "(l.a = r.a OR l.a - r.a > 5)", -(2**31), 1)],
)
def test_a_conjunct_to_the_left_that_is_false_saves_the_pair(t: pa.DataType, condition: str, x: int, y: int) -> None:
    def join(text: str) -> int:
        out = band_join(batch(t, (1, x)), batch(t, (1, y)), on="k", condition=text, how="full")
        return sum(b.num_rows for b in out)

    for saving in ("l.a > r.a", "l.a = r.a", "l.k <> r.k", "l.a > 2", "abs(l.k - r.k) = 1"):
        assert join(f"{saving} AND {condition}") == 2
    with pytest.raises(EvaluationError, match="overflow"):
        join(f"l.a <> r.a AND {condition}")


def test_rows_long_stored_are_met_whatever_the_index() -> None:
    """Many rows of one key, in and out of order, so that the store turns to another index on the way."""
    schema = pa.schema({"k": pa.int64(), "t": pa.int64(), "a": pa.uint16()})
    text = "l.t BETWEEN r.t - 5 AND r.t + 5 AND l.a - r.a <= 2"
    for stride in (1, 7919):
        op = SymmetricHashJoin(schema, schema, on="k", condition=text)
        n = 4000
        t = [i * stride % n for i in range(n)]
        out = list(op.push("left", pa.record_batch({"k": [1] * n, "t": t, "a": [9] * n}, schema=schema)))
        for i in range(0, n, 400):
            right = {"k": [1] * 400, "t": t[i : i + 400], "a": [9] * 400}
            out += op.push("right", pa.record_batch(right, schema=schema))
        assert sum(b.num_rows for b in out) == 11 * n - 30
        with pytest.raises(EvaluationError, match="overflow"):
            list(op.push("right", pa.record_batch({"k": [1], "t": [77], "a": [10]}, schema=schema)))


def test_what_the_documents_promise_less_of() -> None:
    """A key, the square of a far pair, and what another conjunct's band refuses: unmatched, without an error."""
    low, high = -(2**63), 2**63 - 1

    def rows_out(condition: str, x: int, y: int, t: pa.DataType) -> int:
        out = band_join(batch(t, (1, x)), batch(t, (1, y)), on="k", condition=condition, how="full")
        return sum(b.num_rows for b in out)

    assert rows_out("l.a - r.a = 0", low, 1, pa.int64()) == 2
    assert rows_out("(l.a - r.a) * (l.a - r.a) < 9", 0, 2**62, pa.int64()) == 2
    assert rows_out("l.a - r.a <= 2 AND l.a >= r.a", 1, 5, pa.uint32()) == 2
    with pytest.raises(EvaluationError):
        rows_out("(l.a - r.a) * (l.a - r.a) < 9", low, high, pa.int64())  # the difference itself overflows
