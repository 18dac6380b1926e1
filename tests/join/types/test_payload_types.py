"""Payload columns of every Arrow kind pass through unharmed, matched, null-extended, buffered and restored."""

from __future__ import annotations

import contextlib
import decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ivjoin import Pick, SymmetricHashJoin

N = 12


class Celsius(pa.ExtensionType):
    """A type of our own over doubles."""

    def __init__(self) -> None:
        super().__init__(pa.float64(), "ivjoin.test.celsius")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Celsius:
        return cls()


with contextlib.suppress(pa.ArrowKeyError):  # a second import of this module
    pa.register_extension_type(Celsius())


def words(n: int = N) -> list[str | None]:
    return [None if i % 5 == 3 else "word " * (i % 4) + str(i) for i in range(n)]


def payloads() -> dict[str, pa.Array]:
    numbers = [None if i % 5 == 3 else i for i in range(N)]
    lists = [None if i % 5 == 3 else list(range(i % 4)) for i in range(N)]
    nested = [None if i % 5 == 3 else [{"a": j, "b": [str(j), None]} for j in range(i % 3)] for i in range(N)]
    maps = [None if i % 5 == 3 else [(f"k{j}", j) for j in range(i % 3)] for i in range(N)]
    out: dict[str, pa.Array] = {
        str(t): pa.array(numbers, t)
        for t in (
            pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
            pa.float32(), pa.float64(),
        )
    }
    out["float16"] = pa.array([None if v is None else float(v) for v in numbers], pa.float32()).cast(pa.float16())
    out["bool"] = pa.array([None if v is None else v % 2 == 0 for v in numbers], pa.bool_())
    out["null"] = pa.nulls(N)
    for t in (pa.string(), pa.large_string(), pa.string_view()):
        out[str(t)] = pa.array(words()).cast(t)
    for t in (pa.binary(), pa.large_binary(), pa.binary_view()):
        out[str(t)] = pa.array([None if w is None else w.encode() for w in words()], pa.binary()).cast(t)
    out["fixed"] = pa.array([None if v is None else bytes([v, 255 - v, 0]) for v in numbers], pa.binary(3))
    for name in ("decimal32", "decimal64", "decimal128", "decimal256"):
        digits = {"decimal32": 9, "decimal64": 18, "decimal128": 38, "decimal256": 76}[name]
        with decimal.localcontext() as context:
            context.prec = 80
            values = [None if v is None else decimal.Decimal(10 ** (digits - 3) - 1) * v / 100 for v in numbers]
            out[name] = pa.array(values, getattr(pa, name)(digits, 2))
    out["date32"], out["date64"] = (
        pa.array(numbers, pa.date32()),
        pa.array([None if v is None else v * 86_400_000 for v in numbers], pa.int64()).view(pa.date64()),
    )
    for t in (pa.time32("s"), pa.time32("ms")):
        out[str(t)] = pa.array(numbers, pa.int32()).view(t)
    for t in (
        pa.time64("us"), pa.time64("ns"), *(pa.timestamp(u) for u in ("s", "ms", "us", "ns")),
        pa.timestamp("us", "Asia/Tokyo"), *(pa.duration(u) for u in ("s", "ms", "us", "ns")),
    ):
        out[str(t)] = pa.array(numbers, pa.int64()).view(t)
    out["interval"] = pa.array(
        [None if v is None else pa.MonthDayNano([v, v, v]) for v in numbers], pa.month_day_nano_interval()
    )
    out["list"], out["large_list"] = pa.array(lists, pa.list_(pa.int64())), pa.array(lists, pa.large_list(pa.int64()))
    out["fixed_list"] = pa.array([None if v is None else [v, v + 1] for v in numbers], pa.list_(pa.int32(), 2))
    out["list_view"] = pa.array(lists, pa.list_view(pa.int64()))
    out["large_list_view"] = pa.array(lists, pa.large_list_view(pa.int64()))
    out["struct"] = pa.array(
        [None if v is None else {"x": v, "y": str(v)} for v in numbers], pa.struct({"x": pa.int8(), "y": pa.string()})
    )
    out["nested"] = pa.array(nested, pa.list_(pa.struct({"a": pa.int32(), "b": pa.list_(pa.string())})))
    out["map"] = pa.array(maps, pa.map_(pa.string(), pa.int32()))
    out["dictionary"] = pa.array(words()).dictionary_encode()
    out["dictionary_ordered"] = pa.DictionaryArray.from_arrays(
        pa.array([None if v is None else v % 3 for v in numbers], pa.int8()), ["x", "y", "z"], ordered=True
    )
    out["dictionary_of_doubles"] = pa.DictionaryArray.from_arrays(
        pa.array([None if v is None else v % 3 for v in numbers], pa.int8()), pa.array([1.5, 2.5, None])
    )
    out["extension"] = pa.ExtensionArray.from_storage(
        Celsius(), pa.array([None if v is None else v / 2 for v in numbers], pa.float64())
    )
    out["uuid"] = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([None if v is None else bytes([v] * 16) for v in numbers], pa.binary(16))
    )
    out["dense_union"] = pa.UnionArray.from_dense(
        pa.array([i % 2 for i in range(N)], pa.int8()),
        pa.array([i // 2 for i in range(N)], pa.int32()),
        [pa.array(range(N // 2)), pa.array([str(i) for i in range(N // 2)])],
    )
    out["sparse_union"] = pa.UnionArray.from_sparse(
        pa.array([i % 2 for i in range(N)], pa.int8()),
        [pa.array(range(N)), pa.array([str(i) for i in range(N)])],
    )
    out["run_end"] = pa.RunEndEncodedArray.from_arrays(pa.array([4, 7, N], pa.int32()), pa.array(["x", None, "z"]))
    return out


PAYLOADS = payloads()


def plain(array: Any) -> list[Any]:
    if isinstance(array, pa.ChunkedArray):
        return [v for c in array.chunks for v in plain(c)]
    if isinstance(array, pa.ExtensionArray):
        return array.storage.to_pylist()
    t = array.type
    if pa.types.is_timestamp(t) or pa.types.is_duration(t) or pa.types.is_time64(t):
        return array.view(pa.int64()).to_pylist()
    return array.to_pylist()


def batch(payload: pa.Array, key: int, offset: int) -> pa.RecordBatch:
    """The payload twice over, behind an offset that lies within a byte of the bitmaps."""
    n = len(payload) - offset
    return pa.record_batch(
        {"k": pa.array([key] * n), "a": pa.array(range(offset, offset + n)), "p": payload.slice(offset)}
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", PAYLOADS)
@pytest.mark.parametrize("restored", [False, True], ids=["kept", "restored"])
def test_passes_through(name: str, restored: bool) -> None:
    """A full join: every left row is matched or null-extended, and its payload is what it was."""
    payload = PAYLOADS[name]
    schema = batch(payload, 1, 0).schema
    other = pa.schema({"k": pa.int64(), "b": pa.int64()})
    op = SymmetricHashJoin(schema, other, on="k", condition="l.a = r.b", how="full", batch_size=5)
    out = list(op.push("left", batch(payload, 1, 3)))
    out += op.push("left", batch(payload, 2, 0))
    if restored:
        op = SymmetricHashJoin.restore(op.snapshot())
    evens = pa.record_batch({"k": pa.array([1] * N), "b": pa.array([2 * i for i in range(N)])})
    out += op.push("right", evens)
    if restored:
        op = SymmetricHashJoin.restore(op.snapshot())
    # A left batch against stored right rows: the payload comes from the batch itself.
    out += op.push("left", batch(payload, 1, 0).slice(4, 5))
    out += op.finish()
    table = pa.Table.from_batches(out, op.schema)
    table.validate(full=True)
    assert table.schema.field("p").type == payload.type
    values = plain(payload)
    want = [*((1, a) for a in range(3, N)), *((2, a) for a in range(N)), *((1, a) for a in range(4, 9))]
    left_rows = [(k, a, p, b) for k, a, p, b in zip(*(plain(c) for c in table.columns)) if a is not None]
    assert sorted((k, a) for k, a, _, _ in left_rows) == sorted(want)
    for k, a, p, b in left_rows:
        assert p == values[a], f"row {a}: {p!r}, was {values[a]!r}"
        assert b == (a if k == 1 and a % 2 == 0 else None)
    lone = [(k, p, b) for k, a, p, b in zip(*(plain(c) for c in table.columns)) if a is None]
    assert all(p is None for _, p, _ in lone)
    # Each right value meets some left row of key 1 unless it lies past the payload's end or before both slices.
    assert sorted(b for _, _, b in lone) == [0, 2, *range(N, 2 * N, 2)]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", PAYLOADS)
@pytest.mark.parametrize("how", ["left_anti", "right_semi", "right"])
def test_passes_through_pruning(name: str, how: str) -> None:
    """Payload columns on both sides, rows retired in the midst of their batches."""
    payload = PAYLOADS[name]
    whole = batch(payload, 1, 0)
    op = SymmetricHashJoin(
        whole.schema, whole.schema, condition="l.a BETWEEN r.a - 1 AND r.a", how=how, left_order="a", right_order="a",
        batch_size=3,
    )
    out: list[pa.RecordBatch] = []
    for start in range(0, N, 4):
        out += op.push("left", whole.slice(start, 3))
        out += op.push("right", whole.slice(start, 4).slice(1))
    assert op.metrics.left_rows_retired > 0
    out += op.finish()
    table = pa.Table.from_batches(out, op.schema)
    table.validate(full=True)
    left = {a for a in range(N) if a % 4 != 3}
    right = {a for a in range(N) if a % 4 != 0}
    values = plain(payload)
    got = list(zip(*(plain(table.column(c)) for c in ("a", "p"))))
    if how == "left_anti":
        want = sorted(a for a in left if not {a, a + 1} & right)
    elif how == "right_semi":
        want = sorted(b for b in right if {b, b - 1} & left)
    else:
        pairs = [(a, b) for b in right for a in left if a in (b, b - 1)]
        assert sorted(zip(plain(table.column("a")), plain(table.column("a_right"))), key=str) == sorted(
            [*pairs, *((None, b) for b in right if not {b, b - 1} & left)], key=str
        )
        for b, p in zip(plain(table.column("a_right")), plain(table.column("p_right"))):
            assert p == values[b]
        got = [(a, p) for a, p in got if a is not None]
        want = sorted(a for a, _ in pairs)
    assert sorted(a for a, _ in got) == want
    for a, p in got:
        assert p == values[a]


def test_a_null_in_the_dictionary_itself_is_a_null_key() -> None:
    t = pa.dictionary(pa.int8(), pa.string())
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["x", None]))
    b = pa.record_batch([keys, pa.array([1, 2, 3])], schema=pa.schema({"k": t, "n": pa.int64()}))
    op = SymmetricHashJoin(b.schema, b.schema, on="k", how="left")
    out = [*op.push("left", b), *op.push("right", b), *op.finish()]
    got = sorted(((r["n"], r["n_right"]) for x in out for r in x.to_pylist()), key=str)
    assert got == [(1, 1), (2, None), (3, None)]


def test_no_columns_to_give() -> None:
    """Keys alone on both sides: rows without payload still count."""
    b = pa.record_batch({"k": [1, 1, 2]})
    op = SymmetricHashJoin(b.schema, b.schema, on="k", how="inner")
    out = [*op.push("left", b), *op.push("right", b), *op.finish()]
    assert sorted(r["k"] for x in out for r in x.to_pylist()) == [1, 1, 1, 1, 2]


def test_batches_without_rows() -> None:
    b = pa.record_batch({"k": [1], "p": PAYLOADS["nested"].slice(4, 1)})
    op = SymmetricHashJoin(b.schema, b.schema, on="k", how="full", left_order="k", right_order="k")
    assert list(op.push("left", b.slice(0, 0))) == []
    assert list(op.push("right", b.slice(1, 0))) == []
    list(op.push("left", b))
    assert list(op.push("right", b.slice(0, 0))) == []
    assert sum(x.num_rows for x in op.push("right", b)) == 1
    assert list(op.finish()) == []


@pytest.mark.parametrize("mode", ["dense", "sparse"])
def test_lists_of_unions_without_a_value(mode: str) -> None:
    """As they are made, as a snapshot holds them, and as IPC reads them."""
    empty = pa.UnionArray.from_sparse(pa.array([], pa.int8()), [pa.array([], pa.int32())])
    if mode == "dense":
        empty = pa.UnionArray.from_dense(pa.array([], pa.int8()), pa.array([], pa.int32()), [pa.array([], pa.int32())])
    made = pa.record_batch({"t": [1], "p": pa.ListArray.from_arrays(pa.array([0, 0], pa.int32()), empty)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, made.schema) as writer:
        writer.write_batch(made)
    for batch in (made, pa.ipc.open_stream(sink.getvalue()).read_next_batch()):
        op = SymmetricHashJoin(batch.schema, pa.schema({"t": pa.int64()}), on="t", how="left")
        assert list(op.push("left", batch)) == []
        op = SymmetricHashJoin.restore(op.snapshot())
        assert [row for b in op.finish() for row in b.to_pylist()] == [{"t": 1, "p": []}]


VIEWS = pa.array(words(), pa.string_view())
BEHIND: dict[str, pa.Array] = {
    "run ends of views": pa.RunEndEncodedArray.from_arrays(pa.array(range(1, N + 1), pa.int32()), VIEWS),
    "extension of views": pa.ExtensionArray.from_storage(
        pa.opaque(pa.struct({"a": pa.string_view()}), "a", "ivjoin"), pa.StructArray.from_arrays([VIEWS], ["a"])
    ),
    "list views of run ends": pa.ListViewArray.from_arrays(
        pa.array(range(N - 1, -1, -1), pa.int32()), pa.array([1] * N, pa.int32()),
        pc.run_end_encode(pa.array([i // 2 for i in range(N)])),
    ),
    "list views of views": pa.ListViewArray.from_arrays(
        pa.array(range(N - 1, -1, -1), pa.int32()), pa.array([1] * N, pa.int32()), VIEWS
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BEHIND)
@pytest.mark.parametrize("ask", [{}, {"pick": Pick("t", "last")}, {"memory_limit": "40kB", "when_full": "spill"}])
def test_types_that_arrow_cannot_take_after_another(name: str, ask: dict[str, Any]) -> None:
    whole = pa.record_batch({"i": range(N), "t": range(N), "p": BEHIND[name]})
    op = SymmetricHashJoin(
        whole.schema, pa.schema({"t": pa.int64()}), condition="abs(l.t - r.t) <= 1", how="left", left_order="t",
        right_order="t", **ask,
    )  # fmt: skip
    out = [*op.push("left", whole.slice(0, 5)), *op.push("left", whole.slice(5))]
    out += [*op.push("right", pa.record_batch({"t": [2, 7]})), *op.finish()]
    want = whole.column(2).to_pylist()
    got = [row for b in out for row in b.to_pylist()]
    assert {row["i"] for row in got} == set(range(N))
    assert all(row["p"] == want[row["i"]] for row in got)
    assert all(b.schema.field("p").type == whole.schema.field("p").type for b in out)
