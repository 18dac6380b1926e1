"""The one module that asks a Spark session: its settings, its kind, and how one is made with the right interpreter."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ivjoin.errors import IvjoinError

__all__ = ["Settings", "SparkSetupError", "check_java", "is_connect", "session", "settings_of"]


class SparkSetupError(IvjoinError):
    """What Spark needs and this machine lacks."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a session says that a join must follow.

    Attributes
    ----------
    timezone : str
        Session time zone.
    case_sensitive : bool
    partitions : int
        ``spark.sql.shuffle.partitions``: state partitions of a new query.
    """

    timezone: str
    case_sensitive: bool
    partitions: int


def settings_of(spark: Any) -> Settings:
    """The settings of a session, classic or Connect."""
    conf = spark.conf
    return Settings(
        timezone=conf.get("spark.sql.session.timeZone") or "UTC",
        case_sensitive=(conf.get("spark.sql.caseSensitive") or "false").lower() == "true",
        partitions=int(conf.get("spark.sql.shuffle.partitions") or 200),
    )


def is_connect(frame: Any) -> bool:
    """Whether a DataFrame belongs to Spark Connect, found without importing Connect (it needs grpcio)."""
    return type(frame).__module__.startswith("pyspark.sql.connect")


def check_java() -> None:
    """
    Raises
    ------
    SparkSetupError
        If no Java runtime is found; names the package to install.
    """
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return
    if shutil.which("java"):
        return
    where = f"JAVA_HOME is {home!r}, which holds no bin/java" if home else "there is no java on PATH and no JAVA_HOME"
    raise SparkSetupError(
        f"Spark needs a Java 17 runtime: {where}. Install one, for example with 'apt install openjdk-17-jre-headless' "
        "(Debian, Ubuntu), 'dnf install java-17-openjdk-headless' (Fedora, RHEL) or 'brew install openjdk@17' (macOS)"
    )


def session(master: str = "local[2]", app: str = "ivjoin", **config: Any) -> Any:
    """A local Spark session whose workers run this interpreter.

    Parameters
    ----------
    master, app : str
    **config
        Spark settings with ``__`` for the dots: ``spark__sql__shuffle__partitions=4``.

    Returns
    -------
    pyspark.sql.SparkSession

    Raises
    ------
    SparkSetupError
        If there is no Java.
    """
    check_java()
    # Spark starts whatever python3 is first on PATH for its workers unless told.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName(app)
    for role in ("spark.pyspark.python", "spark.pyspark.driver.python"):
        builder = builder.config(role, sys.executable)
    for name, value in config.items():
        builder = builder.config(name.replace("__", "."), str(value))
    return builder.getOrCreate()
