"""Standard input for a reader that reads ahead on a thread of its own."""

from __future__ import annotations

import atexit
import os
import select
import sys
import time
from threading import Lock

__all__ = ["StandardInput"]

_LOOK = 0.05  # seconds between two looks at whether Python is about to end
_MOST_HEAD = 1 << 16


class StandardInput:
    """Standard input as a file to read; none of its reads is under way when Python ends.

    Arrow's CSV reader asks for the next block on a thread of its own. One that still waits for a pipe while the
    interpreter ends, after an error or because nobody takes the output, would bring the process down.

    Attributes
    ----------
    head : bytes
        The first line, or as much of it as 64 KiB hold.
    """

    closed = False
    mode = "rb"

    def __init__(self) -> None:
        file = sys.stdin.buffer
        self._descriptor = file.fileno()
        self._ahead = file.peek(_MOST_HEAD)  # type: ignore[union-attr]
        file.read(len(self._ahead))
        self.head = self._ahead.partition(b"\n")[0]
        self._reading = Lock()
        self._ended = False
        atexit.register(self._end)

    def readable(self) -> bool:
        """Always."""
        return True

    def first(self, size: int) -> bytes:
        """So many bytes, fewer at the end alone; they will be read again."""
        self._ahead = self.read(size) + self._ahead
        return self._ahead[:size]

    def read(self, size: int = -1) -> bytes:
        """So many bytes, all if negative; fewer at the end alone."""
        parts, missing = [], size if size >= 0 else sys.maxsize
        with self._reading:
            while missing and not self._ended:
                some, self._ahead = self._ahead[:missing], self._ahead[missing:]
                if not some:
                    if os.name == "posix" and not select.select([self._descriptor], [], [], _LOOK)[0]:
                        continue
                    some = os.read(self._descriptor, min(missing, 1 << 20))
                    if not some:
                        break
                parts.append(some)
                missing -= len(some)
        return b"".join(parts)

    def _end(self) -> None:
        self._ended = True
        with self._reading:
            pass
        time.sleep(_LOOK)  # in which a thread that was in read() goes back to where it came from
