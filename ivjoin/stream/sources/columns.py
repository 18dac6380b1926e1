"""Choose the columns that a join reads, and the columns that it emits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ivjoin.errors import ColumnError, came
from ivjoin.expr.nodes import columns_of
from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES

__all__ = ["Chosen", "chosen", "places_of"]


class Chosen:
    """A join over the columns that it needs, and the selection of its output columns.

    ``names`` are the columns that are read from each side, and ``schema`` is the output.
    """

    @property
    def several(self) -> Any:
        """Return the :class:`~ivjoin.stream.after.lookups.Looked` of several lookups for each left row, or None."""
        return None

    def __init__(self, plan: JoinPlan, names: tuple[list[str], list[str]], schema: pa.Schema, picks: list[int]) -> None:
        self.plan, self.names, self.schema = plan, names, schema
        self._picks = None if picks == list(range(len(plan.schema))) and schema.equals(plan.schema) else picks

    def pick(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the output columns of a batch."""
        if self._picks is None:
            return batch
        return pa.RecordBatch.from_arrays([batch.column(i) for i in self._picks], schema=self.schema)


def chosen(
    plan: JoinPlan, columns: Any, whole: tuple[bool, bool] = (False, False),
    present: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset()),
) -> Chosen:
    """Return the join with only these output columns, in this order. None represents all columns.

    - Without ``columns``, all columns of the sides that ``whole`` marks are read.
    - ``present`` names the columns of each side that are known to have no NULL.

    A ColumnError is raised if the output has no such column.
    """
    places = list(range(len(plan.schema))) if columns is None else places_of(plan.schema.names, columns)
    spec = plan.spec
    schema = plan.schema
    if columns is not None:
        schema = pa.schema([schema.field(i) for i in places], metadata=schema.metadata)
    left_names, right_names = (
        list(spec.schemas[s].names) if whole[s] and columns is None else _read(plan, s, places) for s in (0, 1)
    )
    names = left_names, right_names
    same = [list(s.names) for s in spec.schemas] == list(names) and not any(present)
    if same and (columns is None or not spec.aggregates):
        return Chosen(plan, names, schema, places)
    left, right = (
        pa.schema([s.field(n).with_nullable(False) if n in there else s.field(n) for n in kept], metadata=s.metadata)
        for s, kept, there in zip(spec.schemas, names, present, strict=True)
    )
    if spec.aggregates:
        # at least one aggregate must remain, or the join would emit pairs
        wanted = tuple(a for a in spec.aggregates if a.name in schema.names) or spec.aggregates[:1]
        narrow = plan_of(replace(spec, schemas=(left, right), aggregates=wanted))
        return Chosen(narrow, names, schema, [narrow.schema.get_field_index(n) for n in schema.names])
    narrow = plan_of(replace(spec, schemas=(left, right)))
    there = {origin: i for i, origin in enumerate(_origins(narrow))}
    origins = _origins(plan)
    picks = [there[origins[i]] for i in places]
    return Chosen(narrow, names, schema, picks)


def places_of(known: list[str], columns: Any) -> list[int]:
    """Return the positions of the output columns with these names.

    A ColumnError is raised if ``columns`` is not a list of names, is empty, repeats a name, or has an unknown name.
    """
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise ColumnError(f"columns is {came(columns)}; expected a list of names of output columns")
    wanted = list(columns)
    at = {name: i for i, name in reversed(list(enumerate(known)))}
    for name in wanted:
        if not isinstance(name, str) or name not in at:
            said = f"columns contains {came(name)}, which the output does not have: {', '.join(known)}"
            raise ColumnError(said).of(str(name), None, known)
    if not wanted or len(set(wanted)) < len(wanted):
        raise ColumnError(f"columns is {came(wanted)}; expected names of output columns, each once, and at least one")
    return [at[n] for n in wanted]


def _origins(plan: JoinPlan) -> list[tuple[str | None, str | None]]:
    """Return the left and the right column of each output column, or None and None for an aggregate."""
    left, right = (s.schema.names for s in plan.sides)
    found = [
        (None if f.left is None else left[f.left], None if f.right is None else right[f.right]) for f in plan.fields
    ]
    return found + [(None, None)] * (len(plan.schema) - len(found))


def _read(plan: JoinPlan, s: int, places: list[int]) -> list[str]:
    """Return the columns of a side that the output and the join need, in the order of the side. Return at least one."""
    side = plan.sides[s]
    names: list[str] = side.schema.names
    origins = _origins(plan)
    emitted = {name for i in places if (name := origins[i][s]) is not None}
    if len(emitted) == len(names):
        return names
    nodes = [*([] if plan.condition is None else [plan.condition]), *(n for n, _, _ in side.orders), *side.bounds]
    if plan.spec.pick is not None:
        nodes += [n for n in (plan.spec.pick.near, *plan.spec.pick.by) if n is not None]
    first = len(plan.fields)
    nodes += [
        a.node for i, a in enumerate(plan.spec.aggregates, first)
        if a.node is not None and (i in places or i == first)
    ]
    nodes += [] if plan.spec.first_by is None else [plan.spec.first_by[0]]
    needed = {c.params[1] for c in columns_of(*nodes) if c.params[0] == SIDES[s]}
    needed |= {pair[s] for pair in plan.spec.on} | emitted
    kept = [n for n in names if n in needed]
    return kept or names[:1]
