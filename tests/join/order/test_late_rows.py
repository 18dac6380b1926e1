"""Rows that break a promised order: an error, dropped and counted, or joined with the rows still stored."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from join.tables import rows

from ivjoin import IvjoinError, LateRowError, Order, Pick, SymmetricHashJoin

INT = pa.int64()
T = pa.schema({"n": pa.int64(), "a": pa.int64()})
NEAR = "l.a BETWEEN r.a - 2 AND r.a + 2"


def batch(*values: Any, t: pa.DataType = INT) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(len(values)), pa.int64()), "a": pa.array(values, t)})


def make(
    on_late: str | None = None, how: str = "inner", schema: pa.Schema = T, condition: str = NEAR, **options: Any
) -> Any:
    if on_late:
        options["on_late"] = on_late
    return SymmetricHashJoin(
        schema, schema, how=how, condition=condition, **{"left_order": "a", "right_order": "a", **options}
    )


def pull(out: Any) -> list[tuple]:
    return sorted((r for b in out for r in rows(b)), key=repr)


@pytest.mark.nojit
def test_raise_names_side_column_value_and_frontier() -> None:
    op = make()
    pull(op.push("left", batch(5, 77)))
    with pytest.raises(LateRowError) as e:
        pull(op.push("left", batch(80, 76)))
    assert issubclass(LateRowError, IvjoinError)
    for part in ("left", "a", "76", "80", "on_late", "slack"):
        assert part in str(e.value)


def test_raise_is_the_default_and_counts_within_a_batch() -> None:
    with pytest.raises(LateRowError):
        pull(make().push("right", batch(1, 3, 2)))
    with pytest.raises(LateRowError):
        pull(make("raise").push("right", batch(1, 3, 2)))


@pytest.mark.parametrize("second", [None, "first", "last"])
@pytest.mark.parametrize("first", [None, "first", "last"])
def test_a_batch_that_one_order_refuses_moves_no_other(first: str | None, second: str | None) -> None:
    op = make(left_order=[Order("n", nulls=first), Order("a", nulls=second)], how="left")

    def pushed(*values: tuple[int, int]) -> list[tuple]:
        columns = [pa.array([v[i] for v in values], pa.int64()) for i in (0, 1)]
        return pull(op.push("left", pa.record_batch(columns, schema=T)))

    pushed((1, 5))
    before = op.snapshot()
    for late in ((9, 4), (0, 9)):
        with pytest.raises(LateRowError):
            pushed((8, 8), late)
        assert op.snapshot() == before
    assert pushed((3, 6)) == []
    assert len(pull(op.finish())) == 2


@pytest.mark.parametrize(("t", "values", "slack", "late"), [
    pytest.param(pa.int64(), (10, 7), 3, False, id="int at the limit"),
    pytest.param(pa.int64(), (10, 6), 3, True, id="int past it"),
    pytest.param(pa.int64(), (-(2**63) + 2, -(2**63)), 2, False, id="int at the type's end"),
    pytest.param(pa.int64(), (-(2**63) + 2, -(2**63)), 5, False, id="slack past the type's end"),
    pytest.param(pa.int64(), (-(2**63) + 2, -(2**63)), 1, True, id="int late at the type's end"),
    pytest.param(pa.float64(), (0.3, 0.2), 0.1, False, id="0.3 - 0.1 rounds below 0.2"),
    pytest.param(pa.float64(), (0.30000000000000004, 0.2), 0.1, True, id="exactly one ulp past"),
    pytest.param(pa.float64(), (1e16, 1e16 - 2), 1, True, id="float whose ulp is above the slack"),
    pytest.param(pa.float64(), (0.0, -0.0), None, False, id="signed zeros are one value"),
    pytest.param(pa.float64(), (1.0, float("nan"), 1.0), None, False, id="NaN carries no order"),
    pytest.param(pa.float64(), (1.0, None, 1.0), None, False, id="null carries no order"),
    pytest.param(pa.float64(), (float("inf"), 5.0), 10, True, id="after infinity"),
    pytest.param(pa.date32(), (dt.date(2024, 1, 10), dt.date(2024, 1, 8)), dt.timedelta(days=2), False, id="days"),
    pytest.param(pa.date32(), (dt.date(2024, 1, 10), dt.date(2024, 1, 7)), dt.timedelta(days=2), True, id="days past"),
    pytest.param(
        pa.timestamp("s"),
        (dt.datetime(2024, 1, 1, 0, 0, 10), dt.datetime(2024, 1, 1, 0, 0, 9)),
        dt.timedelta(milliseconds=1000), False, id="seconds",
    ),
    pytest.param(
        pa.timestamp("s"),
        (dt.datetime(2024, 1, 1, 0, 0, 10), dt.datetime(2024, 1, 1, 0, 0, 9)),
        dt.timedelta(milliseconds=999), True, id="less than a tick is less than a second",
    ),
    pytest.param(
        pa.timestamp("ns", "UTC"),
        (dt.datetime(2024, 1, 1, 0, 0, 10, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, 0, 0, 9, tzinfo=dt.UTC)),
        dt.timedelta(seconds=1), False, id="nanoseconds",
    ),
    pytest.param(pa.uint64(), (2**64 - 1, 2**63), 2**63 - 1, False, id="uint64"),
    pytest.param(pa.uint64(), (2**64 - 1, 2**63 - 1), 2**63 - 1, True, id="uint64 past"),
])  # fmt: skip
@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("apart", [False, True], ids=["one batch", "batch by batch"])
def test_lateness_with_slack_is_exact(
    t: pa.DataType, values: tuple, slack: Any, late: bool, descending: bool, apart: bool
) -> None:
    if descending:
        if t == pa.float64():
            values = tuple(None if v is None else -v for v in values)
        elif t == pa.int64():
            values = tuple(-1 - v for v in values)
        else:
            values = tuple(reversed(values))
    schema = pa.schema({"n": pa.int64(), "a": t})
    order = Order("a", descending=descending, slack=slack)
    op = make(schema=schema, condition="l.a <= r.a", left_order=order, right_order=None)
    batches = [batch(v, t=t) for v in values] if apart else [batch(*values, t=t)]
    for b in batches[:-1]:
        pull(op.push("left", b))
    if late:
        with pytest.raises(LateRowError):
            pull(op.push("left", batches[-1]))
    else:
        pull(op.push("left", batches[-1]))
        assert op.metrics.late_rows == 0


@pytest.mark.parametrize(("nulls", "values"), [("first", (1, None)), ("last", (None, 1))])
@pytest.mark.parametrize("apart", [False, True])
def test_a_null_in_the_wrong_place_is_late(nulls: str, values: tuple, apart: bool) -> None:
    op = make(left_order=Order("a", nulls=nulls))
    if apart:
        pull(op.push("left", batch(values[0])))
    with pytest.raises(LateRowError, match="null"):
        pull(op.push("left", batch(*values[1:]) if apart else batch(*values)))


@pytest.mark.parametrize("apart", [False, True])
def test_a_null_after_nan_is_late_where_nulls_come_first(apart: bool) -> None:
    """NaN has no order, but is a value; whether it came in the batch of the null makes no difference."""
    double = pa.float64()
    schema = pa.schema({"n": pa.int64(), "a": double})
    op = make("drop", schema=schema, condition="l.a <= r.a", left_order=Order("a", nulls="first"))
    for values in ([float("nan")], [None]) if apart else ([float("nan"), None],):
        pull(op.push("left", batch(*values, t=double)))
    assert op.metrics.late_rows == 1


@pytest.mark.slow
@pytest.mark.parametrize("how", ["inner", "left", "left_anti"])
def test_joined_row_outside_its_bounds_matches_later_rows(how: str) -> None:
    """A residual prunes by both sides' bounds; a row may be there in spite of its own side's."""
    schema = pa.schema({"k": pa.int64(), "a": pa.int64(), "t": pa.int64()})
    op = SymmetricHashJoin(
        schema, schema, on="k", condition="l.a * r.a > 400 AND l.t - r.t BETWEEN -5 AND 5", how=how,
        left_bounds={"a": (0, 10)}, right_order="a", right_bounds={"a": (0, 39)}, on_late="join",
    )
    out = [*op.push("left", pa.record_batch([[1], [20], [1]], schema=schema))]
    out += op.push("right", pa.record_batch([[1], [1], [50]], schema=schema))
    assert not out
    assert op.metrics.state_rows == 1
    out += op.push("right", pa.record_batch([[1], [30], [1]], schema=schema))
    out += op.finish()
    assert sum(b.num_rows for b in out) == (how != "left_anti")
    assert all(b.column("a")[0].as_py() == 20 for b in out)


@pytest.mark.parametrize(("t", "late", "seen"), [
    (pa.duration("ns"), "0:00:00.000005002", "0:00:00.000005003"),
    (pa.time32("s"), "01:23:22", "01:23:23"),
    (pa.timestamp("ns", "UTC"), "1970-01-01 00:00:00.000005002 UTC", "1970-01-01 00:00:00.000005003 UTC"),
])  # fmt: skip
def test_the_message_shows_times_as_such_to_the_nanosecond(t: pa.DataType, late: str, seen: str) -> None:
    schema = pa.schema({"x": t})
    op = SymmetricHashJoin(schema, schema, condition="l.x <= r.x", left_order="x")
    ticks = pa.array([5003, 5002], pa.int64() if t.bit_width == 64 else pa.int32())
    with pytest.raises(LateRowError, match=f"x is {late}, but rows up to {seen} have arrived. Declare a slack"):
        op.push("left", pa.record_batch([ticks.cast(t)], schema=schema))


@pytest.mark.parametrize(
    ("bounds", "said"), [((None, 4), "up to 4"), ((6, None), "from 6 on"), ((1, 4), "from 1 to 4")]
)
def test_the_message_names_the_ends_that_were_promised(bounds: tuple[int | None, int | None], said: str) -> None:
    schema = pa.schema({"x": pa.int64()})
    op = SymmetricHashJoin(schema, schema, condition="l.x <= r.x", left_bounds={"x": bounds})
    with pytest.raises(LateRowError, match=f"x is 5, but it was promised to be {said}. Promise less, or"):
        op.push("left", pa.record_batch([[5]], schema=schema))


@pytest.mark.parametrize("on_late", ["drop", "join"])
def test_rows_are_counted_alike_whatever_is_made_of_partners(on_late: str) -> None:
    schema = pa.schema({"k": pa.int64(), "t": pa.int64()})
    pushes = [
        ("left", [1, 1, None, 2], [10, 20, 21, 22]), ("left", [1, 2], [5, 30]),
        ("right", [1, 1, 2], [9, 19, 29]), ("right", [1], [3]),
    ]
    found = []
    for made in ({}, {"aggregate": {"n": ("*", "count")}}, {"pick": Pick("t", "last")}):
        op = SymmetricHashJoin(
            schema, schema, on="k", condition="r.t BETWEEN l.t - 3 AND l.t", how="left", left_order="t",
            right_order="t", on_late=on_late, **made,  # type: ignore[arg-type]
        )
        for side, k, t in pushes:
            list(op.push(side, pa.record_batch([pa.array(k, pa.int64()), pa.array(t, pa.int64())], schema=schema)))
            op = SymmetricHashJoin.restore(op.snapshot())
        list(op.finish())
        m = op.metrics
        found.append((
            m.left_rows_in, m.left_rows_retired, m.right_rows_in, m.right_rows_retired, m.late_rows, m.rows_out
        ))
    dropped = on_late == "drop"
    assert found == [(6, 6 - dropped, 4, 4 - dropped, 2, 6 - dropped)] * 3
