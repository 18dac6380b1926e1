"""The process that Spark's Python workers are forked from, with what a join needs already loaded.

Spark starts ``python -m pyspark.daemon``, and each worker that this forks imports pyarrow, pandas and the join by
itself: nearly a second of a processor for each, at the beginning of a query. With

    spark.python.daemon.module    ivjoin.spark.runtime.daemon

which :func:`ivjoin.spark.session` sets, that is done once, and the workers share the memory. The rest is PySpark's own
daemon. What is loaded here starts no thread that would have to live on in a worker: those of OpenBLAS and of Arrow's
allocator are stopped and started by these libraries around a fork, and Arrow makes its pools when it first needs them.
"""

from __future__ import annotations

import gc
from importlib import import_module

__all__ = ["MODULES", "main"]

# What the workers of both stages import: PySpark's side of a worker, what Arrow and pandas load at their first batch,
# and the join with its writer.
MODULES = (
    "pyspark.worker", "pyarrow.pandas_compat", "pandas", "ivjoin.spark.state.stateful", "ivjoin.spark.sink.parts",
    "ivjoin.spark.rows.metrics", "ivjoin.multi.operator",
)


def main() -> None:
    """Load, then serve as PySpark's daemon until Spark ends it."""
    gc.disable()
    for name in MODULES:
        import_module(name)
    # What lives now lives on; a worker's collector would touch, and so copy, every page of it. Of what was loaded next
    # to nothing is garbage: to look for that takes an eighth of the time, and the first query waits.
    gc.freeze()
    gc.enable()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
