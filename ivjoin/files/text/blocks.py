"""Read complete rows of a text: a megabyte of a file at a time, or the rows of a pipe as they arrive."""

from __future__ import annotations

import codecs
import os
import select
import sys
from collections.abc import Callable
from io import FileIO
from time import monotonic
from typing import Any

import pyarrow as pa

__all__ = ["BLOCK", "ROW_TOO_LONG", "Blocks", "encoding_of", "is_pipe", "opened_pipe"]

BLOCK = 1 << 20  # bytes that are parsed together
ROW_TOO_LONG = f"a row takes more than {BLOCK:,} bytes, or a quote in it is never closed"
_MOST_OF_A_ROW = 2 * BLOCK
_SETTLE_SECONDS = 0.1  # the first rows of a pipe are those that arrive within this time after the first byte
_MARKS = ((b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def is_pipe(path: str) -> bool:
    """Return whether an input can be read only once: standard input, a pipe, a device."""
    return path == "-" or (os.path.exists(path) and not os.path.isfile(path))


def opened_pipe(path: str) -> FileIO:
    """Open standard input, which stays open, or the pipe at a path."""
    return FileIO(sys.stdin.fileno(), closefd=False) if path == "-" else FileIO(path)


class Blocks:
    """Whole rows of a stream of bytes, always UTF-8. No thread reads ahead.

    Arrow's streaming readers wait for a thread that reads ahead before they raise an error, and handle no signal while
    they wait. ``end_of_rows`` returns the end of the last complete row, or 0. ``live``: bytes arrive over time, so rows
    do not wait for a whole block. ``encoding`` is the encoding of the text, if it is not UTF-8.
    """

    def __init__(
        self, file: Any, end_of_rows: Callable[[bytes], int], live: bool = False, encoding: str | None = None
    ) -> None:
        self._file, self._end, self._live = file, end_of_rows, live and hasattr(select, "poll")
        self._decoder = None if encoding is None else codecs.getincrementaldecoder(encoding)()
        self._rest = b""
        self.ended = False

    def first(self, least: int = 1) -> bytes:
        """Return the first rows: a block of a file, or the rows that arrive from a pipe within a tenth of a second.

        For a pipe, wait until ``least`` lines are complete. Raise pa.ArrowInvalid if a row is too long, and
        UnicodeError if the text is not in its encoding.
        """
        text = b""
        until: float | None = None
        while not self.ended and (len(text) < BLOCK or not self._end(text)):
            if len(text) > _MOST_OF_A_ROW + BLOCK:
                raise pa.ArrowInvalid(ROW_TOO_LONG)
            if self._live and until is not None and text.count(b"\n", 0, self._end(text)) >= least:
                if not self._is_ready(until - monotonic()):
                    break
            more = self._read(BLOCK - len(text) if len(text) < BLOCK else BLOCK)
            if more and until is None:
                until = monotonic() + _SETTLE_SECONDS
            text += more
        return self._cut(text)

    def next(self) -> bytes:
        """Return the next whole rows; nothing at the end. pa.ArrowInvalid if a row is too long."""
        text = self._rest
        while not self.ended:
            size = BLOCK
            while size:
                more = self._read(size)
                text += more
                size -= min(size, len(more))
                if self.ended or (self._live and not self._is_ready(0)):
                    break
            if self.ended or self._end(text):
                return self._cut(text)
            if len(text) > _MOST_OF_A_ROW:
                raise pa.ArrowInvalid(ROW_TOO_LONG)
        self._rest = b""
        return text

    def close(self) -> None:
        self._file.close()

    def _cut(self, text: bytes) -> bytes:
        end = len(text) if self.ended else self._end(text)
        self._rest = text[end:]
        return text[:end]

    def _read(self, size: int) -> bytes:
        more = bytes(self._file.read(size) or b"")
        self.ended = not more
        return more if self._decoder is None else self._decoder.decode(more, final=not more).encode()

    def _is_ready(self, seconds: float) -> bool:
        """Return whether a pipe can be read within ``seconds``."""
        poll = select.poll()
        poll.register(self._file, select.POLLIN)
        return seconds >= 0 and bool(poll.poll(1000 * seconds))


def encoding_of(head: bytes) -> str | None:
    """Return the encoding that the first bytes of a text show, if it is not UTF-8."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    return "utf-16" if b"\0" in head[:4096] else None
