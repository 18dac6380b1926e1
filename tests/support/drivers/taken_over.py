"""A join that reuses the memory of an earlier operator of its plan, which had other rows and ended at any point."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
from join.cases import Case, compared, run_push

from ivjoin import SymmetricHashJoin
from ivjoin.operator.match.kernel import reuse

__all__ = ["after_another"]

_COUNTED = (
    "left_rows_in", "right_rows_in", "left_rows_retired", "right_rows_retired", "rows_out", "state_rows",
    "peak_state_rows", "late_rows",
)  # fmt: skip


def after_another(case: Case, turn: int, peaks: bool = True) -> int:
    """Play a case after others of its plan; how many had left what they had made.

    ``peaks``: whether the greatest state is to be that of a new operator; not where new ones alone are made to search
    by sorted runs at once.

    Those have the columns' values in other rows, three times as many of them, and end at a push that depends on the
    turn, or where a row is refused. What they gave must stay as it was, and what is counted be as in a new operator.
    """
    reuse.forget()
    fresh = _counts(run_push(case).metrics, peaks)
    reuse.forget()
    tables = [_other_rows(t, turn) for t in (case.left, case.right)]
    other = replace(case, left=tables[0], right=tables[1], sliced=False)
    gone = [b for ends in (turn % 7, 3 + turn % 5) for b in _run(other, ends, turn % 2 == 0)]
    before = [_bytes(batch) for batch in gone]
    left = len(reuse._waiting)
    again = _counts(compared(case, run_push, case.expected()).metrics, peaks)
    assert again == fresh, f"counted {again}, in a new operator {fresh}"
    assert [_bytes(batch) for batch in gone] == before, "what was given has changed since"
    return left


def _counts(metrics: Any, peaks: bool) -> dict[str, int]:
    return {n: getattr(metrics, n) for n in _COUNTED if peaks or n != "peak_state_rows"}


def _bytes(batch: pa.RecordBatch) -> bytes:
    """NaN are like themselves."""
    return bytes(batch.serialize())


def _other_rows(table: pa.Table, turn: int) -> pa.Table:
    """Each column's values in other rows, and thrice; of every other turn the first column in its order."""
    n, columns = table.num_rows, []
    for i, column in enumerate(table.columns):
        at = (i * (1 + turn % 3) + turn // 2) % n if n else 0
        columns.append(pa.chunked_array([*column.slice(at).chunks, *column.slice(0, at).chunks], column.type))
    turned = pa.Table.from_arrays(columns, schema=table.schema)
    return pa.concat_tables([table, turned, turned])


def _run(case: Case, pushes: int, finishes: bool) -> list[pa.RecordBatch]:
    op = SymmetricHashJoin(case.left.schema, case.right.schema, **case.call())
    out: list[pa.RecordBatch] = []
    with suppress(Exception):  # rows too late, keys that err
        for i in range(pushes):
            side, table = (("left", case.left), ("right", case.right))[i % 2]
            most = (2, 5, 40)[i % 3]
            rows = case.batch(side, i // 2 * most, min(i // 2 * most + most, table.num_rows))
            out.extend(op.push(side, rows))
        if finishes:
            out.extend(op.finish())
    return out
