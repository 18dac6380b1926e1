"""The demo's Spark section: what stands between this environment and the same joins on Spark."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

__all__ = ["spark_note"]


def spark_note() -> str:
    """A sentence on why the Spark section does not run, and the step that would change it."""
    if find_spec("ivjoin.spark") is None or not getattr(find_spec("ivjoin.spark"), "has_location", False):
        return "Spark: this version joins in one process only; the Spark part is still to come."
    if find_spec("pyspark") is None:
        return "Spark: not installed; pip install 'ivjoin[spark]' brings it."
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        return "Spark: no Java found; install a Java 17 runtime, or point JAVA_HOME to one."
    return "Spark: found, but the demo does not use it yet."
