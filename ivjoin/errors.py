"""The errors ivjoin raises, every one an ``IvjoinError``, and how a value that came is shown in one."""

from __future__ import annotations

from typing import Any

__all__ = [
    "CapacityError",
    "ColumnError",
    "ConditionError",
    "EvaluationError",
    "IvjoinError",
    "LateRowError",
    "MemoryLimitError",
    "OptionError",
    "OrderError",
    "ProtocolError",
    "SchemaError",
    "SlowJoinWarning",
    "SnapshotError",
    "SpillError",
    "UnsupportedError",
    "came",
]


class IvjoinError(ValueError):
    """Base of all errors that a caller can mend."""


class OptionError(IvjoinError, TypeError):
    """An argument by a name that the function does not have."""


class ColumnError(IvjoinError):
    """A column name that is unknown or ambiguous."""


class ConditionError(IvjoinError):
    """A condition that does not parse or does not type."""


class UnsupportedError(ConditionError):
    """A construct that parses but that ivjoin cannot evaluate."""


class OrderError(IvjoinError):
    """A declared order, bound or watermark that cannot be used."""


class SchemaError(IvjoinError):
    """A batch or schema that differs from what was announced."""


class SlowJoinWarning(UserWarning):
    """A join compares nearly every row of one input with every row of the other, and there are many."""


class ProtocolError(IvjoinError):
    """A call that comes at the wrong time, such as a push after finish."""


class SnapshotError(IvjoinError):
    """A snapshot that is foreign, newer than this version, or damaged."""


class LateRowError(IvjoinError):
    """A row that breaks its side's declared order under ``on_late="raise"``."""


class EvaluationError(IvjoinError, ArithmeticError):
    """The condition raised for a pair of rows (overflow, division by zero, a bad cast)."""


class CapacityError(IvjoinError):
    """More rows or keys at once than an operator can hold."""


class MemoryLimitError(CapacityError):
    """More memory is needed than ``memory_limit`` allows, or no room to spill to. The operator goes on.

    Parameters
    ----------
    reason : str
    then : str, optional
        How whoever pushed can go on, which the message ends with.

    Attributes
    ----------
    reason : str
        What is full, and what can be done about it.
    rows_taken : int
        Rows of the batch that were taken before, from its first on: their output has come. The rest was not taken;
        push ``batch.slice(rows_taken)`` again when there is room.
    """

    rows_taken: int = 0

    def __init__(self, reason: str, then: str = "") -> None:
        super().__init__(reason + then)
        self.reason = reason


class SpillError(IvjoinError):
    """A file in ``spill_dir`` cannot be written while rows are on their way there or back. The operator has stopped."""


_MOST_SHOWN = 100


def came(value: Any) -> str:
    """A value for a message: its repr in one line, cut short; its type where it has none."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a whole number of {value.bit_length()} bits"  # Python refuses to write the longest of them
    try:
        long = isinstance(value, (str, bytes, bytearray)) and len(value) > _MOST_SHOWN
        text = " ".join(repr(value[:_MOST_SHOWN] if long else value).split("\n"))
    except Exception:
        return f"a {type(value).__name__}"
    return f"{text[:_MOST_SHOWN]}..." if long or len(text) > _MOST_SHOWN else text
