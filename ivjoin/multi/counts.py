"""Count the rows of a join of many inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ivjoin.metrics import MultiJoinMetrics
from ivjoin.multi.inputs import Input
from ivjoin.multi.shape.steps import Layout
from ivjoin.operator.match.step_join import StepJoin
from ivjoin.plan.spec import SIDES

__all__ = ["counted", "stored"]


def stored(operators: Sequence[StepJoin]) -> tuple[int, int]:
    """Return the rows and bytes in the state of all steps."""
    sizes = [op.held for op in operators]
    return sum(rows for rows, _ in sizes), sum(size for _, size in sizes)


def counted(
    layout: Layout, operators: Sequence[StepJoin], inputs: Mapping[str, Input], totals: tuple[int, int, int]
) -> MultiJoinMetrics:
    """Return the metrics. ``totals``: the output rows, and the greatest numbers of rows and bytes stored so far."""
    rows_out, peak_rows, peak_bytes = totals
    copies = {a: [operators[i].stored(SIDES[p]) for i, p in layout.homes(a)] for a in inputs}
    views = {
        ", ".join(side.aliases): operators[i].stored(SIDES[p])
        for i, step in enumerate(layout.steps) for p, side in enumerate(step.sides) if side.is_view
    }
    rows, size = stored(operators)
    spilled = [op.spilled for op in operators]
    return MultiJoinMetrics(
        rows_in={a: i.rows_in for a, i in inputs.items()},
        rows_retired={a: i.rows_in - max(copies[a]) for a, i in inputs.items()},
        late={a: i.late for a, i in inputs.items()}, lateness={a: i.lateness for a, i in inputs.items()},
        stored={a: sum(c) for a, c in copies.items()}, views=views, rows_out=rows_out,
        late_rows=sum(i.late for i in inputs.values()), state_rows=rows, state_bytes=size,
        peak_state_rows=max(peak_rows, rows), peak_state_bytes=max(peak_bytes, size),
        spilled_rows=sum(rows for rows, _ in spilled), spilled_bytes=sum(size for _, size in spilled),
    )
