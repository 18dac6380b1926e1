"""The index under random inserts, probes, removals and prunes, against plain Python lists; keys with one id each."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ivjoin.operator.state import State
from ivjoin.shj import registers as at
from ivjoin.shj.arrow import Bytes
from ivjoin.shj.kernels.push import index_kernels, push_kernels, run_kernels
from ivjoin.shj.store.keys import ByteKeys, IntKeys, KeyTable, NoKeys
from ivjoin.shj.store.rows.bands import BandTable
from ivjoin.shj.store.rows.side import SideStore

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
pytestmark = pytest.mark.nojit


def table(rows: list[tuple[int, int, int, int]], n_primary: int) -> BandTable:
    return BandTable(np.array(rows, dtype=np.int64).reshape(len(rows), 4), n_primary)


def ids_of(keys: Any, kind: str, values: list[int]) -> np.ndarray:
    if kind == "int":
        return keys.ids(np.array(values, dtype=np.int64), None)
    if kind == "bytes":
        words = pa.array([b"key" * (v % 5) + str(v).encode() for v in values], type=pa.large_binary())
        return keys.ids(Bytes.of(words), None)
    return keys.ids(len(values), None)


class Index:
    """The right side's store among an operator's registers, with bounds that may be moved."""

    def __init__(self, kind: str, types: list[pa.DataType], n_axes: int) -> None:
        self.state = State(7, 4)
        self.keys: KeyTable = {"int": IntKeys, "bytes": ByteKeys, "none": NoKeys}[kind](self.state.operator)
        self.stores = [SideStore(s, self.keys, types, n_axes, ordered=True, sides=self.state.sides) for s in (0, 1)]
        self.store = self.stores[1]
        for s in (0, 1):
            bounds = np.zeros(max(n_axes, 1), dtype=at.BOUND)
            bounds["low"], bounds["high"], bounds["least"], bounds["most"] = I64_MIN, I64_MAX, I64_MIN, I64_MAX
            self.state.sides[s]["bounds"] = self.state.hold(("bounds", s), bounds)
        self.state.sides["owes"] = 1

    def pairs(
        self, key_ids: np.ndarray, axes: np.ndarray, bands: BandTable, mode: int, matched: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Chunks of (probe rows, ids) by the index that the store has, as a push of side 0 finds them."""
        state, store, runs, n = self.state, self.store, self.store.runs, len(key_ids)
        state.row_room(n, len(axes))
        state.wake()
        # The scratch may have been of an operator with more expressions.
        state["key_ids"][:n], state["values"][: len(axes), :n], state["matched"][:n] = key_ids, axes, 0
        state.set_side(0, mode=mode, n_bands=len(bands.terms), n_primary=bands.n_primary)
        sources = at.blank(at.SOURCE, len(axes))
        state.set_side(0, bands=state.hold("bands", bands.terms), sources=state.hold("sources", sources))
        state.set(phase=at.NAMING, n=n, n_named=n, row=0, node=-2, n_pairs=0, n_kept=0, n_left=0, n_dead=0, cursor=0)
        self.point()

        def chunk(count: int) -> tuple[np.ndarray, np.ndarray]:
            return state["pair_rows"][:count].copy(), store.ids_at(state["pair_places"][:count])

        if runs is None:
            while (status := push_kernels.push_batch(state.at, 0)) & at.GATHER:
                yield chunk(state.get("n_pairs"))
                state.set(cursor=state.get("n_pairs"))
            assert not status & at.MORE
        else:
            led, cell = bands.led_by(runs.axis, runs.second), state["state"]
            cell[:3] = 0, 0, -1
            while cell[0] < n:
                yield chunk(run_kernels.probe_runs(
                    state.at, 0, led.terms, led.n_primary, led.n_second, runs.keys, runs.values, runs.ids, runs.tops,
                    runs.ends, runs.count,
                ))  # fmt: skip
        matched[:] = state["matched"][:n]

    def prune(self, axis: int, low: int, high: int) -> np.ndarray:
        """Move the bounds of an axis; the ids of the rows that go."""
        state, store = self.state, self.store
        bounds = state["bounds", 1]
        bounds[axis]["low"], bounds[axis]["high"] = low, high
        if low != I64_MIN:
            store.schedule(axis, False)
        if high != I64_MAX:
            store.schedule(axis, True)
        self.point()
        state.dead_room(store.live)
        state.set(phase=at.PRUNING, n=0, n_kept=0, n_left=0, n_dead=0, n_late=0, cursor=0)
        status = push_kernels.push_batch(state.at, 0)
        dead = np.empty(0, dtype=np.int64)
        if state.get("n_dead"):
            dead = store.ids_at(state["dead"][: state.get("n_dead")].copy())
            assert status == at.GATHER | at.MORE
            state.set(cursor=len(dead))
            status = push_kernels.push_batch(state.at, 0)
        assert not status & at.MORE
        return dead

    def point(self) -> None:
        for s in self.stores:
            s.point()
        self.keys.point()

    def remove(self, ids: np.ndarray) -> None:
        self.keys.live -= int(index_kernels.unlink(
            self.store.places(ids), self.store.links, self.keys.slots, self.store.offset
        ))  # fmt: skip
        self.store.live -= len(ids)

    def settle(self) -> None:
        self.store.settle()
        self.keys.sweep()
        self.keys.point()


@pytest.mark.one_in(7)
@pytest.mark.parametrize("kind", ["int", "bytes", "none"])
@pytest.mark.parametrize("arrival", ["rising", "falling", "jittered", "random"])
@pytest.mark.parametrize("turn", [None, 3, 25], ids=["lists", "runs", "runs late"])
def test_random_life(kind: str, arrival: str, turn: int | None) -> None:
    rng = np.random.default_rng([len(kind), len(arrival), turn or 0])
    index = Index(kind, [pa.int64(), pa.string()], 2)
    keys, store = index.keys, index.store
    rows = {}  # payload -> (key, axis 0, axis 1)
    serial, low = 0, I64_MIN
    for step in range(40):
        if step == turn:
            store.disordered = True
        n = int(rng.integers(0, 20))
        base = {"rising": 10 * step, "falling": -10 * step, "jittered": 10 * step, "random": 0}[arrival]
        spread = {"rising": 10, "falling": 10, "jittered": 60, "random": 400}[arrival]
        a0 = base + rng.integers(0, spread, n)
        if arrival == "rising":
            a0 = np.sort(a0)
        elif arrival == "falling":
            a0 = -np.sort(-a0)
        a1 = rng.integers(0, 10, n)
        ks = rng.integers(0, 4, n)
        names = list(range(serial, serial + n))
        serial += n
        absent = rng.random(n) < 0.1  # of the first axis: neither found by a bound nor killed by it
        keep = [i for i in range(n) if a0[i] >= low or absent[i]]
        axes = np.array([a0[keep], a1[keep]], dtype=np.int64).reshape(2, len(keep))
        key_ids = ids_of(keys, kind, [int(k) for k in ks[keep]])
        picked = [names[i] for i in keep]
        store.insert(key_ids, axes, [pa.array(picked, pa.int64()), pa.array([f"s{x}" for x in picked])],
                     {0: absent[keep]})
        for i in keep:
            rows[names[i]] = (int(ks[i]), int(a0[i]), int(a1[i]), bool(absent[i]))

        m = int(rng.integers(1, 6))
        probe_axes = np.array([base + rng.integers(-50, 50, m), rng.integers(0, 10, m)], dtype=np.int64)
        probe_keys = [int(k) for k in rng.integers(0, 5, m)]
        bands = table([(0, 0, -20, 15), (1, 1, I64_MIN, 2)], 1)
        got = []
        matched = np.zeros(m, dtype=np.uint8)
        mode = index_kernels.PAIRS | index_kernels.MARK_PROBE
        for i, ids in index.pairs(ids_of(keys, kind, probe_keys), probe_axes, bands, mode, matched):
            payload = store.gather(0, ids).to_pylist()
            assert store.gather(1, ids).to_pylist() == [f"s{x}" for x in payload]
            got.extend(zip(i.tolist(), payload))
        want = {
            (i, name): unknown
            for i in range(m)
            for name, (k, v0, v1, unknown) in rows.items()
            if (kind == "none" or k == probe_keys[i])
            and probe_axes[0, i] - 20 <= v0 <= probe_axes[0, i] + 15
            and v1 <= probe_axes[1, i] + 2
        }
        # Rows without a value on the first axis may be found or not: no join probes for them by a band.
        assert len(got) == len(set(got))
        assert {pair for pair, unknown in want.items() if not unknown} <= set(got) <= set(want)
        assert [bool(x) for x in matched] == [any(i == j for j, _ in got) for i in range(m)]

        if rows and step % 5 == 3:
            victims = rng.choice(sorted(rows), size=min(3, len(rows)), replace=False)
            ids = store.live_ids()
            payload = store.gather(0, ids).to_pylist()
            index.remove(np.array([i for i, x in zip(ids, payload) if x in victims], dtype=np.int64))
            for v in victims:
                del rows[int(v)]
        if step % 2:
            values = [v for _, v, _, gone in rows.values() if not gone]
            if values:
                low = max(low, int(np.quantile(values, 0.4)))
            payload = dict(zip(store.live_ids().tolist(), store.gather(0, store.live_ids()).to_pylist()))
            dead = [payload[i] for i in index.prune(0, low, I64_MAX).tolist()]
            assert sorted(dead) == sorted(x for x, r in rows.items() if r[1] < low and not r[3])
            rows = {x: r for x, r in rows.items() if r[1] >= low or r[3]}
        index.settle()
        assert store.live == len(rows)
        assert sorted(store.gather(0, store.live_ids()).to_pylist()) == sorted(rows)


@pytest.mark.parametrize("axes", [1, 3, 26])
def test_row_without_a_value_outlives_only_the_bounds_of_that_axis(axes: int) -> None:
    """From the 23rd axis on they share a flag: such a row outlives the bounds of all of those."""
    index = Index("none", [], axes)
    absent = {a: np.arange(axes) == a for a in range(axes)}
    index.store.insert(index.keys.ids(axes, None), np.zeros((axes, axes), dtype=np.int64), [], absent)
    alive = set(range(axes))
    for a in (0, axes - 1):
        dead = index.prune(a, 5, I64_MAX)
        spared = {a} if a < 22 else set(range(22, axes))
        assert set(dead.tolist()) == alive - spared
        alive &= spared
        assert set(index.store.live_ids().tolist()) == alive


@pytest.mark.parametrize("rough", [0, 30])
def test_schedules_survive_growth_and_compaction(rough: int) -> None:
    """Rings grow, wrap and are numbered anew while rows wait in the schedules of two axes and both directions."""
    rng = np.random.default_rng(rough)
    index = Index("int", [pa.int64()], 2)
    store, rows, serial = index.store, {}, 0
    for step in range(120):
        n = int(rng.choice([1, 5, 200 if step == 40 else 10]))
        a0 = 10 * step - rng.integers(0, rough + 1, n) + 100
        a1 = -10 * step + rng.integers(0, rough + 1, n) - 100
        names = np.arange(serial, serial + n)
        serial += n
        key_ids = ids_of(index.keys, "int", rng.integers(0, 5, n).tolist())
        store.insert(key_ids, np.stack([a0, a1]), [pa.array(names)], None)
        rows |= dict(zip(names.tolist(), zip(a0.tolist(), a1.tolist(), strict=True), strict=True))
        low, high = 10 * step - int(rng.integers(0, 80)), -10 * step + int(rng.integers(0, 80))
        for axis, bounds in ((0, (low, I64_MAX)), (1, (I64_MIN, high))):
            payload = dict(zip(store.live_ids().tolist(), store.gather(0, store.live_ids()).to_pylist()))
            dead = {payload[i] for i in index.prune(axis, *bounds).tolist()}
            # Bounds never fall back, whatever is asked for.
            want = {x for x, r in rows.items() if (r[0] < low if axis == 0 else r[1] > high)}
            assert dead == want
            rows = {x: r for x, r in rows.items() if x not in dead}
        store.settle(step % 10 == 0)
        index.settle()
        assert store.live == len(rows)
        assert sorted(store.gather(0, store.live_ids()).to_pylist()) == sorted(rows)
    assert store.cap < 400


@pytest.mark.parametrize("kind", ["near", "ends", "far"])
@pytest.mark.parametrize("some", [False, True])
def test_many_keys_at_once_have_one_id_each(kind: str, some: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ivjoin.shj.store.key_table._ROWS", 1000)
    rng = np.random.default_rng(5)
    table = IntKeys()
    table.live = 2**31  # nothing is taken back, so that rows may be named piece by piece
    known: dict[int, int] = {}
    for n in (10, 900, 4_500, 900):
        if kind == "ends":
            keys = np.where(rng.random(n) < 0.5, -(2**63) + rng.integers(0, 90, n), 2**63 - 1 - rng.integers(0, 90, n))
        else:
            keys = rng.integers(-70, 700, n) * (1 if kind == "near" else 2**40)
        usable = rng.random(n) < 0.9 if some else None
        ids = table.ids(keys, usable)
        used = np.ones(n, dtype=bool) if usable is None else usable
        assert (ids[~used] == -1).all()
        for key, key_id in set(zip(keys[used].tolist(), ids[used].tolist(), strict=True)):
            assert known.setdefault(key, key_id) == key_id
        assert len(set(known.values())) == len(known)
        assert (table.keys_of(ids[used]) == keys[used]).all()
    assert table.ids(np.zeros(600, dtype=np.int64), np.zeros(600, dtype=bool)).tolist() == [-1] * 600
