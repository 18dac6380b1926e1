"""Account for an operator's memory. Larger allocations are requested first, so that it may spill, shed or refuse."""

from __future__ import annotations

from collections.abc import Callable

from ivjoin.errors import CapacityError, SpillError
from ivjoin.shj.store.disk.backing import Files

__all__ = ["Account"]

_UNCOUNTED = 24 << 20  # bytes of temporary copies that a limit does not count


class Account:
    """The memory limit of an operator, and the action before an allocation would exceed it.

    Attributes
    ----------
    limit : int or None
        Bytes, as ``metrics.state_bytes`` counts them. None means no limit.
    on_full : callable of (needed, held), optional
        Called with the bytes needed and in use before an allocation that would exceed the limit. If it raises, the push
        is refused and nothing has changed. It is called again until the allocation fits, as long as it returns True or
        the bytes have shrunk. Otherwise the allocation proceeds. Without it, CapacityError is raised.
    files : Files, optional
        The files of the arrays that were moved out of memory.
    refused : bool
        Whether a request has failed since this was last set to False.
    promised : int
        Bytes that :meth:`promise` has reserved and that are not allocated yet.

    Optional memory, such as a larger scratch buffer or sorted runs, is not requested. It is allocated if it fits.
    """

    def __init__(self, held: Callable[[], int] | None = None) -> None:
        self.limit: int | None = None
        self.on_full: Callable[[int, int], object] | None = None
        self.refused = False
        self.promised = 0
        self.files: Files | None = None
        self._held = held or (lambda: 0)

    def share(self, held: Callable[[], int]) -> None:
        self._held = held

    def fits(self, more: int) -> bool:
        return self.limit is None or more <= 0 or self._held() + self.promised + more <= self.limit

    def fits_now(self) -> bool:
        return self.limit is None or self._held() <= self.limit

    def want_disk(self, nbytes: int) -> None:
        """Check that files can grow by ``nbytes`` bytes. If the disk lacks the space, raise MemoryLimitError."""
        if self.files is not None:
            self.files.reserve(nbytes)

    def beyond(self, nbytes: int) -> int:
        """Return how many bytes of a temporary copy of ``nbytes`` bytes count towards the limit. 24 MiB are exempt."""
        return max(0, nbytes - _UNCOUNTED) if self.limit is not None else 0

    def ask(self, more: int | Callable[[], int]) -> None:
        """Request memory like :meth:`want`, but continue without it, because the caller is about to remove rows."""
        try:
            self.want(more)
        except CapacityError:
            self.refused = False

    def promise(self, more: int) -> None:
        """Reserve memory that is allocated later in the same push. Raise the errors of :meth:`want`."""
        self.want(more)
        if self.limit is not None:
            self.promised += more

    def want(self, more: int | Callable[[], int]) -> None:
        """Request ``more`` bytes. A callable ``more`` is evaluated again after each call of ``on_full``.

        ``on_full`` is ``PairLimits._on_full``, ``LookupLimits._on_full`` or ``SharedLimit._on_full``. These free memory
        by spilling, shedding or evicting rows, which a refusal does not undo. If they cannot, they raise
        MemoryLimitError. Without ``on_full``, CapacityError is raised.
        """
        if self.limit is None:
            return
        needed = more() if callable(more) else more
        while not self.fits(needed):
            held = self._held()
            try:
                if self.on_full is None:
                    raise CapacityError(
                        f"the operator stores {held:,} bytes and needs {needed + self.promised:,} more; expected at "
                        f"most {self.limit:,}. Raise the limit, narrow the window, or divide the rows"
                    )
                again = self.on_full(needed + self.promised, held)
            except BaseException as e:
                self.refused = not isinstance(e, SpillError)  # after a SpillError, only some of the arrays are moved
                raise
            before, needed = needed, more() if callable(more) else needed
            if again is not True and needed >= before and self._held() >= held:
                return
