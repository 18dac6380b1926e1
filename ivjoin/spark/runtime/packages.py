"""Check that the packages for ``ivjoin.spark`` are installed, before an import fails inside another import."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from ivjoin.errors import MissingPackageError

__all__ = ["installed_first", "require_packages"]


def require_packages() -> None:
    """Raise MissingPackageError if pyspark or pandas is not installed."""
    missing = [name for name in ("pyspark", "pandas") if find_spec(name) is None]
    if missing:
        raise MissingPackageError(
            f"ivjoin.spark needs {' and '.join(missing)}, which this Python does not have: "
            "pip install 'ivjoin[spark]' brings everything but Java"
        )


def installed_first() -> None:
    """Make Python import PySpark from its folder, if Spark has put the archive inside that folder on the path.

    Python stores no bytecode for modules in an archive. PySpark loads from its folder in 0.1 s, and from the archive in
    0.6 s.
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
