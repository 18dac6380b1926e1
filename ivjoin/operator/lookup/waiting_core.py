"""The common core of operators whose left rows wait until their matches are decided: picks and aggregates."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakMethod

from ivjoin.expr.nodes import Node
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.intake import Intake
from ivjoin.operator.memory.memory_parts import OutputLimit
from ivjoin.operator.prune_bounds import Bounder
from ivjoin.plan.derivations import Derived
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.disk.backing import Files

__all__ = ["WaitingCore"]


class WaitingCore:
    """The plan, the frontiers and the counts of such an operator, with the calls that ``Core`` also has."""

    def __init__(self, plan: JoinPlan, late_within: bool = True, errors_first: bool = False) -> None:
        self.plan = plan = plan.own()
        self.how = plan.how
        self.layouts = row_layouts(plan)
        self.frontiers = plan.frontiers()
        self.bounder = Bounder(plan, self.frontiers)
        self.intake = Intake(plan, self.frontiers, late_within, errors_first)
        self.rekeyed = False
        self.full_predicate = plan.raises
        self.watermarks: dict[tuple[int, str], tuple[Node, bool]] = {}
        self.ended = [False, False]
        self.metrics = JoinMetrics()
        self.limits: OutputLimit | None = None
        held = WeakMethod(self.bytes_held)
        self.account = Account(lambda: (of() if (of := held()) else 0))

    def rows_held(self) -> tuple[int, int]:
        """Return the number of stored rows of each side."""
        raise NotImplementedError

    def bytes_held(self) -> int:
        """Return the bytes of the state."""
        raise NotImplementedError

    def bytes_of_sides(self) -> tuple[int, int]:
        """Return the bytes of the left and the right side, without the keys, which both share."""
        raise NotImplementedError

    # -- counts ------------------------------------------------------------------------------------------------------

    def came(self, p: int, rows: int, late: int) -> None:
        """Count ``rows`` rows that were pushed on side p, including ``late`` late rows."""
        m = self.metrics
        m.late_rows += late
        if p == 0:
            m.left_rows_in += rows
            m.left_late_rows += late
        else:
            m.right_rows_in += rows
            m.right_late_rows += late

    def went(self, p: int, rows: int) -> None:
        """Count rows of side p that are decided and no longer stored."""
        if p == 0:
            self.metrics.left_rows_retired += rows
        else:
            self.metrics.right_rows_retired += rows

    def count_state(self) -> None:
        """Update the counts of the state and their peaks."""
        m = self.metrics
        m.state_rows = sum(self.rows_held())
        m.state_bytes = self.bytes_held()
        m.peak_state_rows = max(m.peak_state_rows, m.state_rows)
        m.peak_state_bytes = max(m.peak_state_bytes, m.state_bytes)
        if self.limits is not None:
            self.limits.stepped()

    def filed_rows(self) -> int:
        """Return the number of rows with columns in files."""
        return 0

    def counts(self) -> JoinMetrics:
        """Return a copy of the counts at this moment."""
        m = replace(self.metrics)
        m.left_lateness, m.right_lateness = self.intake.lateness
        m.state_rows = sum(self.rows_held())
        m.peak_state_rows = max(m.peak_state_rows, m.state_rows)
        m.state_bytes = self.bytes_held()
        if self.account.files is not None:
            m.spilled_rows, m.spilled_bytes = self.filed_rows(), self.account.files.nbytes
        return m

    # -- memory ------------------------------------------------------------------------------------------------------

    def limit(self, limit: OutputLimit) -> None:
        """Obey a limit from now on."""
        self.limits = limit

    def spill(self, files: Files, most: int) -> None:
        """Spill columns until at most ``most`` bytes are in memory, or no column is.

        Raises
        ------
        MemoryLimitError
            If the disk is full. Nothing has changed then.
        """

    def make_room(self, force: bool) -> None:
        """Drop rows that no row can match. Without ``force``, only if they are likely to be many."""

    def is_refused(self, error: BaseException) -> bool:
        """Return whether memory was refused for the push under way before it changed anything."""
        return self.account.refused

    # -- what is known of the sides ----------------------------------------------------------------------------------

    def promise(self, p: int, node: Node, ordinal: int, descending: bool) -> bool:
        """Record a promise about later rows of a side; return whether its expression already had one."""
        known = node in self.frontiers[p].promised
        self.frontiers[p].promise(node, ordinal, descending)
        return known

    def learn(self) -> None:
        """Add the axes that prune after the frontiers got new expressions."""
        for frontier in self.frontiers:
            frontier.refresh()
        missing = list(self.bounder.missing_axes())
        for s, node in missing:
            if node not in self.plan.sides[s].axes:
                self.plan.sides[s].axes.append(node)
        if missing:
            self.plan.derived = Derived()
            for s in (0, 1):
                self.bounder.refit(s)
            self.read_again()

    def rekey(self) -> None:
        """Stop using a computed key that has an error for some row. A core that picks refuses the row instead."""
        raise NotImplementedError

    def read_again(self) -> None:
        """Evaluate the stored rows again for other keys or axes."""
        raise NotImplementedError
