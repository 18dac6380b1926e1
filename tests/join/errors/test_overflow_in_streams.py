"""Differences that overflow for rows of past batches: the values seen so far decide which pairs are checked."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from ivjoin import EvaluationError, SymmetricHashJoin

TYPES = {"int8": (pa.int8(), 7), "int32": (pa.int32(), 31), "int64": (pa.int64(), 63)}
CONDITION = "abs(l.a - r.a) IN (0, 2)"


def errs(x: int, y: int, bits: int) -> bool:
    """Whether the condition does for a pair, by Python's integers."""
    return not -(2**bits) < x - y < 2**bits


def draw(rng: random.Random, bits: int, n: int, far: float) -> list[int]:
    half, most = 2 ** (bits - 1), 2**bits - 1
    edges = [half, half - 1, half + 1, -half, -half - 1, most, -most, -most - 1, most // 3, -most // 3]
    return [rng.choice(edges) if rng.random() < far else rng.randrange(-5, 6) for _ in range(n)]


@pytest.mark.one_in(7)
@pytest.mark.parametrize("keyed", [False, True], ids=["no key", "key"])
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("seed", range(25))
def test_pair_errs_in_any_batch(name: str, keyed: bool, seed: int) -> None:
    rng = random.Random(f"{seed} {name} {keyed}")
    t, bits = TYPES[name]
    schema = pa.schema({"k": pa.int64(), "a": t})
    far = rng.choice([0.0, 0.02, 0.1, 0.4])
    kept: tuple[list, list] = ([], [])
    op = SymmetricHashJoin(schema, schema, on="k" if keyed else None, condition=CONDITION)
    found, expected = 0, 0
    for _ in range(12):
        p = rng.randrange(2)
        rows = [(rng.randrange(2), a) for a in draw(rng, bits, rng.choice([1, 3, 20]), far)]
        pairs = [(x, y) for x in rows for y in kept[1 - p] if not keyed or x[0] == y[0]]
        turned = [(x[1], y[1]) if p == 0 else (y[1], x[1]) for x, y in pairs]
        fails = any(errs(x, y, bits) for x, y in turned)
        columns = list(zip(*rows, strict=True))
        batch = pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
        if fails:
            with pytest.raises(EvaluationError):
                list(op.push(("left", "right")[p], batch))
            break
        found += sum(out.num_rows for out in op.push(("left", "right")[p], batch))
        expected += sum(abs(x - y) in (0, 2) for x, y in turned)
        kept[p].extend(rows)
        if rng.random() < 0.3:
            op = SymmetricHashJoin.restore(op.snapshot())
    assert found == expected


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("first", ["left", "right"])
def test_one_far_row_among_many(first: str, restored: bool) -> None:
    schema = pa.schema({"a": pa.int64()})
    other = "right" if first == "left" else "left"
    op = SymmetricHashJoin(schema, schema, condition=CONDITION)
    far = pa.record_batch({"a": [-(2**62) - 10]})
    for i in range(0, 3000, 100):
        near = pa.record_batch({"a": range(i, i + 100)})
        list(op.push(first, far if i == 1500 else near))
        if restored and i % 700 == 0:
            op = SymmetricHashJoin.restore(op.snapshot())
    assert sum(b.num_rows for b in op.push(other, pa.record_batch({"a": [50]}))) == 3
    with pytest.raises(EvaluationError):
        list(op.push(other, pa.record_batch({"a": [2**62 + 10]})))


def test_a_side_that_has_been_empty_forgets() -> None:
    schema = pa.schema({"t": pa.int64(), "a": pa.int64()})
    op = SymmetricHashJoin(schema, schema, condition=f"l.t = r.t AND {CONDITION}", left_order="t", right_order="t")
    one = lambda t, a: pa.record_batch({"t": [t], "a": [a]})  # noqa: E731
    list(op.push("left", one(1, -(2**63))))
    list(op.push("right", one(2, 5)))  # the far row has left
    list(op.push("left", one(2, 5)))
    store = op._engine.stores[0]
    assert op.metrics.state_rows >= 1 and int(store.extents[:, 0].min()) > -(2**62)
    with pytest.raises(EvaluationError):
        list(op.push("right", one(2, -(2**63))))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_of_distances_that_overflows(sign: int) -> None:
    """Each distance has a value but their sum overflows; the bands of the conjunct reject the pair."""
    t, bits = TYPES["int64"]
    schema = pa.schema({"a": t, "b": t})
    half = sign * 2 ** (bits - 1)

    def rows_out(x: tuple[int, int], y: tuple[int, int]) -> int:
        op = SymmetricHashJoin(schema, schema, condition="abs(l.a - r.a) + abs(l.b - r.b) <= 3")
        for side, (a, b) in (("left", x), ("right", y)):
            out = list(op.push(side, pa.record_batch([pa.array([a], t), pa.array([b], t)], schema=schema)))
        return sum(b.num_rows for b in out)

    assert rows_out((half, 0), (0, 0)) == rows_out((half, 0), (sign, half - sign)) == 0
    assert rows_out((half, half), (half - 1, half + 2)) == 1
    with pytest.raises(EvaluationError, match="overflow"):
        rows_out((half, half), (0, 0))
    with pytest.raises(EvaluationError, match="overflow"):
        rows_out((half, 0), (0, -half))


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
