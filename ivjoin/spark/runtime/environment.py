"""Read a Spark session's settings, and start a session with the right interpreter."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ivjoin.errors import IvjoinError, MissingPackageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "CHECKPOINT_FILES", "Settings", "SparkSetupError", "arrow_batch_rows", "check_java", "cores_of", "is_connect",
    "require_packages", "session", "settings_of",
]

CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
# Spark 4 adds up the bytes of all columns after each row that it passes to Python, unless the limit is this number.
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch", (1 << 31) - 1
_PARTITIONS = "spark.sql.shuffle.partitions", 16
# Arrow checks the bounds of each value that Spark reads from Python, and whether it is null. Spark checks both itself.
_UNCHECKED = {"ARROW_ENABLE_UNSAFE_MEMORY_ACCESS": "true", "ARROW_ENABLE_NULL_CHECK_FOR_GET": "false"}


def require_packages() -> None:
    """Raise MissingPackageError if pyspark or pandas is not installed, before an import fails inside another import."""
    missing = [name for name in ("pyspark", "pandas") if find_spec(name) is None]
    if missing:
        raise MissingPackageError(
            f"ivjoin.spark needs {' and '.join(missing)}, which this Python does not have: "
            "pip install 'ivjoin[spark]' installs everything except Java"
        )


class SparkSetupError(IvjoinError):
    """A requirement of Spark that this machine lacks."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a session that a join must follow."""

    timezone: str
    case_sensitive: bool
    partitions: int  # ``spark.sql.shuffle.partitions``: state partitions of a new query
    ansi: bool = True
    quoted_names: bool = False  # whether ``"a"`` is a name in SQL text


def settings_of(spark: Any) -> Settings:
    conf = spark.conf
    ansi = _is_on(conf.get("spark.sql.ansi.enabled"))
    return Settings(
        timezone=conf.get("spark.sql.session.timeZone") or "UTC",
        case_sensitive=_is_on(conf.get("spark.sql.caseSensitive")),
        partitions=int(conf.get("spark.sql.shuffle.partitions") or 200),
        ansi=ansi,
        # Spark also applies the second setting only with the first.
        quoted_names=ansi and _is_on(conf.get("spark.sql.ansi.doubleQuotedIdentifiers")),
    )


def _is_on(value: str | None) -> bool:
    return (value or "false").lower() == "true"


def arrow_batch_rows(spark: Any) -> int:
    """Return the rows of an Arrow batch between Spark and Python; zero or less for no limit."""
    return int(spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 10_000)


def is_connect(frame: Any) -> bool:
    """Return whether a DataFrame belongs to Spark Connect, without importing Connect (it needs grpcio)."""
    return type(frame).__module__.startswith("pyspark.sql.connect")


def cores_of(frame: Any) -> int:
    """Return the number of cores of a DataFrame's cluster; 4 over Connect, where it is not available."""
    return 4 if is_connect(frame) else int(frame.sparkSession.sparkContext.defaultParallelism)


_INSTALL = (
    "Install one, for example with 'apt install openjdk-17-jre-headless' (Debian, Ubuntu), 'dnf install "
    "java-17-openjdk-headless' (Fedora, RHEL) or 'brew install openjdk@17' (macOS)"
)
_OLDEST_JAVA = 17


def check_java() -> str:
    """Return the path of the Java runtime; raise SparkSetupError if it is missing, or too old for Spark 4."""
    home = os.environ.get("JAVA_HOME")
    # Like Spark's own scripts, prefer JAVA_HOME to PATH.
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home!r}, which holds no bin/java" if home else "no java on PATH and no JAVA_HOME"
        raise SparkSetupError(f"Spark needs a Java {_OLDEST_JAVA} runtime: {where}. {_INSTALL}")
    version = _java_version(java)
    if version is not None and version < _OLDEST_JAVA:
        raise SparkSetupError(f"Spark needs a Java {_OLDEST_JAVA} runtime: {java} is Java {version}. {_INSTALL}")
    return java


def _java_version(java: str) -> int | None:
    """Return the major version that ``java -version`` prints (8 for ``1.8``); None if it prints none."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found else None


def session(
    master: str = "local[2]", app: str = "ivjoin", **config: str | int | float | bool | None
) -> SparkSession:
    """Start a local Spark session whose workers run this interpreter, with the join already imported.

    The session differs from Spark's defaults in these points, unless a setting overrides them:

    - Checkpoints are written through Hadoop's ``FileSystem``. ``FileContext`` starts processes for each file where
      Hadoop's native library is missing.
    - Arrow batches to Python are limited by ``spark.sql.execution.arrow.maxRecordsPerBatch`` alone, because counting
      bytes is slow. For rows of 100 kB and more, set ``spark.sql.execution.arrow.maxBytesPerBatch`` to "64MB".
    - A local session has 16 shuffle partitions instead of 200, because every micro-batch has one task for each
      partition.
    - Arrow's checks of each value are off (``ARROW_ENABLE_UNSAFE_MEMORY_ACCESS``, ``ARROW_ENABLE_NULL_CHECK_FOR_GET``
      in the environment).

    Parameters
    ----------
    master, app : str
        As for Spark's own builder.
    **config
        Spark settings with ``__`` for the dots: ``spark__sql__shuffle__partitions=4``. None restores Spark's default
        for a setting of this function. Settings in ``spark-defaults.conf`` apply, except for the interpreter and a
        local session's addresses.

    Raises
    ------
    SparkSetupError
        If Java is missing or too old.
    """
    check_java()
    # By default, Spark starts the first python3 on PATH for its workers.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    given = {name.replace("__", "."): value for name, value in config.items()}
    common = _defaults()
    local = master.startswith("local")
    ours: dict[str, object] = dict.fromkeys(("spark.pyspark.python", "spark.pyspark.driver.python"), sys.executable)
    if local:
        # Driver and workers run on one machine, so its name need not be resolved by a network.
        ours |= dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1")
    unless_said: dict[str, object] = dict([_BATCH_BYTES, *([_PARTITIONS] if local else [])])
    if Path(__file__).is_file():  # the daemon starts before Spark puts archives on the path
        unless_said["spark.python.daemon.module"] = "ivjoin.spark.runtime.daemon"
    for name, value in _UNCHECKED.items():
        os.environ.setdefault(name, value)  # Java inherits it, but its own property has precedence
        unless_said[f"spark.executorEnv.{name}"] = os.environ[name]
    builder = SparkSession.builder.master(master).appName(app)
    for key, setting in {**{k: v for k, v in unless_said.items() if k not in common}, **ours, **given}.items():
        if setting is not None:
            builder = builder.config(key, str(setting))
    spark = builder.getOrCreate()
    if local and CHECKPOINT_FILES not in given:
        _write_checkpoints_directly(spark)
    return spark


def _defaults() -> dict[str, str]:
    """Return the settings in ``spark-defaults.conf``, a file of Java properties; empty if it cannot be read."""
    with suppress(ImportError, SystemExit, OSError, UnicodeDecodeError):
        folder = os.environ.get("SPARK_CONF_DIR")
        if not folder:
            from pyspark.find_spark_home import _find_spark_home

            folder = os.path.join(_find_spark_home(), "conf")
        text = Path(folder, "spark-defaults.conf").read_text("utf-8")
        lines = [line.strip() for line in re.sub(r"\\\r?\n[ \t]*", "", text).splitlines()]
        pairs = [re.split(r"\s*[=:]\s*|\s+", line, maxsplit=1) for line in lines if line and line[0] not in "#!"]
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
    return {}


def _write_checkpoints_directly(spark: SparkSession) -> None:
    if spark.conf.get(CHECKPOINT_FILES, None) is not None:
        return
    from py4j.protocol import Py4JJavaError

    for package in ("checkpointing.", ""):  # before Spark 4.1
        name = f"org.apache.spark.sql.execution.streaming.{package}FileSystemBasedCheckpointFileManager"
        with suppress(Py4JJavaError):  # ClassNotFoundException
            spark.sparkContext._jvm.java.lang.Class.forName(name)
            spark.conf.set(CHECKPOINT_FILES, name)
            return
