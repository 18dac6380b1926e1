"""What malloc and Arrow keep of arrays that are gone, given back to the system while memory is limited."""

from __future__ import annotations

from ivjoin.operator.budget import Budget
from ivjoin.shj.store.backing import give_back, own_memory

__all__ = ["Trimming"]

_LOOK_EVERY = 4  # steps
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
        self._most = self.start + (budget.limit if pool is None else pool.limit)
        self._left = 0  # bytes that were there after all was given back
        self._steps = 0

    def stepped(self, allowed: int | None = None) -> None:
        """After a step: give back what is kept, if it is much; what giving back has left is not asked for again.

        ``allowed``: bytes beside those of the start that are held for certain; those of the limit without it.
        """
        self._steps += 1
        if self._steps < _LOOK_EVERY:
            return
        self._steps = 0
        held = own_memory()
        most = self._most if allowed is None else min(self._most, self.start + allowed)
        if held > max(most, self._left) + _MORE_KEPT:
            give_back()
            held = self._left = own_memory()
        self._left = min(self._left, held)
