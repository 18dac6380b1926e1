"""Joins of tables without a declared order, cut small and sorted by an axis drawn at random."""

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

from ivjoin import band_join
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.stream import run_of_two
from ivjoin.stream.sort import given, ordered, outside, sorting
from ivjoin.stream.sort.axis import Axis, axes
from ivjoin.stream.tables import table_join

SORTED: Counter[str] = Counter()  # what was said of the joins
FILES: Counter[str] = Counter()  # how many of them were sorted outside memory


def bare(case: Case, *sides: str) -> Case:
    """The case without the orders of some sides; promises of values, which come between rows, go with them."""
    without: dict[str, Any] = {f"{side}_order": () for side in sides}
    return replace(case, script=tuple(e for e in case.script if e[0] == "push"), **without)


@contextmanager
def at_once(seed: int) -> Iterator[None]:
    """The smallest inputs are sorted, by any axis that there is, and read a few rows at a time."""
    rng = random.Random(seed)

    def drawn(plan: JoinPlan, samples: Any) -> Axis | None:
        sorting_best(plan, samples)  # finds no fault with any rows
        found = list(axes(plan))
        return rng.choice(found) if found else None

    sorting_best = sorting.best_axis
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "SMALL", -1)
        patch.setattr(ordered, "_GATHERED", 3)
        patch.setattr(sorting, "best_axis", drawn)
        patch.setattr(run_of_two, "_SWEEP_ROWS", 1)
        patch.setattr(run_of_two, "_PUSH_ROWS", rng.choice([1, 2, 5, 2048]))
        rng = random.Random(seed + 1)
        patch.setattr(run_of_two, "_LEAST_IN_SLICES", rng.choice([0, 0, 0, 1 << 20]))  # or rows are pushed
        patch.setattr(table_join, "_OWN_ROWS", rng.choice([1, 2, 3, 7, 1 << 16]))
        patch.setattr(table_join, "_BANDS", rng.choice([0, 1, 2]))
        patch.setattr(table_join, "_MOST_OWN_ROWS", rng.choice([1, 5, 1 << 20]))
        patch.setattr(table_join, "_MOST_COPIED", 1 << 20)
        yield


@contextmanager
def no_room(seed: int) -> Iterator[None]:
    """A limit of memory within which next to nothing may be sorted."""
    rng = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(given, "capacity_for", lambda limit: rng.choice([1, 100, 400]))
        patch.setattr(outside, "_PIECE", rng.choice([1, 100, 1000]))
        patch.setattr(outside, "_LEAST_ROWS", rng.choice([1, 2, 64]))
        yield


def run_tables(case: Case, streamed: str | None = None, **limits: Any) -> Run:
    """A case through ``band_join`` with both sides as tables, or one of them as a stream."""
    inputs = []
    for side in ("left", "right"):
        schema = (case.left if side == "left" else case.right).schema
        table = pa.Table.from_batches([case.batch(*e[1:]) for e in case.script if e[1] == side], schema)
        inputs.append(table.to_reader() if side == streamed else table)
    stream = band_join(inputs[0], inputs[1], **case.call(), allow_cross=True, **limits)
    schema = stream.schema
    table = pa.Table.from_batches(list(outputs(case, iter(stream), schema)), schema)
    SORTED[" ".join(stream.sorting.split()[:4])] += 1
    FILES["by runs"] += "in files" in stream.sorting
    return Run(table, stream.metrics, 0)
