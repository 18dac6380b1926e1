"""Read a text file as an input: infer columns and types from its first rows, then read the needed columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from ivjoin.errors import came
from ivjoin.files.atomic import FileError, reason_of
from ivjoin.files.text.blocks import ROW_TOO_LONG, Blocks, encoding_of
from ivjoin.files.widening import has_null, widest

__all__ = ["Text"]

# A column without a value in the first block has the type of its first value in so many blocks.
_BLOCKS_AHEAD = 64
# A row that Arrow quotes. Errors show 80 characters of it.
_GZIP = b"\x1f\x8b"
_QUOTED_ROW = re.compile(r"(got \d+: .{80}).+", re.DOTALL)


class Text:
    """A text of one format, as a subclass. FileError if the first rows cannot be read.

    ``name`` is for errors, and ``opened`` opens the text at its start. ``live``: it can be opened only once, and its
    rows arrive over time. ``schema`` has all columns.
    """

    kind: str
    option: str  # declares the types of columns, for errors
    encoding: str | None = None

    def __init__(self, name: str, opened: Callable[[], Any], live: bool) -> None:
        self._name, self._opened, self._live = name, opened, live
        # The reason why a column cannot be read. It is an error only if that column is read.
        self._troubles: dict[str, str] = {}
        self._begun: tuple[Blocks, bytes] | None = None
        with self._errors_named():
            blocks = self._blocks()
            first = blocks.first(self._least)
            self._check_encoding(first)
            self.schema = self._settled(first, blocks)
            if live:
                self._begun = blocks, first
            else:
                blocks.close()

    # -- of the format -------------------------------------------------------------------------------------------

    _is_declared = False  # whether the caller declares all types
    _least = 1  # lines of a pipe that are needed to infer types

    def _end(self, text: bytes) -> int:
        """Return the end of the last row that is complete; 0 if none is."""
        raise NotImplementedError

    def _inferred(self, text: bytes, first: bool, names: Sequence[str] | None) -> pa.Schema:
        """Return the types of columns by the rows of a block; ``first``: it begins with the header, if any."""
        raise NotImplementedError

    def _parsed(self, text: bytes, first: bool, types: pa.Schema, threads: bool) -> pa.Table:
        """Return columns of a block in these types."""
        raise NotImplementedError

    def _check(self, table: pa.Table, text: bytes, first: bool) -> None:
        """Refuse a block whose numbers lost digits."""
        raise NotImplementedError

    # -- for readers ---------------------------------------------------------------------------------------------

    def batches(self, types: pa.Schema, threads: bool = True) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the columns in ``types``, in the types of :attr:`schema` or wider ones.

        ``threads``: several threads may convert columns. FileError if a row cannot be read or a value is not of its
        type.
        """
        with self._errors_named():
            for name in types.names:
                if name in self._troubles:
                    raise FileError(f"cannot read {self._name} as {self.kind}: {self._troubles[name]}")
            blocks, text = self._begun or (None, b"")
            self._begun = None
            if blocks is None:
                blocks = self._blocks()
                text = blocks.first(self._least)
            try:
                first = True
                while text:
                    table = self._parsed(text, first, types, threads)
                    self._check(table, text, first)
                    yield from table.to_batches() if len(types) else [_rows_alone(table.num_rows)]
                    del table
                    text, first = blocks.next(), False
            finally:
                blocks.close()

    def _blocks(self) -> Blocks:
        return Blocks(self._opened(), self._end, self._live, self.encoding)

    def _settled(self, first: bytes, blocks: Blocks) -> pa.Schema:
        schema = self._inferred(first, True, None)
        if not blocks.ended and not self._is_declared:
            unknown = {f.name: f.type for f in schema if has_null(f.type)}
            for _ in range(0 if self._live else _BLOCKS_AHEAD):
                if not unknown or not (text := blocks.next()):
                    break
                try:
                    found = self._inferred(text, False, list(unknown))
                except (pa.ArrowException, FileError):
                    break  # the reader of this column raises the error
                for field in found:
                    t = widest(unknown[field.name], field.type) if field.name in unknown else None
                    if t is not None:
                        schema = schema.set(schema.get_field_index(field.name), pa.field(field.name, t))
                        unknown[field.name] = t
                unknown = {n: t for n, t in unknown.items() if has_null(t)}
            if not blocks.ended:
                schema = pa.schema([f.with_type(_as_text(f.type)) for f in schema])
        return schema

    def _check_encoding(self, head: bytes) -> None:
        if self.encoding is None and head.startswith(_GZIP):
            raise FileError(
                f"cannot read {self._name} as {self.kind}: its first bytes show gzip; decompress it, or give "
                "it a name that ends in .gz"
            )
        found = encoding_of(head) if self.encoding is None else None
        if found is not None:
            raise FileError(
                f"cannot read {self._name} as {self.kind}: its first bytes show the encoding {found}, not UTF-8; "
                f"{self._encoding_hint(found)}"
            )

    def _encoding_hint(self, encoding: str) -> str:
        return "write it again in UTF-8"

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except FileError:
            raise
        except UnicodeError as e:
            raise FileError(
                f"cannot read {self._name} as {self.kind}: it is not in {self.encoding or 'UTF-8'} "
                f"({came(getattr(e, 'object', b'')[:40])}); {self._encoding_hint('latin-1')}"
            ) from e
        except (OSError, pa.ArrowException, ValueError) as e:
            raise FileError(f"cannot read {self._name} as {self.kind}: {self._reason(e)}") from e

    def _reason(self, error: Exception) -> str:
        said = reason_of(error)
        if said.startswith("straddling object"):  # Arrow's word for a row longer than a block
            return ROW_TOO_LONG
        return _QUOTED_ROW.sub(r"\1...", said).rstrip(".")

    def _declare(self, column: str, t: object) -> str:
        return f"declare its type: {self.option.format(column=column, type=t)}"


def _rows_alone(count: int) -> pa.RecordBatch:
    """Return rows without columns."""
    return pa.record_batch({"row": pa.nulls(count)}).select([])


def _as_text(t: pa.DataType) -> pa.DataType:
    """Return a type in which columns without a value so far are text."""
    if pa.types.is_null(t):
        return pa.string()
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(_as_text(f.type)) for f in t])
    return pa.list_(_as_text(t.value_type)) if pa.types.is_list(t) else t
