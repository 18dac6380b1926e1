"""Build the tables of a plan that kernels read: sources, orders, bounds and output columns.

Operators of one plan share the tables that no operator writes to, and copy the others. The record fields of the
operator and its sides are written at once (``ivjoin.shj.registers.placed``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ivjoin.expr.nodes import walk
from ivjoin.frontier.order import ordinal_range
from ivjoin.frontier.tracking import Frontier, OrderTracker
from ivjoin.operator.match.kernel.sources import SideSources, column_of, side_sources
from ivjoin.operator.pruning.prune_bounds import Bounder
from ivjoin.plan.join_plan import JoinPlan, of_plan
from ivjoin.plan.sums import probes
from ivjoin.shj import registers as at
from ivjoin.shj.arrow import byte_width, is_own_ordinal, offset_width
from ivjoin.shj.kernels.pointers import address_of as address
from ivjoin.shj.kernels.push import index_kernels
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["OutputTable", "SideTables", "join_fields", "output_table", "side_tables"]


@dataclass(frozen=True, slots=True)
class OutputTable:
    """The output columns : FIELD[n], and their kinds, or None if compiled code cannot build all of them."""

    fields: np.ndarray
    kinds: frozenset[int] | None


@dataclass(frozen=True, slots=True)
class SideTables:
    """The tables of one side that depend only on the plan."""

    sources: SideSources
    # Tables that kernels only read, by the field of the side's record: columns, key_words, sums and terms. ``terms`` :
    # TERM[n] are the band terms that move this side's bounds.
    fixed: dict[str, np.ndarray]
    # Tables that kernels write to, as words: sources, pieces, trackers, and bounds : int64[axes, 4].
    written: dict[str, np.ndarray]
    fields: tuple[np.ndarray, np.ndarray]  # fields of the record: addresses of ``fixed``, and the lengths of all tables
    schedules: list[tuple[int, bool]]  # axes whose bounds the terms move, and whether they fall
    shared: bool  # whether other operators of the plan use the tables


@of_plan
def output_table(plan: JoinPlan) -> OutputTable:
    rows, kinds, builds = [], set(), True
    for f, t in zip(plan.fields, plan.schema.types, strict=True):
        kind = _kind(t)
        places = -1 if f.left is None else f.left, -1 if f.right is None else f.right
        alike = is_own_ordinal(t) or kind == at.BYTES  # equal values have equal bytes
        rows.append((*places, byte_width(t) or offset_width(t) or 0, alike, kind or 0))
        kinds.add(kind or 0)
        builds &= kind is not None
        for side, index in zip(plan.sides, places, strict=True):
            builds &= index < 0 or side.schema.field(index).type == t  # the column has its input's type
    return OutputTable(np.array(rows, dtype=at.FIELD), frozenset(kinds) if builds else None)


def _kind(t: pa.DataType) -> int | None:
    """Return the kind of an Arrow type in compiled code, or None if compiled code cannot build it."""
    if byte_width(t) is not None:
        return at.WORDS
    if pa.types.is_boolean(t):
        return at.BITS
    return None if offset_width(t) is None else at.BYTES


@of_plan
def join_fields(plan: JoinPlan, s: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the fields of a side's record that state what to evaluate for each pair, and how to emit its rows.

    The fields point to tables of the plan. The caller that writes them must retain a reference to the plan.
    """
    how, checks = plan.how, plan.checks[s]
    table, _ = probes(plan, s)
    return at.placed(
        at.SIDE, n_bands=len(table.terms), n_primary=table.n_primary, owes=how.owes(s), keeps=how.keep[s],
        single=how.single == s, semi=how.semi == s, decide=bool(plan.separation.residual) and not plan.decided,
        n_checks=len(checks), mode=_mode(plan, s), beyond=bool(plan.overflows[s]),
        bands=address(table.terms), checks=address(checks),
    )  # fmt: skip


def _mode(plan: JoinPlan, p: int) -> int:
    """Return flags for what the probe of side p does with the pairs that it finds."""
    how = plan.how
    if how.single == p:
        return index_kernels.MARK_PROBE | index_kernels.FIRST_PROBE
    if how.single == 1 - p:
        return index_kernels.PAIRS | index_kernels.FIRST_STORE | index_kernels.MARK_STORE
    mode = index_kernels.PAIRS | (index_kernels.MARK_STORE if how.keep[1 - p] else 0)
    return mode | (index_kernels.MARK_PROBE if how.keep[p] else 0)


def side_tables(
    plan: JoinPlan, frontiers: tuple[Frontier, Frontier], bounder: Bounder, payload: Sequence[frozenset[int]]
) -> tuple[SideTables, SideTables]:
    """Return the tables of both sides. ``payload`` are other columns of each side whose addresses the kernels need."""
    promised = any(f.promised for f in frontiers)  # `advance` of this operator alone made these promises

    def made() -> tuple[SideTables, SideTables]:
        sources = [side_sources(plan, s, frontiers[s], set(payload[s])) for s in (0, 1)]
        left, right = (_side_tables(plan, s, frontiers, bounder, sources[s], not promised) for s in (0, 1))
        return left, right

    return made() if promised else plan.derived.once((_side_tables, *payload), made)


def _side_tables(
    plan: JoinPlan, s: int, frontiers: tuple[Frontier, Frontier], bounder: Bounder, sources: SideSources,
    shared: bool,
) -> SideTables:
    terms = _terms(s, frontiers, bounder)
    bounds = np.zeros((max(len(plan.sides[s].axes), 1), at.words_in(at.BOUND)), dtype=np.int64)
    for axis, node in enumerate(plan.sides[s].axes):
        bounds[axis] = (I64_MIN, I64_MAX, *bounder.reach(node))
    schedules = []
    for axis, tracker, low, high, _, _ in terms or ():
        falling = frontiers[1 - s].trackers[tracker].descending
        if (low if not falling else high) != (I64_MIN if not falling else I64_MAX):
            schedules.append((axis, falling))
    fixed = {"columns": sources.columns, "terms": np.array(terms or [], dtype=at.TERM)}
    sums = [(axis, int(np.float64(number).view(np.int64))) for axis, number in plan.sides[s].sums]
    if sums:
        fixed["sums"] = np.array(sums, dtype=at.SUM)
    trackers = _trackers(frontiers[s].trackers, sources)
    written = {"sources": at.as_words(sources.table), "trackers": at.as_words(trackers), "bounds": bounds}
    if sources.words is not None:
        fixed["key_words"] = sources.words
    if sources.pieces is not None:
        written["pieces"] = at.as_words(sources.pieces)
    lengths = {
        "n_sources": len(sources.table), "n_columns": len(sources.columns), "n_terms": len(fixed["terms"]),
        "n_trackers": len(frontiers[s].trackers), "in_kernel": terms is not None, "n_sums": len(sums),
        "n_pieces": 0 if sources.pieces is None else len(sources.pieces),
        "n_key_words": 0 if sources.words is None else len(sources.words),
    }
    return SideTables(
        sources, fixed, written,
        at.placed(at.SIDE, **lengths, **{name: address(table) for name, table in fixed.items()}), schedules, shared,
    )


def _trackers(trackers: Sequence[OrderTracker], sources: SideSources) -> np.ndarray:
    table = np.zeros(max(len(trackers), 1), dtype=at.TRACKER)
    for i, t in enumerate(trackers):
        low, high = ordinal_range(t.node.type)
        table[i] = (
            I64_MIN, I64_MIN, 0, 0, sources.nodes.index(t.node), t.descending, *t.slack_words,
            t.node.type.kind == "float", t.in_python, 0, ~high if t.descending else low, low, high,
        )
    return table


def _terms(
    s: int, frontiers: tuple[Frontier, Frontier], bounder: Bounder
) -> list[tuple[int, int, int, int, int, int]] | None:
    """Return the orders of the other side that move the bounds of side s, or None if this needs propagation."""
    frontier = frontiers[1 - s]
    orders = frontier.trackers
    if frontier.bounds or frontier.promised or bounder.propagates(s):
        return None
    floats = [t for t in orders if t.node.type.kind == "float" and t.node not in frontier.numbers]
    if any(t.in_python for t in orders) or any(t.descending for t in floats):
        return None
    if len({t.node for t in orders}) != len(orders):
        return None
    out: list[tuple[int, int, int, int, int, int]] = []
    for axis, theirs, lo, hi, least, most in bounder.terms[s]:
        same = [
            i for i, t in enumerate(orders)
            if t.node is theirs or (column_of(theirs) is not None and column_of(t.node) is column_of(theirs))
        ]
        if not same and {t.node for t in orders} & set(walk(theirs)):
            return None
        if not all(x is None or I64_MIN < x < I64_MAX for x in (lo, hi)):
            return None
        low, high = I64_MIN if lo is None else lo, I64_MAX if hi is None else hi
        out.extend((axis, i, low, high, least, most) for i in same)
    return out
