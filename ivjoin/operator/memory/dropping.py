"""Shed rows that do not fit: drop the least valuable rows, and estimate the lost part of the result."""

from __future__ import annotations

from weakref import ref

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr.ordinal import ordinals
from ivjoin.expr.types import Type
from ivjoin.operator.key_values import key_hashes
from ivjoin.operator.match.pair_state import PairState
from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.memory.lost_matches import Recall
from ivjoin.shedding.policies import DecayedCounts, DecayedSample, worth
from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.shj.store.rows.ring_room import drop

__all__ = ["Dropping"]

_ROWS = 65_536  # rows whose value is computed at once
_AT_ONCE = 8  # each time the limit is reached, 1 / _AT_ONCE of it is freed
_UNCOUNTED = 24 << 20  # bytes of scratch that dropping may use outside the limit
_SAMPLE = 512


class Dropping:
    """Keep an operator within its limit by dropping rows."""

    def __init__(self, engine: PairState, budget: Budget) -> None:
        self._engine = ref(engine)
        self._budget = budget
        self._rng = np.random.default_rng(0x5EED)
        width = 1 << min(max((budget.limit // 2048).bit_length() - 1, 5), 13)
        self._half_life = [float(8 * 1024)] * 2
        self._counts = [DecayedCounts(width, self._half_life[s]) for s in (0, 1)]
        self._samples = [
            {axis: DecayedSample(_SAMPLE, self._rng) for axis in range(len(side.axes))} for side in engine.plan.sides
        ]
        # For each bound: its first value, the rows seen at that time, and its speed.
        self._speeds: list[dict[int, tuple[int, int, float]]] = [{}, {}]
        self._rows = 0
        self.recall = Recall(engine, budget, self._rng)

    @property
    def nbytes(self) -> int:
        return sum(c.nbytes for c in self._counts) + self.recall.nbytes

    def saw(self, p: int, batch: pa.RecordBatch) -> None:
        """Learn from a pushed batch of side p how valuable the stored rows of the other side are."""
        engine = self._engine()
        assert engine is not None
        self._rows += batch.num_rows
        if self._budget.policy != "random":
            if engine.plan.null_safe:
                index = engine.index[p]
                hashes = key_hashes(engine.plan, p, batch.num_rows, lambda _, name: batch.column(index[name]))
                self._counts[p].see(hashes)
            for axis in self._unordered(engine, 1 - p):
                node = engine.plan.sides[p].axes[axis]
                vector = evaluate([node], lambda _, name: batch.column(engine.index[p][name]), batch.num_rows)[0]
                values = ordinals(vector.values, node.type)
                if vector.valid is not None:
                    values = values[vector.valid]
                self._samples[p][axis].see(values, self._half_life[p])
        self.recall.saw(p, batch)
        # Dropping rows needs scratch memory. Lower the limit by the part of it that must be counted.
        scratch = max(store.rows.nbytes + 48 * store.live for store in engine.stores)
        engine.account.limit = self.allowed - max(0, scratch - _UNCOUNTED)

    @property
    def allowed(self) -> int:
        """Return the bytes that the operator may use, without the possible growth of the sample of dropped rows."""
        return self._budget.limit - max(0, self.recall.most_bytes - self.recall.nbytes)

    @staticmethod
    def _unordered(engine: PairState, s: int) -> set[int]:
        """Return the axes of the other side that find rows of side s by a band that does not evict them."""
        bounds = engine.state["bounds", s]
        terms = engine.plan.tables[1 - s].terms
        still = [a for a in range(len(bounds)) if bounds[a, 0] == I64_MIN and bounds[a, 1] == I64_MAX]
        return {int(t[0]) for t in terms if int(t[1]) in still}

    def make_room(self, needed: int, held: int) -> bool:
        """Drop rows until ``needed`` bytes and an eighth of the limit are free. Return whether rows were dropped."""
        engine = self._engine()
        assert engine is not None
        assert engine.account.limit is not None
        limit = engine.account.limit
        target = limit - limit // _AT_ONCE - needed
        before = [store.live for store in engine.stores]
        for tries in range(8):
            held = engine.bytes_held()
            if held <= target or (tries and held + needed <= limit) or not any(store.live for store in engine.stores):
                break
            self._drop(engine, held - max(target, 0))
        return [store.live for store in engine.stores] != before

    def _drop(self, engine: PairState, excess: int) -> None:
        """Drop the least valuable rows, ``excess`` bytes in total."""
        sizes = [float(store.nbytes) / max(store.live, 1) for store in engine.stores]
        go: list[np.ndarray] = []
        if self._budget.shared:
            values = [self._worth(engine, s) for s in (0, 1)]
            pooled = np.concatenate(values)
            weights = np.concatenate([np.full(len(v), size) for v, size in zip(values, sizes, strict=True)])
            order = np.argsort(pooled, kind="stable")
            count = int(np.searchsorted(np.cumsum(weights[order]), excess)) + 1
            gone = np.zeros(len(pooled), dtype=bool)
            gone[order[:count]] = True
            go = [gone[: len(values[0])], gone[len(values[0]) :]]
            del values, pooled, weights, order
        else:
            shares = _shares([store.nbytes if store.live else 0 for store in engine.stores], excess)
            for s, (share, size) in enumerate(zip(shares, sizes, strict=True)):
                v = self._worth(engine, s)
                count = min(len(v), -(-int(share) // max(int(size), 1)))
                gone = np.zeros(len(v), dtype=bool)
                if count:
                    gone[np.argpartition(v, count - 1)[:count]] = True
                go.append(gone)
                del v  # these arrays are not counted by the limit
        for s, gone in enumerate(go):
            if gone.any():
                ids = engine.stores[s].live_ids()
                self.recall.dropped(s, ids[gone])
                drop(engine.stores[s], ids, gone)
                name = ("shed_left", "shed_right")[s]
                setattr(engine.metrics, name, getattr(engine.metrics, name) + int(np.count_nonzero(gone)))
        if not engine.state.get("prepared"):  # during a push, keys of its batch may have ids that no stored row has yet
            engine.keys.sweep()
        engine.moved()

    def _worth(self, engine: PairState, s: int) -> np.ndarray:
        """Return the value of each stored row of a side, in the order of its ids : float64[n]."""
        store = engine.stores[s]
        ids = store.live_ids()
        tickets = self._rng.random(len(ids))
        policy = self._budget.policy
        if policy == "random" or not len(ids):
            return tickets
        self._half_life[1 - s] = max(self._half_life[1 - s], 8.0 * store.live)
        for start in range(0, len(ids), _ROWS):  # this overwrites the random numbers
            some = slice(start, start + _ROWS)
            tickets[some] = self._worth_of(engine, s, ids[some], tickets[some])
        return tickets

    def _worth_of(self, engine: PairState, s: int, ids: np.ndarray, tickets: np.ndarray) -> np.ndarray:
        store, policy = engine.stores[s], self._budget.policy
        chance = self._counts[1 - s].of(self._hashes(engine, s, ids)) if engine.plan.null_safe else np.ones(len(ids))
        for probe, own, low, high in engine.plan.tables[1 - s].terms.tolist():
            if probe in self._unordered(engine, s):
                values = store.axis_values(own, ids)
                least = _less(values, high) if high != I64_MAX else np.full(len(ids), I64_MIN)
                most = _less(values, low) if low != I64_MIN else np.full(len(ids), I64_MAX)
                chance = chance * self._samples[1 - s][probe].mass(least, most)
        life = self._life(engine, s, ids) if policy == "life" else np.ones(len(ids))
        return worth(policy, tickets, chance, life)

    def _life(self, engine: PairState, s: int, ids: np.ndarray) -> np.ndarray:
        """Return how many rows will arrive before each row is evicted, at the mean speed of the bounds : float64[n]."""
        life = np.full(len(ids), np.inf)
        bounds = engine.state["bounds", s]
        for axis, node in enumerate(engine.plan.sides[s].axes):
            t = node.type
            for end, turned in ((0, 1.0), (1, -1.0)):
                at = int(bounds[axis, end])
                if at in (I64_MIN, I64_MAX):
                    continue
                first, after, _ = self._speeds[s].setdefault(2 * axis + end, (at, self._rows, 0.0))
                here = float(_linear(np.array([at]), t)[0])
                speed = turned * (here - float(_linear(np.array([first]), t)[0])) / max(1, self._rows - after)
                left = turned * (_linear(engine.stores[s].axis_values(axis, ids), t) - here)
                life = np.minimum(life, np.maximum(left, 0) / speed if speed > 0 else np.maximum(left, 0))
        return np.where(np.isfinite(life), life, 1.0)

    @staticmethod
    def _hashes(engine: PairState, s: int, ids: np.ndarray) -> np.ndarray:
        """Return the key hashes of stored rows, computed like those of a batch : int64[n]."""
        store, index, place = engine.stores[s], engine.index[s], engine.places[s]

        def column(_: str, name: str) -> pa.Array:
            return store.gather(place[index[name]], ids)

        return key_hashes(engine.plan, s, len(ids), column)


def _shares(sizes: list[int], excess: int) -> list[float]:
    """Return the bytes to drop from each side, so that neither side has more than half of the rest."""
    half = max(0.0, (sum(sizes) - excess) / 2)
    lesser = int(sizes[1] < sizes[0])
    if sizes[lesser] <= half:  # drop rows of the other side only
        return [0.0 if s == lesser else float(excess) for s in (0, 1)]
    return [size - half for size in sizes]


def _less(values: np.ndarray, d: int) -> np.ndarray:
    """Return values minus one end of a band, clipped to int64."""
    wide = values.astype(np.float64) - float(d)
    out = values - np.int64(d) if d != I64_MIN else values
    return np.where(wide >= 2.0**63, I64_MAX, np.where(wide < -(2.0**63), I64_MIN, out))


def _linear(values: np.ndarray, t: Type) -> np.ndarray:
    """Return ordinals as numbers whose differences are distances : float64[n]."""
    if t.kind != "float":
        return values.astype(np.float64)
    sign = values >> 63
    bits = (values + sign) ^ (sign & I64_MAX)
    x = bits.view(np.float64)
    return np.clip(np.where(np.isnan(x), 0.0, x), -1e300, 1e300)
