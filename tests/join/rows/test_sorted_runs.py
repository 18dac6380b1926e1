"""Joins over sorted runs, the index for stores that lists serve badly: the same rows as with lists."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from join import duck
from join.fed import in_turn
from join.indexes import runs_at_once
from join.tables import Ids, ids

import ivjoin
from ivjoin.operator.match import pairs
from ivjoin.operator.match.pair_state import PairState
from ivjoin.shj.store.rows.side import SideStore

pytestmark = pytest.mark.usefixtures("contract_every_row")


NEAR = ["l.x BETWEEN r.x - 0.3 AND r.x + 0.3", "r.x >= l.x - l.w AND r.x <= l.x + l.w", "l.y BETWEEN r.y - 2 AND r.y"]


def sides(rng: np.random.Generator, n: int) -> tuple[pa.Table, pa.Table]:
    def side() -> dict[str, np.ndarray]:
        x = np.round(rng.uniform(-3, 3, n), 1)
        i = np.arange(n)
        return {"id": i, "k": rng.integers(0, 3, n), "t": i // 4, "x": x, "y": rng.integers(0, 50, n)}

    return pa.table({**side(), "w": rng.integers(0, 5, n) / 4}), pa.table(side())


def joined(left: pa.Table, right: pa.Table, condition: str, how: str, size: int) -> tuple[Ids, Any]:
    op = ivjoin.SymmetricHashJoin(
        left.schema, right.schema, on="k", condition=condition, left_order="t", right_order="t", how=how, batch_size=37
    )
    return in_turn(op, (left, right), how, size)


def wanted(left: pa.Table, right: pa.Table, condition: str, how: str) -> Ids:
    return Counter(duck.pairs(left, right, how, f"l.k = r.k AND {condition}"))


def make_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores change to sorted runs, or to another axis, at once where that is better."""
    init = SideStore.__init__

    def impatient(self: SideStore, *args: object, **options: object) -> None:
        init(self, *args, **options)  # type: ignore[arg-type]
        self._patience = -10_000_000

    monkeypatch.setattr(SideStore, "__init__", impatient)


@pytest.mark.one_in(11)
@pytest.mark.parametrize("how", ["inner", "left", "full"])
@pytest.mark.parametrize("near", NEAR)
def test_a_band_on_another_axis(near: str, how: str) -> None:
    rng = np.random.default_rng(11)
    drawn: list[tuple[int, int | None]] = []
    for seed in range(4):
        left, right = sides(rng, 300)
        condition = f"l.t BETWEEN r.t - 20 AND r.t + 20 AND {near}"
        with runs_at_once(seed) as some:
            got, _ = joined(left, right, condition, how, 16)
        drawn += some
        assert got == wanted(left, right, condition, how)
    assert any(axis for axis, _ in drawn)


@pytest.mark.slow
@pytest.mark.parametrize(("near", "axes"), [(NEAR[0], {(1, None), (1, 2), (2, 1)}), (NEAR[2], {(1, None)})])
def test_store_changes_to_the_axis_with_fewest_candidates(
    near: str, axes: set[tuple[int, int | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_impatient(monkeypatch)
    left, right = sides(np.random.default_rng(5), 2000)
    condition = f"l.t BETWEEN r.t - 200 AND r.t + 200 AND {near}"
    got, op = joined(left, right, condition, "full", 100)
    for store in op._engine.stores:
        assert store.runs is not None
        assert (store.runs.axis, store.runs.second) in axes
    assert got == wanted(left, right, condition, "full")


@pytest.mark.slow
def test_no_turn_where_no_axis_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = sides(np.random.default_rng(5), 2000)
    condition = "l.t BETWEEN r.t - 20 AND r.t + 20 AND l.y BETWEEN r.y - 60 AND r.y + 40"
    asked: list[int] = []
    search_by = SideStore.search_by

    def told(self: SideStore, axis: int, second: int | None) -> None:
        asked.append(axis)
        search_by(self, axis, second)
        self._patience = -10_000_000

    make_impatient(monkeypatch)
    monkeypatch.setattr(SideStore, "search_by", told)
    got, op = joined(left, right, condition, "inner", 100)
    assert asked
    assert set(asked) == {0}
    assert all(store.runs is None for store in op._engine.stores)
    assert got == wanted(left, right, condition, "inner")


def test_a_restored_operator_searches_as_the_one_before_it() -> None:
    left, right = sides(np.random.default_rng(7), 400)
    condition = f"l.t BETWEEN r.t - 20 AND r.t + 20 AND {NEAR[0]}"
    op = ivjoin.SymmetricHashJoin(
        left.schema, right.schema, on="k", condition=condition, left_order="t", right_order="t"
    )
    rows: Ids = Counter()
    led = []
    for half in (slice(0, 200), slice(200, 400)):
        # The second half may not draw for itself: what it searches by is in the snapshot.
        with runs_at_once(4) if half.start == 0 else nullcontext():
            for at in range(half.start, half.stop, 20):
                for side, table in (("left", left), ("right", right)):
                    rows += ids(op.push(side, table.slice(at, 20).combine_chunks().to_batches()[0]), "inner")
        led.append([store.led() for store in op._engine.stores])
        op = ivjoin.SymmetricHashJoin.restore(op.snapshot())
        led.append([store.led() for store in op._engine.stores])
    assert led[0] == led[1] == led[2] == led[3]
    assert all(led[0])
    assert rows == wanted(left, right, condition, "inner")


@pytest.mark.slow
def test_a_large_batch_turns_to_runs_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    n = 24_000
    left = pa.table({"k": np.zeros(n, dtype=np.int64), "t": np.arange(n), "x": rng.uniform(0, 1, n)})
    right = pa.table({"k": np.zeros(n, dtype=np.int64), "t": np.arange(n), "x": rng.uniform(0, 1, n)})
    condition = "l.t BETWEEN r.t - 2000 AND r.t + 2000 AND l.x BETWEEN r.x - 0.00001 AND r.x + 0.00001"
    op = ivjoin.SymmetricHashJoin(
        left.schema, right.schema, on="k", condition=condition, left_order="t", right_order="t"
    )
    assert not list(op.push("left", left.to_batches()[0]))
    probed = []
    next_piece = pairs.next_piece

    def counted(engine: PairState, p: int) -> None:
        at = engine.state.get("row")
        next_piece(engine, p)
        probed.append((at, engine.stores[0].led() is not None))

    monkeypatch.setattr(pairs, "next_piece", counted)
    got = sum(batch.num_rows for batch in op.push("right", right.to_batches()[0]))
    assert probed == [(16_384, True)]
    query = f"SELECT count(*) FROM a l JOIN b r ON l.k = r.k AND {condition}"
    database = duckdb.connect()
    database.register("a", left)
    database.register("b", right)
    assert (got,) == database.execute(query).fetchone()


@pytest.mark.parametrize(("how", "count"), [("inner", 4), ("full", 5), ("left_semi", 4), ("right_anti", 0)])
def test_a_large_batch_near_the_end_of_a_type_gives_each_pair_once(how: str, count: int) -> None:
    """Where a difference may overflow, Python decides each pair, and the store does not change to an index by bands."""
    end = -(2**63)
    left = pa.table({"a": [end + 8, end + 8, end + 2, end + 3, end + 30]})
    right = pa.table({"a": [end + 8, end + 4]})
    for seed in range(8):
        with runs_at_once(seed):
            op = ivjoin.SymmetricHashJoin(left.schema, right.schema, condition="abs(r.a - l.a) <= 2", how=how)
            got = list(op.push("right", right.to_batches()[0]))
            got += op.push("left", left.to_batches()[0])
            got += op.finish()
        assert sum(b.num_rows for b in got) == count
