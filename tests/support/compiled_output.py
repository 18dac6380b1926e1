"""Choose whether compiled code or Arrow builds the output batches of operators."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ivjoin.operator import tables
from ivjoin.operator.match import kernel_state, lending, whole
from ivjoin.plan.join_plan import JoinPlan

__all__ = ["use_blocks"]


def use_blocks(patch: pytest.MonkeyPatch, wanted: bool) -> None:
    """Let compiled code build output where it can, or let Arrow build all of it, in operators that are made later."""

    def by_arrow(plan: JoinPlan) -> tables.OutputTable:
        return replace(tables.output_table(plan), kinds=None)

    lending.forget()  # an operator's state is for the same output
    for module in (kernel_state, whole):
        patch.setattr(module, "output_table", tables.output_table if wanted else by_arrow)
