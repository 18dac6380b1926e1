"""Fork Spark's Python workers from a process that has already loaded the modules of a join.

By default Spark starts ``python -m pyspark.daemon``, and each forked worker imports pyarrow, pandas and the join. That
takes nearly a second of CPU time for each worker at the beginning of a query. :func:`ivjoin.spark.session` sets

    spark.python.daemon.module    ivjoin.spark.runtime.daemon

The daemon then imports these modules once, and the workers share the memory. Otherwise it is PySpark's own daemon.

The modules start no thread that a forked worker would miss. OpenBLAS and Arrow's allocator stop their threads before a
fork and start them again after it. Arrow creates its thread pools at their first use.
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
    # A garbage collection in a worker would touch, and so copy, all pages of these objects. Do not collect here first:
    # almost nothing is garbage, and it adds an eighth to the load time, for which the first query waits.
    gc.freeze()
    gc.enable()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
