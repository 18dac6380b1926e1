"""Joins by several threads, cut into slices of a few rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from join.cases import Case, Run, outputs
from stream.unordered import at_once, bare

from ivjoin import SymmetricHashJoin, band_join
from ivjoin.stream import run_of_two
from ivjoin.stream.after.lockstep import Lockstep
from ivjoin.stream.sort import dealing
from ivjoin.stream.tables.lookup_parts import LookupParts
from ivjoin.stream.tables.table_join import TableJoin
from ivjoin.stream.tables.table_lookup import TableLookup
from ivjoin.stream.threads import memory, sliced_stream
from ivjoin.stream.threads.sliced_stream import SlicedStream

CUT: Counter[str] = Counter()  # joins that ran on "one" operator, in "slices" to the end, or gave it "up"


@contextmanager
def small_slices(seed: int) -> Iterator[None]:
    """Slices of a few rows and bands, pushed a few at a time, sorted by more than one thread."""
    rng = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sliced_stream, "_SLICE_ROWS", rng.choice([1, 2, 4, 7]))
        patch.setattr(sliced_stream, "_COPIED", rng.choice([0, 1, 2, 8]))
        patch.setattr(sliced_stream, "_MORE_COPIED", rng.choice([0, 1]))
        patch.setattr(sliced_stream, "_THREAD_ROWS", rng.choice([1, 4, 1000]))
        patch.setattr(sliced_stream, "_MOST_ROWS", rng.choice([2, 1000, 1000]))
        patch.setattr(run_of_two, "_PARALLEL_ROWS", rng.choice([1, 2, 3, 8]))
        patch.setattr(dealing, "_WORTH_DEALING", 2)
        patch.setattr(dealing, "_BUCKET", 1)
        yield


@contextmanager
def small_memory(seed: int) -> Iterator[None]:
    """Only a minimum of the rows that wait for their slice may do so in memory."""
    rng = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "_LEAST", 1)
        patch.setattr(memory, "_LEAST_ROWS", rng.choice([0, 2]))
        patch.setattr(memory, "_HELD", rng.choice([2, 1 << 12, 1 << 40]))
        patch.setattr(memory, "_VIEWED", rng.choice([8, 1 << 40]))
        patch.setattr(memory, "_SCRATCH", rng.choice([100, 100_000, 1_000_000]))
        patch.setattr(memory, "_MOST_OUTPUT", rng.choice([1, 1000, 1 << 20]))
        yield


def check(case: Case, seed: int) -> None:
    """A case by one to four threads against the nested loop; half of them as tables without a declared order.

    What is joined in slices is so again within a limit on memory, with rows that wait in files, or are not waited for.
    """
    rng = random.Random(seed)
    threads = rng.randint(1, 4)
    if rng.random() < 0.4:
        case = bare(case, *rng.choice([("left", "right"), ("left",), ("right",)]))
    case = replace(case, script=tuple(e for e in case.script if e[0] == "push"))
    as_tables = rng.random() < 0.5
    with at_once(seed), small_slices(seed):
        op = _play(case, threads, as_tables, {})
    if isinstance(op, TableJoin):
        CUT["tables"] += 1
        CUT["several"] += len(op.slices) > 2
    else:
        CUT["one" if not isinstance(op, SlicedStream) else "slices" if op._alone is None else "up"] += 1
    for way in ("raise", "spill") if threads > 1 and isinstance(op, (SlicedStream, TableJoin)) else ():
        with at_once(seed), small_slices(seed), small_memory(seed + len(way)):
            op = _play(case, threads, as_tables, {"memory_limit": "2MB", "when_full": way})
            CUT["limited"] += isinstance(op, SlicedStream) and op._alone is None


def _play(
    case: Case, threads: int, as_tables: bool, limit: dict[str, Any]
) -> SymmetricHashJoin | SlicedStream | Lockstep | TableJoin | TableLookup | LookupParts:
    inputs: list[pa.Table | pa.RecordBatchReader] = []
    for side in ("left", "right"):
        schema = (case.left if side == "left" else case.right).schema
        parts = [case.batch(*e[1:]) for e in case.script if e[1] == side]
        reader = pa.RecordBatchReader.from_batches(schema, parts)
        inputs.append(pa.Table.from_batches(parts, schema) if as_tables else reader)
    stream = band_join(inputs[0], inputs[1], **{**case.call(), "threads": threads}, allow_cross=True, **limit)
    table = pa.Table.from_batches(list(outputs(case, iter(stream), stream.schema)), stream.schema)
    _right(case, Run(table, stream.metrics, 0), threads)
    return stream._run.operator


def _right(case: Case, done: Run, threads: int) -> None:
    from join.tables import rows

    want, have = case.expected(), Counter(rows(done.table))
    assert have == want, f"{threads} threads: lost {want - have}\ninvented {have - want}\n{case!r}"
    m = done.metrics
    assert (m.left_rows_in, m.right_rows_in) == (case.left.num_rows, case.right.num_rows)
    assert m.rows_out == done.table.num_rows
    assert (m.state_rows, m.late_rows) == (0, 0)
    assert (m.left_rows_retired, m.right_rows_retired) == (case.left.num_rows, case.right.num_rows)


__all__ = ["CUT", "check", "small_memory", "small_slices"]
