"""The index under random inserts, probes, removals and prunes, against plain Python lists."""

import numpy as np
import pyarrow as pa
import pytest

from ivjoin.shj import index_kernels
from ivjoin.shj.arrow import Bytes
from ivjoin.shj.bandtable import BandTable
from ivjoin.shj.keys import ByteKeys, IntKeys, NoKeys
from ivjoin.shj.matcher import Matcher
from ivjoin.shj.store import SideStore

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
pytestmark = pytest.mark.nojit


def table(rows, n_primary):
    return BandTable(np.array(rows, dtype=np.int64).reshape(len(rows), 4), n_primary)


def make_keys(kind):
    return {"int": IntKeys, "bytes": ByteKeys, "none": NoKeys}[kind]()


def key_ids(keys, kind, values):
    if kind == "int":
        return keys.ids(np.array(values, dtype=np.int64), None)
    if kind == "bytes":
        words = pa.array([b"key" * (v % 5) + str(v).encode() for v in values], type=pa.large_binary())
        return keys.ids(Bytes.of(words), None)
    return keys.ids(len(values), None)


@pytest.mark.parametrize("kind", ["int", "bytes", "none"])
@pytest.mark.parametrize("arrival", ["rising", "falling", "jittered", "random"])
@pytest.mark.parametrize("report", [True, False])
@pytest.mark.parametrize("turn", [None, 3, 25], ids=["lists", "runs", "runs late"])
def test_random_life(kind, arrival, report, turn):
    rng = np.random.default_rng(hash((kind, arrival)) % 2**32)
    keys = make_keys(kind)
    store = SideStore(1, keys, [pa.int64(), pa.string()], 2, ordered=True, report=report)
    matcher = Matcher(7)
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
        keep = [i for i in range(n) if a0[i] >= low]
        axes = np.array([a0[keep], a1[keep]], dtype=np.int64).reshape(2, len(keep))
        kids = key_ids(keys, kind, [int(k) for k in ks[keep]])
        picked = [names[i] for i in keep]
        store.insert(kids, axes, [pa.array(picked, pa.int64()), pa.array([f"s{x}" for x in picked])], None)
        for i in keep:
            rows[names[i]] = (int(ks[i]), int(a0[i]), int(a1[i]))

        m = int(rng.integers(1, 6))
        probe_axes = np.array([base + rng.integers(-50, 50, m), rng.integers(0, 10, m)], dtype=np.int64)
        probe_keys = [int(k) for k in rng.integers(0, 5, m)]
        bands = table([(0, 0, -20, 15), (1, 1, I64_MIN, 2)], 1)
        got = []
        matched = np.zeros(m, dtype=np.uint8)
        mode = index_kernels.PAIRS | index_kernels.MARK_PROBE
        for i, ids in matcher.pairs(key_ids(keys, kind, probe_keys), probe_axes, bands, store, matched, mode):
            payload = store.gather(0, ids).to_pylist()
            assert store.gather(1, ids).to_pylist() == [f"s{x}" for x in payload]
            got.extend(zip(i.tolist(), payload))
        want = [
            (i, name)
            for i in range(m)
            for name, (k, v0, v1) in rows.items()
            if (kind == "none" or k == probe_keys[i])
            and probe_axes[0, i] - 20 <= v0 <= probe_axes[0, i] + 15
            and v1 <= probe_axes[1, i] + 2
        ]
        assert sorted(got) == sorted(want)
        assert [bool(x) for x in matched] == [any(i == j for j, _ in want) for i in range(m)]

        if rows and step % 5 == 3:
            victims = rng.choice(sorted(rows), size=min(3, len(rows)), replace=False)
            ids = store.live_ids()
            payload = store.gather(0, ids).to_pylist()
            store.remove(np.array([i for i, x in zip(ids, payload) if x in victims], dtype=np.int64))
            for v in victims:
                del rows[int(v)]
        if step % 2:
            values = [v for _, v, _ in rows.values()]
            if values:
                low = max(low, int(np.quantile(values, 0.4)))
            ids = store.prune(0, low, I64_MAX)
            if report:
                assert sorted(store.gather(0, ids).to_pylist()) == sorted(x for x, (_, v, _) in rows.items() if v < low)
            rows = {x: r for x, r in rows.items() if r[1] >= low}
        store.settle()
        keys.sweep()
        assert store.live == len(rows)
        assert sorted(store.gather(0, store.live_ids()).to_pylist()) == sorted(rows)


@pytest.mark.parametrize("kind", ["int", "bytes"])
def test_keys_that_come_and_go_do_not_pile_up(kind):
    keys = make_keys(kind)
    store = SideStore(0, keys, [], 1, ordered=True, report=False)
    for step in range(60):
        n = 200
        kids = key_ids(keys, kind, list(range(step * n, (step + 1) * n)))
        store.insert(kids, np.full((1, n), step, dtype=np.int64), [], None)
        store.prune(0, step - 1, I64_MAX)
        store.settle()
        keys.sweep()
    assert store.live == 2 * 200
    assert keys.n_ids < 4000
    assert len(keys.slots) <= 8192


def test_prune_from_both_ends():
    keys = NoKeys()
    store = SideStore(0, keys, [pa.int64()], 1, ordered=True, report=True)
    values = np.arange(100, dtype=np.int64)
    store.insert(keys.ids(100, None), values.reshape(1, -1), [pa.array(values)], None)
    dead = store.prune(0, 10, 89)
    assert sorted(dead.tolist()) == [*range(10), *range(90, 100)]
    assert store.live == 80


def test_saturated_bounds_do_not_match_past_the_limits():
    keys = NoKeys()
    store = SideStore(1, keys, [], 1, ordered=True, report=False)
    store.insert(keys.ids(2, None), np.array([[I64_MIN, I64_MAX]]), [], None)
    probe = np.array([[I64_MAX, I64_MIN]])
    matched = np.zeros(2, dtype=np.uint8)
    # stored >= probe + 10: past the greatest value for the first row, true of the greatest for the second
    bands = table([(0, 0, 10, I64_MAX)], 1)
    chunks = Matcher(10).pairs(keys.ids(2, None), probe, bands, store, matched, index_kernels.PAIRS)
    assert [(r.tolist(), i.tolist()) for r, i in chunks] == [([1], [1])]


def test_disorder_turns_a_store_to_sorted_runs():
    rng = np.random.default_rng(5)
    keys = NoKeys()
    store = SideStore(1, keys, [], 1, ordered=True, report=False)
    values = rng.integers(0, 10**6, 20_000)
    for at in range(0, len(values), 1000):
        store.insert(keys.ids(1000, None), values[at : at + 1000].reshape(1, -1), [], None)
    assert store.runs is not None
    assert store.runs.count < 20
    probe = rng.integers(0, 10**6, 200)
    matched = np.zeros(200, dtype=np.uint8)
    chunks = Matcher(64).pairs(
        keys.ids(200, None), probe.reshape(1, -1), table([(0, 0, -50, 50)], 1), store, matched, index_kernels.PAIRS
    )
    got = sum(len(r) for r, _ in chunks)
    assert got == int((np.abs(values[None, :] - probe[:, None]) <= 50).sum()) > 100
