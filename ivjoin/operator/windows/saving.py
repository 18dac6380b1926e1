"""An operator that aggregates as bytes: what an operator's snapshot is, with the rows that wait in place of a store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.errors import IvjoinError, SnapshotError, came
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.snapshot import load_frontier, packed, planned_again, saved_frontier
from ivjoin.operator.windows.core import WindowCore
from ivjoin.operator.windows.rows import Rows, joined
from ivjoin.shj.arrow import whole_numbers

__all__ = ["read_windows", "write_windows"]


def write_windows(core: WindowCore) -> bytes:
    """Header and rows."""
    header = {
        "plan": core.plan.spec.as_json,
        "frontiers": [saved_frontier(f) for f in core.frontiers],
        "metrics": core.counts().as_dict() | {"state_bytes": 0},
        "careful": core.careful,
        "rekeyed": core.rekeyed,
        "late_within": core.intake.late_within,
        "seq": core.seq,
    }
    return packed(header, [_written(core, 0, core.left.chunks), _written(core, 1, list(core.right.each()))])


def _written(core: WindowCore, s: int, parts: list[Rows]) -> bytes:
    types = core.layouts[s].stored
    if parts:
        rows = joined(parts)
        arrays, seq = rows.columns, rows.seq
    else:
        arrays, seq = [pa.nulls(0, t) for t in types], np.empty(0, dtype=np.int64)
    arrays = [*arrays, whole_numbers(np.ascontiguousarray(seq))]
    schema = pa.schema([pa.field(str(i), a.type) for i, a in enumerate(arrays)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return sink.getvalue().to_pybytes()


def read_windows(header: dict[str, Any], tables: list[pa.RecordBatch]) -> WindowCore:
    """What :func:`write_windows` wrote.

    Raises
    ------
    SnapshotError
    """
    try:
        core = WindowCore(planned_again(header["plan"]), late_within=header["late_within"])
        for p, saved in enumerate(header["frontiers"]):
            load_frontier(core, p, saved)
        if header["rekeyed"]:
            core.rekey()
        core.learn()
        for s in (0, 1):
            *columns, seq = tables[s].columns
            core.adopt(s, columns, np.asarray(seq))
        core.careful = header["careful"]
        core.seq = [int(n) for n in header["seq"]]
        core.metrics = JoinMetrics(**header["metrics"])
        for p in (0, 1):
            core.bounder.move(p, True, 1)
        core.metrics.state_bytes = core.bytes_held()
    except IvjoinError:
        raise
    except Exception as e:  # its checksum fits: another program wrote it, and anything may be missing
        raise SnapshotError(f"the snapshot is damaged: {came(e)}") from e
    return core
