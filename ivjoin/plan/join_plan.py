"""The compiled plan of a join, which is complete before the first row arrives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa

from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.expr.terms import BandTerm
from ivjoin.frontier.order import Order
from ivjoin.frontier.tracking import Frontier, OrderTracker
from ivjoin.outer.batches import OutputField
from ivjoin.outer.jointype import JoinType
from ivjoin.plan.derivations import Derived
from ivjoin.plan.spec import JoinSpec
from ivjoin.separation.separate import Separation
from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.shj.store.rows.bands import BandTable

__all__ = ["JoinPlan", "SidePlan", "band_table", "of_plan", "seen_from"]


@dataclass(slots=True)
class SidePlan:
    """The expressions and columns of one input that are evaluated and stored.

    Each row stores the ordinals of the first ``n_stored_axes`` axes. The other axes are ``sums``. If a row is outside a
    range in ``guards``, the whole condition decides each of its pairs. A null on a ``checked`` axis decides nothing.
    """

    schema: pa.Schema
    stored: list[int] = field(default_factory=list)  # columns of a stored row
    keys: list[Node] = field(default_factory=list)  # in the order of the other side's keys
    axes: list[Node] = field(default_factory=list)  # of bands and bounds; the primary axis is the first
    sums: list[tuple[int, float]] = field(default_factory=list)  # the index of another axis, and the number to add
    band_axes: int = 0  # the number of axes of band terms; a row with a null on one of them has no match
    filters: list[Node] = field(default_factory=list)  # conjuncts that read only this side
    guards: list[tuple[Node, int, int]] = field(default_factory=list)
    orders: list[tuple[Node, str, Order]] = field(default_factory=list)
    bounds: dict[Node, tuple[int, int]] = field(default_factory=dict)  # as ordinals
    never_null: frozenset[Node] = frozenset()  # columns that the schema declares not nullable
    present: frozenset[Node] = frozenset()  # `never_null`, and further columns that are not NULL in a matching row
    numbers: frozenset[Node] = frozenset()  # floats that are not NaN in a matching row
    checked: frozenset[Node] = frozenset()  # axes of the checks; after an error, the whole condition is evaluated

    @property
    def n_stored_axes(self) -> int:
        return len(self.axes) - len(self.sums)


@dataclass(slots=True)
class JoinPlan:
    """Everything that the operator of a join needs. It is complete before the first row arrives."""

    spec: JoinSpec
    sides: tuple[SidePlan, SidePlan]
    how: JoinType
    schema: pa.Schema
    fields: list[OutputField]  # of the joined rows; empty with aggregates
    separation: Separation
    condition: Node | None  # with the key equalities of ``on``
    null_safe: list[bool]  # for each key
    terms: list[BandTerm]  # all band terms, with the terms that keys imply
    kernel_terms: list[BandTerm]
    tables: tuple[BandTable, BandTable]  # [p]: for probe rows of side p
    checks: tuple[np.ndarray, np.ndarray]  # [p]: the checks of the residual, from ``check_table``
    decided: bool  # the checks decide the whole residual
    # [p]: pairs that ``tables`` exclude, but for which the residual may overflow
    overflows: tuple[list[BandTable], list[BandTable]]
    never: bool  # a constant conjunct is not TRUE
    raises: bool  # a constant conjunct raises an error, for every pair that reaches it
    # Immutable values that all operators of this plan share.
    derived: Derived = field(default_factory=Derived, init=False, repr=False, compare=False)

    def own(self) -> JoinPlan:
        """Return a copy for one operator, whose keys and axes may change after a key error or a watermark.

        The copy shares ``derived`` until it changes, and then starts a new one.
        """
        copy, left, right = _alike(self), _alike(self.sides[0]), _alike(self.sides[1])
        for side in (left, right):
            side.keys, side.axes, side.stored = list(side.keys), list(side.axes), list(side.stored)
        copy.sides, copy.null_safe = (left, right), list(self.null_safe)
        return copy

    def frontiers(self, of_all: bool = False) -> tuple[Frontier, Frontier]:
        """Return the frontiers before the first row. ``of_all`` includes rows that cannot match."""
        left, right = (
            Frontier(
                [OrderTracker(n, name, o.descending, o.slack, o.nulls) for n, name, o in side.orders], side.bounds,
                side.never_null if of_all else side.present, frozenset() if of_all else side.numbers,
            )
            for side in self.sides
        )
        return left, right

    @property
    def looks_up(self) -> bool:
        """Return whether the join computes a result for each left row: aggregates, or the matches that it picks."""
        return bool(self.spec.aggregates) or self.spec.pick is not None

    @property
    def word_keys(self) -> bool:
        """Return whether each key column has an ordinal."""
        return bool(self.null_safe) and all(has_ordinal(key.type) for key in self.sides[0].keys)

    @property
    def int_keys(self) -> bool:
        """Return whether the key is a single ordinal, and not null-safe."""
        return len(self.null_safe) == 1 and not self.null_safe[0] and self.word_keys

    def emitted(self, s: int) -> set[int]:
        """Return the indexes of the columns of side s that are in the output."""
        return {i for f in self.fields if (i := f.left if s == 0 else f.right) is not None}

    def axis(self, side: int, node: Node) -> int | None:
        axes = self.sides[side].axes
        return axes.index(node) if node in axes else None

    def add_axis(self, side: int, node: Node) -> None:
        """Add a stored axis to an operator's own plan."""
        self.sides[side].axes.insert(self.sides[side].n_stored_axes, node)
        if self.sides[side].sums:
            self.tables = tuple(band_table(p, self.sides, self.kernel_terms) for p in (0, 1))  # type: ignore[assignment]


_Record = TypeVar("_Record", SidePlan, JoinPlan)
_Value = TypeVar("_Value")
_More = ParamSpec("_More")


def of_plan(make: Callable[Concatenate[JoinPlan, _More], _Value]) -> Callable[Concatenate[JoinPlan, _More], _Value]:
    """Cache the results of a function of a plan and hashable arguments for all operators of the plan."""

    @wraps(make)
    def found(plan: JoinPlan, *args: _More.args, **kwargs: _More.kwargs) -> _Value:
        return plan.derived.once((make, *args, *kwargs.items()), lambda: make(plan, *args, **kwargs))

    return found


def _alike(record: _Record) -> _Record:
    """Return a copy with the same values; ``dataclasses.replace`` takes three times as long."""
    copy = object.__new__(type(record))
    for name in type(record).__slots__:
        setattr(copy, name, getattr(record, name))
    return copy


def seen_from(s: int, t: BandTerm) -> tuple[Node, Node, int | None, int | None]:
    """Return a band from side s as (mine, theirs, low, high): ``low <= mine - theirs <= high``."""
    if s == 0:
        return t.left, t.right, t.lo, t.hi
    return t.right, t.left, None if t.hi is None else -t.hi, None if t.lo is None else -t.lo


def band_table(p: int, sides: tuple[SidePlan, SidePlan], kernel_terms: list[BandTerm]) -> BandTable:
    """Return the band table for probe rows of side p."""
    rows = []
    for t in kernel_terms:
        theirs, mine, low, high = seen_from(1 - p, t)  # theirs in [mine + low, mine + high]
        rows.append((
            sides[p].axes.index(mine), sides[1 - p].axes.index(theirs), I64_MIN if low is None else low,
            I64_MAX if high is None else high,
        ))
    rows.sort(key=lambda r: r[1] != 0)
    n_primary = sum(r[1] == 0 for r in rows)
    terms = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
    terms.flags.writeable = False
    return BandTable(terms, n_primary)
