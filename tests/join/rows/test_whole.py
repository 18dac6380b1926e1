"""Joins of two batches as a whole against the nested loop: any types, condition and join type, in order and in none."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given, settings
from join.cases import Broken, Case, in_blocks
from join.plain_cases import plain_cases
from join.strategies import cases
from join.tables import rows

from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr.ordinal import ordinals
from ivjoin.operator.match.whole import Part, Whole
from ivjoin.plan.cache import planned
from ivjoin.plan.cutting import why_pushed
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.shj.plain import no_rows

WENT: Counter[str] = Counter()


def plan_of(case: Case) -> JoinPlan:
    return planned(case.left.schema, case.right.schema, **case.call())


def batch_of(case: Case, side: str) -> pa.RecordBatch:
    table = case.left if side == "left" else case.right
    return case.batch(side, 0, table.num_rows) if table.num_rows else no_rows(table.schema)


def in_order(plan: JoinPlan, s: int, batch: pa.RecordBatch, falls: bool) -> pa.RecordBatch:
    """The rows in the order of the side's first axis."""
    if not plan.sides[s].axes or not batch.num_rows:
        return batch
    node = plan.sides[s].axes[0]
    found = evaluate([node], lambda _, name: batch.column(name), batch.num_rows)[0]
    values = ordinals(found.values, node.type)
    order = sorted(range(batch.num_rows), key=lambda i: -int(values[i]) if falls else int(values[i]))
    return pa.Table.from_batches([batch]).take(order).combine_chunks().to_batches()[0]


def probe_of(plan: JoinPlan) -> list[int]:
    """The sides that may probe: unmatched rows of the other side need both sides' unmatched rows."""
    how = plan.how
    return [p for p in (0, 1) if how.single != 1 - p and (not how.owes(1 - p) or how.owes(p))]


def check_whole(case: Case) -> None:
    plan = plan_of(case)
    if why_pushed(plan):
        WENT["pushed"] += 1
        return
    want = case.expected()
    batches = [batch_of(case, side) for side in ("left", "right")]
    for p in probe_of(plan):
        whole = Whole(plan, p)
        if any(whole.strays(s, [batch]) for s, batch in enumerate(batches)):
            WENT["strays"] += 1
            return
        orders = [batches]
        with suppress(pa.ArrowNotImplementedError, pa.ArrowInvalid):  # rows of views are not taken
            orders += [[in_order(plan, s, b, falls) for s, b in enumerate(batches)] for falls in (False, True)]
        for left, right in orders:
            out = list(whole.join(*(Part(b, 0, b.num_rows) for b in (left, right))))
            for batch in out:
                batch.validate(full=True)
                assert batch.schema.equals(plan.schema)
                assert batch.num_rows
            have = Counter(rows(pa.Table.from_batches(out, plan.schema)))
            if have != want:
                raise Broken(f"probe {p}: lost {dict(want - have)}\ninvented {dict(have - want)}\n{case!r}")
        WENT["whole"] += 1


def check(case: Case) -> None:
    with in_blocks(True):
        check_whole(case)
    with in_blocks(False):
        check_whole(case)


@pytest.mark.slow
@pytest.mark.nojit
@given(plain_cases(max_rows=6))
@settings(max_examples=40)
def test_tiny_joins_of_plain_columns(case: Case) -> None:
    check(case)


@pytest.mark.nojit
@given(cases(max_rows=5))
@settings(max_examples=40)
def test_tiny_joins(case: Case) -> None:
    check(case)


@pytest.mark.slow
@given(plain_cases())
@settings(max_examples=100)
def test_plain_columns(case: Case) -> None:
    check(case)


@pytest.mark.slow
@given(cases())
@settings(max_examples=100)
def test_any_columns(case: Case) -> None:
    check(case)


@pytest.mark.soak
@given(cases(max_rows=40) | plain_cases(max_rows=60))
@settings(max_examples=4000, derandomize=False)
def test_at_length(case: Case) -> None:
    check(case)


def test_most_cases_are_joined_as_a_whole() -> None:
    WENT.clear()
    given(cases() | plain_cases())(settings(max_examples=60, database=None)(check))()
    assert WENT["whole"] > 3 * (WENT["pushed"] + WENT["strays"])
