"""``offsets=`` and ``interpolate=`` of as-of joins: several lookups of each left row, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivjoin.conditions.evaluate import from_arrow_array
from ivjoin.errors import ColumnError, OptionError, SchemaError, UnsupportedError, came
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.expr.types import TICKS_PER_SECOND, from_arrow
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.asof import shift_of
from ivjoin.plan.question import on_pairs
from ivjoin.shj.arrow import fixed_array
from ivjoin.stream.join_stream import JoinStream
from ivjoin.stream.sources.columns import Chosen, chosen, places_of
from ivjoin.stream.sources.inputs import Source

__all__ = ["Lookups"]

_TIMES = ("date", "timestamp", "duration", "time")
_NUMBERS = ("int", "float", "decimal", "decimal256")


@dataclass(frozen=True, slots=True)
class Output:
    """An output column of the right side, taken from lookup ``step``.

    ``around``: the lookups of the previous and of the next row, if it is interpolated.
    """

    name: str
    step: int
    column: str
    around: tuple[int, int] | None
    offset: Any


class Lookups:
    """Several lookups of each left row; ``options`` of the call cannot be combined with these."""

    def __init__(
        self, sources: tuple[Source, Source], plan: JoinPlan, on: Any, direction: str, offsets: Any, interpolate: Any,
        suffix: str, options: dict[str, Any],
    ) -> None:
        what = "offsets" if offsets is not None else "interpolate"
        usual = {"how": "left", "ties": None, "maintain_order": None, "indicator": False}
        for name, value in options.items():
            if value != usual[name] and not (name == "ties" and value != "all"):
                raise OptionError(f"{name} is {came(value)} with {what}=; leave {name} out")
        if not all(source.ends for source in sources):
            raise UnsupportedError(
                f"{what}= reads the inputs several times; expected tables or files. For a stream, collect a part of it "
                "in a table, or call asof_join once for each offset"
            )
        self._sources, (self._pair,) = sources, on_pairs(on, (sources[0].schema, sources[1].schema))
        names = [interpolate] if isinstance(interpolate, str) else list(interpolate or ())
        self._check(names, sources[1].schema)
        self._left = list(plan.schema.names[: len(sources[0].schema)])
        shared = {a for a, b in plan.spec.on if a == b}
        self._right = [n for n in sources[1].schema.names if n not in shared]
        self.steps: list[tuple[str, Any]] = []
        self._outputs: list[Output] = []
        labels = [None] if offsets is None else _labels(offsets)
        for label, offset in zip(labels, [None] if offsets is None else list(offsets), strict=True):
            main = self._step(direction, offset)
            around = (self._step("backward", offset), self._step("forward", offset)) if names else None
            for column in self._right:
                taken = self._left if label is None else ()
                name = f"{column}_{label}" if label is not None else column + suffix if column in taken else column
                self._outputs.append(Output(name, main, column, around if column in names else None, offset))
        known = [*self._left, *(o.name for o in self._outputs)]
        twice = next((n for n in known if known.count(n) > 1), None)
        if twice is not None:
            raise SchemaError(f"two output columns are named {twice!r}; rename a column, or give another suffix=")

    def _check(self, names: list[Any], right: pa.Schema) -> None:
        for name in names:
            if not isinstance(name, str) or name not in right.names:
                raise ColumnError(f"interpolate has {came(name)}; expected right columns: {', '.join(right.names)}")
            kind = from_arrow(right.field(name).type).kind
            if kind not in (*_TIMES, *_NUMBERS):
                raise UnsupportedError(
                    f"interpolate has {name!r}, which is {right.field(name).type}; expected numbers or times"
                )

    def _step(self, direction: str, offset: Any) -> int:
        """Return the number of a lookup, a new one if no earlier one is the same."""
        step = direction, offset
        if step not in self.steps:
            self.steps.append(step)
        return self.steps.index(step)

    def join(
        self, lookup: Callable[..., JoinPlan], join: Callable[..., JoinStream], columns: Sequence[str] | None
    ) -> JoinStream:
        """Return the output. Each lookup but the last one is run when the output is read, into a table."""
        left, other = self._sources
        names: dict[int, dict[str, str]] = {}
        for i, (direction, offset) in enumerate(self.steps):
            suffix = "#"
            while any(n.endswith(suffix) for n in (*left.schema.names, *other.schema.names)):
                suffix += "#"
            inputs = copy(left), copy(other)
            plan = lookup(inputs, direction, offset, suffix)
            n = len(left.schema)
            given = [f"{i}:{name}{suffix}" for name in self._right]
            names[i] = dict(zip(self._right, given, strict=True))
            if i == len(self.steps) - 1:
                choose = partial(_Looked, self, given, names)
                return join(inputs, plan, columns, choose)
            every = [*left.schema.names, *given]
            fields = [plan.schema.field(k).with_name(name) for k, name in enumerate(every)]
            left = _renamed(pa.schema(fields), partial(join, inputs, plan, None), left)
            assert len(plan.schema) == n + len(given)
        raise AssertionError("an as-of join without a lookup")

    def fields(self, raw: pa.Schema, names: dict[int, dict[str, str]]) -> pa.Schema:
        made = [raw.field(n) for n in self._left]
        for o in self._outputs:
            field = raw.field(names[o.step][o.column]).with_name(o.name).with_nullable(True)
            if o.around is not None and from_arrow(field.type).kind not in _TIMES:
                field = field.with_type(pa.float64())
            made.append(field)
        return pa.schema(made)

    def array(self, name: str, batch: pa.RecordBatch, names: dict[int, dict[str, str]]) -> pa.Array:
        found = next((o for o in self._outputs if o.name == name), None)
        if found is None:
            return batch.column(name)
        if found.around is None:
            return batch.column(names[found.step][found.column])
        before, after = (names[step] for step in found.around)
        at = self._pair[1]
        weight = _weights(batch.column(self._pair[0]), batch.column(before[at]), batch.column(after[at]), found.offset)
        return _between(batch.column(before[found.column]), batch.column(after[found.column]), weight)


class _Looked(Chosen):
    """The output columns of the last lookup of a row."""

    def __init__(
        self, lookups: Lookups, given: list[str], names: dict[int, dict[str, str]], plan: JoinPlan, columns: Any,
        whole: tuple[bool, bool], present: tuple[frozenset[str], frozenset[str]],
    ) -> None:
        self._lookups, self._given = lookups, names
        self._raw = chosen(plan, None, whole, present)
        every = [*plan.schema.names[: len(plan.schema) - len(given)], *given]
        raw = pa.schema([f.with_name(n) for f, n in zip(plan.schema, every, strict=True)])
        schema = lookups.fields(raw, names)
        if columns is not None:
            schema = pa.schema([schema.field(i) for i in places_of(schema.names, columns)])
        self._named = raw
        self.plan, self.names, self.schema = self._raw.plan, self._raw.names, schema

    def pick(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        raw = pa.RecordBatch.from_arrays(self._raw.pick(batch).columns, schema=self._named)
        arrays = [self._lookups.array(n, raw, self._given) for n in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _renamed(schema: pa.Schema, stream: Callable[[], JoinStream], of: Source) -> Source:
    """Return an input that is the output of a join under other names, computed when it is read."""

    def read(names: Sequence[str] | None) -> pa.Table:
        table = stream().read_all().rename_columns(schema.names)
        return table if names is None else table.select(list(names))

    return Source(schema, read, True, of.rows, read_from=of.read_from)


def _labels(offsets: Any) -> list[str]:
    if isinstance(offsets, str) or not isinstance(offsets, (list, tuple)) or not offsets:
        raise OptionError(f"offsets is {came(offsets)}; expected a list such as ['-1s', '0s', '5s']")
    out = []
    for o in offsets:
        if isinstance(o, timedelta):
            seconds = o.total_seconds()
            out.append(f"{int(seconds) if seconds == int(seconds) else seconds}s")
        else:
            out.append(str(o).strip())
    if len(set(out)) < len(out):
        raise OptionError(f"offsets is {came(offsets)}; expected each offset once")
    return out


def _ticks(array: pa.Array) -> tuple[np.ndarray, int]:
    """Return times as whole numbers : int64[n] and the nanoseconds in one of them; numbers with 0."""
    t = from_arrow(array.type)
    if t.kind in _TIMES:
        values = np.asarray(from_arrow_array(array, t).values).astype(np.int64)
        return values, 86_400 * 10**9 if t.kind == "date" else 10**9 // TICKS_PER_SECOND[t.unit]
    if t.kind == "int" and has_ordinal(t) and t.bits <= 64 and t.signed:
        return np.asarray(from_arrow_array(array, t).values).astype(np.int64), 0
    return np.asarray(array.cast(pa.float64(), safe=False).fill_null(0.0)), 0


def _apart(a: np.ndarray, unit: int, b: np.ndarray, other: int, shift: float = 0.0) -> np.ndarray:
    """Return ``a + shift - b`` as doubles; ``shift`` in nanoseconds, or in the unit of numbers."""
    if unit == other:
        whole = a.dtype == np.int64 == b.dtype and bool((np.abs(a // 2 - b // 2) < 2**61).all())
        apart = (a - b if whole else a.astype(np.float64) - b.astype(np.float64)).astype(np.float64)
        return apart * (unit or 1) + shift
    return a.astype(np.float64) * unit - b.astype(np.float64) * other + shift


def _weights(at: pa.Array, before: pa.Array, after: pa.Array, offset: Any) -> np.ndarray:
    """Return how far each row lies from the previous to the next one : float64[n], 0 for a row at the same time."""
    (t, u), (t0, u0), (t1, u1) = _ticks(at), _ticks(before), _ticks(after)
    shift = 0.0 if offset is None else shift_of(offset)
    with np.errstate(all="ignore"):
        whole, part = _apart(t1, u1, t0, u0), _apart(t, u, t0, u0, shift)
        return np.where(part == 0, 0.0, part / np.where(whole == 0, 1.0, whole))


def _between(before: pa.Array, after: pa.Array, weight: np.ndarray) -> pa.Array:
    """Return the values between two columns; null where one of them is."""
    t = from_arrow(before.type)
    there = np.asarray(pc.and_(before.is_valid(), after.is_valid()))
    mask = None if there.all() else there
    with np.errstate(all="ignore"):
        if t.kind in _TIMES:
            a, b = (np.asarray(from_arrow_array(x, t).values).astype(np.int64) for x in (before, after))
            moved = np.where(there, a + np.round((b - a) * np.where(there, weight, 0.0)).astype(np.int64), 0)
            width = before.type.bit_width // 8
            return fixed_array(np.ascontiguousarray(moved.astype(np.dtype(f"i{width}"))), mask, before.type)
        a, b = (np.asarray(x.cast(pa.float64(), safe=False).fill_null(0.0)) for x in (before, after))
        values = np.where((weight == 0) | (a == b), a, np.where(weight == 1, b, a + (b - a) * weight))
    return fixed_array(np.ascontiguousarray(np.where(there, values, 0.0)), mask, pa.float64())
