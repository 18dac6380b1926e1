"""The error classes of ivjoin, which are subclasses of ``IvjoinError``, and the form of values in messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

__all__ = [
    "CapacityError",
    "CardinalityError",
    "ColumnError",
    "ConditionError",
    "EvaluationError",
    "FileError",
    "IvjoinError",
    "LateRowError",
    "MemoryLimitError",
    "MissingPackageError",
    "OptionError",
    "OrderError",
    "ProtocolError",
    "SchemaError",
    "SlowJoinWarning",
    "SnapshotError",
    "SpillError",
    "TimezoneWarning",
    "UnsupportedError",
    "came",
    "named",
]


class IvjoinError(ValueError):
    """Base class of all errors that a caller can fix."""

    def saying(self, text: str) -> Self:
        """Return an error of the same class and attributes with another text."""
        new = type(self)(text)
        new.__dict__.update(self.__dict__)
        return new


class OptionError(IvjoinError, TypeError):
    """An argument with an unknown name or an invalid value. Some invalid values raise ConditionError instead."""


class ColumnError(IvjoinError):
    """A column name that is unknown or ambiguous.

    Attributes
    ----------
    column : str or None
        The name of the column.
    side : str or None
        ``"left"``, ``"right"`` or the alias of an input; None if the name can belong to any input.
    columns : tuple of str
        The columns that exist in that input.
    """

    column: str | None = None
    side: str | None = None
    columns: tuple[str, ...] = ()

    def of(self, column: str, side: str | None, columns: Iterable[str]) -> Self:
        """Set the attributes, and return the error."""
        self.column, self.side, self.columns = column, side, tuple(columns)
        return self


class ConditionError(IvjoinError):
    """A condition with a syntax error or a type error, or an invalid join type, time zone or tolerance."""


class UnsupportedError(ConditionError):
    """A valid construct that ivjoin does not support."""


class OrderError(IvjoinError):
    """A declared order, bound or watermark that cannot be used."""


class SchemaError(IvjoinError):
    """A batch or schema that differs from the declared one."""


class TimezoneWarning(UserWarning):
    """A condition reads the local time of a column in UTC, although the column has another zone."""


class SlowJoinWarning(UserWarning):
    """A join compares almost every row of one input with every row of the other, and the inputs are large."""


class ProtocolError(IvjoinError):
    """A call at the wrong time, such as a push after finish."""


class SnapshotError(IvjoinError):
    """A snapshot that is damaged, from a newer version, or not from ivjoin."""


class LateRowError(IvjoinError):
    """A row that breaks its side's declared order under ``on_late="raise"``.

    Attributes
    ----------
    side : str or None
        ``"left"``, ``"right"``, or the alias of the input.
    column, value
        The ordered column or expression, and its value in the row; None for a null.
    frontier : object
        The value that the row must not be below, or above for a descending order; None if the order ends in nulls.
    """

    side: str | None = None
    column: str | None = None
    value: Any = None
    frontier: Any = None


class CardinalityError(IvjoinError):
    """A row that matches more than one row, although ``validate=`` does not allow this.

    Attributes
    ----------
    side : str or None
        The side of the row.
    row : int or None
        Its number in that input, from 0.
    """

    side: str | None = None
    row: int | None = None


class FileError(IvjoinError, OSError):
    """A file that cannot be read or written, or whose format is unknown."""


class MissingPackageError(UnsupportedError, ImportError):
    """An optional Python package that a call needs and that is not installed."""


class EvaluationError(IvjoinError, ArithmeticError):
    """The condition raises an error for a pair of rows (overflow, division by zero, an invalid cast)."""


class CapacityError(IvjoinError):
    """More rows or keys than an operator can store at one time."""


class MemoryLimitError(CapacityError):
    """A call needs more memory than ``memory_limit`` allows, or the disk is full. The operator remains usable.

    Parameters
    ----------
    reason : str
    then : str, optional
        The end of the message: how the caller can continue.

    Attributes
    ----------
    reason : str
        What is full, and the possible fixes.
    rows_taken : int
        How many rows at the start of the batch the operator has accepted. Their output has been emitted. When memory is
        free, push the rest: ``batch.slice(rows_taken)``.
    """

    rows_taken: int = 0

    def __init__(self, reason: str, then: str = "") -> None:
        super().__init__(reason + then)
        self.reason = reason


class SpillError(IvjoinError):
    """A file of spilled rows cannot be read or written. The operator has stopped."""


_MOST_SHOWN = 80  # characters of a value, which may come from a file


def came(value: Any, most: int = _MOST_SHOWN) -> str:
    """Return a value for a message: its repr in one line of so many characters, or its type if it has no repr."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a whole number of {value.bit_length()} bits"  # Python refuses to print the longest of them
    try:
        long = isinstance(value, (str, bytes, bytearray)) and len(value) > most
        text = " ".join(repr(value[:most] if long else value).split("\n"))
    except Exception:
        return f"a {type(value).__name__}"
    return f"{text[:most]}..." if long or len(text) > most else text


def named(path: Any) -> str:
    """Return the name of a file for a message: the whole name, unless it is far longer than names are."""
    return came(path, 1000)
