"""Text files whose format the caller declares: ``ivjoin.csv`` and ``ivjoin.json``."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ivjoin.errors import ColumnError, OptionError, came, named
from ivjoin.expr.types import arrow_type
from ivjoin.files.atomic import FileError
from ivjoin.files.datasets import Files, kind_of, open_files, open_stream
from ivjoin.files.text.dialects import Csv, Dialect, Json

__all__ = ["csv", "csv_dialect", "json"]


def csv(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    delimiter: str | None = None, decimal: str = ".", header: bool = True, columns: Sequence[str] | None = None,
    types: Mapping[str, str | pa.DataType] | None = None, encoding: str | None = None,
    nulls: Sequence[str] = ("",), quote: str | None = '"',
) -> Files:  # fmt: skip
    """Open CSV files as an input of a join, and declare their format and types.

    Parameters
    ----------
    path : str, path, or list of these
        A file, pattern, folder or URI, perhaps compressed; a pipe; ``"-"`` is standard input.
    delimiter : str, optional
        The character between fields; by default a comma, or a tab for ``.tsv`` and ``.bed``.
    decimal : str
        The decimal sign of numbers.
    header : bool
        Whether the first row has the names of the columns. Without a header, they are ``f0``, ``f1``, ...
    columns : list of str, optional
        Names of the columns, in the order of the file, in place of the names in the header.
    types : dict of str to str or pyarrow.DataType, optional
        Types, with Arrow's or Spark's names: ``{"id": "int64", "ts": "timestamp[us, UTC]"}``. The first rows decide the
        types of other columns.
    encoding : str, optional
        By default UTF-8.
    nulls : list of str
        Fields without quotes that are null.
    quote : str, optional
        The character around fields that contain delimiters or line breaks; None if the file has no quoted fields.

    Returns
    -------
    Files
        An input for :func:`ivjoin.band_join` and the other joins; ``schema`` has its columns.

    Raises
    ------
    OptionError
        If an option has an invalid value.
    ColumnError
        If ``types`` names a column that the file does not have.
    FileError
        If the files cannot be read.

    Examples
    --------
    >>> import ivjoin, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "prices.csv"
    >>> _ = path.write_text("id;price\\n7;2,50\\n8;NULL\\n")
    >>> prices = ivjoin.csv(path, delimiter=";", decimal=",", types={"id": "int32"}, nulls=["", "NULL"])
    >>> prices.schema.types
    [DataType(int32), DataType(double)]
    """
    dialect = csv_dialect(delimiter, decimal, header, columns, types, encoding, nulls, quote)
    return _with_columns(_opened(path, "csv", dialect), "types", dialect.types)


def json(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    schema: pa.Schema | Mapping[str, str | pa.DataType] | None = None,
) -> Files:
    """Open files of JSON lines, or of JSON arrays of objects, as an input of a join.

    Parameters
    ----------
    path : str, path, or list of these
        A file, pattern, folder or URI, perhaps compressed; a pipe; ``"-"`` is standard input.
    schema : pyarrow.Schema or dict of str to str or pyarrow.DataType, optional
        The fields to read, with their types. Other fields are ignored. By default the first rows decide.

    Returns
    -------
    Files
        An input for :func:`ivjoin.band_join` and the other joins; ``schema`` has its columns.

    Raises
    ------
    OptionError
        If ``schema`` is empty or is not a schema.
    FileError
        If the files cannot be read.

    Examples
    --------
    >>> import ivjoin, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "events.json"
    >>> _ = path.write_text('[{"id": 7, "at": "2024-01-01T00:00:00Z"}]')
    >>> ivjoin.json(path, schema={"id": "int64", "at": "timestamp[us, UTC]"}).schema.names
    ['id', 'at']
    """
    if schema is None or isinstance(schema, pa.Schema):
        declared = schema
    elif isinstance(schema, Mapping):
        declared = pa.schema([(_text("a name in schema", n), arrow_type(t)) for n, t in schema.items()])
    else:
        raise OptionError(f"schema is {came(schema)}; expected a pyarrow.Schema, or a dict such as {{'id': 'int64'}}")
    if declared is not None and not len(declared):
        raise OptionError("schema is empty; expected the fields to read, or leave it out")
    return _opened(path, "json", Json(declared))


def csv_dialect(
    delimiter: Any = None, decimal: Any = ".", header: Any = True, columns: Any = None, types: Any = None,
    encoding: Any = None, nulls: Any = ("",), quote: Any = '"',
) -> Csv:  # fmt: skip
    """Return the dialect that the arguments of :func:`csv` describe; OptionError if one is invalid."""
    for name, value in (("delimiter", delimiter), ("decimal", decimal), ("quote", quote)):
        one = isinstance(value, str) and len(value) == 1 and value.isascii() and value not in "\r\n"
        if not one and not (value is None and name != "decimal"):
            raise OptionError(f"{name} is {came(value)}; expected one ASCII character")
    if delimiter is not None and delimiter in (decimal, quote):
        raise OptionError(f"delimiter is {came(delimiter)}, which is also the decimal sign or the quote; they differ")
    if not isinstance(header, bool):
        raise OptionError(f"header is {came(header)}; expected True or False")
    if types is not None and not isinstance(types, Mapping):
        raise OptionError(f"types is {came(types)}; expected a dict such as {{'id': 'int64'}}")
    if encoding is not None:
        try:
            encoding = codecs.lookup(_text("encoding", encoding)).name
        except LookupError as e:
            raise OptionError(
                f"encoding is {came(encoding)}, which is unknown; expected a name such "
                "as 'latin-1'"
            ) from e
    names = None if columns is None else _texts("columns", columns)
    if names is not None and (not names or len(set(names)) < len(names)):
        raise OptionError(f"columns is {came(columns)}; expected the names of all columns of the file, each once")
    return Csv(
        delimiter, decimal, header, names,
        {_text("a name in types", n): arrow_type(t) for n, t in (types or {}).items()},
        None if encoding == "utf-8" else encoding, _texts("nulls", nulls), quote,
    )  # fmt: skip


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise OptionError(f"{what} is {came(value)}; expected text")
    return value


def _texts(what: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise OptionError(f"{what} is {came(values)}; expected a list of texts")
    return tuple(_text(f"a value in {what}", v) for v in values)


def _opened(path: Any, kind: str, dialect: Dialect) -> Files:
    if isinstance(path, str) and path == "-":
        return open_stream(path, kind, dialect)
    files = open_files(path, kind, dialect)
    for name in () if files.local is None else files.local.names:
        if kind_of(name, kind) != kind:
            raise FileError(f"{named(name)} is a {kind_of(name, kind)} file by its name; expected {kind}")
    return files


def _with_columns(files: Files, what: str, names: Iterable[str]) -> Files:
    for name in names:
        if name not in files.schema.names:
            raise ColumnError(f"{what} contains {came(name)}; the file has {', '.join(files.schema.names)}")
    return files
