"""What the state of every operator has: its own plan, frontiers and bounds, counts, and an account of its memory."""

from __future__ import annotations

from itertools import compress
from weakref import WeakMethod

from ivjoin.expr import build
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import from_arrow
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.intake import Intake
from ivjoin.operator.prune_bounds import Bounder
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.plan.spec import SIDES
from ivjoin.separation.separate import conjuncts_of
from ivjoin.shj.store.account import Account

__all__ = ["JoinState"]


class JoinState:
    """The part of an operator's state that does not depend on what the operator emits."""

    full_predicate: bool  # whether the whole condition decides each pair

    def __init__(self, plan: JoinPlan, late_within: bool, errors_first: bool) -> None:
        self.plan = plan = plan.own()
        self.how, self.layouts = plan.how, row_layouts(plan)
        self.frontiers = plan.frontiers()
        self.bounder = Bounder(plan, self.frontiers)
        self.intake = Intake(plan, self.frontiers, late_within, errors_first)
        self.rekeyed, self.ended = False, [False, False]
        self.watermarks: dict[tuple[int, str], tuple[Node, bool]] = {}  # by the text that was given to ``advance``
        self.metrics = JoinMetrics()
        held = WeakMethod(self.bytes_held)  # weak, because the account is a member
        self.account = Account(lambda: (of() if (of := held()) else 0))

    def bytes_held(self) -> int:
        """Return the approximate bytes of the state."""
        raise NotImplementedError

    def decides(self) -> list[Node]:
        """Return the conjuncts to evaluate for each pair."""
        return list(conjuncts_of(self.plan.condition) if self.full_predicate else self.plan.separation.residual)

    def column(self, s: int, index: int) -> Node:
        """Return the node of a column of side s."""
        field = self.plan.sides[s].schema.field(index)
        return build.column(SIDES[s], field.name, from_arrow(field.type))

    def drop_computed_keys(self) -> None:
        """Match by plain columns alone."""
        plan = self.plan
        plain = [a.op == b.op == "column" for a, b in zip(plan.sides[0].keys, plan.sides[1].keys, strict=True)]
        self.rekeyed = True
        plan.null_safe = list(compress(plan.null_safe, plain))
        for side in plan.sides:
            side.keys = list(compress(side.keys, plain))
