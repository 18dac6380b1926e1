"""Looks for the packages that ``ivjoin.spark`` needs, before an import fails in the middle of another."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from ivjoin.errors import MissingPackageError

__all__ = ["MissingPackageError", "installed_first", "require_packages"]


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


def installed_first() -> None:
    """Import the installed PySpark, where Spark has put the archive that lies inside it on the path.

    Nothing that comes from an archive is kept compiled: PySpark takes 0.1 s to load from its folder, 0.6 s from there.
    """
    if "pyspark" in sys.modules:
        return
    for folder in map(Path, sys.path):
        archives = folder / "pyspark" / "python" / "lib"
        if archives.is_dir():
            ours = {p for p in sys.path if Path(p).parent == archives and Path(p).suffix == ".zip"}
            if ours and find_spec("py4j") is not None:
                sys.path[:] = [p for p in sys.path if p not in ours]
            return
