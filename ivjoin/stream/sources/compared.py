"""Warn of joins that compare almost all pairs of rows, and describe the number of pairs."""

from __future__ import annotations

from ivjoin.arguments import warn_caller
from ivjoin.errors import SlowJoinWarning
from ivjoin.expr.nodes import walk
from ivjoin.plan.join_plan import JoinPlan

__all__ = ["pairs_text", "warn_of_pairs"]

MANY = 1 << 28  # pairs that take a second or more
_TEXT = 16  # a comparison of texts takes _TEXT times as long


def pairs_text(rows: tuple[int | None, int | None], share: float) -> str:
    """Return the number of compared pairs as a clause, or "" if no residual is evaluated."""
    if not share:
        return ""
    left, right = rows
    if left is None or right is None:
        return "every left row is compared with every right row"
    return f"about {left * right * share:,.0f} pairs of rows are compared"


def warn_of_pairs(plan: JoinPlan, rows: tuple[int | None, int | None], share: float) -> None:
    """Warn the caller of a join that compares more than ``MANY`` pairs of rows, or fewer pairs of texts."""
    left, right = rows
    if not share or left is None or right is None:
        return
    text = any(node.type.kind == "string" for c in plan.separation.residual for node in walk(c))
    if left * right * share > (MANY // _TEXT if text else MANY):
        warn_caller(SlowJoinWarning(
            f"{pairs_text(rows, share)}, since the condition has no key, and no band that leaves out most pairs. Add a "
            "key to on=, or a comparison such as l.t BETWEEN r.t AND r.t + 10"
            f"{' of numbers or times: texts give no band' if text else ''}; ivjoin.explain shows what was found"
        ))
