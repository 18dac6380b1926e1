"""The join of one task among several: the cell is one more key, and each row has a flag whether the task owns it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivjoin.plan.spec import JoinSpec

__all__ = ["cell_spec", "copied", "only_owned", "with_cells"]

_CELL, _OWNED_LEFT, _OWNED_RIGHT = "ivjoin cell", "ivjoin owned left", "ivjoin owned right"


def cell_spec(spec: JoinSpec) -> JoinSpec:
    left, right = (
        schema.append(pa.field(_CELL, pa.int64())).append(pa.field(owned, pa.bool_()))
        for schema, owned in zip(spec.schemas, (_OWNED_LEFT, _OWNED_RIGHT), strict=True)
    )
    return replace(spec, schemas=(left, right), on=(*spec.on, (_CELL, _CELL)))


def copied(batch: pa.RecordBatch, rows: np.ndarray) -> pa.RecordBatch:
    same = len(rows) == batch.num_rows and np.array_equal(rows, np.arange(len(rows)))
    return batch if same else batch.take(pa.array(rows))


def with_cells(batch: pa.RecordBatch, rows: np.ndarray, cells: np.ndarray, owned: np.ndarray) -> pa.RecordBatch:
    """Return one row for each copy, with its cell and whether it is owned, as :func:`cell_spec` expects."""
    copies = copied(batch, rows)
    schema = pa.schema([*copies.schema, pa.field("cell", pa.int64()), pa.field("owned", pa.bool_())])
    return pa.RecordBatch.from_arrays([*copies.columns, pa.array(cells), pa.array(owned)], schema=schema)


def only_owned(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the owned rows among joined rows of :func:`cell_spec`. A pair is owned if its left copy is."""
    names = batch.schema.names
    marks = [batch.column(names.index(name)) for name in (_OWNED_LEFT, _OWNED_RIGHT) if name in names]
    keep = pc.coalesce(*marks)
    rest = [i for i, name in enumerate(names) if name not in (_CELL, _OWNED_LEFT, _OWNED_RIGHT)]
    kept = pa.RecordBatch.from_arrays([batch.column(i) for i in rest], schema=schema)
    return kept if pc.all(keep).as_py() is not False else kept.filter(keep)
