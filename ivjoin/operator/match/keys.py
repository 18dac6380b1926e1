"""Tables of key ids for pairs."""

from __future__ import annotations

import numpy as np

from ivjoin.plan.join_plan import JoinPlan
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.keys import ByteKeys, IntKeys, KeyTable, NoKeys, WordKeys

__all__ = ["key_table"]


def key_table(plan: JoinPlan, operator: np.ndarray, account: Account | None = None) -> KeyTable:
    """Return an empty table for the keys of a plan, whose registers are in an operator's record."""
    if plan.int_keys:
        return IntKeys(operator, account)
    if plan.word_keys:
        return WordKeys(len(plan.null_safe) + sum(plan.null_safe), operator, account)
    return (ByteKeys if plan.null_safe else NoKeys)(operator, account)
