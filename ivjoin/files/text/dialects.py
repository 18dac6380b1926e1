"""The dialect of a text file, as the caller declares it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

__all__ = ["Csv", "Dialect", "Json", "declared_names"]


@dataclass(frozen=True)
class Csv:
    """The dialect of a CSV file; :func:`ivjoin.csv` describes the fields."""

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
    """The declared schema of JSON lines. Other fields are ignored, and fields that an object lacks are null."""

    schema: pa.Schema | None = None


Dialect = Csv | Json


def declared_names(dialect: Dialect | None) -> Collection[str]:
    """Return the names of the columns whose types the caller declared."""
    if isinstance(dialect, Csv):
        return dialect.types.keys()
    return () if dialect is None or dialect.schema is None else dialect.schema.names
