"""A ``MultiJoin`` as bytes: a JSON header (question, tree, frontiers, counts), then each step's own snapshot."""

from __future__ import annotations

from typing import Any, Protocol

from ivjoin.conditions.snapshot_checks import damaged, flag, whole, wholes
from ivjoin.errors import IvjoinError, SnapshotError, came
from ivjoin.multi.across import Across
from ivjoin.multi.inputs import Input
from ivjoin.multi.question import check_multi
from ivjoin.multi.shape.steps import Shape, laid_out
from ivjoin.multi.spec import MultiSpec
from ivjoin.multi.state.memory import part_of
from ivjoin.operator.match.step_join import StepJoin
from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.snapshot import frontier_state, load_frontier, opened, sealed

__all__ = ["VERSION", "read", "write"]

MAGIC = b"IVJOINMJ"
VERSION = 1


class SavedJoin(Protocol):
    """The part of a join that a snapshot saves, and the calls with which a join continues from it."""

    spec: MultiSpec
    shape: Shape
    late_within: bool
    inputs: dict[str, Input]
    operators: list[StepJoin]
    across: Across

    @property
    def counts(self) -> tuple[int, int, int]: ...

    def make(self, spec: MultiSpec, shape: Shape, operators: list[StepJoin] | None, late_within: bool) -> None: ...

    def resume(self, closed: list[list[bool]], counts: list[int]) -> None: ...


def write(op: SavedJoin) -> bytes:
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


def read(op: SavedJoin, blob: Any, budget: Budget | None = None) -> None:
    """Fill an operator from the bytes of :func:`write`, or raise SnapshotError. ``budget``: for steps that spill."""
    try:
        header, parts = opened(blob, MAGIC, VERSION)
        spec = MultiSpec.from_json(header["spec"])
        _check_spec(spec)
        shape = _shape(header["shape"])
        _check_shape(shape, spec.aliases)
        part = None if budget is None else part_of(budget, len(parts))
        steps = [StepJoin.restored(p, part) for p in parts]
        wanted = laid_out(spec, shape).steps
        if [s.question for s in steps] != [(s.spec, (s.sides[0].keeps, s.sides[1].keeps)) for s in wanted]:
            raise damaged("a step joins others than its inputs, or in another way")
        op.make(spec, shape, steps, flag(header["late_within"], "late_within"))
        if [*header["inputs"]] != spec.aliases:
            raise damaged(f"its inputs are {came([*header['inputs']])}; expected {came(spec.aliases)}")
        for alias, saved in header["inputs"].items():
            own = op.inputs[alias]
            load_frontier(own.frontier, saved["frontier"], 0, spec.wide(alias))
            own.rows_in, own.late = whole(saved["rows_in"], "rows_in", 0), whole(saved["late"], "late", 0)
        op.resume(_closed(header["closed"], len(steps)), _counts(header["counts"]))
    except IvjoinError:
        raise
    except Exception as e:  # the checksum is correct, so another program wrote it, and any part may be missing
        raise SnapshotError(f"the snapshot is damaged: {came(e)}") from e


def _check_spec(spec: MultiSpec) -> None:
    try:
        check_multi(spec)
    except SnapshotError:
        raise
    except IvjoinError as e:
        raise damaged(f"its question cannot be planned by this version: {e}") from e


def _shape(saved: Any) -> Shape:
    if isinstance(saved, dict):
        return {alias: tuple(path) for alias, path in saved.items()}
    if isinstance(saved, str):
        return saved
    left, right = saved
    return _shape(left), _shape(right)  # type: ignore[return-value]


def _check_shape(shape: Shape, aliases: list[str]) -> None:
    """Check that a shape joins each input once, or that each input has a path through all other inputs."""

    def leaves(tree: Any) -> list[str]:
        return [tree] if isinstance(tree, str) else [a for branch in tree for a in leaves(branch)]

    paths = [[a, *path] for a, path in shape.items()] if isinstance(shape, dict) else [leaves(shape)]
    whole_paths = isinstance(shape, dict) and sorted(shape) != sorted(aliases)
    if whole_paths or any(sorted(path) != sorted(aliases) for path in paths):
        raise damaged(f"its steps join {came(shape)}; expected each of {came(aliases)} once")


def _closed(saved: Any, steps: int) -> list[list[bool]]:
    """Return for each step the sides that can receive no more rows."""
    found = [[flag(left, "closed"), flag(right, "closed")] for left, right in saved]
    if len(found) != steps:
        raise damaged(f"{len(found)} steps may be closed; expected {steps}")
    return found


def _counts(saved: Any) -> list[int]:
    found = wholes(saved, "counts", 0)
    if len(found) != 3:
        raise damaged(f"its counts are {came(saved)}; expected three")
    return found
