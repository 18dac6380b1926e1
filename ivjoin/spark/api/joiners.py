"""Run a function in the tasks of a join of static frames, and return its rows and counts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from ivjoin.metrics import JoinMetrics
from ivjoin.spark.rows.metrics import observed
from ivjoin.spark.rows.pack import MapStage
from ivjoin.spark.rows.results import GROWING, RESULT_SCHEMA, opener, packed_row

__all__ = ["Joiner", "joined_by"]

#: The function of a task. It reads the input, yields joined rows, and returns the counts of the operator.
Joiner = Callable[[Iterator[pa.RecordBatch]], Generator[pa.RecordBatch, None, JoinMetrics]]

# The counts of one task, in the order of its text.
_COUNTS = (*GROWING, "peak_state_rows", "peak_state_bytes")


def joined_by(joiner: Joiner, frame: Any, schema: pa.Schema, out: StructType, observation: Any) -> Any:
    """Return a frame of the rows that a function makes of a frame. Their schema is ``schema``, in Spark ``out``.

    With an observation, the function packs its rows and each task adds a row of counts. A last stage opens the rows.
    """
    if observation is None:
        return frame.mapInArrow(joiner, out)
    counted = frame.mapInArrow(_counted(joiner), RESULT_SCHEMA)
    return observed(counted, observation, _COUNTS).mapInArrow(opener(schema), out)


def _counted(join: Joiner) -> MapStage:
    """Return a function that packs the rows of ``join`` and adds a last row with its counts."""

    def joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        steps = join(batches)
        while True:
            try:
                batch = next(steps)
            except StopIteration as end:
                total = end.value.as_dict()
                break
            yield packed_row(batch, None)
        yield packed_row(None, ",".join(str(total[name]) for name in _COUNTS))

    return joined
