"""Join Spark DataFrames on keys and a band condition, with ``DataFrame.band_join``.

Importing this package adds ``band_join``, ``asof_join`` and ``window_join`` to classic and Connect DataFrames:

>>> import ivjoin.spark  # doctest: +SKIP
>>> matches = clicks.band_join(views, on="user", condition="l.ts BETWEEN r.ts AND r.ts + INTERVAL 1 HOUR",
...                            how="left", left_order="ts", right_order="ts")  # doctest: +SKIP

The package loads a module when one of its names is first used, because workers need only a few modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ivjoin.spark.runtime.environment import require_packages

if TYPE_CHECKING:
    from ivjoin.spark.api.explaining import explain
    from ivjoin.spark.api.join import band_join
    from ivjoin.spark.api.lookups import asof_join, window_join
    from ivjoin.spark.api.many import multi_join
    from ivjoin.spark.api.origin import with_output_watermark
    from ivjoin.spark.conditions.dialect import AnsiWarning
    from ivjoin.spark.runtime.environment import SparkSetupError, session
    from ivjoin.spark.runtime.eventtime import WatermarkWarning
    from ivjoin.spark.sink.sink import write_stream
    from ivjoin.spark.sink.sinklog import published_files

require_packages()

from ivjoin.spark.rows.metrics import metrics  # noqa: E402

__all__ = [
    "AnsiWarning", "SparkSetupError", "WatermarkWarning", "asof_join", "attach", "band_join", "explain", "metrics",
    "multi_join", "published_files", "session", "window_join", "with_output_watermark", "write_stream",
]
_MODULES = {
    "AnsiWarning": "conditions.dialect", "SparkSetupError": "runtime.environment", "session": "runtime.environment",
    "WatermarkWarning": "runtime.eventtime", "asof_join": "api.lookups", "band_join": "api.join",
    "explain": "api.explaining", "multi_join": "api.many", "published_files": "sink.sinklog",
    "window_join": "api.lookups", "with_output_watermark": "api.origin", "write_stream": "sink.sink",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Method:
    """A method of DataFrames whose module is imported at its first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, frame: Any, owner: Any) -> Any:
        from pyspark.sql import DataFrame

        method = __getattr__(self._name)
        setattr(DataFrame, self._name, method)
        return method if frame is None else method.__get__(frame, owner)


def attach() -> None:
    """Add ``band_join``, ``asof_join`` and ``window_join`` to the DataFrame classes; the import calls it."""
    from pyspark.sql import DataFrame

    for name in ("band_join", "asof_join", "window_join"):
        setattr(DataFrame, name, _Method(name))


attach()
