"""Dictionaries inside structs, lists and maps that change from batch to batch: keys, state, snapshots, narrow indices.

``test_types_in_every_way.py`` has them as payload on every code path of a join.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from join.changing import KINDS

from ivjoin import SymmetricHashJoin

ROWS, BATCHES, WIDTH = 20, 12, 12
ORDERED = {"left_order": "t", "right_order": "t"}
BAND = f"l.t BETWEEN r.t - {WIDTH} AND r.t + {WIDTH} AND (l.t + r.t) % 3 = 0"


def batch(kind: str, number: int, rows: int = ROWS) -> pa.RecordBatch:
    """Rows with mostly distinct values, as a slice of a longer batch."""
    at = list(range(number * rows - 1, (number + 1) * rows + 1))
    column = KINDS[kind]([*at])
    return pa.record_batch({"t": pa.array(at), "k": pa.array([x % 2 for x in at]), "v": column}).slice(1, rows)


def values(kind: str) -> list[Any]:
    return [v for number in range(BATCHES) for v in batch(kind, number).column("v").to_pylist()]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["dictionary", "struct", "list", "fixed-size list", "list of structs"])
def test_as_keys(kind: str) -> None:
    schema = batch(kind, 0).schema
    op = SymmetricHashJoin(schema, schema, on="v", condition="l.t = r.t", **ORDERED, how="full", batch_size=64)
    got = []
    for number in range(BATCHES):
        for side in ("left", "right"):
            got += op.push(side, batch(kind, number))
    rows = [row for b in [*got, *op.finish()] for row in b.to_pylist()]
    every = values(kind)
    want = Counter(repr((x, v, x)) if v is not None else repr((x, v, None)) for x, v in enumerate(every))
    want.update(repr((None, v, x)) for x, v in enumerate(every) if v is None)
    assert Counter(repr((row["t"], row["v"], row["t_right"])) for row in rows) == want


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
def test_state_does_not_grow(kind: str) -> None:
    schema = batch(kind, 0).schema
    op = SymmetricHashJoin(schema, schema, condition=BAND, **ORDERED, batch_size=64)
    held = []
    for number in range(300):
        for side in ("left", "right"):
            for _ in op.push(side, batch(kind, number)):
                pass
        held.append(op.metrics.state_bytes)
    # Some hundred rows that are gone may lie there until there are more of them.
    assert max(held[100:]) < 1.1 * max(held[:100])


def test_a_snapshot_of_more_values_than_indices_tell_apart() -> None:
    schema = batch("list", 0).schema
    op = SymmetricHashJoin(schema, schema, condition="l.t = r.t", batch_size=64)
    for number in range(BATCHES):
        assert not list(op.push("left", batch("list", number)))
    op = SymmetricHashJoin.restore(op.snapshot())
    got = [row for number in range(BATCHES) for b in op.push("right", batch("list", number)) for row in b.to_pylist()]
    assert [row["v"] for row in sorted(got, key=lambda row: row["t"])] == values("list")


@pytest.mark.slow
@pytest.mark.parametrize("t", [pa.list_view(pa.int64()), pa.struct({"x": pa.large_list_view(pa.int64())})], ids=str)
def test_list_views_free_values_of_evicted_rows(t: pa.DataType) -> None:
    whole = [None, [], [1, None], [2] * 9]
    rows = pa.array([{"x": x} for x in whole] if pa.types.is_struct(t) else whole, t)
    schema = pa.schema({"t": pa.int64(), "v": t})
    op = SymmetricHashJoin(schema, schema, condition="l.t BETWEEN r.t - 40 AND r.t + 40", **ORDERED)
    held, pairs = [], 0
    for number in range(300):
        one = pa.record_batch({"t": pa.array(range(4 * number, 4 * number + 4)), "v": rows}, schema=schema)
        for side in ("left", "right"):
            for b in op.push(side, one):
                pairs += b.num_rows
                b.validate(full=True)
                assert b.schema.field("v").type == t
                assert b["v"].to_pylist() == [rows[x % 4].as_py() for x in b["t"].to_pylist()]
        held.append(op.metrics.state_bytes)
    assert max(held[150:]) < 1.5 * max(held[50:150])
    assert pairs == sum(1 for x in range(1200) for y in range(max(0, x - 40), min(1200, x + 41)))


def test_structs_that_are_null_below_an_empty_dictionary() -> None:
    """pyarrow gives these an index that points nowhere, which Arrow reads when it joins dictionaries."""
    t = pa.struct({"d": pa.dictionary(pa.int32(), pa.string())})
    op = SymmetricHashJoin(*[pa.schema({"t": pa.int64(), "v": t})] * 2, condition="l.t = r.t")
    got = []
    for number in range(60):
        rows = pa.array([None, None] if number % 3 else [{"d": "a"}, None], t)
        for side in ("left", "right"):
            got += op.push(side, pa.record_batch({"t": pa.array([2 * number, 2 * number + 1]), "v": rows}))
    assert sum(b.num_rows for b in got) == 120
    for b in got:
        for row in b.to_pylist():
            assert row["v"] == row["v_right"] == ({"d": "a"} if row["t"] % 6 == 0 else None)


@pytest.mark.parametrize("kind", ["dictionary", "struct"])
def test_more_values_in_a_batch_than_its_indices_tell_apart(kind: str) -> None:
    schema = batch(kind, 0).schema
    op = SymmetricHashJoin(schema, schema, condition="l.t < r.t + 10000")
    for number in range(10):
        assert not list(op.push("left", batch(kind, number)))
    right = batch(kind, 0)
    got = list(op.push("right", right))
    assert len(got) > 1
    assert all(len(set(map(repr, b["v"].to_pylist()))) <= 2 * 128 for b in got)
    left = [row for number in range(10) for row in batch(kind, number).to_pylist()]
    want = Counter(repr((*x.values(), *y.values())) for x in left for y in right.to_pylist())
    assert Counter(repr(tuple(row.values())) for b in got for row in b.to_pylist()) == want
