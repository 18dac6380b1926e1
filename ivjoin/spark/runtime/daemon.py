"""Fork Spark's Python workers from a process that has already loaded the modules of a join.

By default, each worker imports pyarrow, pandas and the join, which takes almost a second of CPU time. With the setting
``spark.python.daemon.module`` of :func:`ivjoin.spark.session`, this daemon imports them once, and the workers share the
memory. The modules start no thread that a forked worker would miss.
"""

from __future__ import annotations

import gc
from importlib import import_module

__all__ = ["MODULES", "main"]

# PySpark's worker, the modules that Arrow and pandas load at their first batch, and the join with its writer.
MODULES = (
    "pyspark.worker", "pyarrow.pandas_compat", "pandas", "ivjoin.spark.state.stateful", "ivjoin.spark.sink.parts",
    "ivjoin.spark.rows.metrics", "ivjoin.multi.operator",
)


def main() -> None:
    """Load the modules, then run as PySpark's daemon until Spark ends it."""
    gc.disable()
    for name in MODULES:
        import_module(name)
    # A garbage collection in a worker would touch, and so copy, all pages of these objects.
    gc.freeze()
    gc.enable()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
