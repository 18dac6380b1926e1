"""Types whose rows Arrow cannot take, and dictionaries that change, on every code path of a join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from join.changing import KINDS
from taken import one_of

import ivjoin
from ivjoin import SymmetricHashJoin
from ivjoin.routing import along, plan_join, simulate
from ivjoin.stream import run_of_two
from ivjoin.stream.sort import dealing
from ivjoin.stream.threads import sliced_stream

ROWS = 24
TEXT = ["a", "b" * 20, None, "", "xyz", "é" * 9, "a", "\0"] * 3
BAND = "r.t BETWEEN l.t - 3 AND l.t + 2"
ORDERED = {"left_order": "t", "right_order": "t"}
VIEW = pa.string_view()

COLUMNS: dict[str, pa.Array | pa.ChunkedArray] = {
    "string_view": pa.array(TEXT, VIEW),
    "binary_view": pa.array(TEXT).cast(pa.binary()).cast(pa.binary_view()),
    "run ends": pc.run_end_encode(pa.array(TEXT)),
    "run ends of views": pa.RunEndEncodedArray.from_arrays(pa.array(range(1, 25), pa.int32()), pa.array(TEXT, VIEW)),
    "run ends of dictionaries": pa.RunEndEncodedArray.from_arrays(
        pa.array(range(1, 25), pa.int32()), pa.array(TEXT).dictionary_encode()
    ),
    "dictionary of views": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 2, 3, 4, 0, 5] * 3, pa.int8()), pa.array(["a", "b" * 20, "", "xyz", "é" * 9, "\0"], VIEW)
    ),
    "struct of views": pa.array([{"x": x} for x in TEXT], pa.struct({"x": VIEW})),
    "list of views": pa.array([[x] for x in TEXT], pa.list_(VIEW)),
    "list": pa.array([[x] for x in TEXT]),
    "dense union of views and run ends": pa.UnionArray.from_dense(
        pa.array([3, 7] * 12, pa.int8()), pa.array([i // 2 for i in range(ROWS)], pa.int32()),
        [pa.array(TEXT[::2], VIEW), pc.run_end_encode(pa.array(TEXT[1::2]))], ["x", "y"], [3, 7],
    ),
    "sparse union of views": pa.UnionArray.from_sparse(
        pa.array([1, 0, 0] * 8, pa.int8()), [pa.array(TEXT, VIEW), pa.array(TEXT, pa.large_string())]
    ),
}  # fmt: skip
CHANGING = {
    f"changing {name}": pa.chunked_array([make(list(range(i, i + 8))) for i in (0, 8, 16)])
    for name, make in KINDS.items()
}
AS_KEYS = [n for n in COLUMNS if "union" not in n and n not in ("struct of views", "list of views", "list")]


def table(column: pa.Array | pa.ChunkedArray) -> pa.Table:
    whole = list(range(ROWS))
    return pa.table({"k": [i % 3 for i in whole], "t": whole, "id": whole, "v": column})


def mixed(t: pa.Table, seed: int = 0) -> pa.Table:
    """Its rows in no order, all of them in one batch if they came in one."""
    order = np.random.default_rng(seed).permutation(t.num_rows)
    out = pa.concat_tables([t.slice(int(i), 1) for i in order])
    return out.combine_chunks() if t["v"].num_chunks == 1 else out


def pushed(t: pa.Table, on: str = "k", limit: str | None = None, **ask: Any) -> pa.Table:
    within: Any = {} if limit is None else {"memory_limit": limit, "when_full": "spill"}
    op = SymmetricHashJoin(t.schema, t.schema, on=on, condition=BAND, **ask, **within)
    out = []
    for batch in t.to_batches(max_chunksize=7):
        out += [*op.push("left", batch), *op.push("right", batch)]
        op = SymmetricHashJoin.restore(op.snapshot(), **within)
    return pa.Table.from_batches([*out, *op.finish()], op.schema)


def by_threads(t: pa.Table, on: str = "k") -> pa.Table:
    left, right = mixed(t), mixed(t, 1)
    ask = {"left_order": ivjoin.Order("t", slack=ROWS), "right_order": ivjoin.Order("t", slack=ROWS)}
    return ivjoin.band_join(left, right, on=on, condition=BAND, how="full", threads=2, **ask).to_arrow()


def late(t: pa.Table, call: Any = ivjoin.band_join, **ask: Any) -> pa.Table:
    return call(
        mixed(t).to_reader(), t.to_reader(), on="k", condition=BAND, on_late="drop", **ORDERED, **ask
    ).to_arrow()


FIRST = {"f": ("v", "first"), "l": ("v", "last"), "c": ("v", "count")}
WAYS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "push": lambda t: pushed(t, how="full", **ORDERED),
    "spill": lambda t: pushed(t, limit="8kB", how="full", **ORDERED),
    "pull": lambda t: ivjoin.band_join(mixed(t), mixed(t), on="k", condition=BAND, how="full").to_arrow(),
    "late": late,
    "late picks": lambda t: late(t, pick=ivjoin.Pick("t", "last"), how="left"),
    "late aggregates": lambda t: late(t, ivjoin.window_join, aggregate=FIRST, how="left"),
    "threads": by_threads,
    "picks": lambda t: pushed(t, pick=one_of(t.schema, t.schema, "nearest", "t"), how="left", **ORDERED),
    "asof": lambda t: ivjoin.asof_join(mixed(t), mixed(t), on="t", by="k", tolerance=2).to_arrow(),
    "aggregates": lambda t: pushed(t, aggregate=FIRST, how="left", **ORDERED),
    "inner aggregates": lambda t: ivjoin.window_join(
        mixed(t), mixed(t), on="k", condition=f"{BAND} AND l.t <> 3", how="inner", aggregate=FIRST
    ).to_arrow(),
    "many": lambda t: ivjoin.multi_join(
        {"x": mixed(t), "y": t, "z": t}, "x.k = y.k AND y.k = z.k AND x.t = y.t AND z.t BETWEEN x.t - 1 AND x.t"
    ).to_arrow(),
}
KEY_WAYS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "push": lambda t: pushed(t, on="v", how="full", **ORDERED),
    "threads": lambda t: by_threads(t, on="v"),
    "picks": lambda t: pushed(t, on="v", pick=ivjoin.Pick("t", "last"), how="left"),
    "aggregates": lambda t: pushed(t, on="v", aggregate={"n": ("*", "count")}, how="left"),
    "many": lambda t: ivjoin.multi_join({"x": mixed(t), "y": t}, "x.v = y.v AND x.t = y.t").to_arrow(),
}


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (sliced_stream, "_SLICE_ROWS", 2), (sliced_stream, "_COPIED", 1), (run_of_two, "_PARALLEL_ROWS", 2),
        (dealing, "_WORTH_DEALING", 2), (dealing, "_BUCKET", 1),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


def rows(t: pa.Table) -> Counter[str]:
    t.validate(full=True)
    return Counter(repr([v.decode() if isinstance(v, bytes) else v for v in row.values()]) for row in t.to_pylist())


OF_V = ("v", "v_right", "x_v", "y_v", "z_v", "f", "l")


def named(t: pa.Table, values: list[Any]) -> Counter[str]:
    """Rows with the values whose places they have."""
    return Counter(
        repr([values[x] if name in OF_V and x is not None else x for name, x in row.items()]) for row in t.to_pylist()
    )


@pytest.mark.one_in(11)
@pytest.mark.parametrize("name", [*COLUMNS, *CHANGING])
@pytest.mark.parametrize("way", WAYS)
def test_as_payload(way: str, name: str) -> None:
    column = (COLUMNS | CHANGING)[name]
    values = column.to_pylist()
    want = WAYS[way](table(pa.array([None if v is None else i for i, v in enumerate(values)], pa.int64())))
    got = WAYS[way](table(column))
    got.validate(full=True)
    assert Counter(repr(list(row.values())) for row in got.to_pylist()) == named(want, values)
    assert got.num_rows
    assert {f.type for f in got.schema if f.name in OF_V} == {column.type}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", AS_KEYS)
@pytest.mark.parametrize("way", KEY_WAYS)
def test_as_key(way: str, name: str) -> None:
    got = KEY_WAYS[way](table(COLUMNS[name]))
    assert rows(got) == rows(KEY_WAYS[way](table(pa.array(TEXT))))
    assert got.num_rows


@pytest.mark.parametrize("name", ["struct of views", "list of views", "list"])
def test_nested_keys_of_many_inputs(name: str) -> None:
    t = table(COLUMNS[name])
    got = ivjoin.multi_join({"x": t, "y": t}, "x.v = y.v AND x.t = y.t", columns=["x_id", "y_id"]).to_arrow()
    assert Counter(map(tuple, (r.values() for r in got.to_pylist()))) == Counter((i, i) for i in range(ROWS))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", COLUMNS)
def test_routing(name: str) -> None:
    """Rows are sampled, cut out and sent, whatever they carry."""
    t = mixed(table(COLUMNS[name]))
    batch = t.to_batches()[0]
    assert simulate(t, t, on="k", condition=BAND, workers=3, sample_rows=9).rows_in.sum() >= 2 * ROWS
    plan = plan_join(t, t, on="k", condition=BAND, workers=3)
    assert {*plan.cells("left", batch)[0].tolist()} == {*range(ROWS)}
    plans = along(plan)
    assert {*plans.cells("left", batch)[0].tolist()} == {*range(ROWS)}


RUNS = pc.run_end_encode(pa.array([None, 1, 1, 2, 2, 2, 5, 9]))
RUN_WAYS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "order": lambda t: ivjoin.band_join(
        t.to_reader(), t.to_reader(), condition="l.x BETWEEN r.x - 1 AND r.x + 1", how="full", left_order="x",
        right_order="x",
    ).to_arrow(),
    "computed key": lambda t: ivjoin.band_join(t, t, condition="l.x * 2 = r.x + r.x AND l.i <> r.i").to_arrow(),
    "asof": lambda t: ivjoin.asof_join(t, t.rename_columns(["x", "j"]), on="x").to_arrow(),
    "aggregates": lambda t: ivjoin.window_join(
        t, t, on="i", how="inner",
        aggregate={"s": ("x", "sum"), "m": ("x", "max"), "f": ("x", "first"), "a": ("x", "mean")}
    ).to_arrow(),
    "many": lambda t: ivjoin.multi_join({"a": t, "b": t}, "a.x <= b.x AND b.x <= a.x + 1").to_arrow(),
}  # fmt: skip


@pytest.mark.parametrize("way", RUN_WAYS)
def test_run_ends_are_computed_with(way: str) -> None:
    got = RUN_WAYS[way](pa.table({"x": RUNS, "i": range(8)}))
    assert got.num_rows
    assert rows(got) == rows(RUN_WAYS[way](pa.table({"x": pc.run_end_decode(RUNS), "i": range(8)})))


def test_run_ends_of_identifiers_pass_and_are_keys() -> None:
    octets = [None if x is None else (x * 16).encode()[:16].ljust(16) for x in TEXT]
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(octets, pa.binary(16)))
    column = pa.RunEndEncodedArray.from_arrays(pa.array(range(1, ROWS + 1), pa.int32()), ids)
    got = pushed(table(column), on="v", how="full", **ORDERED)
    assert got.column("v").type == column.type
    plain = pushed(table(pa.array(octets, pa.binary(16))), on="v", how="full", **ORDERED)
    assert Counter(zip(got["id"].to_pylist(), got["id_right"].to_pylist())) == Counter(
        zip(plain["id"].to_pylist(), plain["id_right"].to_pylist())
    )
    named = dict(zip(range(ROWS), ids.to_pylist()))
    assert all(v == named[i] for v, i in zip(got["v"].to_pylist(), got["id"].to_pylist()) if i is not None)


@pytest.mark.parametrize("values", [
    pa.array([{"x": 1}, None, {"x": 1}]),
    pa.UnionArray.from_sparse(pa.array([0, 0, 0], pa.int8()), [pa.array([1, 1, 2])]),
    pa.array([1.5, None, 2.5], pa.float32()).cast(pa.float16()),
], ids=lambda v: str(v.type))  # fmt: skip
def test_run_ends_of_any_type_pass(values: pa.Array) -> None:
    column = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int16()), values)
    t = pa.table({"t": range(5), "v": column})
    got = pushed(t.add_column(0, "k", pa.array([1] * 5)), how="full", **ORDERED)
    got.validate(full=True)
    assert got["v"].type == column.type
    want = column.to_pylist()
    assert got["v"].to_pylist() == [None if i is None else want[i] for i in got["t"].to_pylist()]


def test_more_rows_of_a_batch_than_run_ends_count_are_several_batches() -> None:
    left = pa.table({"v": pc.run_end_encode(pa.array([1] * 300), run_end_type=pa.int16())})
    right = pa.table({"m": range(200)})
    for size in ({}, {"batch_size": 32_767}):
        got = list(ivjoin.band_join(left, right, allow_cross=True, **size))
        assert max(b.num_rows for b in got) <= 32_767
        assert {b["v"].type for b in got} == {left["v"].type}
        assert {v for b in got for v in pc.run_end_decode(b["v"]).unique().to_pylist()} == {1}
        assert Counter(m for b in got for m in b["m"].to_pylist()) == Counter(dict.fromkeys(range(200), 300))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", ["inner", "full", "right"])
def test_a_slice_of_a_table_has_more_rows_than_run_ends_count(how: str) -> None:
    n, piece = 40_000, 20_000
    batches = [
        pa.record_batch({"t": t, "v": pc.run_end_encode(t, run_end_type=pa.int16())})
        for t in (pa.array(range(start, start + piece)) for start in (0, piece))
    ]
    table = pa.Table.from_batches(batches)
    got = list(ivjoin.band_join(table, table, condition="l.t BETWEEN r.t AND r.t + 1", how=how))
    assert max(b.num_rows for b in got) <= 32_767
    assert all(b["v"].type == b["v_right"].type == table.schema.field("v").type for b in got)
    decoded = [pc.run_end_decode(b[x]).to_pylist() for b in got for x in ("v", "v_right")]
    assert decoded == [b[x].to_pylist() for b in got for x in ("t", "t_right")]
    pairs = [p for b in got for p in zip(b["t"].to_pylist(), b["t_right"].to_pylist(), strict=True)]
    assert Counter(pairs) == Counter([(i, i) for i in range(n)] + [(i + 1, i) for i in range(n - 1)])


@pytest.mark.parametrize("way", KEY_WAYS)
def test_identifiers_are_keys(way: str) -> None:
    octets = pa.array([None if x is None else (x * 16).encode()[:16].ljust(16) for x in TEXT], pa.binary(16))
    column = pa.ExtensionArray.from_storage(pa.uuid(), octets)
    got = KEY_WAYS[way](table(column))
    assert {f.type for f in got.schema if f.name in ("v", "x_v")} == {pa.uuid()}
    want = KEY_WAYS[way](table(octets))
    assert got.num_rows == want.num_rows > 0
    assert rows(got.drop_columns([n for n in got.column_names if n in ("v", "x_v", "y_v")])) == rows(
        want.drop_columns([n for n in want.column_names if n in ("v", "x_v", "y_v")])
    )
