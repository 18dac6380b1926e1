"""The dialect of a text file, as the caller declares it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

__all__ = ["Csv", "Dialect", "Json", "declared_names"]


@dataclass(frozen=True)
class Csv:
    """The dialect of a CSV file.

    Attributes
    ----------
    delimiter : str, optional
        By default a comma, or the tabulator of a ``.tsv`` file.
    decimal : str
        The decimal sign of numbers.
    header : bool
        Whether the first row names the columns.
    columns : tuple of str, optional
        Names of the columns, in the order of the file; a header is skipped then.
    types : mapping of str to pa.DataType
        Types of columns that are not inferred.
    encoding : str, optional
        UTF-8 by default.
    nulls : tuple of str
        Unquoted fields that are null.
    quote : str, optional
        None: no field is quoted.
    """

    delimiter: str | None = None
    decimal: str = "."
    header: bool = True
    columns: tuple[str, ...] | None = None
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    encoding: str | None = None
    nulls: tuple[str, ...] = ("",)
    quote: str | None = '"'


@dataclass(frozen=True)
class Json:
    """The declared schema of JSON lines.

    Attributes
    ----------
    schema : pa.Schema, optional
        The fields to read, with their types. Other fields are ignored, and fields that an object lacks are null.
    """

    schema: pa.Schema | None = None


Dialect = Csv | Json


def declared_names(dialect: Dialect | None) -> Collection[str]:
    """Return the names of the columns whose types the caller declared."""
    if isinstance(dialect, Csv):
        return dialect.types.keys()
    return () if dialect is None or dialect.schema is None else dialect.schema.names
