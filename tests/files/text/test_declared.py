"""``ivjoin.csv`` and ``ivjoin.json``: declared types and formats of a text file are used as given."""

from __future__ import annotations

import gzip
import json
import random
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ivjoin
from ivjoin.errors import ColumnError, IvjoinError, OptionError
from ivjoin.files.atomic import FileError
from ivjoin.files.text import blocks
from ivjoin.files.text.arrays import ObjectLines


@pytest.mark.parametrize(("text", "options", "rows"), [
    ("id;v\n1;2,5\n", {"delimiter": ";", "decimal": ","}, [{"id": 1, "v": 2.5}]),
    ("id;v\n1;2,50\n", {"delimiter": ";", "decimal": ",", "types": {"v": "decimal(5, 2)"}}, None),
    ("1,a\n2,b\n", {"header": False}, [{"f0": 1, "f1": "a"}, {"f0": 2, "f1": "b"}]),
    ("1,a\n", {"header": False, "columns": ["x", "y"]}, [{"x": 1, "y": "a"}]),
    ("p,q\n1,a\n", {"columns": ["x", "y"]}, [{"x": 1, "y": "a"}]),
    (
        "id,v\n007,NULL\n8,\n", {"types": {"id": "string"}, "nulls": ["NULL"]},
        [{"id": "007", "v": None}, {"id": "8", "v": ""}],
    ),
    ("a,b\n'x,y',1\n\"z,2\n", {"quote": "'"}, [{"a": "x,y", "b": 1}, {"a": '"z', "b": 2}]),
    ("a,b\n\"z,2\n", {"quote": None}, [{"a": '"z', "b": 2}]),
    ("a|b\n1|2\n", {"delimiter": "|", "types": {"a": pa.int8()}}, [{"a": 1, "b": 2}]),
    ("id;v\n1;2\n", {"delimiter": ","}, [{"id;v": "1;2"}]),
])  # fmt: skip
def test_a_dialect(tmp_path: Path, text: str, options: dict[str, Any], rows: list[dict[str, Any]] | None) -> None:
    (tmp_path / "t.csv").write_text(text)
    got = ivjoin.csv(tmp_path / "t.csv", **options)
    table = got.table(None)
    if rows is None:
        assert table.schema.field("v").type == pa.decimal128(5, 2)
    else:
        assert table.to_pylist() == rows
    assert got.table(None).equals(table), "a file is read as often as it is needed"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "cp1252", "utf-8"])
def test_an_encoding(tmp_path: Path, encoding: str) -> None:
    text = "id,stadt\n" + "1,Zürich\n" * 100_000
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    left, right = ivjoin.csv(tmp_path / "t.csv", encoding=encoding), pa.table({"stadt": ["Zürich"]})
    got = ivjoin.band_join(left, right, on="stadt")
    assert got.read_all().num_rows == 100_000
    (tmp_path / "t.csv").write_bytes(b"id,stadt\n1,Z\xfcrich\n")
    with pytest.raises(FileError, match=r"t\.csv' as csv: it is not in ascii"):
        ivjoin.csv(tmp_path / "t.csv", encoding="ascii")


def test_declared_types_hold_for_later_rows_and_all_files(tmp_path: Path) -> None:
    for i in (1, 2):
        last = f"18446744073709551615,2024-01-01 00:00:00Z,{i}.5\n"
        (tmp_path / f"{i}.csv").write_text("id,at,n\n" + "1,,1\n" * 250_000 + last)
    types = {"id": "uint64", "at": "timestamp[us, UTC]", "n": "double"}
    got = ivjoin.csv(str(tmp_path / "*.csv"), types=types)
    assert got.schema.types == [pa.uint64(), pa.timestamp("us", "UTC"), pa.float64()]
    assert got.table(["id", "n"]).slice(250_000, 1).to_pylist() == [{"id": 2**64 - 1, "n": 1.5}]
    (tmp_path / "1.csv").write_text("id,at,n\nx,,\n")
    with pytest.raises(FileError, match=r"1\.csv' as csv: column 'id' has 'x', which is not uint64"):
        ivjoin.csv(str(tmp_path / "*.csv"), types=types).table(None)


@pytest.mark.parametrize(("options", "error", "said"), [
    ({"delimiter": ";;"}, OptionError, "delimiter is ';;'; expected one ASCII character"),
    ({"decimal": None}, OptionError, "decimal is None"), ({"delimiter": "."}, OptionError, "also the decimal sign"),
    ({"types": {"zz": "int64"}}, ColumnError, "types contains 'zz'; the file has id, v"),
    ({"types": {"id": "intt"}}, IvjoinError, "unknown type name 'intt'"),
    ({"types": ["id"]}, OptionError, r"types is \['id'\]; expected a dict"),
    ({"encoding": "nope"}, OptionError, "encoding is 'nope', which is unknown"),
    ({"columns": ["a", "a"]}, OptionError, "each once"), ({"columns": "ab"}, OptionError, "expected a list of texts"),
    ({"nulls": "NULL"}, OptionError, "nulls is 'NULL'; expected a list"), ({"header": 1}, OptionError, "True or False"),
    ({"quote": "''"}, OptionError, "expected one ASCII character"),
    ({"columns": ["a"]}, FileError, "Expected 1 columns, got 2"),
])  # fmt: skip
def test_options_without_a_meaning(tmp_path: Path, options: dict[str, Any], error: type[Exception], said: str) -> None:
    (tmp_path / "t.csv").write_text("id,v\n1,2\n")
    with pytest.raises(error, match=said):
        ivjoin.csv(tmp_path / "t.csv", **options).table(None)


def test_files_of_another_format_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(FileError, match=r"t\.jsonl' is a json file by its name; expected csv"):
        ivjoin.csv(tmp_path / "t.jsonl")
    (tmp_path / "t.txt").write_text("a,b\n1,2\n")
    assert ivjoin.csv(tmp_path / "t.txt").table(None).to_pylist() == [{"a": 1, "b": 2}]


def test_bed_has_no_header(tmp_path: Path) -> None:
    (tmp_path / "t.bed").write_text("# made by hand\ntrack name=x\nchr1\t5\t10\tn\nchr2\t1\t3\tm\n")
    got = ivjoin.band_join(
        str(tmp_path / "t.bed"), pa.table({"chrom": ["chr1"], "at": [7]}), on="chrom",
        condition="l.start <= r.at AND r.at < l.end",
    ).read_all()  # fmt: skip
    assert got.to_pylist() == [{"chrom": "chr1", "start": 5, "end": 10, "name": "n", "at": 7}]


# -- JSON -------------------------------------------------------------------------------------------------------------


def test_a_declared_schema_of_json(tmp_path: Path) -> None:
    last = '{"id": 18446744073709551615, "at": "2024-01-01T00:00:00Z"}\n'
    (tmp_path / "t.jsonl").write_text('{"id": 1, "u": [1]}\n' + last)
    schema = {"at": "timestamp[us, UTC]", "id": "uint64", "none": "int64"}
    got = ivjoin.json(tmp_path / "t.jsonl", schema=schema)
    assert got.table(["id", "none"]).to_pylist() == [{"id": 1, "none": None}, {"id": 2**64 - 1, "none": None}]
    assert got.schema.names == ["at", "id", "none"]
    again = ivjoin.json(tmp_path / "t.jsonl", schema=pa.schema([("id", pa.decimal128(20, 0))]))
    assert [int(v) for v in again.table(None)["id"].to_pylist()] == [1, 2**64 - 1]
    with pytest.raises(FileError, match=r"t\.jsonl' as json: field 'id' is int64 .*18446744073709551615"):
        ivjoin.json(tmp_path / "t.jsonl", schema={"id": "int64"}).table(None)
    for bad in ({}, [1], {"id": 5}):
        with pytest.raises(IvjoinError, match="schema|type"):
            ivjoin.json(tmp_path / "t.jsonl", schema=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_json_arrays(tmp_path: Path, indent: int | None, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 5_000)  # several blocks
    rows = [{"id": i, "s": f'a,"]}}{{[\n{i}', "n": {"x": [i, i + 1], "y": {"z": i / 2}}} for i in range(500)]
    text = json.dumps(rows, indent=indent).encode()
    (tmp_path / name).write_bytes(gzip.compress(text, 1) if name.endswith("gz") else text)
    assert ivjoin.json(tmp_path / name).table(["id", "s", "n"]).to_pylist() == rows
    got = ivjoin.band_join(str(tmp_path / name), pa.table({"id": [7]}), on="id", columns=["id", "s"]).read_all()
    assert got.to_pylist() == [{"id": 7, "s": rows[7]["s"]}]


def test_lines_of_arrays_as_python_reads_them() -> None:
    draw = random.Random(1)

    def value(depth: int = 0) -> Any:
        kind = draw.randrange(7 if depth < 3 else 5)
        if kind == 5:
            return [value(depth + 1) for _ in range(draw.randrange(3))]
        if kind == 6:
            return {draw.choice('ab"\\]{'): value(depth + 1) for _ in range(draw.randrange(3))}
        return [None, 1, 1.5, "".join(draw.choice('a"\\,[]{}\n é') for _ in range(draw.randrange(8))), True][kind]

    class Pieces(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(draw.choice([1, 2, 3, 7, 1000]))

    for _ in range(500):
        rows = [{draw.choice("xyz"): value() for _ in range(draw.randrange(4))} for _ in range(draw.randrange(5))]
        text = json.dumps(rows, indent=draw.choice([None, 2]), ensure_ascii=draw.random() < 0.5).encode()
        file = ObjectLines(Pieces(text))
        out = b"".join(iter(lambda: file.read(1 << 20), b""))  # noqa: B023
        assert [json.loads(line) for line in out.split(b"\n") if line.strip()] == rows
