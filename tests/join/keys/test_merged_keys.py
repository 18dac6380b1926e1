"""Keys that are emitted once: their type, how output writes them, and which columns a tuple or list names."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

import ivjoin
from ivjoin import ColumnError, asof_join, band_join

HOWS = ("inner", "left", "right", "full")


def words(*values: str | None, index: pa.DataType | None = None, kind: pa.DataType | None = None) -> pa.Array:
    t = pa.dictionary(index or pa.int32(), kind or pa.string())
    return pa.DictionaryArray.from_arrays(
        pa.array([None if v is None else sorted({*values} - {None}).index(v) for v in values], t.index_type),
        pa.array(sorted({*values} - {None}), t.value_type),
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("right", [
    words("b", "c"), words("b", "c", index=pa.int8()), words("b", "c", index=pa.int64()), pa.array(["b", "c"]),
    pa.array(["b", "c"], pa.large_string()), words("b", "c", kind=pa.large_string()),
    pa.array(["b", "c"], pa.string_view()),
], ids=lambda a: str(a.type))  # fmt: skip
@pytest.mark.parametrize("index", [pa.int8(), pa.uint16(), pa.int64()])
def test_a_dictionary_stays_one(how: str, right: pa.Array, index: pa.DataType) -> None:
    a = pa.table({"k": words("a", "b", None, index=index), "i": range(3)})
    b = pa.table({"k": right, "j": range(2)})
    for size in (1, 3):
        out = band_join(a.to_batches(size), b.to_batches(size), on="k", how=how).read_all()
        t = out.schema.field("k").type
        assert pa.types.is_dictionary(t) and t.value_type == pa.string()
        assert how in ("right", "full") or t.index_type == index
        want = {"inner": ["b"], "left": ["a", "b", None], "right": ["b", "c"], "full": ["a", "b", "c", None]}[how]
        assert sorted(map(str, out["k"].to_pylist())) == sorted(map(str, want))
    assert out.validate(full=True) is None


def test_more_words_than_the_left_indices_tell_apart() -> None:
    a = pa.table({"k": words(*(f"a{i:03}" for i in range(120)), index=pa.int8())})
    b = pa.table({"k": words(*(f"b{i:03}" for i in range(120)), index=pa.int8())})
    out = band_join(a, b, on="k", how="full").read_all()
    assert out.schema.field("k").type == pa.dictionary(pa.int32(), pa.string())
    assert sorted(out["k"].to_pylist()) == sorted(a["k"].to_pylist() + b["k"].to_pylist())


def test_dictionaries_in_by_with_a_plain_left_column() -> None:
    a = pa.table({"c": words("a", "b"), "t": [1, 2]})
    assert asof_join(a, a, on="t", by="c").schema.field("c").type == a.schema.field("c").type
    plain = pa.table({"c": ["a", "b"], "t": [1, 2]})
    assert asof_join(a, plain, on="t", by="c").read_all()["t_right"].to_pylist() == [1, 2]
    assert band_join(plain, a, on="c").schema.field("c").type == pa.string()
    numbers = pa.table({"c": pa.array([1, 2], pa.int32()).dictionary_encode(), "t": [1, 2]})
    longs = pa.table({"c": pa.array([2, 3], pa.int64())})
    out = band_join(numbers, longs, on="c", how="full").read_all()
    assert (out.schema.field("c").type, sorted(out["c"].to_pylist())) == (pa.int64(), [1, 2, 3])


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("zones", [("Europe/Madrid", "Asia/Tokyo"), ("Asia/Tokyo", "UTC"), ("+02:00", "Europe/Madrid")])
def test_the_zone_is_the_left_ones(how: str, zones: tuple[str, str]) -> None:
    stamps = [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC)]
    made = zip(stamps, zones, strict=True)
    a, b = (pa.table({"t": pa.array([s], pa.timestamp("us", z)), f"i{z}": [1]}) for s, z in made)
    out = band_join(a, b, on="t", how=how).read_all()
    assert out.schema.field("t").type.tz == zones[0]
    assert [x.astimezone(UTC) for x in sorted(out["t"].to_pylist())] == {
        "inner": [], "left": stamps[:1], "right": stamps[1:], "full": stamps
    }[how]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(("text", "other", "value"), [
    (" 1 ", pa.array([1]), 1), ("+7", pa.array([7], pa.int8()), 7), ("\t1.5\n", pa.array([1.5]), 1.5),
    (" Infinity", pa.array([float("inf")]), float("inf")), (" 1", pa.array([1.0], pa.float32()), 1.0),
    (" 2024-1-2 ", pa.array([date(2024, 1, 2)]), date(2024, 1, 2)),
    ("2024-1-2", pa.array([datetime(2024, 1, 2)]), datetime(2024, 1, 2)),
    (" yes ", pa.array([True]), True), ("18446744073709551615 ", pa.array([2**64 - 1], pa.uint64()), 2**64 - 1),
])  # fmt: skip
def test_texts_are_written_by_the_cast_that_compares_them(how: str, text: str, other: pa.Array, value: Any) -> None:
    for left, right in ((pa.array([text]), other), (other, pa.array([text]))):
        a, b = pa.table({"k": left, "i": [0]}), pa.table({"k": right, "j": [0]})
        assert band_join(a, b, condition="l.k = r.k").read_all().num_rows == 1
        out = band_join(a, b, on="k", how=how).read_all()
        assert out["k"].to_pylist() == [value]
        lone = band_join(a, b.slice(1), on="k", how="left").read_all()
        assert lone["k"].to_pylist() == [value]


def test_text_that_cannot_be_a_key_raises_on_every_path() -> None:
    a, b = pa.table({"k": ["x"], "i": [0]}), pa.table({"k": [1], "j": [0]})
    for options in ({"on": "k"}, {"condition": "l.k = r.k"}):
        for how in (*HOWS, "left_semi", "left_anti", "right_anti"):
            with pytest.raises(ivjoin.EvaluationError, match="'x'"):
                band_join(a, b, how=how, **options).read_all()


def test_a_tuple_is_a_pair_and_a_list_is_several_keys() -> None:
    a, b = pa.table({"a": [1, 2], "b": [9, 2]}), pa.table({"a": [9, 2], "b": [1, 2]})
    for join in (band_join, lambda *x, on: asof_join(*x, on="b", by=on, how="inner", tolerance=10)):
        assert join(a, b, on=("a", "b")).read_all().num_rows == 2
        assert join(a, b, on=[("a", "b")]).read_all().num_rows == 2
        assert join(a, b, on=["a", "b"]).read_all().num_rows == 1
        assert join(a, b, on=["a", ("b", "b")]).read_all().num_rows == 1
        assert join(a, b, on=(n for n in ("a", "b"))).read_all().num_rows == 1
        with pytest.raises(ColumnError, match=r"for several keys pass a list: \['a', 'b', 'b'\]"):
            join(a, b, on=("a", "b", "b"))
    assert asof_join(a, b, on=("a", "b")).read_all()["b_right"].to_pylist() == [1, 2]
    assert asof_join(a, b, on=["a"]).read_all()["a_right"].to_pylist() == [None, 2]
    assert asof_join(a, b, on=[("a", "b")]).read_all()["b_right"].to_pylist() == [1, 2]
    with pytest.raises(ColumnError, match="keys that must be equal go to by="):
        asof_join(a, b, on=["a", "b"])
    op = ivjoin.SymmetricHashJoin(a.schema, b.schema, on=("a", "b"))
    assert op.schema.names == ["a", "b", "a_right", "b_right"]
