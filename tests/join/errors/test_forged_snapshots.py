"""Snapshots and plans whose checksum is right and whose content is not: each is refused, or gives right rows."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from drivers.damage import case, operator, sealed, unsealed

import ivjoin
from ivjoin import routing
from ivjoin.errors import SnapshotError

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64()})
BAND = "l.t BETWEEN r.t - 5 AND r.t + 5"
Forge = Callable[[Any], Any]


def put(*path: Any) -> Forge:
    """What sets the value at a path, the last item, in a header."""

    def forge(header: Any) -> None:
        for key in path[:-2]:
            header = header[key]
        header[path[-2]] = path[-1]

    return forge


@cache
def good(many: bool, which: int = 0) -> bytes:
    return bytes(operator(many, which).snapshot())


FORGED = [
    pytest.param(put("metrics", "late_rows", None), id="a count that is null"),
    pytest.param(put("metrics", "left_rows_in", 0.5), id="half a row"),
    pytest.param(put("metrics", "rows_out", -1), id="less than no rows"),
    pytest.param(put("plan", "options", "batch_size", -5), id="batches of -5 rows"),
    pytest.param(put("plan", "options", "batch_size", True), id="batches of true rows"),
    pytest.param(put("plan", "options", "suffix", 7), id="a suffix that is a number"),
    pytest.param(put("plan", "options", "timezone", "Mars"), id="no zone"),
    pytest.param(put("plan", "options", "on_late", "wait"), id="no rule for late rows"),
    pytest.param(put("plan", "how", "outer"), id="another name of a join type"),
    pytest.param(put("plan", "on", 0, ["k", "nowhere"]), id="a key that is no column"),
    pytest.param(put("plan", "condition", 0, 2, ["middle", "t"]), id="a column of no side"),
    pytest.param(put("plan", "left_over", [7]), id="a conjunct that is a number"),
    pytest.param(put("plan", "bounds", 0, [[[["column", [], ["left", "t"], {"kind": "int", "bits": 64}]], 5, 3]]),
                 id="bounds the wrong way round"),
    pytest.param(put("frontiers", 0, "orders", 0, "edge", 1 << 63), id="an edge past int64"),
    pytest.param(put("frontiers", 0, "orders", 0, "limit", 1000), id="a limit behind the edge"),
    pytest.param(put("frontiers", 0, "orders", 0, "value", 2), id="a flag that is 2"),
    pytest.param(put("frontiers", 0, "promised", [[None, 0, 1]]), id="a watermark of nothing"),
    pytest.param(put("frontiers", 0, "promised", [[[["literal", [], ["x"], {"kind": "string"}]], 0, 1]]),
                 id="a watermark of a text"),
    pytest.param(put("frontiers", 0, "ended", 1), id="an end that is 1"),
    pytest.param(put("careful", 0), id="careful that is 0"),
    pytest.param(put("keeps", [1, 0]), id="sides that are numbers"),
    pytest.param(put("sizes", [1 << 62, 0]), id="more bytes than there are"),
    pytest.param(put("sizes", [8, 8]), id="fewer bytes than there are"),
]  # fmt: skip


@pytest.mark.parametrize("forge", FORGED)
def test_a_header_that_cannot_be(forge: Forge) -> None:
    header, rest = unsealed(good(False))
    forge(header)
    with pytest.raises(SnapshotError, match="damaged|cannot be planned"):
        ivjoin.SymmetricHashJoin.restore(sealed(good(False), header, rest))


@pytest.mark.parametrize("forge", [
    pytest.param(put("inputs", "a", "rows_in", None), id="rows that are null"),
    pytest.param(put("inputs", "a", "late", "x"), id="late rows that are text"),
    pytest.param(put("inputs", {}), id="no inputs"),
    pytest.param(put("closed", [[0, 1]]), id="closed that is a number"),
    pytest.param(put("closed", []), id="no step closed or open"),
    pytest.param(put("counts", [1, 2]), id="two counts"),
    pytest.param(put("counts", [1, 2, -3]), id="a negative count"),
    pytest.param(put("shape", ["a", "b"]), id="an input that no step joins"),
    pytest.param(put("shape", [["a", "b"], "b"]), id="an input that is joined twice"),
    pytest.param(put("shape", [["a", "c"], "b"]), id="steps of another shape"),
    pytest.param(put("shape", {}), id="no paths"),
    pytest.param(put("shape", 7), id="a shape that is a number"),
    pytest.param(put("spec", "views", "some"), id="no views"),
    pytest.param(put("spec", "condition", None), id="no condition"),
    pytest.param(put("spec", "inputs", "a", "options", "batch_size", 5), id="inputs with other options"),
    pytest.param(put("late_within", 1), id="late_within that is 1"),
])  # fmt: skip
def test_a_header_of_many_that_cannot_be(forge: Forge) -> None:
    header, rest = unsealed(good(True))
    forge(header)
    with pytest.raises(SnapshotError, match="damaged|cannot be planned"):
        ivjoin.MultiJoin.restore(sealed(good(True), header, rest))


@pytest.mark.parametrize(("name", "value"), [("rate", 0), ("rate", 2), ("lost", "x"), ("variance", -1.0)])  # fmt: skip
def test_a_sample_that_cannot_be(name: str, value: Any) -> None:
    header, rest = unsealed(good(False, 4))
    header["sample"] = {"rate": 0.5, "lost": 1.0, "variance": 1.0, "samples": [None, None]} | {name: value}
    blob = sealed(good(False, 4), header, rest)
    with pytest.raises(SnapshotError, match="damaged"):
        ivjoin.SymmetricHashJoin.restore(blob, memory_limit="64MB", when_full="shed")


def with_rows(blob: bytes, rows: pa.RecordBatch) -> bytes:
    """A snapshot with these rows on its left side."""
    header, rest = unsealed(blob)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    part = sink.getvalue().to_pybytes()
    rest, header["sizes"][0] = part + rest[header["sizes"][0] :], len(part)
    return sealed(blob, header, rest)


def stored(schema: pa.Schema, **options: Any) -> bytes:
    """A snapshot with two rows on the left side."""
    op = ivjoin.SymmetricHashJoin(schema, SCHEMA, **options)
    list(op.push("left", pa.record_batch({"k": [1, 2], "t": [8, 9]}, schema=schema)))
    return bytes(op.snapshot())


@pytest.mark.parametrize(("k", "t", "options"), [
    pytest.param([1, None], [8, 9], {"on": "k"}, id="a key without a value"),
    pytest.param([1, 2], [8, None], {"condition": BAND}, id="a place without a value"),
    pytest.param([1, 2], [8, 9], {"on": "k", "condition": "l.t > 8"}, id="a filter that is false"),
    pytest.param([1, 2], [8, 9], {"on": "k", "condition": "l.k = 1 AND l.t > 3"}, id="a key that is not the one"),
    pytest.param([1, 2], [8, None], {"on": "k", "how": "left"}, id="a null where none may be"),
])  # fmt: skip
def test_rows_that_no_push_stores(k: list[Any], t: list[Any], options: dict[str, Any]) -> None:
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("t", pa.int64(), nullable="how" not in options)])
    blob = stored(schema, **options)
    types = [("0", pa.int64()), ("1", pa.int64()), ("2", pa.bool_())]
    rows = pa.record_batch([pa.array(k, pa.int64()), pa.array(t, pa.int64()), pa.array([False, False])], names=[
        name for name, _ in types
    ])  # fmt: skip
    with pytest.raises(SnapshotError, match="damaged"):
        ivjoin.SymmetricHashJoin.restore(with_rows(blob, rows))


def test_a_row_outside_the_guards_is_decided_by_the_whole_condition() -> None:
    """As if it had been pushed: its sum leaves int64, where the index would find it a place."""
    blob = stored(SCHEMA, condition="l.t + 5 >= r.t AND l.t <= r.t")
    rows = pa.record_batch(
        [pa.array([1, 2]), pa.array([8, 2**63 - 1]), pa.array([False, False])], names=["0", "1", "2"]
    )
    op = ivjoin.SymmetricHashJoin.restore(with_rows(blob, rows))
    with pytest.raises(ivjoin.EvaluationError, match="overflow"):
        list(op.push("right", pa.record_batch({"k": [1], "t": [9]}, schema=SCHEMA)))


def plan(how: str = "inner") -> Any:
    table = pa.table({"k": [1] * 300 + [*range(100)], "t": range(400)}, schema=SCHEMA)
    text = routing.plan_to_json(routing.plan_join(table, table, workers=6, on="k", condition=BAND, how=how))
    return json.loads(text)


@pytest.mark.parametrize("forge", [
    pytest.param(put("n_light", 1 << 40), id="more cells than workers"),
    pytest.param(put("n_light", -1), id="less than no cells"),
    pytest.param(put("entries", 0, 2, 0, [1 << 33, 1]), id="a grid larger than its cells"),
    pytest.param(put("entries", 0, 2, 0, [-1, -1]), id="a grid of negative sides"),
    pytest.param(put("entries", 0, 1, [3, 1]), id="slices that fall"),
    pytest.param(put("entries", 0, 0, 1 << 64), id="a key past 64 bits"),
    pytest.param(put("entries", 0, 0, None), id="a key without a value"),
    pytest.param(put("entries", 0, 3, True), id="grids of both sides"),
    pytest.param(put("workers", 1 << 62), id="more workers than rows"),
    pytest.param(put("workers", 1), id="fewer workers than named"),
    pytest.param(put("both", 1), id="homes that are a number"),
    pytest.param(put("axis", 9), id="no axis"),
    pytest.param(put("axis", None), id="slices along nothing"),
    pytest.param(put("shares", [[1 << 40], None]), id="shares of no grid"),
    pytest.param(put("dealt", [[7], []]), id="a column that is not there"),
    pytest.param(put("scheme", "luck"), id="no scheme"),
    pytest.param(put("notes", [1]), id="a note that is a number"),
    pytest.param(put("report", [[1], [1], 1, 1, 1, 1, 1]), id="a report of one worker"),
])  # fmt: skip
def test_a_plan_that_cannot_be(forge: Forge) -> None:
    d = plan()
    forge(d)
    with pytest.raises(SnapshotError, match="routing plan is damaged"):
        routing.plan_from_json(json.dumps(d), SCHEMA, SCHEMA, on="k", condition=BAND)


def test_a_plan_that_would_emit_alone_rows_twice() -> None:
    d = plan("left")
    entry = d["entries"][0]
    entry[1], entry[2] = [], [[1, sum(a * b for a, b in entry[2])]]  # columns, of which each has all left rows
    with pytest.raises(SnapshotError, match="a left join has a key in the grids"):
        routing.plan_from_json(json.dumps(d), SCHEMA, SCHEMA, on="k", condition=BAND, how="left")


KINDS = ("forged snapshot", "forged snapshot of many", "forged rows", "forged plans")


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> tuple[str, Callable[[random.Random, int], str]]:
    return request.param, case(request.param, Path("."))


@pytest.mark.parametrize("first", range(0, 50, 10))
def test_random_forgeries(kind: tuple[str, Callable[[random.Random, int], str]], first: int) -> None:
    name, run = kind
    for seed in range(first, first + 10):
        assert run(random.Random(f"{name} {seed}"), seed) in ("error", "rows")
