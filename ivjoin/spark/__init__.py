"""``DataFrame.band_join`` for PySpark: importing this package adds it to classic and Connect DataFrames.

>>> import ivjoin.spark  # doctest: +SKIP
>>> matches = clicks.band_join(views, on="user", condition="l.ts BETWEEN r.ts AND r.ts + INTERVAL 1 HOUR",
...                            how="left", left_order="ts", right_order="ts")  # doctest: +SKIP
"""

from __future__ import annotations

from ivjoin.spark.needs import require_packages

require_packages()

from ivjoin.spark.dialect import AnsiWarning  # noqa: E402
from ivjoin.spark.environment import SparkSetupError, session  # noqa: E402
from ivjoin.spark.eventtime import WatermarkWarning  # noqa: E402
from ivjoin.spark.explaining import explain  # noqa: E402
from ivjoin.spark.join import band_join  # noqa: E402
from ivjoin.spark.many import multi_join  # noqa: E402
from ivjoin.spark.metrics import metrics  # noqa: E402
from ivjoin.spark.sink import write_stream  # noqa: E402
from ivjoin.spark.sinklog import published_files  # noqa: E402

__all__ = [
    "AnsiWarning", "SparkSetupError", "WatermarkWarning", "attach", "band_join", "explain", "metrics", "multi_join",
    "published_files", "session", "write_stream",
]  # fmt: skip


def attach() -> None:
    """Add ``band_join`` to the DataFrame classes; done at import."""
    from pyspark.sql import DataFrame

    DataFrame.band_join = band_join


attach()
