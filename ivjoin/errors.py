"""The errors ivjoin raises; every one is an ``IvjoinError``."""

from __future__ import annotations

__all__ = [
    "ColumnError",
    "ConditionError",
    "EvaluationError",
    "IvjoinError",
    "LateRowError",
    "OrderError",
    "ProtocolError",
    "SchemaError",
    "SnapshotError",
    "UnsupportedError",
]


class IvjoinError(ValueError):
    """Base of all errors that a caller can mend."""


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
