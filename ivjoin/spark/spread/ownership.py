"""The join of one task among several: the cell is one more key, and whether a copy is owned rides along."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from ivjoin.plan.spec import JoinSpec

__all__ = ["cell_spec", "only_owned"]

_CELL, _OWNED_LEFT, _OWNED_RIGHT = "ivjoin cell", "ivjoin owned left", "ivjoin owned right"


def cell_spec(spec: JoinSpec) -> JoinSpec:
    """The join of a task: the cell is one more key, and ownership rides along."""
    left, right = spec.schemas
    cell = pa.field(_CELL, pa.int64())
    left = left.append(cell).append(pa.field(_OWNED_LEFT, pa.bool_()))
    right = right.append(cell).append(pa.field(_OWNED_RIGHT, pa.bool_()))
    return replace(spec, schemas=(left, right), on=(*spec.on, (_CELL, _CELL)))


def only_owned(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Of joined rows of :func:`cell_spec` what is owned: pairs where the left copy is, others where they are."""
    names = batch.schema.names
    marks = [batch.column(names.index(name)) for name in (_OWNED_LEFT, _OWNED_RIGHT) if name in names]
    keep = pc.coalesce(*marks)
    rest = [i for i, name in enumerate(names) if name not in (_CELL, _OWNED_LEFT, _OWNED_RIGHT)]
    kept = pa.RecordBatch.from_arrays([batch.column(i) for i in rest], schema=schema)
    return kept if pc.all(keep).as_py() is not False else kept.filter(keep)
