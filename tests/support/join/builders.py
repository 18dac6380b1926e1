"""Output batches that Arrow builds, as it must where a column is nested or lies in files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from ivjoin.operator.match import whole
from ivjoin.operator.match.kernel import kernel_state, reuse
from ivjoin.operator.match.kernel.tables import OutputTable, output_table
from ivjoin.plan.join_plan import JoinPlan

__all__ = ["by_arrow"]


def _no_kinds(plan: JoinPlan) -> OutputTable:
    return replace(output_table(plan), kinds=None)


@contextmanager
def by_arrow(asked: bool = True) -> Iterator[None]:
    """Let Arrow build the whole output of operators that are made meanwhile, if ``asked``."""
    with pytest.MonkeyPatch.context() as patch:
        if asked:
            build = kernel_state.KernelState.build

            def built(engine: kernel_state.KernelState) -> None:
                build(engine)
                engine.__dict__["_left"] = lambda: None  # no other operator reuses its state

            patch.setattr(kernel_state, "output_table", _no_kinds)
            patch.setattr(whole, "output_table", _no_kinds)
            patch.setattr(kernel_state.KernelState, "build", built)
            patch.setattr(reuse, "take", lambda plan, account: None)
        yield
