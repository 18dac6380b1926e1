"""Folders whose files differ: the columns of all of them, by name, in the widest of their types."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin
from ivjoin.files.atomic import FileError
from ivjoin.files.datasets import open_files
from ivjoin.files.widening import widest

AT = datetime(2024, 1, 1)
# the type of two files, their values, and the type of the input
WIDER: dict[str, tuple[pa.Array, pa.Array, pa.DataType]] = {
    "null, text": (pa.nulls(1), pa.array(["x"]), pa.string()),
    "int32, int64": (pa.array([1], pa.int32()), pa.array([2**40]), pa.int64()),
    "int64, uint64": (pa.array([-1]), pa.array([2**64 - 1], pa.uint64()), pa.decimal128(20, 0)),
    "int8, uint8": (pa.array([-1], pa.int8()), pa.array([255], pa.uint8()), pa.int16()),
    "int64, double": (pa.array([1]), pa.array([1.5]), pa.float64()),
    "float, int32": (pa.array([1.5], pa.float32()), pa.array([16777217], pa.int32()), pa.float64()),
    "int64, decimal": (pa.array([2**62]), pa.array([Decimal("1.5")], pa.decimal128(4, 1)), pa.decimal128(21, 1)),
    "decimals": (
        pa.array([Decimal("1.25")], pa.decimal128(5, 2)), pa.array([Decimal("1000.5")], pa.decimal128(5, 1)),
        pa.decimal128(6, 2),
    ),
    "ms, us": (pa.array([AT], pa.timestamp("ms")), pa.array([AT.replace(microsecond=1)]), pa.timestamp("us")),
    "date, timestamp": (pa.array([date(2024, 1, 1)]), pa.array([AT]), pa.timestamp("us")),
    "zones": (
        pa.array([AT], pa.timestamp("us", "Asia/Tokyo")), pa.array([AT], pa.timestamp("us", "UTC")),
        pa.timestamp("us", "Asia/Tokyo"),
    ),
    "text, large text": (pa.array(["a"]), pa.array(["b"], pa.large_string()), pa.large_string()),
    "dictionary, text": (pa.array(["a"]).dictionary_encode(), pa.array(["b"]), pa.string()),
    "lists": (pa.array([[1]], pa.list_(pa.int32())), pa.array([[2**40]]), pa.list_(pa.int64())),
    "structs": (
        pa.array([{"x": 1}]), pa.array([{"y": "b", "x": 2.5}]), pa.struct([("x", pa.float64()), ("y", pa.string())])
    ),
}  # fmt: skip


def write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
        return
    make = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
    with pa.OSFile(str(path), "wb") as file, make(file, table.schema) as writer:
        writer.write_table(table)


def rows_of(source: Any) -> list[dict[str, Any]]:
    return open_files(str(source)).table(None).to_pylist()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("ending", ["parquet", "arrow", "arrows"])
@pytest.mark.parametrize("case", WIDER)
@pytest.mark.parametrize("turned", [False, True])
def test_files_of_two_types_are_read_in_the_wider(tmp_path: Path, case: str, ending: str, turned: bool) -> None:
    *given, wanted = WIDER[case]
    wanted = given[1].type if case == "zones" and turned else wanted  # the zone of the first file
    values = [v for a in (reversed(given) if turned else given) for v in a.cast(wanted).to_pylist()]
    for i, array in enumerate(reversed(given) if turned else given):
        write(tmp_path / f"{i}.{ending}", pa.table({"k": [i], "c": array}))
    files = open_files(str(tmp_path))
    if case != "structs":
        assert files.schema.field("c").type == wanted
    assert files.table(["c"])["c"].to_pylist() == values
    assert files.table(None)["k"].to_pylist() == [0, 1]
    joined = ivjoin.band_join(str(tmp_path), pa.table({"k": [0, 1]}), on="k", columns=["c"]).read_all()
    assert len(joined) == 2
    assert all(v in values for v in joined["c"].to_pylist())


@pytest.mark.parametrize(("a", "b"), [
    (pa.array([1]), pa.array(["x"])), (pa.array([AT]), pa.array([AT], pa.timestamp("us", "UTC"))),
    (pa.array([True]), pa.array([1])), (pa.array([1.5]), pa.array([Decimal("1.5")])),
    (pa.array([{"x": 1}]), pa.array([{"x": "a"}])), (pa.array(["a"]), pa.array([b"a"])),
])  # fmt: skip
@pytest.mark.parametrize("ending", ["parquet", "arrow", "arrows"])
def test_types_without_a_wider_one_are_refused_by_name(tmp_path: Path, a: pa.Array, b: pa.Array, ending: str) -> None:
    write(tmp_path / f"1.{ending}", pa.table({"c": a}))
    write(tmp_path / f"2.{ending}", pa.table({"c": b}))
    with pytest.raises(FileError) as error:
        open_files(str(tmp_path))
    for part in (f"column 'c' is {a.type} in", f"1.{ending}'", f"and {b.type} in", f"2.{ending}'"):
        assert part in str(error.value)


def test_whole_numbers_that_a_double_cannot_hold_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", pa.table({"c": [2**53 + 1]}))
    write(tmp_path / "2.parquet", pa.table({"c": [1.5]}))
    with pytest.raises(FileError, match="9007199254740993"):
        rows_of(tmp_path)
    (tmp_path / "t").mkdir()
    (tmp_path / "t/1.csv").write_text("c,d\n9007199254740993,1\n")
    (tmp_path / "t/2.csv").write_text("c,d\n1.5,1\n")
    with pytest.raises(FileError, match=r"1\.csv' as csv: column 'c' has the number 9007199254740993, which a double"):
        rows_of(tmp_path / "t")
    assert open_files(str(tmp_path / "t")).table(["d"])["d"].to_pylist() == [1, 1]


@pytest.mark.parametrize("ending", ["parquet", "arrow", "arrows"])
def test_a_column_that_is_required_in_one_file_and_missing_in_another(tmp_path: Path, ending: str) -> None:
    required = pa.schema([pa.field("k", pa.int64(), False), pa.field("x", pa.int64(), False)])
    write(tmp_path / f"1.{ending}", pa.table({"k": [1], "x": [1]}).cast(required))
    write(tmp_path / f"2.{ending}", pa.table({"k": [2]}).cast(pa.schema([required.field(0)])))
    more = pa.schema([("y", pa.string()), required.field(0)])
    write(tmp_path / f"3.{ending}", pa.table({"y": ["late"], "k": [3]}).cast(more))
    got = ivjoin.band_join(str(tmp_path), pa.table({"k": [1, 2, 3]}), on="k").read_all().sort_by("k")
    assert got.select(["k", "x", "y"]).to_pylist() == [
        {"k": 1, "x": 1, "y": None}, {"k": 2, "x": None, "y": None}, {"k": 3, "x": None, "y": "late"},
    ]  # fmt: skip
    assert not open_files(str(tmp_path)).schema.field("k").nullable


@pytest.mark.parametrize("ending", ["parquet", "arrow", "arrows", "csv"])
@pytest.mark.parametrize("stored", [pa.int64(), pa.int32(), pa.string(), pa.float64()])
def test_a_partition_column_that_the_files_have_too(tmp_path: Path, ending: str, stored: pa.DataType) -> None:
    for k in (1, 2):
        table = pa.table({"v": [5 + k], "k": pa.array([k]).cast(stored)})
        if ending == "csv":
            (tmp_path / f"k={k}").mkdir()
            (tmp_path / f"k={k}/x.csv").write_text(f"v,k\n{5 + k},{k}\n")
        else:
            write(tmp_path / f"k={k}/x.{ending}", table)
    got = open_files(str(tmp_path))
    assert got.schema.names == ["v", "k"]
    if ending != "csv":
        assert got.schema.field("k").type == stored
    assert [int(r["k"]) for r in got.table(None).to_pylist()] == [1, 2]
    right = pa.table({"k": pa.array([2]).cast(stored)})
    assert ivjoin.band_join(str(tmp_path), right, on="k", columns=["v"]).read_all()["v"].to_pylist() == [7]


def test_a_partition_that_differs_from_the_file_is_the_folder_s(tmp_path: Path) -> None:
    """Statistics of the file's own column skip nothing."""
    write(tmp_path / "k=1/x.parquet", pa.table({"k": ["9"], "v": [1]}))
    got = ivjoin.band_join(str(tmp_path), str(tmp_path / "k=1/x.parquet"), condition="l.k = '1' AND r.v = 1").read_all()
    assert got["k"].to_pylist() == ["1"]
    write(tmp_path / "k=b/x.parquet", pa.table({"k": ["9"], "v": [1]}))
    assert [r["k"] for r in rows_of(tmp_path)] == ["1", "b"]
    write(tmp_path / "n/k=b/x.parquet", pa.table({"k": [9], "v": [1]}))
    with pytest.raises(FileError, match=r"'.*x\.parquet': its folder gives 'k' the value 'b'.*int64"):
        open_files(str(tmp_path / "n"))


def test_folders_of_text_whose_types_differ(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c/1.csv").write_text("id,v,w,x,e\n1,1,1,2024-01-01,\n")
    (tmp_path / "c/2.csv").write_text("id,v,w,x,y\n2,1.5,b,2024-01-01 00:00:01,7\n")
    (tmp_path / "c/3.csv").write_text("id,v,w,x,y\n")
    assert rows_of(tmp_path / "c") == [
        {"id": 1, "v": 1.0, "w": "1", "x": datetime(2024, 1, 1), "e": None, "y": None},
        {"id": 2, "v": 1.5, "w": "b", "x": datetime(2024, 1, 1, 0, 0, 1), "e": None, "y": 7},
    ]
    (tmp_path / "j").mkdir()
    (tmp_path / "j/1.jsonl").write_text('{"u":null,"id":1,"s":{"a":1},"t":"2024-01-01"}\n')
    (tmp_path / "j/2.jsonl").write_text('{"u":"x","id":2.5,"s":{"b":"z"},"t":"2024-01-01T00:00:01"}\n')
    assert rows_of(tmp_path / "j") == [
        {"u": None, "id": 1.0, "s": {"a": 1, "b": None}, "t": datetime(2024, 1, 1)},
        {"u": "x", "id": 2.5, "s": {"a": None, "b": "z"}, "t": datetime(2024, 1, 1, 0, 0, 1)},
    ]
    (tmp_path / "j/3.jsonl").write_text('{"id":"three"}\n')
    with pytest.raises(FileError, match=r"'id' is double in '.*2\.jsonl' and string in '.*3\.jsonl'"):
        open_files(str(tmp_path / "j"))


def test_widest_does_not_depend_on_the_order_of_plain_types() -> None:
    plain = [
        pa.null(), pa.bool_(), pa.int8(), pa.int64(), pa.uint8(), pa.uint64(), pa.float32(), pa.float64(), pa.date32(),
        pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.time32("s"), pa.time64("ns"),
        pa.duration("ms"), pa.string(), pa.large_string(), pa.binary(), pa.binary(4), pa.decimal128(10, 2),
        pa.decimal128(38, 0), pa.decimal256(76, 30), pa.list_(pa.int8()), pa.list_(pa.float32()),
    ]  # fmt: skip
    found = 0
    for a in plain:
        assert widest(a, a) == a
        for b in plain:
            t = widest(a, b)
            assert t == widest(b, a), (a, b)
            if t is not None:
                found += 1
                assert pa.nulls(1, a).cast(t).type == t
    assert found > 100


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_value_that_the_widest_type_lacks_names_file_and_column(tmp_path: Path, kind: str) -> None:
    late = pa.array([datetime(9999, 1, 1)], pa.timestamp("ms"))
    for i, table in enumerate([
        pa.table({"k": [1], "t": pa.array([0], pa.timestamp("ns")), "n": [0.5]}),
        pa.table({"k": [2], "t": late, "n": [1.5]}),
        pa.table({"k": [3], "t": pa.array([1], pa.timestamp("ns")), "n": [2**53 + 1]}),
    ]):  # fmt: skip
        if kind == "parquet":
            pq.write_table(table, tmp_path / f"{i}.parquet")
        else:
            with pa.ipc.new_file(tmp_path / f"{i}.arrow", table.schema) as writer:
                writer.write_table(table)
    for column, said in (("t", r"1\.\w+' \(column 't' is timestamp\[ms\]"), ("n", r"2\.\w+' \(column 'n' is int64")):
        with pytest.raises(FileError, match=f"cannot read '[^']*{said} there, and "):
            list(open_files(str(tmp_path)).batches([column]))
