"""Return the memory of freed arrays to the system while memory is limited. Malloc and Arrow retain it otherwise."""

from __future__ import annotations

from ivjoin.operator.memory.budget import Budget
from ivjoin.shj.store.disk.process_memory import give_back, own_memory

__all__ = ["Trimming"]

_LOOK_EVERY = 4  # steps between checks
_MORE_KEPT = 8 << 20  # bytes of freed arrays that may be retained


class Trimming:
    """Check the process's memory every few steps of an operator."""

    def __init__(self, budget: Budget) -> None:
        self.start = own_memory()  # the process's own memory at the start, in bytes
        self._most = self.start + budget.limit
        self._left = 0  # bytes that remained after the last return
        self._steps = 0

    def stepped(self, allowed: int | None = None) -> None:
        """Return retained memory to the system after a step, if it has grown much since the last return.

        ``allowed`` is the number of bytes in use, on top of those at the start. The default is the limit.
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
