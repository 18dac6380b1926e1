"""A ``MultiJoin`` as bytes: a JSON header (question, tree, frontiers, counts), then each step's own snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ivjoin.errors import IvjoinError, SnapshotError, came
from ivjoin.multi.memory import part_of
from ivjoin.multi.question import MultiSpec
from ivjoin.multi.steps import Shape
from ivjoin.operator.snapshot import frontier_state, load_frontier, opened, sealed
from ivjoin.operator.step_join import StepJoin

if TYPE_CHECKING:
    from ivjoin.multi.operator import MultiJoin
    from ivjoin.operator.budget import Budget

__all__ = ["VERSION", "read", "write"]

MAGIC = b"IVJOINMJ"
VERSION = 1


def write(op: MultiJoin) -> bytes:
    """Return header and steps, with a checksum after the magic bytes and the version."""
    steps = [s.snapshot() for s in op.operators]
    header = {
        "spec": op.spec.as_json,
        "shape": op.shape,
        "inputs": {
            a: {"frontier": frontier_state(i.frontier), "rows_in": i.rows_in, "late": i.late}
            for a, i in op.inputs.items()
        },
        "closed": op.across.closed,
        "late_within": op.late_within,
        "counts": list(op.counts),
        "sizes": [len(s) for s in steps],
    }
    return sealed(MAGIC, VERSION, header, steps)


def read(op: MultiJoin, blob: Any, budget: Budget | None = None) -> None:
    """Fill an operator from the bytes of :func:`write`. ``budget``: the memory of its steps, which spill the rest.

    Raises
    ------
    SnapshotError
    """
    try:
        header, parts = opened(blob, MAGIC, VERSION)
        spec = MultiSpec.from_json(header["spec"])
        part = None if budget is None else part_of(budget, len(parts))
        steps = [StepJoin.restored(p, part) for p in parts]
        op.make(spec, _shape(header["shape"]), steps, header["late_within"])
        for alias, saved in header["inputs"].items():
            own = op.inputs[alias]
            load_frontier(own.frontier, saved["frontier"])
            own.rows_in, own.late = saved["rows_in"], saved["late"]
        op.resume(header["closed"], header["counts"])
    except IvjoinError:
        raise
    except Exception as e:  # the checksum is right: another program wrote it, and any part may be missing
        raise SnapshotError(f"the snapshot is damaged: {came(e)}") from e


def _shape(saved: Any) -> Shape:
    if isinstance(saved, dict):
        return {alias: tuple(path) for alias, path in saved.items()}
    return saved if isinstance(saved, str) else (_shape(saved[0]), _shape(saved[1]))  # type: ignore[return-value]
