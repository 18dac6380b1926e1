"""Random joins of streams by several threads, compared with the same rows joined by one operator."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
from drivers.in_slices import BANDS, question, rows_of, split, table, valid
from drivers.threaded import small_memory, small_slices

from ivjoin import Order, band_join
from ivjoin.stream.threads.sliced_stream import SlicedStream

COUNTED = ("left_rows_in", "right_rows_in", "left_rows_retired", "right_rows_retired", "rows_out", "late_rows")
MORE = {
    "x": ["l.x BETWEEN r.x - 2 AND r.x + r.v % 7", "l.x >= r.x - 3 AND l.x <= r.hi"],
    "f": ["l.f BETWEEN r.f - 2.5 AND r.f + 1.25 AND l.x + r.x <> 3"],
}


def check(seed: int, went: Counter[str]) -> None:
    """One random join by two to sixteen threads against one thread, and against itself within a limit."""
    rng, draw = np.random.default_rng(seed), random.Random(seed)
    axis = draw.choice(list(BANDS))
    falls = axis in ("x", "i", "ts") and draw.random() < 0.4
    sizes = [draw.choice([0, 1, 5, 60, 250]), draw.choice([0, 1, 5, 60, 250])]
    span = draw.choice([10, 300])
    slack = draw.choice([0, 0, 3, 20]) if axis in ("x", "i") else 0
    made = [table(rng, n, span, falls, True) for n in sizes]
    if slack:
        made = [t.take(np.argsort(np.arange(t.num_rows) + rng.integers(0, 4, t.num_rows))) for t in made]
    left, right = (split(draw, t) for t in made)
    late = draw.choice(["drop", "join"])
    options: Any = question(draw, [*BANDS[axis], *MORE.get(axis, ())]) | {"on_late": late}
    more: Any = {"slack": slack} if slack else {}
    for side in draw.choice([("left",), ("right",), ("left", "right"), ("left", "right"), ("left", "right")]):
        options[f"{side}_order"] = Order(axis, descending=falls, **more)

    given = draw.random() < 0.2  # tables, which are joined in such slices within a limit alone

    def join(**more: Any) -> Any:
        inputs = [t if given else pa.RecordBatchReader.from_batches(t.schema, t.to_batches()) for t in (left, right)]
        stream = band_join(inputs[0], inputs[1], sort="never", **options, **more)
        return stream, rows_of(valid(stream, options["batch_size"]))

    one, rows = join(threads=1)
    if one.metrics.late_rows and late == "join":
        went["late"] += 1
        return  # such a row meets what is stored when it comes
    want = Counter(rows)
    first: list[str] | None = None
    for threads in (2, draw.choice([3, 16])):
        with small_slices(seed):
            stream, got = join(threads=threads)
        have = Counter(got)
        assert have == want, f"{seed} {options}: lost {want - have}, invented {have - want}"
        assert first is None or got == first, f"{seed}: another order with {threads} threads"
        a, b = one.metrics, stream.metrics
        assert [getattr(a, n) for n in COUNTED] == [getattr(b, n) for n in COUNTED], (seed, a, b)
        assert b.state_rows == 0
        if given:
            assert got == rows, f"{seed}: another order with {threads} threads than with one"
            continue
        if not isinstance(stream._run.operator, SlicedStream):
            went["one"] += 1
            return
        first = got
        went["slices" if stream._run.operator._alone is None else "up"] += 1
        went["several"] += stream._run.operator._workers._given > 2
    with ExitStack() as stack:
        stack.enter_context(small_slices(seed))
        stack.enter_context(small_memory(seed))
        stream, got = join(threads=2, memory_limit="3MB", when_full=draw.choice(["raise", "spill"]))
    have = Counter(got)
    assert have == want, f"{seed} within a limit {options}: lost {want - have}, invented {have - want}"
    if isinstance(stream._run.operator, SlicedStream):
        went["limited" if stream._run.operator._alone is None else "limited up"] += 1
