"""What operators are made of in which left rows wait until their partners are decided, whatever is made of these."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakMethod

from ivjoin.expr.nodes import Node
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.budget import Budget
from ivjoin.operator.core import frontiers_of
from ivjoin.operator.intake import Intake
from ivjoin.operator.prune_bounds import Bounder
from ivjoin.operator.waiting_limits import WaitingLimits
from ivjoin.plan.layout import row_layouts
from ivjoin.plan.planner import JoinPlan
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.backing import Files

__all__ = ["WaitingCore"]


class WaitingCore:
    """The plan, the frontiers and the counts of such an operator; with calls that ``Core`` has, too."""

    def __init__(self, plan: JoinPlan, late_within: bool = True, errors_first: bool = False) -> None:
        self.plan = plan = plan.own()
        self.how = plan.how
        self.layouts = row_layouts(plan)
        self.frontiers = frontiers_of(plan)
        self.bounder = Bounder(plan, self.frontiers)
        self.intake = Intake(plan, self.frontiers, late_within, errors_first)
        self.rekeyed = False
        self.full_predicate = plan.raises
        self.watermarks: dict[tuple[int, str], tuple[Node, bool]] = {}
        self.ended = [False, False]
        self.metrics = JoinMetrics()
        self.limits: WaitingLimits | None = None
        held = WeakMethod(self.bytes_held)
        self.account = Account(lambda: (of() if (of := held()) else 0))

    def rows_held(self) -> tuple[int, int]:
        """Rows of each side that are held."""
        raise NotImplementedError

    def bytes_held(self) -> int:
        """Bytes of what is held."""
        raise NotImplementedError

    def bytes_of_sides(self) -> tuple[int, int]:
        """Those of the left and the right side; the keys are of both."""
        raise NotImplementedError

    # -- counts ------------------------------------------------------------------------------------------------------

    def came(self, p: int, rows: int, late: int) -> None:
        """So many rows of side p were pushed; those that are late are no more than counted."""
        m = self.metrics
        m.late_rows += late
        if p == 0:
            m.left_rows_in += rows
        else:
            m.right_rows_in += rows

    def went(self, p: int, rows: int) -> None:
        """So many rows of side p are decided and not held, or not any more."""
        if p == 0:
            self.metrics.left_rows_retired += rows
        else:
            self.metrics.right_rows_retired += rows

    def count_state(self) -> None:
        """Take in what is held now."""
        m = self.metrics
        m.state_rows = sum(self.rows_held())
        m.state_bytes = self.bytes_held()
        m.peak_state_rows = max(m.peak_state_rows, m.state_rows)
        m.peak_state_bytes = max(m.peak_state_bytes, m.state_bytes)
        if self.limits is not None:
            self.limits.stepped()

    def filed_rows(self) -> int:
        """Rows of which something lies in files."""
        return 0

    def counts(self) -> JoinMetrics:
        """The counts of this moment."""
        m = replace(self.metrics)
        m.state_rows = sum(self.rows_held())
        m.peak_state_rows = max(m.peak_state_rows, m.state_rows)
        m.state_bytes = self.bytes_held()
        if self.account.files is not None:
            m.spilled_rows, m.spilled_bytes = self.filed_rows(), self.account.files.nbytes
        return m

    # -- memory ------------------------------------------------------------------------------------------------------

    def limit(self, budget: Budget) -> None:
        """Refuse batches with which more bytes would be held, or let columns lie in files."""
        self.limits = WaitingLimits(self, budget)

    def spill(self, files: Files, most: int) -> None:
        """Let columns of rows lie in files until no more than ``most`` bytes are held, or there are none in memory.

        Raises
        ------
        MemoryLimitError
            If the disk has no room; all is as it was.
        """

    def make_room(self, force: bool) -> None:
        """Let go of what nobody can want; unless ``force``, where that is likely to be much."""

    def is_refused(self, error: BaseException) -> bool:
        """Whether the account has refused memory for the push under way, of which nothing is done yet."""
        return self.account.refused

    # -- what is known of the sides ----------------------------------------------------------------------------------

    def promise(self, p: int, node: Node, ordinal: int, descending: bool) -> bool:
        """Take in a promise about a side's later rows; whether its expression was known already."""
        known = node in self.frontiers[p].promised
        self.frontiers[p].promise(node, ordinal, descending)
        return known

    def learn(self) -> None:
        """Take in that frontiers may know other expressions now, which may be axes to prune by."""
        for frontier in self.frontiers:
            frontier.refresh()
        missing = list(self.bounder.missing_axes())
        for s, node in missing:
            if node not in self.plan.sides[s].axes:
                self.plan.sides[s].axes.append(node)
        if missing:
            self.plan.kept = {}
            for s in (0, 1):
                self.bounder.refit(s)
            self.read_again()

    def rekey(self) -> None:
        """A computed key has erred for some row: find rows without it. Where rows are picked, such a row is refused."""
        raise NotImplementedError

    def read_again(self) -> None:
        """Evaluate what is held anew, for other keys or axes."""
        raise NotImplementedError
