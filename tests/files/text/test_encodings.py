"""Text that is not UTF-8, and files of another dialect: refused by name, with the fix."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import ivjoin
from ivjoin.files.atomic import FileError
from ivjoin.files.datasets import open_files

RIGHT = pa.table({"id": [1], "w": [2]})


def test_csv_that_is_not_utf8_is_refused_where_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes("id,name\n1,Zürich\n".encode("latin-1"))
    with pytest.raises(FileError, match=r"latin\.csv' as csv: column 'name' is not in UTF-8.*encoding='latin-1'"):
        ivjoin.band_join(str(path), pa.table({"name": ["Zürich"]}), on="name").read_all()
    got = ivjoin.band_join(str(path), RIGHT, on="id", columns=["id", "w"]).read_all()
    assert got.to_pylist() == [{"id": 1, "w": 2}]
    path.write_bytes(b"id,name\n" + b"1,plain\n" * 140_000 + "1,Zürich\n".encode("latin-1"))
    with pytest.raises(FileError, match=r"latin\.csv' as csv: column 'name' is not in UTF-8"):
        open_files(str(path)).table(["name"])
    path.write_bytes("id,näme\n1,x\n".encode("latin-1"))
    with pytest.raises(FileError, match=r"latin\.csv' as csv: it is not in UTF-8"):
        open_files(str(path))


@pytest.mark.parametrize("where", ["first", "later"])
def test_json_that_is_not_utf8_is_refused(tmp_path: Path, where: str) -> None:
    path = tmp_path / "latin.jsonl"
    good = b'{"id": 1, "name": "plain"}\n' * (1 if where == "first" else 40_000)
    path.write_bytes(good + '{"id": 1, "name": "Zürich"}\n'.encode("latin-1"))
    with pytest.raises(FileError, match=r"latin\.jsonl' as json: it is not in UTF-8"):
        open_files(str(path)).table(None)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_wide_encodings_are_named(tmp_path: Path, encoding: str, name: str) -> None:
    text = "id,v\n1,a\n" if name == "t.csv" else '{"id": 1, "v": "a"}\n'
    (tmp_path / name).write_bytes(text.encode(encoding))
    wide = "utf-32" if encoding == "utf-32" else "utf-16"
    with pytest.raises(FileError, match=rf"{name}' as \w+: its first bytes show the encoding {wide}, not UTF-8"):
        open_files(str(tmp_path / name))


def test_a_mark_of_utf8_is_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfid,v\n1,a\n")
    (tmp_path / "t.jsonl").write_bytes(b'\xef\xbb\xbf{"id": 1.5, "v": "a"}\n')
    assert open_files(str(tmp_path / "t.csv")).table(None).to_pylist() == [{"id": 1, "v": "a"}]
    assert open_files(str(tmp_path / "t.jsonl")).table(None).to_pylist() == [{"id": 1.5, "v": "a"}]


@pytest.mark.parametrize(("text", "delimiter"), [
    ("id;v\n1;2,5\n2;3,5\n", ";"), ("id;v\n1;2\n", ";"), ("id\tv\n1\t2\n", "\\t"), ("id|v\n1|2\n", "|"),
    ('"id";"v"\n1;2\n', ";"), ("id;v;w\n", ";"),
])  # fmt: skip
def test_a_header_of_another_delimiter_names_it(tmp_path: Path, text: str, delimiter: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    said = f"looks like delimiter '{delimiter}'; pass it, as in ivjoin.csv(path, delimiter='{delimiter}')"
    with pytest.raises(FileError) as error:
        ivjoin.band_join(str(tmp_path / "t.csv"), RIGHT, on="id").read_all()
    assert said in str(error.value)


def test_tsv_by_suffix_and_headers_with_blank_lines_and_quotes(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("id\tv\n1\ta,b\n")
    assert open_files(str(tmp_path / "t.tsv")).table(None).to_pylist() == [{"id": 1, "v": "a,b"}]
    (tmp_path / "t.csv").write_text('\n\n"i\nd",v\n\n1,2\n\n')
    assert open_files(str(tmp_path / "t.csv")).table(None).to_pylist() == [{"i\nd": 1, "v": 2}]


@pytest.mark.parametrize(("text", "rows"), [
    ("id,v", []), ("id,v\n1,", [{"id": 1, "v": None}]), ('id,v\n";",', [{"id": ";", "v": None}]),
    ("id,v\n1,x", [{"id": 1, "v": "x"}]), ("id,v\r\n1,2\r\n", [{"id": 1, "v": 2}]), ("id\n1\n", [{"id": 1}]),
])  # fmt: skip
def test_a_last_line_without_its_end(tmp_path: Path, text: str, rows: list[dict[str, object]]) -> None:
    (tmp_path / "t.csv").write_bytes(text.encode())
    files = open_files(str(tmp_path / "t.csv"))
    assert files.table(None).to_pylist() == rows
    assert files.schema.names == text.splitlines()[0].split(",")
