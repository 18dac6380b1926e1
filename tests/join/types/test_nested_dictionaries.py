"""Dictionaries inside structs, lists and maps that change from batch to batch, on every code path of a join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import ivjoin
from ivjoin import SymmetricHashJoin

ROWS, BATCHES, WIDTH = 20, 12, 12
WORD = pa.dictionary(pa.int8(), pa.string())
ORDERED = {"left_order": "t", "right_order": "t"}
BAND = f"l.t BETWEEN r.t - {WIDTH} AND r.t + {WIDTH} AND (l.t + r.t) % 3 = 0"


def words(at: list[int]) -> pa.Array:
    return pa.array([None if x % 7 == 3 else f"value {x}" for x in at]).dictionary_encode().cast(WORD)


def structs(at: list[int]) -> pa.Array:
    return pa.StructArray.from_arrays([words(at), pa.array(at)], ["d", "x"], mask=pa.array([x % 5 == 4 for x in at]))


def lists(at: list[int]) -> pa.Array:
    ends = [0]
    for x in at:
        ends.append(ends[-1] + x % 3)
    values = words([x + i for x in at for i in range(x % 3)])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)


def pairs(at: list[int]) -> pa.Array:
    values = words([y for x in at for y in (x, x + 1)])
    return pa.FixedSizeListArray.from_arrays(values, 2)


def maps(at: list[int]) -> pa.Array:
    keys = pa.array([f"key {x}" for x in at]).dictionary_encode().cast(WORD)
    return pa.MapArray.from_arrays(pa.array(range(len(at) + 1), pa.int32()), keys, words(at))


def deep(at: list[int]) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(len(at) + 1), pa.int32()), structs(at))


def of_structs(at: list[int]) -> pa.Array:
    """A dictionary whose values are structs, which Arrow cannot join with another."""
    values = pa.array([{"x": x, "y": f"value {x}"} for x in at])
    places = pa.array([None if x % 7 == 3 else i for i, x in enumerate(at)], pa.int8())
    return pa.DictionaryArray.from_arrays(places, values)


def views(at: list[int]) -> pa.Array:
    texts = words(at)
    return pa.StructArray.from_arrays(
        [pa.DictionaryArray.from_arrays(texts.indices, texts.dictionary.cast(pa.string_view()))], ["d"]
    )


KINDS: dict[str, Callable[[list[int]], pa.Array]] = {
    "dictionary": words, "struct": structs, "list": lists, "fixed-size list": pairs, "map": maps,
    "list of structs": deep, "dictionary of structs": of_structs, "struct of dictionaries of views": views,
}  # fmt: skip


def batch(kind: str, number: int, rows: int = ROWS) -> pa.RecordBatch:
    """Rows with mostly distinct values, as a slice of a longer batch."""
    at = list(range(number * rows - 1, (number + 1) * rows + 1))
    column = KINDS[kind]([*at])
    return pa.record_batch({"t": pa.array(at), "k": pa.array([x % 2 for x in at]), "v": column}).slice(1, rows)


def table(kind: str) -> pa.Table:
    return pa.Table.from_batches([batch(kind, number) for number in range(BATCHES)])


def values(kind: str) -> list[Any]:
    return [v for number in range(BATCHES) for v in batch(kind, number).column("v").to_pylist()]


def push(kind: str, limit: int | None = None, again: int = 5, **ask: Any) -> pa.Table:
    options = {} if limit is None else {"memory_limit": limit, "when_full": "spill"}
    schema = batch(kind, 0).schema
    op = SymmetricHashJoin(schema, schema, condition=BAND, **ORDERED, batch_size=64, **ask, **options)
    got = []
    for number in range(BATCHES):
        for side in ("left", "right"):
            got += op.push(side, batch(kind, number))
        if number % again == again - 1:
            op = SymmetricHashJoin.restore(op.snapshot(), **options)
    return pa.Table.from_batches([*got, *op.finish()], op.schema)


def pull(kind: str, **ask: Any) -> pa.Table:
    return pa.Table.from_batches(
        list(ivjoin.band_join(table(kind), table(kind), condition=BAND, how="full", batch_size=64, **ask))
    )


def shuffled(kind: str) -> pa.Table:
    batches = table(kind).to_batches()
    return pa.Table.from_batches([batches[(i * 7) % BATCHES] for i in range(BATCHES)])


WAYS: dict[str, Callable[[str], pa.Table]] = {
    "push": lambda kind: push(kind, how="full"),
    "spill": lambda kind: push(kind, limit=80_000, how="full"),
    "pull": lambda kind: pull(kind, **ORDERED),
    "coalesced": lambda kind: pa.Table.from_batches(
        list(ivjoin.band_join(
            iter(table(kind).to_batches()), iter(table(kind).to_batches()), condition=BAND, how="full", **ORDERED,
            batch_size=64,
        ))
    ),
    "sorted": lambda kind: pa.Table.from_batches(
        list(ivjoin.band_join(shuffled(kind), shuffled(kind), condition=BAND, how="full", batch_size=64, sort="auto"))
    ),
    "threads": lambda kind: pull(kind, threads=2),
}  # fmt: skip


def pairs_of(kind: str) -> Counter[str]:
    every = values(kind)
    out: Counter[str] = Counter()
    for x, v in enumerate(every):
        near = range(max(0, x - WIDTH), min(len(every), x + WIDTH + 1))
        out.update(repr((x, v, y, every[y])) for y in near if (x + y) % 3 == 0)
    return out


@pytest.mark.one_in(29)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_every_row_is_emitted_with_its_values(way: str, kind: str) -> None:
    got = WAYS[way](kind)
    got.validate(full=True)
    assert got.schema.field("v").type == got.schema.field("v_right").type == batch(kind, 0).schema.field("v").type
    found = Counter(repr((r["t"], r["v"], r["t_right"], r["v_right"])) for r in got.to_pylist())
    assert found == pairs_of(kind)


def played(op: SymmetricHashJoin, kind: str) -> list[dict[str, Any]]:
    """All rows out of all batches, with a snapshot taken and restored half way."""
    got = []
    for number in range(BATCHES):
        for side in ("left", "right"):
            got += op.push(side, batch(kind, number))
        if number == 7:
            op = SymmetricHashJoin.restore(op.snapshot())
    return [row for b in [*got, *op.finish()] for row in b.to_pylist()]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["left", "inner"])
def test_picks(kind: str, how: str) -> None:
    schema = batch(kind, 0).schema
    op = SymmetricHashJoin(
        schema, schema, on="k", condition="r.t <= l.t", **ORDERED, how=how, pick=ivjoin.Pick("t", "last"), batch_size=64
    )
    rows = played(op, kind)
    assert sorted(row["t"] for row in rows) == list(range(ROWS * BATCHES))
    every = values(kind)
    assert all(row["t"] == row["t_right"] and row["v"] == row["v_right"] == every[row["t"]] for row in rows)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
def test_aggregates(kind: str) -> None:
    schema = batch(kind, 0).schema
    op = SymmetricHashJoin(
        schema, schema, on="k", condition="r.t BETWEEN l.t - 4 AND l.t", **ORDERED, how="left", batch_size=64,
        aggregate={"first": ("v", "first"), "last": ("v", "last"), "n": ("v", "count")},
    )  # fmt: skip
    rows = played(op, kind)
    every = values(kind)
    assert sorted(row["t"] for row in rows) == list(range(ROWS * BATCHES))
    for row in rows:
        near = [every[y] for y in (row["t"] - 4, row["t"] - 2, row["t"]) if y >= 0]
        assert (row["v"], row["first"], row["last"]) == (every[row["t"]], near[0], near[-1])
        assert row["n"] == sum(v is not None for v in near)


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


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
def test_many_inputs(kind: str) -> None:
    t = table(kind)
    got = ivjoin.multi_join(
        {"x": t, "y": iter(t.to_batches()), "z": t}, "x.t = y.t AND z.t = y.t", orders={"y": "t"}, batch_size=64
    )
    rows = [row for b in got for row in b.to_pylist()]
    every = values(kind)
    assert sorted(row["x_t"] for row in rows) == list(range(ROWS * BATCHES))
    assert all(row["x_v"] == row["y_v"] == row["z_v"] == every[row["x_t"]] for row in rows)


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
