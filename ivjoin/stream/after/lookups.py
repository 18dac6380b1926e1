"""Implement ``offsets=`` and ``interpolate=`` of as-of joins: several lookups of each left row in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivjoin.errors import ColumnError, OptionError, SchemaError, UnsupportedError, came
from ivjoin.expr.types import from_arrow
from ivjoin.operator.explaining.wording import listed
from ivjoin.operator.memory.budget import Budget
from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.question import on_pairs
from ivjoin.stream.after.between import NUMBERS, TIMES, between, weights
from ivjoin.stream.after.lockstep import Lockstep
from ivjoin.stream.sources.columns import Chosen, chosen, places_of
from ivjoin.stream.sources.inputs import Source

if TYPE_CHECKING:
    from ivjoin.stream.tables.table_lookup import TableLookup

__all__ = ["Lookups"]

# Returns the plan of one lookup for schemas, a direction, an offset and a suffix of right columns.
PlanOf = Callable[..., JoinPlan]


@dataclass(frozen=True, slots=True)
class Output:
    """An output column of the right side, taken from lookup ``step``.

    For an interpolated column, ``around`` are the lookups of the previous and of the next row.
    """

    name: str
    step: int
    column: str
    around: tuple[int, int] | None
    offset: Any


class Lookups:
    """Several lookups of each left row. The call's ``options`` cannot be combined with them.

    ``lookup`` returns the plan of one lookup for two schemas, a direction, an offset and a suffix.
    """

    def __init__(
        self, schemas: tuple[pa.Schema, pa.Schema], lookup: PlanOf, on: Any, direction: str, offsets: Any,
        interpolate: Any, suffix: str, options: dict[str, Any],
    ) -> None:
        what = "offsets" if offsets is not None else "interpolate"
        usual = {"how": "left", "maintain_order": None, "indicator": False}
        for name, value in options.items():
            if value == "all" if name == "ties" else value != usual[name]:
                raise OptionError(f"{name} is {came(value)} with {what}=; leave {name} out")
        self._schemas, self._lookup = schemas, lookup
        self._pair, = on_pairs(on, schemas)
        names = [interpolate] if isinstance(interpolate, str) else list(interpolate or ())
        _check(names, schemas[1])
        self.suffix = "#"
        while any(n.endswith(self.suffix) for schema in schemas for n in schema.names):
            self.suffix += "#"
        self.steps: list[tuple[str, Any]] = []
        self._outputs: list[Output] = []
        labels = [None] if offsets is None else _labels(offsets)
        given = [None] if offsets is None else list(offsets)
        self.plan = lookup(schemas, direction, given[0], self.suffix)
        shared = {a for a, b in self.plan.spec.on if a == b}
        right = [n for n in schemas[1].names if n not in shared]
        for label, offset in zip(labels, given, strict=True):
            main = self._step(direction, offset)
            around = (self._step("backward", offset), self._step("forward", offset)) if names else None
            for column in right:
                taken = label is None and column in schemas[0].names
                name = f"{column}_{label}" if label is not None else column + suffix if taken else column
                self._outputs.append(Output(name, main, column, around if column in names else None, offset))
        known = [*schemas[0].names, *(o.name for o in self._outputs)]
        twice = next((n for n in known if known.count(n) > 1), None)
        if twice is not None:
            raise SchemaError(f"two output columns are named {twice!r}; rename a column, or give another suffix=")
        self.known = known
        each = [d if o is None else f"{d} at {label}" for d, o in self.steps for label in [_label(o)]]
        self.said = f"  each left row is looked up {len(self.steps)} times: {listed(each)}"

    def _step(self, direction: str, offset: Any) -> int:
        """Return the number of a lookup. If no earlier lookup is the same, add it."""
        step = direction, offset
        if step not in self.steps:
            self.steps.append(step)
        return self.steps.index(step)

    def chosen(
        self, plan: JoinPlan, columns: Any, whole: tuple[bool, bool] = (False, False),
        present: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset()),
    ) -> Looked:
        """Return the output columns with these names, and the columns that the lookups read. See :func:`chosen`."""
        names = self.known if columns is None else [self.known[i] for i in places_of(self.known, columns)]
        outputs = {o.name: o for o in self._outputs if o.name in names}
        at = self._pair[1]
        taken = {(o.step, o.column): None for o in outputs.values()}
        for o in outputs.values():
            taken |= {(step, c): None for step in o.around or () for c in (o.column, at)}
        left = [n for n in self._schemas[0].names if n in names or (n == self._pair[0] and taken)]
        right = {c for _, c in taken}
        some = [*left, *(n for c, n in right_names(plan).items() if c in right)]
        read = chosen(plan, some or None, whole, present)
        return Looked(self, names, outputs, left, sorted(taken, key=lambda t: t[0]), read)

    def plan_of(self, left: pa.Schema, right: pa.Schema, step: tuple[str, Any]) -> JoinPlan:
        return self._lookup((left, right), *step, self.suffix)

    def array(self, o: Output, batch: pa.RecordBatch, at: dict[tuple[int, str], int]) -> pa.Array:
        """Return an output column. ``at`` has the place of each lookup's right columns in the batch."""
        if o.around is None:
            return batch.column(at[o.step, o.column])
        before, after = ([batch.column(at[s, c]) for c in (o.column, self._pair[1])] for s in o.around)
        return between(before[0], after[0], weights(batch.column(self._pair[0]), before[1], after[1], o.offset))


class Looked(Chosen):
    """The output columns of several lookups. A batch has left columns, then the right columns of each lookup."""

    def __init__(
        self, lookups: Lookups, names: list[str], outputs: dict[str, Output], left: list[str],
        taken: list[tuple[int, str]], read: Chosen,
    ) -> None:
        self.plan, self.names = read.plan, read.names
        self._lookups, self._outputs = lookups, outputs
        mine, theirs = (side.schema for side in read.plan.sides)
        self._left, self._taken = left, taken
        self._at = {step: i for i, step in enumerate(taken, len(left))}
        right = [theirs.field(c).with_name(f"{s}:{c}").with_nullable(True) for s, c in taken]
        self.raw = pa.schema([*(mine.field(n) for n in left), *right])
        fields = [self._field(outputs[n]) if n in outputs else mine.field(n) for n in names]
        self.schema = pa.schema(fields, metadata=mine.metadata)
        self.said = lookups.said

    @property
    def several(self) -> Looked:
        return self

    def _field(self, o: Output) -> pa.Field:
        field = self.raw.field(self._at[o.step, o.column]).with_name(o.name)
        numbers = o.around is not None and from_arrow(field.type).kind not in TIMES
        return field.with_type(pa.float64()) if numbers else field

    def pick(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            self._lookups.array(self._outputs[n], batch, self._at) if n in self._outputs else batch.column(n)
            for n in self.schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def plans(self) -> list[JoinPlan]:
        """Return the plan of each lookup that the output needs."""
        return [plan for plan, _ in self._plans()]

    def _plans(self, more: Sequence[pa.Field] = ()) -> Iterator[tuple[JoinPlan, list[str]]]:
        """Yield the plan of each lookup that the output needs, and its columns.

        ``more`` are additional left columns.
        """
        mine, theirs = (side.schema for side in self.plan.sides)
        for f in more:
            mine = mine.append(f)
        for i, step in enumerate(self._lookups.steps):
            columns = [c for s, c in self._taken if s == i]
            if columns or i == 0:
                plan = self._lookups.plan_of(mine, theirs, step)
                names = right_names(plan)
                yield plan, [*(self._left if i == 0 else ()), *(names[c] for c in columns)]

    def looked_up(self, sources: tuple[Source, Source], threads: int) -> TableLookup | None:
        """Return the lookups of two tables, whose sides are sorted once, or None if their rows must be pushed."""
        from ivjoin.stream.tables.several_picks import several_picks

        return several_picks(list(self._plans()), sources, threads, self.raw)

    def operator(self, arranged: JoinPlan, errors_first: bool, budget: Budget | None) -> Lockstep:
        """Return an operator for pushed rows that has the orders of a plan."""
        number = "row"
        while any(number in side.schema.names for side in self.plan.sides):
            number += "#"
        spec = arranged.spec
        steps = [
            chosen(plan_of(plan.spec.with_orders(*spec.orders, spec.on_late)), [number, *names])
            for plan, names in self._plans([pa.field(number, pa.int64(), nullable=False)])
        ]
        return Lockstep(steps, number, self.raw, spec.batch_size, errors_first, budget)


def right_names(plan: JoinPlan) -> dict[str, str]:
    """Return the right columns of a lookup, and their names in its output."""
    left, right = plan.spec.schemas
    shared = {a for a, b in plan.spec.on if a == b}
    return dict(zip([n for n in right.names if n not in shared], plan.schema.names[len(left) :], strict=True))


def _check(names: list[Any], right: pa.Schema) -> None:
    for name in names:
        if not isinstance(name, str) or name not in right.names:
            raise ColumnError(f"interpolate has {came(name)}; expected right columns: {', '.join(right.names)}")
        if from_arrow(right.field(name).type).kind not in (*TIMES, *NUMBERS):
            raise UnsupportedError(
                f"interpolate has {name!r}, which is {right.field(name).type}; expected numbers or times"
            )


def _labels(offsets: Any) -> list[str]:
    if isinstance(offsets, str) or not isinstance(offsets, (list, tuple)) or not offsets:
        raise OptionError(f"offsets is {came(offsets)}; expected a list such as ['-1s', '0s', '5s']")
    out = [_label(o) for o in offsets]
    if len(set(out)) < len(out):
        raise OptionError(f"offsets is {came(offsets)}; expected each offset once")
    return out


def _label(offset: Any) -> str:
    if not isinstance(offset, timedelta):
        return str(offset).strip()
    seconds = offset.total_seconds()
    return f"{int(seconds) if seconds == int(seconds) else seconds}s"
