"""Read CSV: the columns of a file by its dialect, and its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv
from pyarrow import types as is_

from ivjoin.errors import came
from ivjoin.files.atomic import FileError
from ivjoin.files.text.blocks import BLOCK
from ivjoin.files.text.dialects import Csv
from ivjoin.files.text.inference import inexact, is_large, number_type, time_type
from ivjoin.files.text.reading import Text

__all__ = ["CsvText", "end_of_rows"]

_OTHER_DELIMITERS = (";", "\t", "|", ",")
_BOM = b"\xef\xbb\xbf"
_BED_COLUMNS = (
    "chrom", "start", "end", "name", "score", "strand", "thickStart", "thickEnd", "itemRgb", "blockCount", "blockSizes",
    "blockStarts",
)  # fmt: skip
_BED_COMMENTS = (b"#", b"track", b"browser")
_BREAKS = (ord("\n"), ord("\r"))
_CONVERSION = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (.+?): (.*)", re.DOTALL)
_FRACTION = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?")
_RESCALED = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?(Rescaling .*|.*[Dd]ecimal.*)", re.DOTALL)


class CsvText(Text):
    kind = "csv"
    option = "ivjoin.csv(path, types={{{column!r}: {type!r}}})"

    def __init__(
        self, name: str, opened: Callable[[], Any], live: bool, dialect: Csv, delimiter: str = ",", bed: bool = False
    ) -> None:
        self._dialect, self._is_bed = dialect, bed
        self._header = dialect.header and not bed
        self._delimiter = dialect.delimiter or delimiter
        self.encoding = dialect.encoding
        self._least = 2 if self._header else 1
        self._names: list[str] = []
        super().__init__(name, opened, live)

    def _end(self, text: bytes) -> int:
        return end_of_rows(text, self._delimiter, self._dialect.quote)

    # -- types ---------------------------------------------------------------------------------------------------

    def _inferred(self, text: bytes, first: bool, names: Sequence[str] | None) -> pa.Schema:
        if first:
            self._names = self._names_in(text)
        chosen = [i for i, n in enumerate(self._names) if names is None or n in names]
        try:
            table = self._read(text, first, {}, chosen)
        except pa.ArrowInvalid:
            self._hint_at_delimiter(self._names)
            raise
        if len(self._names) == 1 and first:
            self._hint_at_delimiter(self._names)
        fields = []
        for i, f in zip(chosen, table.schema, strict=True):
            t = self._dialect.types.get(self._names[i]) or self._type_of(i, table.column(f.name), text, first)
            fields.append(pa.field(self._names[i], t))
        return pa.schema(fields)

    def _names_in(self, text: bytes) -> list[str]:
        """Return the names of the columns, by the first rows."""
        if self._dialect.columns is not None:
            return list(self._dialect.columns)
        row = self._without_header(text, header=True)[0]
        # Without a line break Arrow ignores a header without rows.
        row += b"" if row.endswith((b"\n", b"\r")) else b"\n"
        read = csv.ReadOptions(block_size=8 * BLOCK, autogenerate_column_names=not self._header)
        names = list(csv.read_csv(pa.BufferReader(row), read, self._parse_options(True)).schema.names)
        return [*_BED_COLUMNS[: len(names)], *names[len(_BED_COLUMNS) :]] if self._is_bed else names

    def _without_header(self, text: bytes, header: bool) -> tuple[bytes, bytes]:
        """Return the first row of a text, and the rows after it; no first row without a header."""
        text = text.removeprefix(_BOM)
        while self._is_bed and text.startswith(_BED_COMMENTS):
            text = text.partition(b"\n")[2]
        if not header:
            return b"", text
        text = text.lstrip(b"\r\n")
        quote = self._dialect.quote
        found = None if quote is None else _row_pattern(self._delimiter, quote).match(text)
        end = found.end() if found else text.find(b"\n") + 1 or len(text)
        return text[:end], text[end:]

    def _type_of(self, i: int, column: pa.ChunkedArray, text: bytes, first: bool) -> pa.DataType:
        t, name = column.type, self._names[i]
        if is_.is_binary(t):
            self._troubles[name] = f"column {came(name)} is not in UTF-8; {self._encoding_hint('latin-1')}"
            return pa.string()
        if is_.is_time(t):
            return pa.time64("us")
        if is_.is_timestamp(t):
            if t.unit == "s":
                return pa.timestamp("us", t.tz)
            return time_type(self._texts(text, first, i)) or t
        if is_.is_string(t):
            return time_type(column, of_day=True) or t
        if is_.is_float64(t):
            found = number_type(self._numbers(text, first, i))
            if found is None:
                self._troubles[name] = self._lossy(name, next(filter(inexact, self._numbers(text, first, i)), ""))
            return t if found is None else found
        return t

    def _texts(self, text: bytes, first: bool, i: int) -> pa.ChunkedArray:
        return self._read(text, first, {i: pa.string()}, [i]).column(0)

    def _numbers(self, text: bytes, first: bool, i: int) -> list[str]:
        """Return the fields of a column of numbers, with a point as the decimal sign."""
        found = (t.strip() for t in self._texts(text, first, i).drop_null().to_pylist())
        return [t.replace(self._dialect.decimal, ".") for t in found]

    # -- rows ----------------------------------------------------------------------------------------------------

    def _parsed(self, text: bytes, first: bool, types: pa.Schema, threads: bool) -> pa.Table:
        if types.names == self._names:  # a name may occur twice
            chosen = list(range(len(self._names)))
        else:
            chosen = [self._names.index(n) for n in types.names]
        wanted = dict(zip(chosen, types.types, strict=True))
        if not chosen:  # without column names Arrow reads all columns, and a table without columns has no rows
            wanted, chosen = {0: pa.binary()}, [0]
        table = self._read(text, first, wanted, chosen, threads)
        return table.select(list(range(len(types)))).rename_columns(types.names)

    def _read(
        self, text: bytes, first: bool, types: dict[int, pa.DataType], chosen: Sequence[int], threads: bool = True
    ) -> pa.Table:
        if first:
            text = self._without_header(text, self._header)[1]
        names = [str(i) for i in chosen]
        if not text.strip(b"\r\n") and not (len(self._names) == 1 and text):
            return pa.schema([(str(i), types.get(i, pa.null())) for i in chosen]).empty_table()
        quote = self._dialect.quote
        if text.endswith(self._delimiter.encode()) and not (quote and text.count(quote.encode()) % 2):
            text += b"\n"  # without a line break Arrow reads an empty last field as a quoted one
        if text.startswith(_BOM):  # part of a value, but Arrow would take it for a byte order mark
            text = _BOM + text
        read = csv.ReadOptions(
            block_size=8 * BLOCK, use_threads=threads, column_names=[str(i) for i in range(len(self._names))]
        )
        # Quoted fields are never null, so that a written file is read back unchanged.
        convert = csv.ConvertOptions(
            null_values=list(self._dialect.nulls), strings_can_be_null=True, quoted_strings_can_be_null=False,
            decimal_point=self._dialect.decimal, column_types={str(i): t for i, t in types.items()},
            include_columns=names,
        )  # fmt: skip
        return csv.read_csv(pa.BufferReader(text), read, self._parse_options(len(self._names) > 1), convert)

    def _parse_options(self, ignore_empty_lines: bool) -> csv.ParseOptions:
        """Return how rows become fields: an empty line is the null of a single column."""
        return csv.ParseOptions(
            delimiter=self._delimiter, quote_char=self._dialect.quote or False, newlines_in_values=True,
            ignore_empty_lines=ignore_empty_lines,
        )  # fmt: skip

    def _check(self, table: pa.Table, text: bytes, first: bool) -> None:
        for at, f in enumerate(table.schema):
            if is_.is_float64(f.type) and f.name not in self._dialect.types and is_large(table.column(at)):
                for number in self._numbers(text, first, self._names.index(f.name)):
                    if inexact(number):
                        raise FileError(f"cannot read {self._name} as csv: {self._lossy(f.name, number)}")

    # -- errors --------------------------------------------------------------------------------------------------

    def _lossy(self, column: str, number: str) -> str:
        digits = sum(c.isdigit() for c in number)
        t = "string" if digits > 38 else "decimal128(38, 0)"
        return (
            f"column {came(column)} has the number {number[:60]}, which a double cannot represent exactly; "
            f"{self._declare(column, t)}"
        )

    def _encoding_hint(self, encoding: str) -> str:
        return f"give its encoding, such as ivjoin.csv(path, encoding={encoding!r})"

    def _hint_at_delimiter(self, names: Sequence[str]) -> None:
        """Raise an error that names the delimiter of the header, if it has neither the declared nor the default one."""
        if self._dialect.delimiter is not None or len(names) != 1:
            return
        for other in _OTHER_DELIMITERS:
            if other != self._delimiter and other in names[0]:
                raise FileError(
                    f"cannot read {self._name} as csv: the header {came(names[0])} looks like delimiter {other!r}; "
                    f"pass it, as in ivjoin.csv(path, delimiter={other!r})"
                )

    def _reason(self, error: Exception) -> str:
        said = super()._reason(error)
        names = self._names
        found = _CONVERSION.match(said)
        if found and int(found[1]) < len(names):
            column = names[int(found[1])]
            if "invalid UTF8" in found[3]:
                return f"column {came(column)} is not in UTF-8; {self._encoding_hint('latin-1')}"
            value = found[3].partition("'")[2].rpartition("'")[0]
            wider = "double" if "int" in found[2] and _FRACTION.fullmatch(value.strip()) else "string"
            return (
                f"column {came(column)} has {came(value[:80])}, which is not {found[2]}, the type of its first rows; "
                f"{self._declare(column, wider)}"
            )
        found = _RESCALED.match(said)
        if found and int(found[1]) < len(names):
            column = names[int(found[1])]
            return (
                f"column {came(column)} has a number with more digits than its first rows; "
                f"{self._declare(column, 'string')}"
            )
        return said


def end_of_rows(text: bytes, delimiter: str = ",", quote: str | None = '"') -> int:
    """Return the end of the last complete row, or 0. Line breaks within quotes do not end a row."""
    last = max(text.rfind(b"\n"), text.rfind(b"\r", 0, -1)) + 1
    if not last or quote is None or quote.encode() not in text:
        return last
    data = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(data == ord(quote))
    before, after = data[np.maximum(quotes - 1, 0)], data[np.minimum(quotes + 1, len(data) - 1)]
    next_to_quotes = np.zeros(256, bool)
    next_to_quotes[[ord(quote), ord(delimiter), *_BREAKS]] = True
    if next_to_quotes[before[::2]].all() and next_to_quotes[after[1::2]].all():
        # Every second quote opens a field or is the second of a pair; the others close a field or are the first.
        while last and np.searchsorted(quotes, last - 1) % 2:
            inside = int(quotes[np.searchsorted(quotes, last - 1) - 1])
            last = max(text.rfind(b"\n", 0, inside), text.rfind(b"\r", 0, inside)) + 1
        return last
    row = _row_pattern(delimiter, quote)
    end = 0
    while found := row.match(text, end):
        end = found.end()
    return end


def _row_pattern(delimiter: str, quote: str) -> re.Pattern[bytes]:
    q, d = re.escape(quote).encode(), re.escape(delimiter).encode()
    # A quote opens a field only at its start.
    part = rb"(?:%b(?:[^%b]|%b%b)*+%b|(?!%b))[^%b\r\n]*+" % (q, q, q, q, q, q, d)
    return re.compile(part + rb"(?:" + d + part + rb")*+(?:\r\n|\n|\r(?=[^\n]))")
