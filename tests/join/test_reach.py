"""``reach``: an operator learns how far a side has come over several operators that share its rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from ivjoin import Order, ProtocolError, SymmetricHashJoin
from ivjoin.expr.ordinal import ordinal_of
from ivjoin.expr.types import from_arrow

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])
BAND = "l.t BETWEEN r.t - 5 AND r.t + 5"


def operator(how: str = "left", **options: Any) -> SymmetricHashJoin:
    orders = {"left_order": "t", "right_order": "t"} | options
    return SymmetricHashJoin(SCHEMA, SCHEMA, on="k", condition=BAND, how=how, **orders)


def batch(*rows: tuple[int, int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(c, pa.int64()) for c in zip(*rows, strict=True)], schema=SCHEMA)


def edge(value: int) -> int:
    return ordinal_of(value, from_arrow(pa.int64()))


def taken(steps: Any) -> Counter[Any]:
    return Counter(tuple(row.values()) for b in steps for row in b.to_pylist())


def test_rows_of_an_idle_operator_are_decided() -> None:
    op = operator()
    assert taken(op.push("left", batch((1, 10), (1, 20)))) == Counter()
    assert taken(op.reach("right", [edge(16)])) == Counter({(1, 10, None): 1})
    assert op.metrics.state_rows == 1
    assert taken(op.reach("right", [edge(3)])) == Counter()  # behind: nothing moves
    assert taken(op.reach("right", [None])) == Counter()
    assert taken(op.push("right", batch((1, 16)))) == Counter({(1, 20, 16): 1})
    assert taken(op.finish()) == Counter()


def test_slack_still_holds_for_later_rows() -> None:
    op = operator(right_order=Order("t", slack=4))
    list(op.push("left", batch((1, 10))))
    assert taken(op.reach("right", [edge(19)])) == Counter()  # a right row of 15 may still come
    assert taken(op.push("right", batch((1, 15)))) == Counter({(1, 10, 15): 1})
    assert taken(op.reach("right", [edge(20)])) == Counter()
    assert op.metrics.left_rows_retired == 1


def test_a_descending_order_takes_the_turned_ordinal() -> None:
    op = operator(right_order=Order("t", descending=True), left_order=())
    list(op.push("left", batch((1, 10), (1, 30))))
    assert taken(op.reach("right", [~edge(24)])) == Counter({(1, 30, None): 1})


def test_rows_before_what_was_reached_are_late() -> None:
    op = operator(on_late="drop")
    list(op.reach("right", [edge(100)]))
    assert taken(op.push("right", batch((1, 99), (1, 100)))) == Counter()
    assert op.metrics.late_rows == 1


def test_a_snapshot_keeps_what_was_reached() -> None:
    op = operator()
    list(op.reach("right", [edge(100)]))
    again = SymmetricHashJoin.restore(op.snapshot())
    assert taken(again.push("left", batch((1, 94), (1, 95)))) == Counter({(1, 94, None): 1})


def test_shared_rows_give_what_one_operator_gives() -> None:
    left = [(k, t) for t in range(60) for k in range(3) if (t + k) % 4]
    right = [(k, t) for t in range(60) for k in range(2)]
    whole = operator("full")
    want: Counter[Any] = Counter()
    for side, rows in (("left", left), ("right", right)):
        want += taken(whole.push(side, batch(*rows)))
    want += taken(whole.finish())
    parts = [operator("full") for _ in range(3)]
    got: Counter[Any] = Counter()
    for begin in range(0, 60, 10):
        for side, rows in (("left", left), ("right", right)):
            now = [r for r in rows if begin <= r[1] < begin + 10]
            for k, part in enumerate(parts):
                mine = [r for r in now if r[0] == k]
                if mine:
                    got += taken(part.push(side, batch(*mine)))
            for part in parts:
                got += taken(part.reach(side, [edge(max(t for _, t in now))]))
        assert all(part.metrics.state_rows <= 14 for part in parts)
    for part in parts:
        got += taken(part.finish())
    assert got == want


def test_one_edge_for_each_order() -> None:
    with pytest.raises(ProtocolError, match=r"reach\('left', ...\) got 2 edges; the side has 1 orders"):
        operator().reach("left", [1, 2])
    with pytest.raises(ProtocolError, match="expected 'left' or 'right'"):
        operator().reach("middle", [1])
