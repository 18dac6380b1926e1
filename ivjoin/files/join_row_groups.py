"""Row groups of two Parquet files that a join of them has to read: those that the other file's rows can meet."""

from __future__ import annotations

from typing import Any

from ivjoin.expr.nodes import Node, columns_of
from ivjoin.files.row_groups import ColumnRanges, Ranges, opened
from ivjoin.plan.cache import planned
from ivjoin.plan.planner import JoinPlan
from ivjoin.propagation import Dom, Outcome, contract_nodes

__all__ = ["meeting_groups", "reachable_row_groups"]

# Row groups skipped on one side shrink the range of that side, which may skip more on the other.
_ROUNDS = 4
# Beyond this many pairs of row groups only whole files are set against row groups: a pair costs some 30 microseconds.
_PAIRS = 4096


def reachable_row_groups(left: Any, right: Any, **question: Any) -> tuple[list[int], list[int]]:
    """The row groups that a join of two Parquet files has to read for its result to be whole.

    A row group is left out where the condition cannot be TRUE between its column ranges and those of the other file.
    The rows of a preserved side come out whether they match or not, so all its row groups stay. So do those of a side
    whose late rows are dropped or joined as they come: which rows are late depends on the rows before them.

    Parameters
    ----------
    left, right : str, os.PathLike, file object or pyarrow.parquet.ParquetFile
    **question
        ``on``, ``condition``, ``how`` and further arguments of :func:`ivjoin.band_join`.

    Returns
    -------
    list of int, list of int
        Ascending indices of the left and of the right file's row groups.

    Raises
    ------
    IvjoinError
        What :func:`ivjoin.band_join` raises for the same arguments, or if a file is not Parquet.
    """
    with opened(left) as left_file, opened(right) as right_file:
        ranges = (ColumnRanges(left_file, "left"), ColumnRanges(right_file, "right"))
        plan = planned(ranges[0].schema, ranges[1].schema, **question)
        return meeting_groups(plan, ranges)


def meeting_groups(plan: JoinPlan, ranges: tuple[Ranges, Ranges]) -> tuple[list[int], list[int]]:
    """As :func:`reachable_row_groups`, of inputs whose footers were read: the left's ranges, and the right's."""
    whole = [r.groups_with_rows() for r in ranges]
    # to the ranges a condition that errs is one that is not TRUE; where each pair errs, the first is to be met
    live = whole if plan.raises else _meeting(plan.condition, ranges, whole)
    kept = []
    for s in (0, 1):
        sheds = bool(plan.spec.orders[s] or plan.spec.bounds[s]) and plan.spec.on_late != "raise"
        kept.append(whole[s] if plan.how.owes(s) or sheds else live[s])
    return kept[0], kept[1]


def _meeting(
    condition: Node | None, ranges: tuple[Ranges, Ranges], groups: list[list[int]]
) -> list[list[int]]:
    """The row groups of each side that the condition lets meet the other side's."""
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
        # the range of a file spans its gaps, those of its row groups do not
        known = [[ranges[s].of_group(g, columns) for g in live[s]] for s in (0, 1)]
        for s in (0, 1):
            kept = _met(condition, known[s], known[1 - s])
            live[s], known[s] = [live[s][i] for i in kept], [known[s][i] for i in kept]
    return live


def _met(condition: Node, mine: list[dict[Node, Dom]], others: list[dict[Node, Dom]]) -> list[int]:
    """Which of these may meet one of the others. They are tried from the last one met on: most files are in order."""
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
