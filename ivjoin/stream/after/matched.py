"""Implement ``maintain_order=``, ``indicator=`` and ``validate=`` by the numbers of matched rows.

Each input gets a column with the numbers of its rows in their original order. The join passes it to its output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ivjoin.errors import CardinalityError, OptionError, came
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.shj.arrow import taken, whole_numbers
from ivjoin.shj.dictionaries import combined
from ivjoin.shj.plain import from_plain_rows, plain_rows
from ivjoin.stream.after.inputs import numbered
from ivjoin.stream.join_stream import JoinStream
from ivjoin.stream.sources.columns import places_of
from ivjoin.stream.sources.inputs import Source

__all__ = ["Matching", "matching_of"]

_ORDERS = {"left": (0,), "right": (1,), "left_right": (0, 1), "right_left": (1, 0)}
_CHECKS: dict[str, tuple[int, ...]] = {"1:1": (0, 1), "1:m": (1,), "m:1": (0,), "m:m": ()}
_LONG = {"one_to_one": "1:1", "one_to_many": "1:m", "many_to_one": "m:1", "many_to_many": "m:m"}
_SHOWN = pa.dictionary(pa.int8(), pa.string())
_WORDS = ("left_only", "right_only", "both")


@dataclass(frozen=True, slots=True)
class Matching:
    """The options that need row numbers.

    - ``order``: the sides (0 left, 1 right) whose order sorts the output.
    - ``indicator``: the name of the column that shows the origin of a row, or "".
    - ``once``: the sides whose rows may match at most one row.
    """

    order: tuple[int, ...]
    indicator: str
    once: tuple[int, ...]
    validate: str

    def numbered(self, sources: tuple[Source, Source]) -> tuple[tuple[Source, Source], tuple[str, str]]:
        """Return the inputs with numbers of rows, and the names of these columns."""
        taken_names = {n for s in sources for n in s.schema.names}
        names = []
        for side in SIDES:
            name = f"_{side}_row"
            while any(n.startswith(name) for n in taken_names):
                name = f"_{name}"
            names.append(name)
        left, right = (numbered(s, n) for s, n in zip(sources, names, strict=True))
        return (left, right), (names[0], names[1])

    def join(
        self, sources: tuple[Source, Source], plan_for: Callable[[tuple[Source, Source]], JoinPlan],
        join: Callable[[tuple[Source, Source], JoinPlan, Sequence[str]], JoinStream], columns: Sequence[str] | None,
    ) -> JoinStream:
        """Return the output of a join, changed by the options.

        ``plan_for`` plans the join of two inputs, and ``join`` runs it with the given output columns. An OptionError is
        raised if the output does not contain the rows that an option needs.
        """
        given = sources

        def again(wanted: Sequence[str] | None) -> JoinStream:
            names = list(wanted or schema.names)
            plain = [n for n in names if n != self.indicator]
            # A scan that needs only the indicator still needs a column of the join.
            return self.join((copy(given[0]), copy(given[1])), plan_for, join, plain or known[:1])

        sources, numbers = self.numbered((copy(sources[0]), copy(sources[1])))
        plan = plan_for(sources)
        known = [n for n in plan.schema.names if n not in numbers]
        wanted = known if columns is None else [known[i] for i in places_of(known, columns)]
        there = [n in plan.schema.names for n in numbers]
        for s in self.order:
            if not there[s]:
                raise OptionError(
                    f"maintain_order names the {SIDES[s]} input, whose rows this join does not emit; leave it out"
                )
        if (self.indicator or self.once) and not all(there):
            option = "indicator" if self.indicator else "validate"
            raise OptionError(f"{option}= needs a join that emits rows of both inputs, such as how='full'")
        if self.indicator in known:
            raise OptionError(f"the output has a column {self.indicator!r} already; give another name as indicator=")
        need_all = bool(self.indicator or self.once)
        needed = [n for s, n in enumerate(numbers) if there[s] and (need_all or s in self.order)]
        stream = join(sources, plan, [*wanted, *needed])
        joined = stream.schema
        fields = [joined.field(n) for n in wanted]
        fields += [pa.field(self.indicator, _SHOWN)] if self.indicator else []
        schema = pa.schema(fields, metadata=joined.metadata)
        size = plan.spec.batch_size

        def changed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            if self.once:
                batches = self._checked(batches, numbers)
            if self.order:
                batches = _sorted(batches, joined, [numbers[s] for s in self.order], size)
            for batch in batches:
                arrays = [batch.column(n) for n in wanted]
                if self.indicator:
                    arrays.append(_origin(*(batch.column(n) for n in numbers)))
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

        return stream._changed(schema, changed, again, stream._repeats)

    def _checked(self, batches: Iterator[pa.RecordBatch], numbers: tuple[str, str]) -> Iterator[pa.RecordBatch]:
        """Yield the batches. Raise a CardinalityError if a row matches a second row."""
        seen = [np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)]
        for batch in batches:
            columns = [batch.column(n) for n in numbers]
            pairs = np.ones(batch.num_rows, dtype=bool)
            for c in columns:
                if c.null_count:
                    pairs &= np.asarray(c.is_valid())
            for s in self.once:
                rows = np.asarray(columns[s].fill_null(-1), dtype=np.int64)[pairs]
                top = int(rows.max(initial=-1)) + 1
                if top > len(seen[s]):
                    seen[s] = np.concatenate([seen[s], np.zeros(max(top, 2 * len(seen[s])) - len(seen[s]), dtype=bool)])
                once, counts = np.unique(rows, return_counts=True)
                again = once[(counts > 1) | seen[s][once]]
                if len(again):
                    raise _many(self.validate, s, int(again[0]))
                seen[s][once] = True
            yield batch


def _many(validate: str, s: int, row: int) -> CardinalityError:
    error = CardinalityError(
        f"validate={validate!r}: row {row} of the {SIDES[s]} input (the first is 0) matches more than one row of the "
        f"{SIDES[1 - s]} input; remove the duplicates, narrow the condition, or leave validate= out"
    )
    error.side, error.row = SIDES[s], row
    return error


def _sorted(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, by: list[str], size: int
) -> Iterator[pa.RecordBatch]:
    """Yield all rows in the order of their numbers, rows without a number last."""
    table = pa.Table.from_batches(list(batches), schema)
    last = np.iinfo(np.int64).max
    keys = [table.column(n).combine_chunks().fill_null(last) for n in by]
    index = np.lexsort([np.asarray(k, dtype=np.int64) for k in reversed(keys)])
    plain = combined(plain_rows(table))  # Arrow's ``take`` takes longer for a table with many chunks
    for start in range(0, len(index), size):
        for batch in taken(plain, whole_numbers(index[start : start + size])).to_batches():
            yield from from_plain_rows(batch, schema)


def _origin(left: pa.Array, right: pa.Array) -> pa.DictionaryArray:
    """Return which sides have a row."""
    codes = np.full(len(left), 2, dtype=np.int8)
    codes[~np.asarray(right.is_valid())] = 0
    codes[~np.asarray(left.is_valid())] = 1
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(_WORDS))


def matching_of(maintain_order: str | None, indicator: bool | str, validate: str | None) -> Matching | None:
    """Return the options that need row numbers, or None if none do."""
    if maintain_order not in (None, "none", *_ORDERS):
        raise OptionError(f"maintain_order is {came(maintain_order)}; expected {', '.join(map(repr, _ORDERS))} or None")
    if not isinstance(indicator, (bool, str)) or indicator == "":
        raise OptionError(f"indicator is {came(indicator)}; expected True, False or the name of a column")
    check = _LONG.get(validate, validate) if isinstance(validate, str) else validate
    if check is not None and check not in _CHECKS:
        raise OptionError(f"validate is {came(validate)}; expected {', '.join(map(repr, _CHECKS))} or None")
    name = "_merge" if indicator is True else indicator or ""
    made = Matching(_ORDERS.get(maintain_order or "", ()), name, _CHECKS[check or "m:m"], check or "")
    return made if made.order or made.indicator or made.once else None
