"""Convert a JSON array of objects to JSON lines while it is read."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ObjectLines"]

_BOM = b"\xef\xbb\xbf"
_OPEN, _CLOSE, _NEWLINE = np.zeros(256, bool), np.zeros(256, bool), np.zeros(256, bool)
_OPEN[list(b"[{")] = _CLOSE[list(b"]}")] = _NEWLINE[list(b"\r\n")] = True
_QUOTE, _BACKSLASH, _COMMA = ord('"'), ord("\\"), ord(",")


class ObjectLines:
    """A binary file of JSON with one object per line.

    JSON lines are unchanged. In an array ``[{...}, {...}]``, the brackets become blanks, the commas between objects
    become line breaks, and line breaks within objects become blanks.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._is_array: bool | None = None
        self._depth = 0
        self._in_text = False
        self._backslashes = 0  # at the end of the bytes read so far

    def read(self, size: int) -> bytes:
        """Return up to so many bytes; nothing at the end."""
        text = bytes(self._file.read(size) or b"")
        if self._is_array is None:
            start = text.removeprefix(_BOM).lstrip()
            if not start:
                return text
            self._is_array = start.startswith(b"[")
            if self._is_array:
                text = start
        return self._lines(text) if self._is_array and text else text

    def fileno(self) -> int:
        """Return the number of the file, to wait for bytes."""
        return int(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def _lines(self, text: bytes) -> bytes:
        data = np.frombuffer(text, np.uint8).copy()
        quotes = (data == _QUOTE) & ~self._escaped(data)
        inside = (np.cumsum(quotes) + self._in_text) % 2 == 1  # from the quote that opens a text on
        outside = ~inside
        depth = self._depth + np.cumsum((_OPEN[data] & outside).astype(np.int64) - (_CLOSE[data] & outside))
        self._in_text, self._depth = bool(inside[-1]), int(depth[-1])
        ends = (data == _COMMA) & outside & (depth == 1)
        begins = _OPEN[data] & outside & (depth == 1)  # the bracket of the array, and at its end:
        last = _CLOSE[data] & outside & (depth == 0)
        data[(_NEWLINE[data] & outside) | begins | last] = ord(" ")
        data[ends | last] = ord("\n")
        return data.tobytes()

    def _escaped(self, data: np.ndarray) -> np.ndarray:
        """Return which bytes have an odd number of backslashes before them."""
        slash = data == _BACKSLASH
        if not slash.any() and not self._backslashes:
            return np.zeros(len(data), bool)
        at = np.arange(len(data))
        # The last byte before each one that is no backslash. Backslashes at the end of the previous read count too.
        last = np.maximum.accumulate(np.where(slash, -1, at))
        before = np.concatenate(([-1], last[:-1]))
        run = at - 1 - before
        run += np.where(before < 0, self._backslashes, 0)
        end = len(data) - 1 - int(last[-1])
        self._backslashes = end + (self._backslashes if last[-1] < 0 else 0)
        return run % 2 == 1
