"""Says which package is missing, before an import fails in the middle of another."""

from __future__ import annotations

from importlib.util import find_spec

from ivjoin.errors import IvjoinError

__all__ = ["MissingPackageError", "require_packages"]


class MissingPackageError(IvjoinError, ImportError):
    """A Python package that ``ivjoin.spark`` needs and does not find."""


def require_packages() -> None:
    """
    Raises
    ------
    MissingPackageError
        If pyspark or pandas is not installed.
    """
    missing = [name for name in ("pyspark", "pandas") if find_spec(name) is None]
    if missing:
        raise MissingPackageError(
            f"ivjoin.spark needs {' and '.join(missing)}, which this Python does not have: "
            "pip install 'ivjoin[spark]' brings everything but Java"
        )
