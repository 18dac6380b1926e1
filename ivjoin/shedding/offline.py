"""Compute the most matches that any choice of stored rows can give if the future is known, as a min-cost flow.

Das, Gehrke and Riedewald (SIGMOD 2003) use a flow over (row, step). Here, rows of one key are one stream of units,
because among equal rows, the newest matches as much as an older one, and for longer. The flow therefore decides *how
many* rows of a key to store at each step. The graph has a timeline, whose capacity is the memory, and a chain for each
key and side:

| from | to | meaning |
|---|---|---|
| T0 | T1 | idle memory; T0 to TN is the timeline |
| T0 | (k, s) | row r of key k arrives and takes one unit |
| (k, s) | (k, s') | the next row of the other side with key k; each unit that reaches it is a match |
| (k, s) | T s | the unit is free again |

The capacity of a chain's arc is the number of rows that are alive at its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ivjoin.errors import MissingPackageError
from ivjoin.shedding.model import Keys, coded, memory_of

__all__ = ["Optimum", "optimal_offline"]


@dataclass(frozen=True, slots=True)
class Optimum:
    """The greatest number of matches, and one choice that gives it.

    ``kept["left"]`` and ``kept["right"]`` list (row, step): each stored row, and the step at whose end it is dropped.
    It is still joined with the rows of that step.
    """

    matches: int
    kept: dict[str, list[tuple[int, int]]]


def optimal_offline(left_keys: Keys, right_keys: Keys, *, window: int, memory: int, shared: bool = False) -> Optimum:
    """Return the most matches that ``memory`` rows can give for an input that is known in advance.

    Parameters
    ----------
    left_keys, right_keys : sequence of n hashable values
        Key of the row that arrives at each step; None matches nothing, NaN matches NaN.
    window : int
        The window in steps: rows i and j can match if ``|i - j| < window``.
    memory : int
        Rows that are stored from one step to the next: half of them of each side, or of both together if ``shared``.
    shared : bool

    Returns
    -------
    Optimum

    Raises
    ------
    OptionError
        For an invalid argument.
    MissingPackageError
        If OR-Tools is not installed.

    Examples
    --------
    >>> optimal_offline([1, 1, 1, 3, 2], [2, 3, 1, 1, 3], window=3, memory=2).matches
    5
    """
    left, right, _, window = coded(left_keys, right_keys, window)
    limits = memory_of(memory, shared)
    at_once = int(np.count_nonzero((left == right) & (left >= 0)))
    chains = {"left": list(_chains(left, right, window)), "right": list(_chains(right, left, window))}
    kept: dict[str, list[tuple[int, int]]] = {"left": [], "right": []}
    if isinstance(limits, int):
        problems: list[tuple[tuple[str, ...], int]] = [(("left", "right"), limits)]
    else:
        problems = [(("left",), limits[0]), (("right",), limits[1])]
    matches = at_once
    for sides, capacity in problems:
        if capacity and len(left):  # a timeline needs steps
            matches += _solved(len(left), capacity, {side: chains[side] for side in sides}, kept)
    return Optimum(matches, {side: sorted(rows) for side, rows in kept.items()})


@dataclass(slots=True)
class _Chain:
    """Rows of one key on one side, and the other side's rows of that key."""

    rows: np.ndarray  # steps at which a row to store arrives
    meets: np.ndarray  # steps at which a row of the other side arrives
    enters: np.ndarray  # for each row the place in ``meets`` of the first that comes after it; -1 if too late
    alive: np.ndarray  # for each of ``meets`` but the last: rows from before it that live to the next


def _chains(own: np.ndarray, other: np.ndarray, window: int) -> Iterator[_Chain]:
    for key in np.unique(own[own >= 0]):
        rows, meets = np.flatnonzero(own == key), np.flatnonzero(other == key)
        if not len(meets):
            continue
        enters = np.searchsorted(meets, rows, "right")
        there = enters < len(meets)
        there[there] = meets[enters[there]] - rows[there] < window
        first = np.searchsorted(rows, meets[1:] - window, "right")
        alive = np.maximum(np.searchsorted(rows, meets[:-1], "left") - first, 0)
        yield _Chain(rows, meets, np.where(there, enters, -1), alive)


def _solved(n: int, capacity: int, chains: dict[str, list[_Chain]], kept: dict[str, list[tuple[int, int]]]) -> int:
    """Return the matches of rows of different steps, and write the rows that give them to ``kept``."""
    try:
        from ortools.graph.python import min_cost_flow
    except ImportError as e:
        raise MissingPackageError(
            "optimal_offline needs OR-Tools for its min-cost flow: pip install 'ivjoin[shedding]'"
        ) from e
    tails, heads = [np.arange(n)], [np.arange(1, n + 1)]
    capacities, costs = [np.full(n, capacity)], [np.zeros(n, np.int64)]
    node = n + 1
    entries, links = [], []  # where each chain's arcs begin among all arcs
    count = n

    def arcs(tail: np.ndarray, head: np.ndarray, capacity: np.ndarray, cost: int) -> int:
        nonlocal count
        for made, new in zip((tails, heads, capacities, costs), (tail, head, capacity, np.full(len(tail), cost))):
            made.append(new)
        count += len(tail)
        return count - len(tail)

    for chain in (chain for side in chains.values() for chain in side):
        at = node + np.arange(len(chain.meets))
        node += len(at)
        usable = chain.enters >= 0
        entries.append(arcs(chain.rows[usable], at[chain.enters[usable]], np.ones(usable.sum(), np.int64), -1))
        links.append(arcs(at[:-1], at[1:], chain.alive, -1))
        arcs(at, chain.meets, np.full(len(at), capacity), 0)
    flow: Any = min_cost_flow.SimpleMinCostFlow()
    flow.add_arcs_with_capacity_and_unit_cost(*(np.concatenate(x) for x in (tails, heads, capacities, costs)))
    supplies = np.zeros(node, dtype=np.int64)
    supplies[0], supplies[n] = capacity, -capacity
    flow.set_nodes_supplies(np.arange(node), supplies)
    status = flow.solve()
    if status != flow.OPTIMAL:
        raise AssertionError(f"a flow that always exists was not found: status {status}")
    flows = flow.flows(np.arange(count))
    i = 0
    for side, of_side in chains.items():
        for chain in of_side:
            usable = chain.enters >= 0
            entered = np.zeros(len(chain.rows), dtype=bool)
            entered[usable] = flows[entries[i] : entries[i] + usable.sum()] > 0
            onward = flows[links[i] : links[i] + max(len(chain.meets) - 1, 0)]
            kept[side] += _stored(chain, entered, onward)
            i += 1
    return -int(flow.optimal_cost())


def _stored(chain: _Chain, entered: np.ndarray, onward: np.ndarray) -> list[tuple[int, int]]:
    """Return the rows to store as (row, step of removal): the newest ones, as many as there are units in the chain."""
    stored: list[int] = []
    out: list[tuple[int, int]] = []
    events = [(int(t), 0, i) for i, t in enumerate(chain.meets)] + [(int(t), 1, i) for i, t in enumerate(chain.rows)]
    for step, is_row, i in sorted(events):  # a step's rows meet before one of them is stored
        if is_row:
            if entered[i]:
                stored.append(step)
            elif stored:  # the new row matches as much as the oldest, and for longer
                out.append((stored.pop(0), step))
                stored.append(step)
            continue
        stay = int(onward[i]) if i < len(onward) else 0
        while len(stored) > stay:
            out.append((stored.pop(0), step))
    return out + [(row, row) for row in stored]
