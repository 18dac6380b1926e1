"""What malloc and Arrow keep of arrays that are gone, given back to the system while memory is limited."""

from __future__ import annotations

from ivjoin.operator.budget import Budget
from ivjoin.shj.store.backing import give_back, own_memory

__all__ = ["Trimming"]

_LOOK_EVERY, _LOOK_SELDOM = 4, 512  # steps
_MORE_KEPT = 8 << 20  # bytes that may be kept


class Trimming:
    """Looks at the process's memory every few steps of an operator.

    Parameters
    ----------
    budget : Budget

    Attributes
    ----------
    start : int
        Bytes that the process had of its own at first.
    """

    def __init__(self, budget: Budget) -> None:
        pool = budget.pool
        self.start = own_memory() if pool is None else pool.start
        self._most = self.start + (budget.limit if pool is None else pool.limit) + _MORE_KEPT
        self._steps, self._every = 0, _LOOK_EVERY

    def stepped(self) -> None:
        """After a step: give back what is kept, if it is much; look less often where that does not help."""
        self._steps += 1
        if self._steps < self._every:
            return
        self._steps = 0
        held = own_memory()
        if held > self._most:
            give_back()
            helped = own_memory() < held - _MORE_KEPT // 4
            self._every = _LOOK_EVERY if helped else min(2 * self._every, _LOOK_SELDOM)
