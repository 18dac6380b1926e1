"""Evaluate the expressions of a batch that kernels cannot read, and store the payload that kernels cannot store."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import Vector, evaluate
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinals
from ivjoin.operator.intake import outside
from ivjoin.operator.key_values import key_ids
from ivjoin.operator.match.pair_state import PairState
from ivjoin.outer.values import errors_of
from ivjoin.shj import registers as at
from ivjoin.shj.arrow import taken, whole_numbers
from ivjoin.shj.store.rows.payload_room import make_text_room

__all__ = ["prepare", "store_payload"]


def prepare(engine: PairState, p: int, batch: pa.RecordBatch) -> None:
    """Evaluate the expressions that kernels cannot read, and mark the rows for which they decide usability."""
    sources, index, n = engine.sources[p], engine.index[p], batch.num_rows
    found = evaluate(sources.roots, lambda _, name: batch.column(index[name]), n) if sources.roots else []
    values: dict[Node, Vector] = dict(zip(sources.roots, found, strict=True))
    side = engine.plan.sides[p]
    if any(errors_of(values[k]) is not None for k in sources.keys) or (
        engine.plan.word_keys and any(k in values and errors_of(values[k]) is not None for k in side.keys)
    ):
        engine.rekey()
        prepare(engine, p, batch)
        return
    state = engine.state
    state.row_room(n, max(s.rows for s in engine.sources))
    marks = state["marks"][:n]
    marks[:] = at.USABLE | at.KEYED
    for i in sources.computed:
        _place_source(engine, p, i, batch, values[sources.nodes[i]], marks)
    for node in sources.filters:
        v = values[node]
        true = np.asarray(v.values if v.valid is None else v.values & v.valid, dtype=bool)
        marks[~true] &= 255 - at.USABLE
        _make_wild(marks, errors_of(v))
    for node, low, high in sources.guards:
        _make_wild(marks, outside(values[node], low, high))
        _make_wild(marks, errors_of(values[node]))
    if engine.plan.raises:
        marks |= at.WILD
    late = engine.intake.late_by_python(p, batch, values)
    if late is not None:
        marks[late] |= at.DROPPED
    if sources.keys:
        for node, safe in zip(sources.keys, engine.plan.null_safe, strict=True):
            valid = values[node].valid
            if not safe and valid is not None:
                marks[~valid] &= 255 - (at.USABLE | at.KEYED)
        usable = (marks & at.KEYED) != 0
        state["key_ids"][:n] = key_ids(engine.plan, p, n, values, engine.keys, None if usable.all() else usable)
        engine.keys.point()
    state.set(prepared=1, masked=1, n_late=0 if late is None else int(np.count_nonzero(late)))


def _place_source(engine: PairState, p: int, i: int, batch: pa.RecordBatch, v: Vector, marks: np.ndarray) -> None:
    """Write the values of an expression that Python has computed to the arrays that kernels read."""
    n, state, source = batch.num_rows, engine.state, engine.source_table(p)[i]
    node = engine.sources[p].nodes[i]
    state["values"][i, :n] = ordinals(v.values, node.type)
    erred = errors_of(v)
    missing = None if v.valid is None or v.valid.all() else ~v.valid
    if erred is not None:
        engine.intake.refuse_errors(p, batch, node, v)
    source["has_absent"] = missing is not None or erred is not None
    if missing is not None or erred is not None:
        absent = missing if erred is None else erred if missing is None else missing | erred
        state["absent"][i, :n] = absent
    if source["role"]:
        cleared = at.USABLE | at.KEYED if source["role"] & at.KEY_ROLE else at.USABLE
        if missing is not None:
            marks[missing] &= 255 - cleared
    if source["role"] or node in engine.plan.sides[p].checked:
        _make_wild(marks, erred)


def _make_wild(marks: np.ndarray, rows: np.ndarray | None) -> None:
    if rows is not None:
        marks[rows] |= at.WILD


def store_payload(engine: PairState, p: int, batch: pa.RecordBatch) -> None:
    """Store the columns that kernels cannot store, or reserve capacity for the text that they store."""
    state, store = engine.state, engine.stores[p]
    if not store.others:
        make_text_room(store, batch)
        engine.count_state()
        return
    n = state.get("n_kept")
    whole = n == batch.num_rows
    kept = state["kept"][:n]
    arrays = {}
    for i in store.by_python:
        array = batch.column(store.stored[i])
        arrays[i] = array if whole else taken(array, whole_numbers(kept))
    store.append_by_python(arrays)
    store.point()
    engine.account.promised = 0
