"""The most matches that any choice of stored rows can give if the future is known: a min-cost flow.

Das, Gehrke and Riedewald (SIGMOD 2003) use a flow over (row, step). Here, rows of one key are one stream of units:
among equal rows, the newest matches as much as an older one, and for longer. So the flow decides *how many* rows of a
key to store at each step. The graph has a timeline, whose capacity is the memory, and a chain for each key and side:

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
    It still meets the rows of that step.
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
        Steps: rows i and j can meet if ``|i - j| < window``.
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
    rooms = memory_of(memory, shared)
    at_once = int(np.count_nonzero((left == right) & (left >= 0)))
    lanes = {"left": list(_lanes(left, right, window)), "right": list(_lanes(right, left, window))}
    kept: dict[str, list[tuple[int, int]]] = {"left": [], "right": []}
    if isinstance(rooms, int):
        problems: list[tuple[tuple[str, ...], int]] = [(("left", "right"), rooms)]
    else:
        problems = [(("left",), rooms[0]), (("right",), rooms[1])]
    matches = at_once
    for sides, room in problems:
        if room and len(left):  # a timeline needs steps
            matches += _solved(len(left), room, {side: lanes[side] for side in sides}, kept)
    return Optimum(matches, {side: sorted(rows) for side, rows in kept.items()})


@dataclass(slots=True)
class _Lane:
    """Rows of one key on one side, and the other side's rows of that key."""

    rows: np.ndarray  # steps at which a row to store arrives
    meets: np.ndarray  # steps at which a row of the other side arrives
    enters: np.ndarray  # for each row the place in ``meets`` of the first that comes after it; -1 if too late
    alive: np.ndarray  # for each of ``meets`` but the last: rows from before it that live to the next


def _lanes(own: np.ndarray, other: np.ndarray, window: int) -> Iterator[_Lane]:
    for key in np.unique(own[own >= 0]):
        rows, meets = np.flatnonzero(own == key), np.flatnonzero(other == key)
        if not len(meets):
            continue
        enters = np.searchsorted(meets, rows, "right")
        there = enters < len(meets)
        there[there] = meets[enters[there]] - rows[there] < window
        first = np.searchsorted(rows, meets[1:] - window, "right")
        alive = np.maximum(np.searchsorted(rows, meets[:-1], "left") - first, 0)
        yield _Lane(rows, meets, np.where(there, enters, -1), alive)


def _solved(n: int, room: int, lanes: dict[str, list[_Lane]], kept: dict[str, list[tuple[int, int]]]) -> int:
    """Return the matches of rows of different steps, and write the rows that give them to ``kept``."""
    try:
        from ortools.graph.python import min_cost_flow
    except ImportError as e:
        raise MissingPackageError(
            "optimal_offline needs OR-Tools for its min-cost flow: pip install 'ivjoin[shedding]'"
        ) from e
    tails, heads, capacities, costs = [np.arange(n)], [np.arange(1, n + 1)], [np.full(n, room)], [np.zeros(n, np.int64)]
    node = n + 1
    entries, chains = [], []  # where each chain's arcs begin among all arcs
    count = n

    def arcs(tail: np.ndarray, head: np.ndarray, capacity: np.ndarray, cost: int) -> int:
        nonlocal count
        for made, new in zip((tails, heads, capacities, costs), (tail, head, capacity, np.full(len(tail), cost))):
            made.append(new)
        count += len(tail)
        return count - len(tail)

    for lane in (lane for side in lanes.values() for lane in side):
        at = node + np.arange(len(lane.meets))
        node += len(at)
        usable = lane.enters >= 0
        entries.append(arcs(lane.rows[usable], at[lane.enters[usable]], np.ones(usable.sum(), np.int64), -1))
        chains.append(arcs(at[:-1], at[1:], lane.alive, -1))
        arcs(at, lane.meets, np.full(len(at), room), 0)
    flow: Any = min_cost_flow.SimpleMinCostFlow()
    flow.add_arcs_with_capacity_and_unit_cost(*(np.concatenate(x) for x in (tails, heads, capacities, costs)))
    supplies = np.zeros(node, dtype=np.int64)
    supplies[0], supplies[n] = room, -room
    flow.set_nodes_supplies(np.arange(node), supplies)
    status = flow.solve()
    if status != flow.OPTIMAL:
        raise AssertionError(f"a flow that always exists was not found: status {status}")
    flows = flow.flows(np.arange(count))
    i = 0
    for side, of_side in lanes.items():
        for lane in of_side:
            usable = lane.enters >= 0
            entered = np.zeros(len(lane.rows), dtype=bool)
            entered[usable] = flows[entries[i] : entries[i] + usable.sum()] > 0
            onward = flows[chains[i] : chains[i] + max(len(lane.meets) - 1, 0)]
            kept[side] += _held(lane, entered, onward)
            i += 1
    return -int(flow.optimal_cost())


def _held(lane: _Lane, entered: np.ndarray, onward: np.ndarray) -> list[tuple[int, int]]:
    """Return the rows to store as (row, step of removal): the newest ones, as many as there are units in the chain."""
    held: list[int] = []
    out: list[tuple[int, int]] = []
    events = [(int(t), 0, i) for i, t in enumerate(lane.meets)] + [(int(t), 1, i) for i, t in enumerate(lane.rows)]
    for step, is_row, i in sorted(events):  # a step's rows meet before one of them is stored
        if is_row:
            if entered[i]:
                held.append(step)
            elif held:  # the new row matches as much as the oldest, and for longer
                out.append((held.pop(0), step))
                held.append(step)
            continue
        stay = int(onward[i]) if i < len(onward) else 0
        while len(held) > stay:
            out.append((held.pop(0), step))
    return out + [(row, row) for row in held]
