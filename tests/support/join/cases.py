"""A join case: two tables, the call, and the script of pushes; its answer by the oracle; its run through ivjoin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import oracle
import pyarrow as pa
import pytest
from join.builders import by_arrow
from join.conditions import Term
from join.tables import physical, records, rows

from ivjoin import Order, SymmetricHashJoin, band_join
from ivjoin.operator.match import steps
from ivjoin.operator.match.pair_state import PairState

Event = tuple[
    Any, ...
]  # ("push", side, start, stop) | ("finish", side) | ("advance", side, name, value) | ("snapshot",)


IN_BLOCKS: Counter[bool] = Counter()  # cases whose output was built by compiled blocks, and others


@dataclass(frozen=True)
class OrderSpec:
    """What ``ivjoin.Order`` is given."""

    expr: str
    descending: bool = False
    slack: Any = None
    nulls: Literal["first", "last"] | None = None

    def __repr__(self) -> str:
        extra = "".join(
            f", {k}={v!r}"
            for k, v in (("descending", self.descending), ("slack", self.slack), ("nulls", self.nulls))
            if v
        )
        return f"ivjoin.Order({self.expr!r}{extra})"


@dataclass(frozen=True)
class Case:
    """One call of the join and what is pushed into it.

    ``names`` are the key columns as (left, right); those with one name on both sides go in as a plain ``on`` name.
    """

    left: pa.Table
    right: pa.Table
    how: str = "inner"
    names: tuple[tuple[str, str], ...] = ()
    condition: Term | None = None
    left_order: tuple[OrderSpec, ...] = ()
    right_order: tuple[OrderSpec, ...] = ()
    left_bounds: dict[str, Any] | None = None
    right_bounds: dict[str, Any] | None = None
    batch_size: int = 65536
    script: tuple[Event, ...] = ()
    sliced: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def on(self) -> Any:
        if not self.names:
            return None
        if all(a == b for a, b in self.names):
            return self.names[0][0] if len(self.names) == 1 else [a for a, _ in self.names]
        return list(self.names)

    @property
    def merged(self) -> list[str]:
        """Columns that are emitted once."""
        return (
            []
            if self.names and isinstance(self.on, list) and isinstance(self.on[0], tuple)
            else [a for a, _ in self.names]
        )

    def call(self) -> dict[str, Any]:
        """Keyword arguments for ``SymmetricHashJoin`` and ``band_join``."""
        def orders(specs: tuple[OrderSpec, ...]) -> Any:
            made = [Order(s.expr, descending=s.descending, slack=s.slack, nulls=s.nulls) for s in specs]
            return made[0] if len(made) == 1 else made or None

        return {
            "on": self.on,
            "condition": self.condition.sql if self.condition else None,
            "how": self.how, "left_order": orders(self.left_order), "right_order": orders(self.right_order),
            "left_bounds": self.left_bounds, "right_bounds": self.right_bounds, "batch_size": self.batch_size,
            **self.options,
        }

    def expected(self) -> Counter[tuple[Hashable, ...]]:
        """The answer: a multiset of canonical rows."""
        keys = [(lambda a, p=p: a[p], lambda b, q=q: b[q], False) for p, q in self.names]
        left, right = self.widened(self.left, self.right), self.widened(self.right, self.left)
        return oracle.join(
            records(self.left), records(self.right), self.how, keys, self.condition.value if self.condition else None,
            left_out=rows(left), right_out=rows(right), widths=(left.num_columns, right.num_columns),
            merged=[(left.schema.get_field_index(n), right.schema.get_field_index(n)) for n in self.merged],
        )

    def widened(self, table: pa.Table, other: pa.Table) -> pa.Table:
        """The table with its merged columns in the common type; a semi or anti join leaves its side as it is."""
        for name in self.merged if self.how in ("inner", "left", "right", "full") else ():
            i = table.schema.get_field_index(name)
            t = common_type(table.schema.field(name).type, other.schema.field(name).type)
            table = table.set_column(i, name, table.column(name).cast(t))
        return table

    def batch(self, side: str, start: int, stop: int) -> pa.RecordBatch:
        table = self.left if side == "left" else self.right
        if self.sliced:
            # An offset that is not a multiple of eight, so that bitmaps are read from within a byte.
            pad = table.slice(0, min(3, table.num_rows))
            whole = pa.concat_tables([pad, table, pad]).combine_chunks()
            start, stop = start + pad.num_rows, stop + pad.num_rows
            batches = whole.to_batches()
            return batches[0].slice(start, stop - start) if batches else table.schema.empty_table().to_batches()[0]
        arrays = [c.slice(start, stop - start).combine_chunks() for c in table.columns]
        arrays = [a.chunk(0) if isinstance(a, pa.ChunkedArray) else a for a in arrays]
        return pa.RecordBatch.from_arrays(arrays, schema=table.schema)

    def reproduction(self) -> str:
        """Python text that does the same."""
        lines = [
            "import datetime, pyarrow as pa, ivjoin", "from decimal import Decimal", "from datetime import timedelta",
        ]
        for side in ("left", "right"):
            table = getattr(self, side)
            body = ", ".join(f"{name!r}: {_array_text(table.column(name))}" for name in table.schema.names)
            lines.append(f"{side} = pa.table({{{body}}})")
        order = {s: f"[{', '.join(map(repr, getattr(self, s)))}]" for s in ("left_order", "right_order")}
        shown = {k: order.get(k, repr(v)) for k, v in self.call().items() if v is not None}
        lines.append(f"call = dict({', '.join(f'{k}={v}' for k, v in shown.items())})")
        lines.append("op = ivjoin.SymmetricHashJoin(left.schema, right.schema, **call); out = []")
        for event in self.script:
            kind, *args = event
            if kind == "push":
                side, start, stop = args
                lines.append(
                    f"out += op.push({side!r}, {side}.slice({start}, {stop - start}).combine_chunks().to_batches()[0])"
                )
            elif kind == "snapshot":
                lines.append("op = ivjoin.SymmetricHashJoin.restore(op.snapshot())")
            elif kind == "advance":
                lines.append(f"out += op.advance({args[0]!r}, {{{args[1]!r}: {args[2]!r}}})")
            else:
                lines.append(f"out += op.finish({args[0]!r})")
        lines += ["out += op.finish()", "print(pa.Table.from_batches(out, op.schema).to_pylist())"]
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # hypothesis would print the fields

    def __repr__(self) -> str:
        return "\n" + self.reproduction() + f"\n# expected: {self.expected()}"


def _array_text(c: pa.ChunkedArray) -> str:
    t, values = c.type, physical(c)
    body = repr(values).replace("nan", "float('nan')").replace("inf", "float('inf')")
    if pa.types.is_dictionary(t):
        return f"pa.array({body}, {type_text(t.value_type)}).dictionary_encode().cast({type_text(t)})"
    if pa.types.is_temporal(t):
        return f"pa.array({body}, pa.int{t.bit_width}()).view({type_text(t)})"
    return f"pa.array({body}, {type_text(t)})"


def type_text(t: pa.DataType) -> str:
    if pa.types.is_timestamp(t):
        return f"pa.timestamp({t.unit!r}, {t.tz!r})"
    if pa.types.is_duration(t) or pa.types.is_time(t):
        return f"pa.{str(t).split('[')[0]}({t.unit!r})"
    if pa.types.is_decimal(t):
        return f"pa.decimal{t.bit_width}({t.precision}, {t.scale})"
    if pa.types.is_dictionary(t):
        return f"pa.dictionary({type_text(t.index_type)}, {type_text(t.value_type)})"
    if pa.types.is_fixed_size_binary(t):
        return f"pa.binary({t.byte_width})"
    plain = {"double": "float64", "float": "float32", "date32[day]": "date32", "date64[ms]": "date64", "bool": "bool_"}
    return f"pa.{plain.get(str(t), str(t))}()"


def common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type of a merged key column: the common type or the wider one, for dictionaries their values'."""
    if a == b:
        return a
    a = a.value_type if pa.types.is_dictionary(a) else a
    b = b.value_type if pa.types.is_dictionary(b) else b
    if a == b:
        return a
    if pa.types.is_timestamp(a):
        return pa.timestamp(max(a.unit, b.unit, key=("s", "ms", "us", "ns").index), a.tz)
    if pa.types.is_integer(a) or pa.types.is_floating(a):
        return a if a.bit_width >= b.bit_width else b
    if pa.types.is_large_string(a) or pa.types.is_string_view(a):
        return b
    return a


class Broken(AssertionError):
    """A case whose run differs from its answer."""


def outputs(case: Case, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The output, after a check of each batch against the promises on batches."""
    for batch in batches:
        assert 0 < batch.num_rows <= case.batch_size, f"a batch of {batch.num_rows} rows, batch_size {case.batch_size}"
        assert batch.schema.equals(schema), f"a batch of schema {batch.schema}, announced {schema}"
        batch.validate(full=True)
        yield batch


@dataclass(frozen=True)
class Run:
    """The result of a run: the output, the final metrics, and the rows retired before the end was announced."""

    table: pa.Table
    metrics: Any
    retired_early: int


def run_push(case: Case) -> Run:
    """Play the script on a ``SymmetricHashJoin``."""
    op = SymmetricHashJoin(case.left.schema, case.right.schema, **case.call())
    schema = op.schema
    out: list[pa.RecordBatch] = []
    for kind, *args in case.script:
        if kind == "push":
            side, start, stop = args
            out += outputs(case, op.push(side, case.batch(side, start, stop)), schema)
        elif kind == "advance":
            side, name, value = args
            out += outputs(case, op.advance(side, {name: value}), schema)
        elif kind == "finish":
            out += outputs(case, op.finish(args[0]), schema)
        else:
            blob = op.snapshot()
            op = SymmetricHashJoin.restore(blob)
            assert op.schema.equals(schema)
            assert op.snapshot() == blob, "a snapshot of a restored operator differs from the one it came from"
    early = op.metrics.left_rows_retired + op.metrics.right_rows_retired
    out += outputs(case, op.finish(), schema)
    return Run(pa.Table.from_batches(out, schema), op.metrics, early)


def run_pull(case: Case) -> Run:
    """The same through ``band_join``, the batches of each side in their order."""
    def batches(side: str) -> pa.RecordBatchReader:
        parts = [case.batch(*e[1:]) for e in case.script if e[0] == "push" and e[1] == side]
        return pa.RecordBatchReader.from_batches((case.left if side == "left" else case.right).schema, parts)

    stream = band_join(batches("left"), batches("right"), **case.call(), allow_cross=True)
    schema = stream.schema
    return Run(pa.Table.from_batches(list(outputs(case, iter(stream), schema)), schema), stream.metrics, 0)


@contextmanager
def in_blocks(asked: bool) -> Iterator[list[bool]]:
    """Output batches are built by compiled blocks where they can be, or none is; yields for each push whether so."""
    went: list[bool] = []
    push = steps.push

    def noted(engine: PairState, p: int, batch: pa.RecordBatch) -> Any:
        went.append(bool(engine.state.get("blocks")))
        return push(engine, p, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "push", noted)
        with by_arrow(not asked):
            yield went


def check(case: Case, run: Callable[[Case], Run] = run_push) -> Run:
    """Run a case with compiled blocks where it can have them, without them if it could, and compare with the oracle."""
    want = case.expected()
    with in_blocks(True) as went:
        done = compared(case, run, want)
    IN_BLOCKS[any(went)] += 1
    if any(went):
        with in_blocks(False) as went:
            compared(case, run, want)
        assert not any(went)
    return done


def compared(case: Case, run: Callable[[Case], Run], want: Counter[tuple[Hashable, ...]]) -> Run:
    done = run(case)
    have = Counter(rows(done.table))
    if have != want:
        lost, invented = want - have, have - want
        raise Broken(f"lost {dict(lost)}\ninvented {dict(invented)}\n{case!r}")
    assert_schema(case, done.table.schema)
    m = done.metrics
    assert (m.left_rows_in, m.right_rows_in) == (case.left.num_rows, case.right.num_rows)
    assert m.rows_out == done.table.num_rows
    assert (m.state_rows, m.late_rows) == (0, 0)
    assert (m.left_rows_retired, m.right_rows_retired) == (case.left.num_rows, case.right.num_rows)
    assert 0 <= m.peak_state_rows <= case.left.num_rows + case.right.num_rows
    return done


def assert_schema(case: Case, schema: pa.Schema) -> None:
    left, right = case.widened(case.left, case.right), case.widened(case.right, case.left)
    if case.how.startswith("left_"):
        want = list(left.schema)
    elif case.how.startswith("right_"):
        want = list(right.schema)
    else:
        suffix = case.options.get("suffix", "_right")
        kept = [f for f in right.schema if f.name not in case.merged]
        want = [*left.schema, *(f.with_name(f.name + suffix) if f.name in left.schema.names else f for f in kept)]
    assert schema.names == [f.name for f in want]
    merges = case.how in ("inner", "left", "right", "full")
    for have, f in zip(schema, want):
        if f.name in case.merged and pa.types.is_large_string(have.type):
            continue
        found, expected = have.type, f.type
        # A merged key that is a dictionary on the left stays one.
        if merges and f.name in case.merged and pa.types.is_dictionary(found):
            assert pa.types.is_dictionary(case.left.schema.field(f.name).type), f"{f.name} is {found}"
            found = found.value_type
            expected = expected.value_type if pa.types.is_dictionary(expected) else expected
        assert found == expected, f"{f.name} is {have.type}, expected {f.type}"


def whole(case: Case, size: int | None = None) -> Case:
    """The case with a plain script: batches of ``size`` rows (default all), the sides in turn."""
    script: list[Event] = []
    n, m = case.left.num_rows, case.right.num_rows
    step = size or max(n, m, 1)
    for start in range(0, max(n, m), step):
        if start < n:
            script.append(("push", "left", start, min(start + step, n)))
        if start < m:
            script.append(("push", "right", start, min(start + step, m)))
    return replace(case, script=tuple(script))


__all__ = [
    "IN_BLOCKS", "Broken", "Case", "OrderSpec", "Run", "check", "common_type", "in_blocks", "run_pull", "run_push",
    "whole",
]  # fmt: skip
