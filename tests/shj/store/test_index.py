"""Rows without a value on one of many axes, and keys with one id each.

``tests/join/rows/test_step_by_step.py`` compares inserts, probes and prunes, by lists and by runs, with a model.
"""


import numpy as np
import pytest

from ivjoin.operator.match.kernel.state import State
from ivjoin.shj import registers as at
from ivjoin.shj.kernels.push import push_kernels
from ivjoin.shj.store.keys import IntKeys, NoKeys
from ivjoin.shj.store.rows.side import SideStore

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
pytestmark = pytest.mark.nojit


class Index:
    """The right side's store among an operator's registers, with bounds that may be moved."""

    def __init__(self, n_axes: int) -> None:
        self.state = State(7, 4)
        self.keys = NoKeys(self.state.operator)
        self.stores = [SideStore(s, self.keys, [], n_axes, ordered=True, sides=self.state.sides) for s in (0, 1)]
        self.store = self.stores[1]
        for s in (0, 1):
            bounds = np.zeros(max(n_axes, 1), dtype=at.BOUND)
            bounds["low"], bounds["high"], bounds["least"], bounds["most"] = I64_MIN, I64_MAX, I64_MIN, I64_MAX
            self.state.sides[s]["bounds"] = self.state.hold(("bounds", s), bounds)
        self.state.sides["owes"] = 1

    def prune(self, axis: int, low: int) -> np.ndarray:
        """Move the lower bound of an axis; the ids of the rows that go."""
        state, store = self.state, self.store
        state["bounds", 1][axis]["low"] = low
        store.schedule(axis, False)
        self.point()
        state.dead_room(store.live)
        state.set(phase=at.PRUNING, n=0, n_kept=0, n_alone=0, n_dead=0, n_late=0, cursor=0)
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


@pytest.mark.parametrize("axes", [1, 3, 26])
def test_row_without_a_value_outlives_only_the_bounds_of_that_axis(axes: int) -> None:
    """From the 23rd axis on they share a flag: such a row outlives the bounds of all of those."""
    index = Index(axes)
    absent = {a: np.arange(axes) == a for a in range(axes)}
    index.store.insert(index.keys.ids(axes, None), np.zeros((axes, axes), dtype=np.int64), [], absent)
    alive = set(range(axes))
    for a in (0, axes - 1):
        dead = index.prune(a, 5)
        spared = {a} if a < 22 else set(range(22, axes))
        assert set(dead.tolist()) == alive - spared
        alive &= spared
        assert set(index.store.live_ids().tolist()) == alive


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
