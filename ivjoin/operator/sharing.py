"""Memory that several running operators share: each has a part, and a full one can get the unused rest."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition, get_ident

from ivjoin.errors import MemoryLimitError
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.backing import Files, own_memory

__all__ = ["GOES_ON", "Pool", "not_restored", "shared_words"]

GOES_ON = (
    ". The batch was not taken; the operator can continue, and snapshot() can be restored with a greater limit"
)

_NOT_RESTORED = ". No operator was made of the snapshot, which is intact: restore it with a greater limit"

_WAIT = 0.05  # seconds between two checks whether the reader has stopped


def not_restored(error: MemoryLimitError) -> MemoryLimitError:
    """Turn the error of a batch during a restore into one about the snapshot, since the caller has no batch."""
    return MemoryLimitError(error.reason, _NOT_RESTORED)


class Pool:
    """The bytes that the operators of one join may use together. Each thread has a part for the operator that it runs.

    Parameters
    ----------
    limit : int
        Bytes.
    parts : int
        The number of parts.
    folder : str, optional
        Folder of the spill files, which the operators share.
    """

    def __init__(self, limit: int, parts: int, folder: str = "") -> None:
        self.limit, self.parts, self.part = limit, parts, limit // parts
        self.files = Files(folder) if folder else None
        self.start = own_memory()
        self._free = limit
        self._has: set[int] = set()  # threads that have a part
        self._over = False
        self._changed = Condition()

    def take(self, stopped: Callable[[], bool] | None = None) -> bool:
        """Take a part for this thread, unless it has one; return whether it has one now.

        Waits until another thread frees its part or ``stopped()`` is True. Without ``stopped``, does not wait.
        """
        me = get_ident()
        with self._changed:
            while me not in self._has:
                if self._free >= self.part:
                    self._free -= self.part
                    self._has.add(me)
                elif stopped is None or stopped():
                    return False
                else:
                    self._changed.wait(_WAIT)
        return True

    def rest(self) -> None:
        """Free the part of this thread, which has nothing to do."""
        with self._changed:
            if get_ident() in self._has:
                self._has.remove(get_ident())
                self._free += self.part
                self._changed.notify_all()

    def end(self) -> None:
        """Allow :meth:`lend`: no more operators will start, except for half of the rows of a running one."""
        self._over = True

    def lend(self, account: Account, excess: int) -> bool:
        """Raise the limit of an operator by at least ``excess`` bytes, if so many are free."""
        with self._changed:
            if not self._over or self._free < excess or account.limit is None:
                return False
            more = min(self._free, max(excess, self.part // 8))
            self._free -= more
            account.limit += more
            return True

    def done(self, account: Account) -> None:
        """Take back what an operator that has finished got from :meth:`lend`."""
        with self._changed:
            self._free += max(0, (account.limit or 0) - self.part)
            account.limit = self.part
            self._changed.notify_all()


def shared_words(pool: Pool, limit: int | None) -> str:
    """Return what one running operator may use, as a clause of an error."""
    return (
        f"memory_limit leaves {pool.limit:,} bytes for {pool.parts} running operators, and {limit or 0:,} for the one "
        "that is full"
    )
