"""The account of what an operator holds: asked before it holds more, so that a caller may spill, shed or refuse."""

from __future__ import annotations

from collections.abc import Callable

from ivjoin.errors import CapacityError, SpillError
from ivjoin.shj.store.backing import Files

__all__ = ["Account"]

_UNCOUNTED = 24 << 20


class Account:
    """What an operator may hold, and what is done before it holds more.

    Attributes
    ----------
    limit : int or None
        Bytes, as ``metrics.state_bytes`` counts them; None for none.
    on_full : callable of (needed, held), optional
        Called before memory is taken with which the operator would hold more than the limit: with the bytes that it
        needs beside the ``held`` ones. It may raise, and the push is refused: nothing has changed, and the same batch
        can be pushed again. If it returns True, or less is held or needed now, it is asked again until there is
        room; otherwise the memory is taken. CapacityError is raised if there is none.
    files : Files, optional
        Where arrays lie that were taken out of memory.
    refused : bool
        Whether it raised since this was last set to False.
    promised : int
        Bytes that :meth:`promise` has found room for, and that are not held yet: no other memory is taken there.

    Memory that a join can do without (a larger scratch of pairs, sorted runs instead of lists, a schedule of what dies
    that begins in the middle of a push) is not asked for: it is taken where it fits (:meth:`fits`).
    """

    def __init__(self, held: Callable[[], int] | None = None) -> None:
        self.limit: int | None = None
        self.on_full: Callable[[int, int], object] | None = None
        self.refused = False
        self.promised = 0
        self.files: Files | None = None
        self._held = held or (lambda: 0)

    def share(self, held: Callable[[], int]) -> None:
        """Count what several operators hold together."""
        self._held = held

    def fits(self, more: int) -> bool:
        """Whether so many bytes more can be held."""
        return self.limit is None or more <= 0 or self._held() + self.promised + more <= self.limit

    def fits_now(self) -> bool:
        """Whether no more is held than the limit."""
        return self.limit is None or self._held() <= self.limit

    def want_disk(self, nbytes: int) -> None:
        """See whether files may grow by so many bytes, before any does.

        Raises
        ------
        MemoryLimitError
        """
        if self.files is not None:
            self.files.reserve(nbytes)

    def beyond(self, nbytes: int) -> int:
        """Of bytes that are held twice for a moment, those that a limit must make room for: few need not count."""
        return max(0, nbytes - _UNCOUNTED) if self.limit is not None else 0

    def ask(self, more: int | Callable[[], int]) -> None:
        """As :meth:`want`, by who goes on where there is no room: rows are to go, and make some."""
        try:
            self.want(more)
        except CapacityError:
            self.refused = False

    def promise(self, more: int) -> None:
        """As :meth:`want`, for memory that is taken later in the push, and is kept free until then.

        Raises
        ------
        CapacityError
            Or whatever ``on_full`` raises.
        """
        self.want(more)
        if self.limit is not None:
            self.promised += more

    def want(self, more: int | Callable[[], int]) -> None:
        """Ask for so many bytes more; a function says anew how many, once ``on_full`` has made room.

        Raises
        ------
        CapacityError
            Or whatever ``on_full`` raises.
        """
        if self.limit is None:
            return
        needed = more() if callable(more) else more
        while not self.fits(needed):
            held = self._held()
            try:
                if self.on_full is None:
                    raise CapacityError(
                        f"the operator holds {held:,} bytes and needs {needed + self.promised:,} more, expected "
                        f"{self.limit:,} at most: raise the limit, narrow the window, or divide the rows"
                    )
                again = self.on_full(needed + self.promised, held)
            except BaseException as e:
                self.refused = not isinstance(e, SpillError)  # which leaves arrays half moved
                raise
            before, needed = needed, more() if callable(more) else needed
            if again is not True and needed >= before and self._held() >= held:
                return
