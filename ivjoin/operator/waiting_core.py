"""What operators are made of in which left rows wait until their partners are decided, whatever is made of these."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakMethod

from ivjoin.errors import MemoryLimitError
from ivjoin.expr.nodes import Node
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.budget import Budget
from ivjoin.operator.core import frontiers_of
from ivjoin.operator.intake import Intake
from ivjoin.operator.prune_bounds import Bounder
from ivjoin.operator.sharing import GOES_ON, shared_words
from ivjoin.plan.layout import row_layouts
from ivjoin.plan.planner import JoinPlan
from ivjoin.shj.store.account import Account

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
        held = WeakMethod(self.bytes_held)
        self.account = Account(lambda: (of() if (of := held()) else 0))

    def rows_held(self) -> tuple[int, int]:
        """Rows of each side that are held."""
        raise NotImplementedError

    def bytes_held(self) -> int:
        """Bytes of what is held."""
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

    def counts(self) -> JoinMetrics:
        """The counts of this moment."""
        m = replace(self.metrics)
        m.state_rows = sum(self.rows_held())
        m.peak_state_rows = max(m.peak_state_rows, m.state_rows)
        m.state_bytes = self.bytes_held()
        return m

    # -- memory ------------------------------------------------------------------------------------------------------

    def limit(self, budget: Budget) -> None:
        """Refuse batches with which more bytes would be held."""
        self.budget = budget
        self.account.limit, self.account.on_full = budget.limit, self._on_full

    def _on_full(self, needed: int, held: int) -> bool:
        pool, limit = self.budget.pool, self.account.limit
        assert limit is not None
        if pool is not None and pool.lend(self.account, needed + held - limit):
            return True
        if self.make_room():
            return True
        left, right = self.rows_held()
        said, after = f"memory_limit of {limit:,} bytes", GOES_ON
        ways = "a greater memory_limit; smaller batches; a narrower band, or orders and bounds that let rows go"
        if pool is not None:
            said, after, ways = shared_words(pool, limit), "", f"{ways}; fewer threads, each of which holds a window"
        raise MemoryLimitError(
            f"{said}: {held:,} are held and {needed:,} more are needed. The left side holds {left:,} rows that wait "
            f"for their partners; the right side holds {right:,}. Ways out: {ways}", after
        )

    def make_room(self) -> bool:
        """Before a batch is refused: let go of what nobody can want; whether there was any."""
        return False

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
