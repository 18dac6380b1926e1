"""Evaluate the candidate pairs that kernels leave to Python, and probe stores that change their index."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from ivjoin.operator.match.pair_state import PairState
from ivjoin.operator.match.residual import holds, matching
from ivjoin.plan.spec import SIDES
from ivjoin.plan.sums import probes
from ivjoin.shj.arrow import take
from ivjoin.shj.kernels.push import index_kernels, probe_kernels, run_kernels
from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.shj.store.rows.selectivity import most_selective

__all__ = ["chosen", "decide", "look_beyond", "may_crowd", "next_piece", "probe_runs"]

_MOST_STEPS = 50_000_000  # steps of a batch along one axis from which on another axis is considered


def decide(engine: PairState, p: int, batch: pa.RecordBatch) -> None:
    """Reduce the candidate pairs to the matches, and mark the matched rows."""
    state, how, store = engine.state, engine.how, engine.stores[1 - p]
    count = state.get("n_pairs")
    rows, places = state["pair_rows"][:count], state["pair_places"][:count]
    nodes = engine.decides()
    checked = not engine.full_predicate and len(engine.plan.checks[p]) > 0
    rows, places = matching(nodes, partial(pair_columns, engine, p, batch), rows, places, checked)
    matched = state["matched"]
    if how.single == p:
        matched[rows] = 1
        # One match is enough, so continue with the next row.
        if store.runs is not None and not engine.full_predicate:
            cell = state["state"]
            if cell[0] < state.get("n") and matched[cell[0]]:
                cell[:3] = cell[0] + 1, 0, -1
        elif (at_row := state.get("row")) < state.get("n_chosen") and matched[chosen(engine, at_row)]:
            state.set(row=at_row + 1, node=-2)
        rows = places = rows[:0]
    elif how.single == 1 - p:
        places = np.unique(places)
        store.mark_places(places)
        rows = np.zeros(len(places), dtype=np.int64)
    else:
        if how.keep[1 - p]:
            store.mark_places(places)
        if how.keep[p]:
            matched[rows] = 1
    n = len(places)
    state["pair_rows"][:n], state["pair_places"][:n] = rows, places
    state.set(n_pairs=n)
    if count == state.pairs:
        state.more_pairs()


def look_beyond(engine: PairState, p: int, batch: pa.RecordBatch) -> None:
    """Raise an EvaluationError if the residual overflows for a pair that the bands alone would reject."""
    state, store = engine.state, engine.stores[1 - p]
    n, room = state.get("n"), state.pairs
    rows, places, cell = np.empty(room, np.int64), np.empty(room, np.int64), np.zeros(4, np.int64)
    scratch = np.empty(n + 1, np.int64)
    nodes = list(engine.plan.separation.residual)
    values = state["values"]
    for table in engine.plan.overflows[p]:
        if not _can_meet(table.terms.tolist(), values[:, :n], store.extents):
            continue
        cell[:] = 0, -2, 0, 0
        while cell[0] < n:
            count = probe_kernels.probe(state.at, p, table.terms, table.n_primary, cell, rows, places, scratch)
            if count:
                holds(nodes, pair_columns(engine, p, batch, rows[:count], places[:count]), count)


def _can_meet(terms: list[list[int]], values: np.ndarray, extents: np.ndarray) -> bool:
    """Return whether a stored row may satisfy terms with a row of the batch, by the extents of its axes."""
    for axis, theirs, low, high in terms:
        least, most = extents[theirs].tolist()
        if low != I64_MIN and int(values[axis].min()) + low > most:
            return False
        if high != I64_MAX and int(values[axis].max()) + high < least:
            return False
    return True


def chosen(engine: PairState, c: int) -> int:
    """Return the number of the c-th probed row of the batch."""
    state = engine.state
    rows = state["every"] if state.get("chosen_at") == state.get("every") else state["chosen"]
    return int(rows.item(c)) & index_kernels.PROBE_ROW


def pair_columns(engine: PairState, p: int, batch: pa.RecordBatch, rows: np.ndarray, places: np.ndarray
) -> Callable[[str, str], pa.Array]:
    store, where, index, widths = engine.stores[1 - p], engine.places[1 - p], engine.index, engine.widths[p]

    def column(side: str, name: str) -> pa.Array:
        s = SIDES.index(side)
        i = index[s][name]
        return take(batch.column(i), rows, widths[i]) if s == p else store.gather_places(where[i], places)

    return column


def probe_runs(engine: PairState, p: int, batch: pa.RecordBatch) -> None:
    """Probe the sorted runs of the other store with a chunk of the batch."""
    state, store = engine.state, engine.stores[1 - p]
    r = state.operator[0]
    runs, (table, _) = store.runs, probes(engine.plan, p)
    assert runs is not None
    led = table.led_by(runs.axis, runs.second)
    n, cell = int(r["n"]), state["state"]
    if int(r["node"]) == -2:
        cell[:] = int(r["steps"]), 0, -1, 0
    count = run_kernels.probe_runs(
        state.at, p, led.terms, led.n_primary, led.n_second, runs.keys, runs.values, runs.ids, runs.tops, runs.ends,
        runs.count,
    )
    done = cell[0] >= n
    # The kernel continues while rows remain. The cell stores the row's number.
    state.set(n_pairs=count, row=int(r["n_chosen"]) if done else 0, node=-1, probe_end=int(r["n_chosen"]))
    if not done and not int(r["n_chosen"]):
        raise AssertionError("a probe by sorted runs found pairs, but no row of the batch is to be probed")
    if count and state.side(p, "decide"):
        decide(engine, p, batch)


def next_piece(engine: PairState, p: int) -> None:
    """Continue after a piece of a large batch. Change to a better index if the store needs one.

    If the whole condition is evaluated for each pair, bands do not find candidates, and the probe continues row by row.
    """
    state, store = engine.state, engine.stores[1 - p]
    if store.crowded and not engine.full_predicate:
        n = state.get("n")
        store.search_by(*most_selective(state["values"][:, :n], probes(engine.plan, p)[0], store))
        store.turn()
        store.point()
        if store.runs is not None:
            state.set(steps=chosen(engine, state.get("row")), row=0, node=-2)
    state.set(probe_end=min(3 * state.get("probe_end"), 2**62))


def may_crowd(engine: PairState, p: int, n: int) -> bool:
    """Return whether a batch may visit a large number of stored rows along the first axis.

    Another axis may then be better.
    """
    store, (bands, _) = engine.stores[1 - p], probes(engine.plan, p)
    return n * store.live > _MOST_STEPS * max(1, engine.keys.live) and bands.has_choice
