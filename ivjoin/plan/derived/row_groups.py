"""Find the row groups that a join or a predicate must read. For all others, the condition cannot be TRUE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ivjoin.expr.nodes import Node, columns_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.propagation import Dom, Outcome, contract_nodes

__all__ = ["groups_within", "meeting_groups"]

# A skipped row group narrows the range of its side, so more row groups of the other side may be skipped.
_ROUNDS = 4
# Above this number of pairs, a row group is compared only with the range of the whole other input. One pair takes
# about 30 microseconds.
_PAIRS = 4096


class Ranges(Protocol):
    """The domains of an input's columns in each row group. Row groups are identified by number."""

    def groups_with_rows(self) -> list[int]: ...

    def of_group(self, group: int, columns: Sequence[Node]) -> dict[Node, Dom]: ...

    def of_groups(self, groups: Sequence[int], columns: Sequence[Node]) -> dict[Node, Dom]: ...


def groups_within(condition: Node | None, ranges: Ranges) -> list[int]:
    """Return the row groups (ascending) of one input for which a condition over its columns can be TRUE."""
    groups = ranges.groups_with_rows()
    if condition is None:
        return groups
    columns = columns_of(condition)
    # Many row groups have the same domains if statistics are missing or a column is constant.
    seen: dict[tuple[Dom, ...], bool] = {}
    kept = []
    for group in groups:
        known = ranges.of_group(group, columns)
        key = tuple(known.values())
        if key not in seen:
            seen[key] = _feasible(condition, known)
        if seen[key]:
            kept.append(group)
    return kept


def meeting_groups(plan: JoinPlan, ranges: tuple[Ranges, Ranges]) -> tuple[list[int], list[int]]:
    """Return the row groups of each input (ascending) that a join must read.

    A row group is skipped if the condition cannot be TRUE for its column ranges and the ranges of the other input. All
    row groups of a preserved side are read. A side whose late rows are dropped or joined is also read completely,
    because earlier rows determine which rows are late.
    """
    whole = [r.groups_with_rows() for r in ranges]
    # Ranges treat an error as not TRUE. If every pair raises an error, the first pair must be read to raise it. The row
    # before a window is needed, although it does not satisfy the condition.
    live = whole if plan.raises or plan.spec.include_previous else _meeting(plan.condition, ranges, whole)
    kept = []
    for s in (0, 1):
        sheds = bool(plan.spec.orders[s] or plan.spec.bounds[s]) and plan.spec.on_late != "raise"
        kept.append(whole[s] if plan.how.owes(s) or sheds else live[s])
    return kept[0], kept[1]


def _meeting(
    condition: Node | None, ranges: tuple[Ranges, Ranges], groups: list[list[int]]
) -> list[list[int]]:
    """Return the row groups of each side for which the condition can be TRUE with some row group of the other side."""
    live = list(groups)
    columns = [] if condition is None else columns_of(condition)
    for _ in range(_ROUNDS):
        before = [len(g) for g in live]
        for s in (0, 1):
            if not live[1 - s]:
                live[s] = []
            elif condition is not None and live[s]:
                other = ranges[1 - s].of_groups(live[1 - s], columns)
                live[s] = [g for g in live[s] if _feasible(condition, other | ranges[s].of_group(g, columns))]
        if before == [len(g) for g in live]:
            break
    if condition is not None and 0 < len(live[0]) * len(live[1]) <= _PAIRS:
        # The range of a whole input covers the gaps between its row groups, so compare single row groups too.
        known = [[ranges[s].of_group(g, columns) for g in live[s]] for s in (0, 1)]
        for s in (0, 1):
            kept = _met(condition, known[s], known[1 - s])
            live[s], known[s] = [live[s][i] for i in kept], [known[s][i] for i in kept]
    return live


def _met(condition: Node, mine: list[dict[Node, Dom]], others: list[dict[Node, Dom]]) -> list[int]:
    """Return the indexes of the row groups that may match one of the others.

    The search for each begins at the last match, because most files are sorted.
    """
    out, at = [], 0
    for i, known in enumerate(mine):
        for j in (*range(at, len(others)), *range(at)):
            if _feasible(condition, known | others[j]):
                out.append(i)
                at = j
                break
    return out


def _feasible(condition: Node, known: dict[Node, Dom]) -> bool:
    return contract_nodes([condition], known, [])[0] is not Outcome.INFEASIBLE
