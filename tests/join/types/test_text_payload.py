"""Payload of text and booleans, written by kernels and by Arrow: the same rows for every join."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from join.builders import by_arrow
from oracle import HOWS

from ivjoin import Order, SymmetricHashJoin
from ivjoin.operator.match import output, room
from ivjoin.shj import registers as at
from ivjoin.shj.kernels.push import push_kernels
from ivjoin.shj.store.rows.stored_rows import StoredRows
from ivjoin.shj.store.values import texts as text_columns

BAND = "l.t BETWEEN r.t - 6 AND r.t + 4"
S = pa.schema({
    "k": pa.int64(), "t": pa.int32(), "s": pa.string(), "b": pa.bool_(), "x": pa.float32(), "w": pa.large_binary(),
    "c": pa.binary(3),
})  # fmt: skip


def some(rng: np.random.Generator, n: int, make: Callable[[int], Any], nulls: float) -> list[Any]:
    return [None if rng.random() < nulls else make(i) for i in range(n)]


def table(seed: int, n: int, nulls: float = 0.2, longest: int = 20, slack: int = 3, keys: int = 4) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    size = rng.integers(0, longest, (2, n))
    t = np.maximum(np.arange(n) // 2 - rng.integers(0, slack + 1, n), 0)
    late = nulls if n < 40 else 0.0
    return pa.record_batch(
        {
            "k": some(rng, n, lambda i: int(rng.integers(0, keys)), nulls / 4), "t": t.astype(np.int32),
            "s": some(rng, n, lambda i: "é" * int(size[0, i] // 2) + "x" * int(size[0, i] % 2), nulls),
            "b": some(rng, n, lambda i: bool(rng.random() < 0.5), late),
            "x": some(rng, n, lambda i: float(i), nulls),
            "w": some(rng, n, lambda i: bytes(rng.integers(0, 256, size[1, i], dtype=np.uint8)), nulls),
            "c": some(rng, n, lambda i: b"%03d" % (i % 1000), nulls),
        },
        schema=S,
    )


def pieces(batch: pa.RecordBatch, seed: int, most: int) -> list[pa.RecordBatch]:
    """Slices of a batch: their columns begin anywhere in their buffers."""
    rng, out, first = np.random.default_rng(seed), [], 0
    while first < batch.num_rows:
        out.append(batch.slice(first, int(rng.integers(1, most))))
        first += out[-1].num_rows
    return out


def sort_by_python(store: StoredRows, sort_columns: Callable[[StoredRows], None] = StoredRows.sort_columns) -> None:
    """Let Python store the text, as it does next to a nested column."""
    sort_columns(store)
    store.others = store.by_python


def joined(
    left: list[pa.RecordBatch], right: list[pa.RecordBatch], compiled: bool, patch: pytest.MonkeyPatch,
    again: bool = False, mixes: bool = True, **options: Any,
) -> list[tuple[Any, ...]]:
    """The rows in the order in which they come; all of them by the one way or the other."""
    with patch.context() as inside, by_arrow(not compiled):
        if compiled and mixes:
            inside.setattr(output, "gathered", None)
        if not compiled:
            inside.setattr(StoredRows, "sort_columns", sort_by_python)
        op = SymmetricHashJoin(left[0].schema, right[0].schema, **options)
        out: list[pa.RecordBatch] = []
        for i in range(max(len(left), len(right))):
            for side, batches in (("left", left), ("right", right)):
                if i < len(batches):
                    out += op.push(side, batches[i])
            if again and i % 3 == 2:
                op = SymmetricHashJoin.restore(op.snapshot())
        out += op.finish()
    for batch in out:
        batch.validate(full=True)
        assert 0 < batch.num_rows <= options.get("batch_size", 65536)
    return [tuple(row.values()) for batch in out for row in batch.to_pylist()]


def both(patch: pytest.MonkeyPatch, left: Any, right: Any, **options: Any) -> list[tuple[Any, ...]]:
    """The rows, which are the same both ways."""
    one, other = (joined(left, right, compiled, patch, **options) for compiled in (True, False))
    assert sorted(one, key=repr) == sorted(other, key=repr)
    return one


ORDERS = {"left_order": Order("t", slack=9), "right_order": Order("t", slack=9)}


@pytest.mark.one_in(23)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("seed", range(4))
def test_random_joins(how: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings that grow and go round, arenas that are trimmed, rows that die out of order, snapshots."""
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(text_columns, "_NARROW", [2**32, 3000, 0, 400][seed])
    nulls, longest = [0.0, 0.2][seed % 2], [20, 200, 2, 60][seed]
    sides = [table(10 * seed + s, 900, nulls, longest, keys=12) for s in (1, 2)]
    left, right = (pieces(t, seed, int(rng.integers(5, 150))) for t in sides)
    options: dict[str, Any] = {"on": "k", "condition": BAND, "how": how, "again": seed == 1}
    options |= {"batch_size": [65536, 7, 50, 1000][seed], **ORDERS}
    if seed == 2:
        options |= {"condition": "l.t BETWEEN r.t - 60 AND r.t + 4 AND l.x BETWEEN r.x - 50 AND r.x + 10"}
    if seed == 3:
        del options["left_order"]
    assert both(monkeypatch, left, right, **options)


@pytest.mark.parametrize("fixed", [0, 1])
@pytest.mark.parametrize("how", ["full", "left_semi", "left_anti"])
def test_text_on_one_side(fixed: int, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [table(s, 200) for s in (9, 10)]
    tables[fixed] = tables[fixed].select(["k", "t", "x"])
    left, right = (pieces(t, 1, 30) for t in tables)
    mixes = not (fixed == 0 and how != "full")
    if not mixes:
        condition = f"{BAND} AND length(r.s) > 3"
        # the right side's text is stored for the condition, and the output has none
        both(monkeypatch, left, right, on="k", condition=condition, how=how, mixes=False, **ORDERS)
        return
    assert both(monkeypatch, left, right, on="k", condition=BAND, how=how, **ORDERS)


def test_a_large_batch_comes_in_large_batches() -> None:
    """The scratch for pairs grows with the output."""
    n = 60_000
    batch = pa.record_batch({"k": np.arange(n), "s": pa.array([f"row {i}" for i in range(n)])})
    op = SymmetricHashJoin(batch.schema, batch.schema, on="k")
    assert [*op.push("left", batch)] == []
    out = [*op.push("right", batch)]
    assert pa.Table.from_batches(out).column("s_right").to_pylist() == batch.column("s").to_pylist()
    assert len(out) < 8


@pytest.mark.slow
def test_more_text_than_offsets_hold() -> None:
    """256 pairs of a row of nine mebibytes are two batches."""
    one = pa.record_batch({"k": [1], "s": ["x" * 9 * 2**20]})
    op = SymmetricHashJoin(one.schema, pa.schema({"k": pa.int64()}), on="k")
    assert [*op.push("left", one)] == []
    rows = [out.num_rows for out in op.push("right", pa.record_batch({"k": [1] * 256}))]
    assert rows == [128, 128]


def test_kernel_reserves_memory_first() -> None:
    batch = table(11, 30)
    op = SymmetricHashJoin(S, S, on="k", condition=BAND)
    list(op.push("left", batch))
    store = op._engine.stores[0]
    column = next(c for c in store.texts if c.type == pa.string())
    assert isinstance(column, text_columns.BytesColumn)
    before, arena = column._top, len(column._arena)
    longer = batch.set_column(2, S.field("s"), pa.array(["y" * arena] * 30))
    room.make_room(op._engine, 0, longer, False)
    longer._export_to_c(op._engine.state.in_struct)
    assert push_kernels.push_batch(op._engine.state.at, 0) == at.STORE | at.MORE
    assert (column._top, len(column._arena)) == (before, arena)
    assert column.record["wanted"][0] == before + op._engine.state.get("n_kept") * arena


def test_arenas_stay_at_the_size_of_the_window() -> None:
    """Also where all that is stored has gone through them many times, and after a few rows that were far larger."""
    schema = pa.schema({"k": pa.int64(), "t": pa.int64(), "s": pa.string()})
    op = SymmetricHashJoin(
        schema, schema, on="k", condition="l.t BETWEEN r.t - 50 AND r.t + 50", left_order="t", right_order="t"
    )

    def arenas(first: int, last: int, size: int) -> int:
        most = 0
        for at_ in range(first, last):
            t = np.arange(20 * at_, 20 * at_ + 20)
            batch = pa.record_batch({"k": t, "t": t, "s": ["x" * size] * 20}, schema=schema)
            rows = [row for side in ("left", "right") for b in op.push(side, batch) for row in b.to_pylist()]
            assert len(rows) == 20
            assert {(row["s"], row["s_right"]) for row in rows} == {("x" * size,) * 2}
            texts = [c for store in op._engine.stores for c in store.texts]
            most = max(most, *(len(c._arena) for c in texts if isinstance(c, text_columns.BytesColumn)))
        return most

    window = 100 * 100  # bytes of the live rows of a side, with a batch that comes
    assert arenas(0, 200, 100) < 3 * window
    assert arenas(200, 210, 20_000) > 100 * window
    arenas(210, 300, 100)
    assert arenas(300, 500, 100) < 3 * window
    assert op.metrics.state_bytes < op.metrics.peak_state_bytes // 10
