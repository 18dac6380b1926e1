"""Dictionary columns of which each batch brings another dictionary, as encoders that write piece by piece do."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ivjoin
from ivjoin.errors import CapacityError

ROWS, BATCHES, WIDTH = 50, 60, 20
NARROW = pa.dictionary(pa.int8(), pa.string())


def batch(number: int, t: pa.DictionaryType = NARROW, rows: int = ROWS) -> pa.RecordBatch:
    """Rows of which each but every seventh has a value of its own."""
    at = np.arange(number * rows, (number + 1) * rows)
    values = [None if x % 7 == 3 else f"value {x}" for x in at.tolist()]
    return pa.record_batch({"t": pa.array(at), "d": pa.array(values).dictionary_encode().cast(t)})


def question(how: str = "inner", **options: Any) -> dict[str, Any]:
    condition = f"l.t BETWEEN r.t - {WIDTH} AND r.t + {WIDTH} AND (l.t + r.t) % 3 = 0"
    return {"condition": condition, "left_order": "t", "right_order": "t", "how": how, "batch_size": 100, **options}


def wanted(how: str) -> Counter:
    last = ROWS * BATCHES
    text = [None if x % 7 == 3 else f"value {x}" for x in range(last)]
    out: Counter = Counter()
    for x in range(last):
        found = [y for y in range(max(0, x - WIDTH), min(last, x + WIDTH + 1)) if (x + y) % 3 == 0]
        if how in ("inner", "full"):
            out.update((x, text[x], y, text[y]) for y in found)
        elif how == "right_semi":
            out.update([(x, text[x])] if found else [])
    return out


@pytest.mark.parametrize("options", [{}, {"memory_limit": 20_000, "when_full": "spill"}], ids=["held", "spilled"])
@pytest.mark.parametrize("t", [NARROW, pa.dictionary(pa.int32(), pa.large_string())], ids=str)
@pytest.mark.parametrize("how", ["inner", "full", "right_semi"])
def test_rows_come_out_and_what_is_held_stays_as_it_is(how: str, t: pa.DictionaryType, options: dict) -> None:
    op = ivjoin.SymmetricHashJoin(batch(0, t).schema, batch(0, t).schema, **question(how, **options))
    got: list[pa.RecordBatch] = []
    held = []
    for number in range(BATCHES):
        for side in ("left", "right"):
            got += op.push(side, batch(number, t))
        held.append(op.metrics.state_bytes)
        if number % 20 == 10:
            op = ivjoin.SymmetricHashJoin.restore(op.snapshot(), **options)
    got += op.finish()
    assert all(b.schema.field("d").type == t for b in got)
    assert Counter(tuple(row.values()) for b in got for row in b.to_pylist()) == wanted(how)
    assert max(held[30:]) < 2 * max(held[:30])


def test_of_values_without_end_those_in_use_are_held() -> None:
    t = pa.dictionary(pa.int32(), pa.string())
    op = ivjoin.SymmetricHashJoin(batch(0, t).schema, batch(0, t).schema, **question())
    held = []
    for number in range(100):
        for side in ("left", "right"):
            for _ in op.push(side, batch(number, t, 1000)):
                pass
        held.append(op.metrics.state_bytes)
    assert max(held[50:]) < 1.5 * max(held[:20])


def test_a_pick_takes_them_too() -> None:
    op = ivjoin.SymmetricHashJoin(
        batch(0).schema, batch(0).schema, condition="r.t <= l.t", left_order="t", right_order="t", how="left",
        pick="last", pick_by="t",
    )  # fmt: skip
    got = []
    for number in range(BATCHES):
        for side in ("left", "right"):
            got += op.push(side, batch(number))
    got += op.finish()
    rows = [row for b in got for row in b.to_pylist()]
    assert len(rows) == ROWS * BATCHES
    assert all((row["t"], row["d"]) == (row["t_right"], row["d_right"]) for row in rows)


def test_more_values_in_a_batch_than_its_indices_tell_apart() -> None:
    op = ivjoin.SymmetricHashJoin(batch(0).schema, batch(0).schema, condition="l.t < r.t + 10000")
    for number in range(4):
        assert not list(op.push("left", batch(number)))
    with pytest.raises(CapacityError, match="expected 128 at most for int8 indices; use a batch_size of 128, or cast"):
        list(op.push("right", batch(0)))
