"""CSV and JSON lines from pipes, parsed as far as they came: no row, error or signal waits for more of them."""

from __future__ import annotations

import os
import re
import select
import sys
from collections.abc import Iterator
from io import FileIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyarrow import csv

__all__ = [
    "CSV_BLOCK", "ROW_TOO_LONG", "CsvOfPipe", "JsonOfPipe", "csv_lines", "csv_values", "head_of", "is_pipe",
    "opened_pipe"
]  # fmt: skip

CSV_BLOCK = 1 << 20  # bytes from which the types of columns are inferred, and that are parsed at once
ROW_TOO_LONG = f"a row takes more than {CSV_BLOCK:,} bytes, or a quote in it is never closed"
_MOST_OF_A_ROW = 2 * CSV_BLOCK
_QUOTE, _BREAKS = ord('"'), (ord("\n"), ord("\r"))
_BESIDE_QUOTES = np.isin(np.arange(256), list(b'",\r\n'))
_FIELD = rb'(?:"(?:[^"]|"")*+"|(?!"))[^,\r\n]*+'  # a quote opens at the beginning of a field alone
_ROW = re.compile(_FIELD + rb"(?:," + _FIELD + rb")*+(?:\r\n|\n|\r(?=[^\n]))")
_BOM = b"\xef\xbb\xbf"


def is_pipe(path: str) -> bool:
    """Whether an input is read once, from its beginning: standard input, a pipe, a device."""
    return path == "-" or (os.path.exists(path) and not os.path.isfile(path))


def opened_pipe(path: str) -> FileIO:
    """Standard input, which stays open, or what a path names."""
    return FileIO(sys.stdin.fileno(), closefd=False) if path == "-" else FileIO(path)


def csv_values(nulls: tuple[str, ...]) -> csv.ConvertOptions:
    """How fields become values; quoted ones are never null, so that a file that was written reads back as it was."""
    from pyarrow import csv

    return csv.ConvertOptions(null_values=["", *nulls], strings_can_be_null=True, quoted_strings_can_be_null=False)


def head_of(file: Any) -> bytes:
    """The first line of an open file, or as much of it as 64 KiB hold, and what follows it there."""
    return bytes(file.read(1 << 16))


def csv_lines(head: bytes) -> csv.ParseOptions:
    """How lines become rows, by the first line of a file: an empty one is the null of a single column."""
    from pyarrow import csv

    return csv.ParseOptions(ignore_empty_lines=b"," in head.partition(b"\n")[0], newlines_in_values=True)


class _TextOfPipe:
    """Rows of text from a pipe; no thread reads ahead.

    Arrow's readers ask for the next block on a thread of their own, and wait for that thread before they tell of an
    error in the block before. While they wait, no signal is handled.

    Attributes
    ----------
    schema : pyarrow.Schema
        As the first block has it.
    """

    schema: pa.Schema

    def __init__(self, file: FileIO) -> None:
        self._file, self._kept, self._ended = file, b"", False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows, each batch of what has come; a row that cannot be parsed raises pyarrow.ArrowInvalid."""
        with self._file:
            yield from self._first.to_batches()
            del self._first
            while text := self._rows():
                for batch in self._parsed(text).to_batches():
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def _begin(self, first: pa.Table) -> None:
        self._first, self.schema = first, first.schema

    def _parsed(self, text: bytes) -> pa.Table:
        """Rows after the first block."""
        raise NotImplementedError

    def _end(self, text: bytes) -> int:
        """Where the last row that has ended does; 0 if none has."""
        raise NotImplementedError

    def _rows(self, whole: bool = False) -> bytes:
        """Whole rows, of what is there or will be there first, or of a whole block; nothing at the end alone.

        Raises
        ------
        pyarrow.ArrowInvalid
            If a row does not end.
        """
        text = self._kept
        while not self._ended:
            more = self._come(CSV_BLOCK, whole)
            self._ended = not more
            text += more
            end = len(text) if self._ended else self._end(text)
            if end:
                self._kept = text[end:]
                return text[:end]
            if len(text) > _MOST_OF_A_ROW:
                raise pa.ArrowInvalid(ROW_TOO_LONG)
        return b""

    def _come(self, size: int, whole: bool) -> bytes:
        """Bytes of a pipe: those that are there, or the next to come; if ``whole``, so many unless it ends."""
        parts: list[bytes] = []
        while size and (whole or not parts or _is_ready(self._file)):
            some = self._file.read(size)
            if not some:
                break
            parts.append(some)
            size -= len(some)
        return b"".join(parts)


class CsvOfPipe(_TextOfPipe):
    """CSV from a pipe.

    Parameters
    ----------
    file : FileIO
    convert : pyarrow.csv.ConvertOptions

    Raises
    ------
    pyarrow.ArrowInvalid
        If the first block cannot be parsed.
    """

    def __init__(self, file: FileIO, convert: csv.ConvertOptions) -> None:
        from pyarrow import csv

        super().__init__(file)
        self._convert = convert
        first = self._rows(whole=True)
        self._parse = csv_lines(first)
        self._read = csv.ReadOptions(block_size=2 * _MOST_OF_A_ROW)
        self._begin(csv.read_csv(pa.BufferReader(first), self._read, self._parse, self._convert))
        names = [str(i) for i in range(len(self.schema))]  # those of the file may be there twice
        self._read.column_names = names
        convert.column_types = dict(zip(names, self.schema.types, strict=True))

    def _parsed(self, text: bytes) -> pa.Table:
        from pyarrow import csv

        if text.startswith(_BOM):  # a value's, but the parser takes it for that of a file
            text = _BOM + text
        return csv.read_csv(pa.BufferReader(text), self._read, self._parse, self._convert)

    def _end(self, text: bytes) -> int:
        return _end_of_rows(text)


class JsonOfPipe(_TextOfPipe):
    """JSON lines from a pipe: an object a line. Fields that the first block does not have are left out, as of files.

    Parameters
    ----------
    file : FileIO

    Raises
    ------
    pyarrow.ArrowInvalid
        If the first block cannot be parsed, or there is none.
    """

    def __init__(self, file: FileIO) -> None:
        from pyarrow import json

        super().__init__(file)
        first = self._rows(whole=True)
        self._read = json.ReadOptions(block_size=2 * _MOST_OF_A_ROW)
        self._begin(json.read_json(pa.BufferReader(first), self._read))
        self._parse = json.ParseOptions(explicit_schema=self.schema, unexpected_field_behavior="ignore")

    def _parsed(self, text: bytes) -> pa.Table:
        from pyarrow import json

        if not text.strip():
            return self.schema.empty_table()
        return json.read_json(pa.BufferReader(text), self._read, self._parse)

    def _end(self, text: bytes) -> int:
        return text.rfind(b"\n") + 1


def _is_ready(file: FileIO) -> bool:
    """Whether a file can be read without waiting; True where that cannot be told."""
    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(0))


def _end_of_rows(text: bytes) -> int:
    """Where the last row that has ended does; 0 if none has. Line breaks within quotes end nothing."""
    last = max(text.rfind(b"\n"), text.rfind(b"\r", 0, -1)) + 1
    if not last or b'"' not in text:
        return last
    data = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(data == _QUOTE)
    before, after = data[np.maximum(quotes - 1, 0)], data[np.minimum(quotes + 1, len(data) - 1)]
    if _BESIDE_QUOTES[before[::2]].all() and _BESIDE_QUOTES[after[1::2]].all():
        # every other quote opens or is the second one of a pair, the others close or are the first one
        breaks = np.flatnonzero(np.isin(data[: last], _BREAKS))
        out = breaks[np.searchsorted(quotes, breaks) % 2 == 0]
        return int(out[-1]) + 1 if len(out) else 0
    end = 0
    while found := _ROW.match(text, end):
        end = found.end()
    return end
