"""Choose how to join two tables if each left row gets one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ivjoin.plan.join_plan import JoinPlan
from ivjoin.stream.sources.inputs import Source

if TYPE_CHECKING:
    from ivjoin.stream.after.lookups import Looked
    from ivjoin.stream.tables.table_lookup import TableLookup

__all__ = ["looked_up"]


def looked_up(
    plan: JoinPlan, sources: tuple[Source, Source], threads: int, several: Looked | None = None
) -> TableLookup | None:
    """Return the join of two tables in memory that gives each left row one answer, or None if rows must be pushed."""
    if several is not None:
        return several.looked_up(sources, threads)
    if plan.spec.picks_one:
        from ivjoin.stream.tables.table_pick import table_pick

        return table_pick(plan, sources, threads)
    if plan.spec.pick is not None:
        from ivjoin.stream.tables.paired_pick import best_of_tables

        return best_of_tables(plan, sources, threads)
    if plan.spec.aggregates:
        from ivjoin.stream.tables.table_window import table_window

        return table_window(plan, sources, threads)
    return None
