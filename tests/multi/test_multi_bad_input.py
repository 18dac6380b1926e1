"""Input that a join of many inputs refuses, each with one clear error, and how it continues afterwards."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pyarrow as pa
import pytest

import ivjoin
from ivjoin import IvjoinError, LateRowError, MultiJoin, ProtocolError, SchemaError, SnapshotError

S = pa.schema({"k": pa.int64(), "ts": pa.int64()})
ABC = dict.fromkeys("abc", S)
JOINED = "a.k = b.k AND b.k = c.k AND b.ts = a.ts AND c.ts = b.ts"
ORDERS = dict.fromkeys("abc", "ts")


def batch(*ts: int) -> pa.RecordBatch:
    return pa.record_batch([[1] * len(ts), list(ts)], schema=S)


@pytest.mark.parametrize("inputs, condition, options, said", [
    pytest.param([("a", S), ("a", S)], "a.k = 1", {}, "alias 'a' is used twice", id="twice"),
    pytest.param({"a": S, "A": S}, "a.k = 1", {}, "alias 'A' is used twice (as 'a')", id="twice but for its case"),
    pytest.param(ABC, "a.k = b.k", {}, "input 'c' is not connected to the others", id="not at all"),
    pytest.param({**ABC, "d": S}, "a.k = b.k AND c.k = d.k", {}, "in parts: a, b; c, d", id="in two parts"),
    pytest.param(ABC, None, {}, "inputs 'a', 'b', 'c' are not connected", id="no condition"),
    pytest.param(ABC, "a.k = b.k AND b.k = x.k", {}, "'x' in x.k names no input; expected one of a", id="unknown"),
    pytest.param(ABC, "a.k = b.k AND b.k = c.q", {}, "column 'q' is not in c: c has k, ts", id="column"),
    pytest.param(ABC, "k = b.k AND b.k = c.k", {}, "3 inputs have it; write a.k or b.k or c.k", id="bare"),
    pytest.param({f"t{i}": S for i in range(9)}, None, {"allow_cross": True}, "9 inputs; expected 2", id="nine"),
    pytest.param({"a": S}, "a.k = 1", {}, "1 input; expected 2 to 8", id="one"),
    pytest.param({"a b": S, "c": S}, None, {}, "alias 'a b' is not a valid name", id="no name"),
    pytest.param(S, JOINED, {}, "expected {alias: input}", id="no mapping"),
    pytest.param({"a": 1, "b": S}, "a.k = b.k", {}, "schema of 'a' is a int", id="no schema"),
    pytest.param({"a": pa.schema({"b_c": pa.int8()}), "a_b": pa.schema({"c": pa.int8()})}, None, {},
                 "would both be the output column 'a_b_c'", id="names meet"),
    pytest.param(ABC, JOINED, {"orders": {"d": "ts"}}, "orders name 'd', which is not an input", id="order"),
    pytest.param(ABC, JOINED, {"orders": {"a": "tz"}}, "order 'tz' of input 'a'", id="order of no column"),
    pytest.param(ABC, JOINED, {"orders": {"a": "b.ts"}}, "'b' in b.ts is not one of its own columns", id="order of b"),
    pytest.param(ABC, JOINED, {"orders": {"a": "ts DESC"}}, "Order('ts', descending=True)", id="direction"),
    pytest.param(ABC, JOINED, {"orders": "ts"}, "expected {alias: orders of that input}", id="one order"),
    pytest.param(ABC, JOINED, {"bounds": {"a": {"ts": (5, 1)}}}, "the least is above the greatest", id="bounds"),
    pytest.param(ABC, JOINED, {"views": "some"}, "views is 'some'; expected 'auto', 'none' or 'all'", id="views"),
    pytest.param(ABC, JOINED, {"views": [("a", "z")]}, "a view names 'z', which is not an input", id="view"),
    pytest.param(ABC, JOINED, {"views": [("a", "b", "c")]}, "not all of them", id="view of all"),
    pytest.param(ABC, JOINED, {"views": [("a", "b"), ("b", "c")]}, "overlap", id="views overlap"),
    pytest.param(ABC, JOINED, {"on_late": "ignore"}, "on_late is 'ignore'", id="on_late"),
    pytest.param(ABC, JOINED, {"batch_size": 0}, "batch_size is 0", id="batch_size"),
    pytest.param(ABC, JOINED, {"allow_cross": 1}, "allow_cross is 1", id="allow_cross"),
    pytest.param(ABC, JOINED, {"order": {}}, "has no option 'order'; did you mean 'orders'?", id="option"),
])  # fmt: skip
def test_wrong_questions(inputs: Any, condition: Any, options: Any, said: str) -> None:
    with pytest.raises(IvjoinError) as e:
        MultiJoin(inputs, condition, **options)
    assert said in str(e.value)


def test_cross_product_needs_allow_cross() -> None:
    t = pa.table({"k": [1, 2], "ts": [1, 2]})
    out = ivjoin.multi_join({"a": t, "b": t, "c": t}, "a.k = b.k", allow_cross=True)
    assert len(out.read_all()) == 4
    assert len(ivjoin.multi_join({"a": t, "b": t, "c": t}, allow_cross=True).read_all()) == 8


@pytest.mark.parametrize("views", ["auto", "none", "all"])
@pytest.mark.parametrize("said", ["a.k = b.k AND b.k = c.k", "b.ts < a.k AND b.k = c.k", "FALSE", "a.k = 1 AND NULL"])
def test_joins_without_matches_are_not_cross_products(said: str, views: str) -> None:
    """As where a reader found nothing but nulls in a column, and so gave it no type."""
    t = pa.table({"k": [1, 2], "ts": [1, 2]})
    given = {"a": pa.table({"k": pa.nulls(2), "ts": [1, 2]}), "b": t, "c": t}
    out = ivjoin.multi_join(given, said, views=views)
    assert out.read_all().num_rows == 0
    assert out.metrics.state_rows == 0


def test_calls_out_of_turn() -> None:
    op = MultiJoin(ABC, JOINED, orders=ORDERS)
    with pytest.raises(ProtocolError, match=r"the input is 'd'; expected one of 'a', 'b', 'c'"):
        op.push("d", batch(1))
    list(op.finish("b"))
    with pytest.raises(ProtocolError, match=r"push\('b', ...\) after finish\('b'\)"):
        op.push("b", batch(1))
    for alias in "cab":  # in any order, and again
        list(op.finish(alias))
    list(op.finish())
    assert op.metrics.state_rows == 0


@pytest.mark.parametrize("given, said", [
    pytest.param(pa.record_batch({"k": [1]}), "batch of input 'a' has the columns k; expected k, ts", id="missing"),
    pytest.param(pa.record_batch({"k": [1], "ts": [1.0]}), "'ts' of a batch of input 'a' is double", id="type"),
    pytest.param(pa.table({"k": [1], "ts": [1]}), "push takes a pyarrow.RecordBatch; got a Table", id="table"),
])  # fmt: skip
def test_a_batch_of_another_schema(given: Any, said: str) -> None:
    op = MultiJoin(ABC, JOINED, orders=ORDERS)
    with pytest.raises(SchemaError, match=said):
        op.push("a", given)
    for alias in "abc":
        out = list(op.push(alias, batch(1)))
    assert out[0].num_rows == 1


def test_late_rows() -> None:
    op = MultiJoin(ABC, JOINED, orders=ORDERS)
    list(op.push("a", batch(5, 7)))
    with pytest.raises(LateRowError, match=r"late row on input 'a' \(row 1 of the batch\): a.ts is 3, but rows up to"):
        op.push("a", batch(8, 3))
    for alias in "bc":
        out = list(op.push(alias, batch(7)))
    assert out[0].to_pylist() == [{"a_k": 1, "a_ts": 7, "b_k": 1, "b_ts": 7, "c_k": 1, "c_ts": 7}]
    wide = "a.k = b.k AND b.k = c.k AND b.ts BETWEEN a.ts AND a.ts + 10 AND c.ts = b.ts"
    for on_late, rows in (("drop", 0), ("join", 1)):
        op = MultiJoin(ABC, wide, orders=ORDERS, on_late=on_late)
        for alias, ts in (("b", 8), ("c", 8), ("a", 30)):
            list(op.push(alias, batch(ts)))
        list(op.advance("a", {"ts": 30}))
        assert on_late == "join" or op.metrics.stored["b"] == 0
        assert not list(op.push("a", batch(3)))
        for alias, ts in (("b", 35), ("c", 35)):
            list(op.push(alias, batch(ts)))
        assert sum(b.num_rows for b in op.push("a", batch(28))) == rows
        assert op.metrics.late["a"] == op.metrics.late_rows == 2


def test_nulls_in_columns_promised_without_nulls() -> None:
    strict = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    op = MultiJoin({"a": strict, "b": strict}, "a.k = b.k")
    with pytest.raises(SchemaError, match="column 'k' of input 'a' is declared not nullable"):
        op.push("a", pa.record_batch([pa.array([None], pa.int64())], schema=strict))


def test_an_output_is_taken_to_its_end() -> None:
    op = MultiJoin(ABC, JOINED, batch_size=1)
    for alias in "ab":
        list(op.push(alias, batch(1, 1)))
    taken = op.push("c", batch(1))
    next(taken)
    with pytest.raises(ProtocolError, match="the output of the last push was not taken to its end"):
        op.push("c", batch(1))
    taken.close()
    with pytest.raises(ProtocolError, match="abandoned"):
        op.push("c", batch(1))


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_operator_is_not_copied(take: Any) -> None:
    for op in (MultiJoin(ABC, JOINED), ivjoin.SymmetricHashJoin(S, S, on="k")):
        with pytest.raises(TypeError, match=r"take its snapshot\(\), and restore\(\) that"):
            take(op)


def test_bytes_that_are_not_a_snapshot() -> None:
    op = MultiJoin(ABC, JOINED)
    good = op.snapshot()
    for bad in (b"", b"IVJOINSN" + good[8:], good[:-1] + bytes([good[-1] ^ 1]), 5):
        with pytest.raises(SnapshotError):
            MultiJoin.restore(bad)  # type: ignore[arg-type]
    assert MultiJoin.restore(good).schema == op.schema


def test_one_stream_for_two_inputs() -> None:
    t = pa.table({"k": [1], "ts": [1]})
    reader = t.to_reader()
    with pytest.raises(ProtocolError, match="'a' and 'b' are the same RecordBatchReader"):
        ivjoin.multi_join({"a": reader, "b": reader, "c": t}, JOINED)


def test_errors_in_the_condition_are_raised() -> None:
    op = MultiJoin(ABC, JOINED + " AND a.ts + 9223372036854775807 > c.ts + a.k - a.k")
    list(op.push("a", batch(1)))
    list(op.push("b", batch(1)))
    with pytest.raises(ivjoin.EvaluationError, match="overflow"):
        list(op.push("c", batch(1)))


def test_explain_of_inputs_and_of_schemas() -> None:
    t = pa.table({"k": [3, 1], "ts": [2, 1]})
    text = ivjoin.explain({"a": t, "b": t, "c": S}, JOINED, orders={"c": "ts"}, workers=4)
    assert "sorted, where not in order already, by " in text
    assert "grid of 4 workers" in text and "keeps the view" in text
    assert ivjoin.explain(ABC, condition=JOINED, views="none").count("for rows of") == 5
    with pytest.raises(SchemaError, match="explain got one input"):
        ivjoin.explain(S, condition="l.k = r.k")


@pytest.mark.parametrize("views", ["auto", "none"])
@pytest.mark.parametrize("condition, said", [
    pytest.param("x.a + 1 = y.a AND y.k = z.k", "integer overflow in x.a + 1 (int64) at x.a = 92", id="key"),
    pytest.param("x.a + 1 <= y.a AND y.a <= x.a + 9 AND y.k = z.k", "integer overflow in x.a + 1 (int64) at x.a",
                 id="band"),
    pytest.param("x.k = y.k AND y.k = z.k AND z.k + x.a > y.k", "in z.k + x.a (int64) at z.k = 1, x.a = 92",
                 id="residual of three"),
    pytest.param("x.k = y.k AND y.k = z.k AND z.k DIV y.`my z` > 0", "in z.k div y.`my z` (int64) at z.k = 1",
                 id="quoted"),
])  # fmt: skip
def test_errors_name_the_inputs_columns(condition: str, said: str, views: str) -> None:
    schema = pa.schema({"k": pa.int64(), "a": pa.int64(), "my z": pa.int64()})
    op = MultiJoin(dict.fromkeys("xyz", schema), condition, views=views)

    def push_all() -> None:
        for alias in "xyz":
            a = 2**63 - 1 if alias == "x" else 1
            list(op.push(alias, pa.record_batch([[1], [a], [0]], schema=schema)))

    with pytest.raises(ivjoin.EvaluationError) as e:
        push_all()
    assert said in str(e.value)


def test_errors_of_orders_and_watermarks_name_the_input() -> None:
    schema = pa.schema({"k": pa.int64(), "s": pa.string()})
    both = {"x": schema, "y": schema}
    with pytest.raises(IvjoinError, match=r"order on x\.s: a value of type string cannot be an order"):
        MultiJoin(both, "x.k = y.k", orders={"x": "s"})
    with pytest.raises(IvjoinError, match=r"column 'q' is not in input 'x': x has k, s"):
        MultiJoin(both, "x.k = y.k", orders={"x": "q"})
    op = MultiJoin(both, "x.k = y.k", orders={"x": "k"})
    with pytest.raises(IvjoinError, match=r"watermark 'q' of input 'x': column 'q' is not in input 'x': x has k, s"):
        op.advance("x", {"q": 1})
