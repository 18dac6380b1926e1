"""Bytes that several operators at work share: a part for each, and what nobody has a use for to one that is full."""

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

_WAIT = 0.05  # seconds between two looks at whether anybody still reads


def not_restored(error: MemoryLimitError) -> MemoryLimitError:
    """What an operator that is restored raised of a batch that there is none of, as an error of its snapshot."""
    return MemoryLimitError(error.reason, _NOT_RESTORED)


class Pool:
    """What the operators of one join may hold together; a thread has a part of it for the one that it runs.

    Parameters
    ----------
    limit : int
        Bytes.
    parts : int
        Into how many it is divided.
    folder : str, optional
        Where the operators' files are made, which they share.
    """

    def __init__(self, limit: int, parts: int, folder: str = "") -> None:
        self.limit, self.parts, self.part = limit, parts, limit // parts
        self.files = Files(folder) if folder else None
        self.start = own_memory()
        self._free = limit
        self._has: set[int] = set()  # threads that have their part
        self._over = False
        self._changed = Condition()

    def take(self, stopped: Callable[[], bool] | None = None) -> bool:
        """This thread's part, if it has none; waits for it until it is stopped, or else gives up at once."""
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
        """This thread has nothing to do: its part is another's."""
        with self._changed:
            if get_ident() in self._has:
                self._has.remove(get_ident())
                self._free += self.part
                self._changed.notify_all()

    def end(self) -> None:
        """No operator begins any more but for half of another's rows: parts at rest may be lent."""
        self._over = True

    def lend(self, account: Account, excess: int) -> bool:
        """Let an operator hold so many bytes more, and some, if nobody has a use for them."""
        with self._changed:
            if not self._over or self._free < excess or account.limit is None:
                return False
            more = min(self._free, max(excess, self.part // 8))
            self._free -= more
            account.limit += more
            return True

    def done(self, account: Account) -> None:
        """An operator is done: what it was lent comes back."""
        with self._changed:
            self._free += max(0, (account.limit or 0) - self.part)
            account.limit = self.part
            self._changed.notify_all()


def shared_words(pool: Pool, limit: int | None) -> str:
    """What an operator at work may hold, in words."""
    return (
        f"memory_limit leaves {pool.limit:,} bytes for {pool.parts} operators at work, and {limit or 0:,} for the one "
        "that is full"
    )
