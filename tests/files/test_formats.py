"""Files and streams: what is written is read back, and a file appears all or nothing."""

from __future__ import annotations

import gzip
import os
import stat
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from written import write

from ivjoin.files.atomic import FileError, Replacement
from ivjoin.files.datasets import open_files
from ivjoin.files.formats import Sink, format_of, open_source
from ivjoin.files.text.dialects import Csv

TABLE = pa.table(
    {
        "id": pa.array([1, 2, None, 4], pa.int32()),
        "price": pa.array([0.1, None, float("inf"), -0.0]),
        "name": ["", None, 'a "quoted", one', "NA"],
        "paid": pa.array([Decimal("1.50"), None, Decimal("-0.01"), Decimal("0.00")], pa.decimal128(9, 2)),
        "day": [date(2024, 2, 29), None, date(1969, 12, 31), date(9999, 1, 1)],
        "at": pa.array([datetime(2024, 3, 1, 12, tzinfo=UTC), None] * 2, pa.timestamp("us", "UTC")),
    }
)


def read(path: Path, **options: object) -> pa.Table:
    source = open_source(str(path), **options)  # type: ignore[arg-type]
    return pa.Table.from_batches(source.batches, source.schema)


@pytest.mark.parametrize("name", ["t.parquet", "t.pq", "t.arrow", "t.feather", "t.ipc", "t.arrows"])
def test_binary_formats_round_trip(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, TABLE)
    assert read(tmp_path / name).equals(TABLE)
    assert os.listdir(tmp_path) == [name]


def test_csv_round_trip_keeps_nulls_apart_from_empty_strings(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", TABLE)
    back = read(tmp_path / "t.csv")
    assert back.schema.types[:3] == [pa.int64(), pa.float64(), pa.string()]
    for name in ("id", "price", "name", "day", "at"):
        assert back[name].to_pylist() == TABLE[name].to_pylist(), name


def test_csv_nulls_by_name(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,x\nNA,NA\n")
    assert read(tmp_path / "t.csv")["a"].to_pylist() == ["1", "NA"]
    dialect = Csv(nulls=("", "NA"))
    assert read(tmp_path / "t.csv", dialect=dialect).to_pylist() == [{"a": 1, "b": "x"}, {"a": None, "b": None}]


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.arrow", "t.arrows"])
def test_no_rows_keep_their_schema(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, TABLE.slice(0, 0))
    back = read(tmp_path / name)
    assert back.num_rows == 0
    assert back.schema.names == TABLE.schema.names


def test_batches_are_cut_and_rows_counted(tmp_path: Path) -> None:
    big = pa.table({"a": range(300_000)})
    for name in ("t.parquet", "t.arrow"):
        write(tmp_path / name, big, rows=7_000)
        source = open_source(str(tmp_path / name), batch_rows=1_000)
        sizes = [b.num_rows for b in source.batches]
        assert sum(sizes) == 300_000
        assert max(sizes) == 1_000
    import pyarrow.parquet as pq

    assert open_source(str(tmp_path / "t.parquet")).rows == 300_000
    groups = pq.ParquetFile(tmp_path / "t.parquet").metadata
    assert groups.num_row_groups == 3  # small batches are gathered into large row groups


def test_dictionaries_of_several_batches(tmp_path: Path) -> None:
    t = pa.dictionary(pa.int8(), pa.string())
    batches = [pa.record_batch({"a": pa.array(v, t)}) for v in (["x", None], ["y", "x"])]
    for name in ("t.arrow", "t.arrows", "t.csv", "t.parquet"):
        write(tmp_path / name, pa.Table.from_batches(batches), rows=2)
        assert read(tmp_path / name)["a"].to_pylist() == ["x", None, "y", "x"], name


def test_formats_by_name_and_by_declaration() -> None:
    assert format_of("a/b.PARQUET") == "parquet"
    assert format_of("x.csv", "parquet") == "csv"
    assert format_of("x.dat", "arrow") == "arrow"
    assert format_of("-") == "arrows"
    assert format_of("-", "csv") == "csv"
    with pytest.raises(FileError, match=r"'x\.dat' does not show its format; expected one of .*--format"):
        format_of("x.dat")


@pytest.mark.parametrize(("name", "content", "said"), [
    pytest.param("gone.parquet", None, "there is no such file", id="missing"),
    pytest.param("t.parquet", b"PAR1 but no more", "cannot read '.*t.parquet' as parquet: ", id="no parquet"),
    pytest.param("t.arrow", b"ARROW1 but no more", "cannot read '.*t.arrow' as arrow: ", id="no arrow file"),
    pytest.param("t.arrows", b"\x10\x00\x00\x00", "cannot read '.*t.arrows' as arrows: ", id="no arrow stream"),
    pytest.param("t.csv", b"", "cannot read '.*t.csv' as csv: .*Empty CSV file", id="empty csv"),
    pytest.param("t.csv", b"a,b\n1,2\n3\n", "cannot read '.*t.csv' as csv: .*Expected 2 columns", id="ragged csv"),
    pytest.param("t.csv", gzip.compress(b"a\n1\n"), "show gzip; .*a name that ends in .gz", id="gzip as csv"),
    pytest.param(
        "t.csv", b"a\n" + b"1\n" * 600_000 + b"1.5\n", r"has '1\.5', .*types=\{'a': 'double'\}", id="late fraction"
    ),
    pytest.param("t.csv", b"a\n" + b"1\n" * 600_000 + b"x\n", r"has 'x', .*types=\{'a': 'string'\}", id="late text"),
])  # fmt: skip
def test_unreadable(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError, match=said):
        read(tmp_path / name)


def test_damage_far_into_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n" + "1\n" * 600_000 + "x\n")
    source = open_source(str(path))
    assert next(source.batches)["a"][0].as_py() == 1
    with pytest.raises(FileError, match=r"cannot read '.*t\.csv' as csv: .*'x'"):
        list(source.batches)


def test_directories_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "d.parquet").mkdir()
    with pytest.raises(FileError, match="it is a directory"):
        open_source(str(tmp_path / "d.parquet"))
    with pytest.raises(FileError, match="it is a directory"):
        Sink(str(tmp_path / "d.parquet"), TABLE.schema)


def test_an_empty_folder_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot read '.*': the folder contains no files$") as e:
        open_files(str(tmp_path))
    assert str(e.value).count("cannot read") == 1


def test_unwritable_places_are_known_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no directory '.*nowhere'"):
        Sink(str(tmp_path / "nowhere" / "t.csv"), TABLE.schema)
    with pytest.raises(FileError, match="only inputs can be URIs"):
        Sink("s3://nowhere/t.csv", TABLE.schema)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="there is no directory '.*file'"):
        Sink(str(tmp_path / "file" / "t.csv"), TABLE.schema)
    assert os.listdir(tmp_path) == ["file"]


def test_a_column_that_csv_cannot_hold_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot write '.*t.csv': Unsupported Type:list"):
        Sink(str(tmp_path / "t.csv"), pa.schema({"a": pa.list_(pa.int64())}))
    assert os.listdir(tmp_path) == []


def test_an_older_file_stays_until_commit(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(b"old")
    path.chmod(0o640)
    sink = Sink(str(path), TABLE.schema)
    sink.write(TABLE.to_batches()[0])
    sink.abandon()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["t.parquet"]
    write(path, TABLE)
    assert read(path).equals(TABLE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_keeps_pointing_to_the_replaced_file(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("old\n")
    (tmp_path / "link.csv").symlink_to("real.csv")
    write(tmp_path / "link.csv", pa.table({"a": [1]}))
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == '"a"\n1\n'


def test_a_device_is_written_and_never_replaced() -> None:
    place = Replacement(os.devnull)
    place.file.write(b"x")
    place.commit()
    place.abandon()
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_no_call_that_only_posix_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fchmod", raising=False)
    path = tmp_path / "t.csv"
    path.write_text("old")
    path.chmod(0o640)
    write(path, TABLE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_text().startswith('"id"')


def test_a_single_csv_column_keeps_its_nulls_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    text = b'"k"\n1\n\n3\n\n'
    for name in ("f/a.csv", "f/b.csv"):
        (tmp_path / name).write_bytes(text)
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(text))
    want = [1, None, 3, None]
    for source, rows in (("f/a.csv", want), ("f", want * 2), ("f/*.csv", want * 2), ("c.csv.gz", want)):
        files = open_files(tmp_path / source)
        assert [r["k"] for b in files.batches(None) for r in b.to_pylist()] == rows, source


def test_csv_with_line_breaks_in_its_text(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    table = pa.table({"n": range(60_000), "s": [f"first {i}\nsecond, {i}\nthird\n" for i in range(60_000)]})
    write(tmp_path / "f/a.csv", table, 60_000)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((tmp_path / "f/a.csv").read_bytes(), 1))
    for source in ("f/a.csv", "f", "a.csv.gz"):
        assert pa.Table.from_batches(open_files(tmp_path / source).batches(None)).equals(table), source


def _indexed(*values: object, t: pa.DataType | None = None) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(range(len(values)), pa.int8()), pa.array(values, t))


RUN_ENDS = pa.run_end_encoded(pa.int32(), pa.int8())
STORED = {
    "dictionaries in structs": [pa.StructArray.from_arrays([_indexed(*x)], ["x"]) for x in ("ab", "cde")],
    "dictionaries in lists": [
        pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), _indexed(*x)) for x in ("ab", "cd")
    ],
    "null among the values": [_indexed("a", None), _indexed("b", "c")],
    "null alone": [_indexed(None, t=pa.string()), _indexed("b", "c")],
    "dictionaries of views": [_indexed("a", None, t=pa.string_view()), _indexed("b", t=pa.string_view())],
    "dictionaries of times": [_indexed(1, 2, t=pa.timestamp("us", "UTC")), _indexed(3, t=pa.timestamp("us", "UTC"))],
    "dictionaries of lists": [_indexed(["a"], None), _indexed(["b"], [])],
    "run ends": [pa.array([1, 1, None], RUN_ENDS)] * 2,
    "run ends in structs": [pa.StructArray.from_arrays([pa.array([1, 1], RUN_ENDS)], ["x"])] * 2,
}  # fmt: skip


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.arrows"])
@pytest.mark.parametrize("column", STORED)
def test_columns_without_a_type_in_the_format_are_stored_as_values(
    tmp_path: Path, column: str, name: str
) -> None:
    arrays = STORED[column]
    batches = [pa.record_batch({"a": a}) for a in arrays]
    sink = Sink(str(tmp_path / name), batches[0].schema)
    for batch in batches:
        sink.write(batch)
    sink.commit()
    assert read(tmp_path / name)["a"].to_pylist() == [x for a in arrays for x in a.to_pylist()]


@pytest.mark.parametrize(
    "column", ["null among the values", "dictionaries of views", "dictionaries of times", "run ends"]
)
def test_csv_keeps_the_values_too(tmp_path: Path, column: str) -> None:
    arrays = STORED[column]
    sink = Sink(str(tmp_path / "t.csv"), pa.schema({"a": arrays[0].type, "b": pa.int8()}))
    for a in arrays:
        sink.write(pa.record_batch({"a": a, "b": pa.array([0] * len(a), pa.int8())}))
    sink.commit()
    back = read(tmp_path / "t.csv")["a"]
    assert back.to_pylist() == [x for a in arrays for x in a.to_pylist()]
