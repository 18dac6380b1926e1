"""Evaluate candidate pairs of a batch and rows in files. A hash of the key finds these pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from ivjoin.expr.nodes import Node
from ivjoin.operator.key_values import packed_keys
from ivjoin.operator.match.pair_state import PairState
from ivjoin.operator.match.residual import holds
from ivjoin.plan.cutting import lies_within
from ivjoin.plan.spec import SIDES
from ivjoin.shj.arrow import Bytes, take, taken, truths, whole_numbers
from ivjoin.shj.store.rows.spilled_rows import ReadRows

__all__ = ["decider"]


def decider(
    engine: PairState, p: int, batch: pa.RecordBatch, keys: Bytes, values: np.ndarray
) -> Callable[[np.ndarray, ReadRows], tuple[np.ndarray, ReadRows]]:
    """Return a function that reduces candidates to matches by the rules of the kernels and of ``pairs.decide``."""
    plan, full, q = engine.plan, engine.full_predicate, 1 - p
    index, places = engine.index, engine.places
    nodes = engine.decides()
    bands = [] if full else plan.tables[p].terms.tolist()
    overflows = [] if full else [table.terms.tolist() for table in plan.overflows[p]]

    def true(these: Sequence[Node], who: np.ndarray, taken: ReadRows) -> np.ndarray:
        def column(side: str, name: str) -> pa.Array:
            s = SIDES.index(side)
            i = index[s][name]
            return take(batch.column(i), who, engine.widths[p][i]) if s == p else taken.column(places[q][i])

        return holds(these, column, len(who))

    def decide(who: np.ndarray, taken: ReadRows) -> tuple[np.ndarray, ReadRows]:
        theirs = packed_keys(engine.plan, q, len(who), lambda _, name: taken.column(places[q][index[q][name]]))
        same = _same(keys, theirs, who)
        if same is not None:
            who, taken = who[same], taken.at(same)
        for terms in overflows:
            some = np.flatnonzero(_within(terms, values, who, taken))
            if len(some):
                true(list(plan.separation.residual), who[some], taken.at(some))
        if bands and len(who):
            inside = _within(bands, values, who, taken)
            if not inside.all():
                who, taken = who[inside], taken.at(inside)
        if nodes and len(who):
            good = true(nodes, who, taken)
            who, taken = who[good], taken.at(good)
        return who, taken

    return decide


def _same(own: Bytes, theirs: Bytes, who: np.ndarray) -> np.ndarray | None:
    """Return bool[n] of the rows whose keys have equal bytes, or None if all have."""
    import pyarrow.compute as pc

    same = truths(pc.equal(taken(own.to_arrow(), whole_numbers(who)), theirs.to_arrow()))
    return None if same.all() else same


def _within(terms: list[list[int]], values: np.ndarray, who: np.ndarray, taken: ReadRows) -> np.ndarray:
    """Return bool[n] of the rows that satisfy every band."""
    good = np.ones(len(who), dtype=bool)
    for probe, own, low, high in terms:
        good &= lies_within(taken.axis(own), values[probe].take(who), low, high)
    return good
