"""Damaged files, snapshots and plans: an error of ours that names the file, no crash, and no wrong row."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from drivers import damage

import ivjoin
from ivjoin.files.atomic import FileError

RIGHT = pa.table({"k": range(0, 2000, 7)})
JOIN: Any = {"condition": "l.k >= r.k AND l.k <= r.k + 1"}


def with_a_wrong_offset(kind: str, column: pa.Array) -> bytes:
    """A file of 1,000 rows, in which one bit of an offset is another one."""
    table = pa.table({"k": range(1000), "x": column})
    sink = pa.BufferOutputStream()
    make = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
    with make(sink, table.schema) as writer:
        writer.write_table(table)
    data = bytearray(sink.getvalue().to_pybytes())
    offsets = column.buffers()[1].to_pybytes()[400:440]
    assert data.count(offsets) == 1
    data[data.index(offsets) + 3] ^= 0x40
    return bytes(data)


@pytest.mark.parametrize("kind", ["arrow", "arrows"])
@pytest.mark.parametrize("column", [
    pa.array([["aaa"] * 2] * 1000), pa.array(["text"] * 1000),
    pa.DictionaryArray.from_arrays(pa.array(range(1000), pa.int32()), pa.array([f"word {i}" for i in range(1000)])),
], ids=["list", "string", "dictionary"])  # fmt: skip
def test_one_bit_of_an_arrow_file(tmp_path: Path, kind: str, column: pa.Array) -> None:
    path = tmp_path / f"bad.{kind}"
    path.write_bytes(with_a_wrong_offset(kind, column))
    given: list[Any] = [path, [path, path], f"file://{path}"]
    if kind == "arrow":
        given.append(ds.dataset(path, format="ipc"))
        given.append(ds.dataset(path, format="ipc").scanner())
    for source in given:
        with pytest.raises(FileError, match="cannot read") as e:
            ivjoin.band_join(source, RIGHT, **JOIN).read_all()
        assert "bad" in str(e.value) or not isinstance(source, (Path, str))
    if kind == "arrows":
        with pytest.raises(FileError, match="the left input, an Arrow stream, is damaged"):
            ivjoin.band_join(pa.ipc.open_stream(path.read_bytes()), RIGHT, **JOIN).read_all()


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_a_damaged_file_of_a_folder_is_named(tmp_path: Path, kind: str) -> None:
    table = pa.table({"k": range(1000), "x": pa.array([["aaa"] * 2] * 1000)})
    for i in range(3):
        path = tmp_path / f"part{i}.{kind}"
        if kind == "parquet":
            pq.write_table(table, path)
        else:
            path.write_bytes(with_a_wrong_offset(kind, table["x"].chunk(0)))
        if i != 1 and kind == "arrow":
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
    if kind == "parquet":
        data = bytearray((tmp_path / "part1.parquet").read_bytes())
        data[4:200] = b"?" * 196  # the first page
        (tmp_path / "part1.parquet").write_bytes(data)
    for source in (tmp_path, sorted(tmp_path.iterdir())):
        with pytest.raises(FileError, match=r"cannot read '[^']*part1\.\w+' as"):
            ivjoin.band_join(source, RIGHT, **JOIN).read_all()


@pytest.mark.parametrize(("name", "text"), [
    ("x.csv", "k;SECRET\n1;2\n"), ("x.jsonl", '{"k": SECRET}'),
    ("x.jsonl", '{"k": 1}\n' * 200_000 + '{"k": "SECRET"}\n'), ("x.csv", "k\n" + "1\n" * 900_000 + "SECRET\n"),
])  # fmt: skip
@pytest.mark.parametrize("pattern", [False, True])
def test_a_link_that_leaves_the_folder_shows_nothing(tmp_path: Path, name: str, text: str, pattern: bool) -> None:
    outside, inside = tmp_path / name, tmp_path / "in"
    outside.write_text(text)
    inside.mkdir()
    (inside / name).symlink_to(outside)
    source = str(inside / "*") if pattern else inside
    with pytest.raises(FileError, match="a link that leaves the input folder") as e:
        ivjoin.band_join(source, RIGHT, **JOIN).read_all()
    assert "SECRET" not in str(e.value)
    outside.replace(tmp_path / "in" / f"own{outside.suffix}")
    (inside / name).unlink()
    (inside / f"again{outside.suffix}").symlink_to(inside / f"own{outside.suffix}")
    with pytest.raises(ivjoin.IvjoinError) as e2:
        ivjoin.band_join(source, RIGHT, **JOIN).read_all()
    assert "a link" not in str(e2.value)


DEEP = [
    pytest.param('{"k": %s}' % ("[" * 100_000 + "]" * 100_000), id="brackets"),
    pytest.param('{"k": %s}' % ("[\n" * 100_000 + "]" * 100_000), id="a line each"),
    pytest.param('{"k":' * 100_000 + "1" + "}" * 100_000, id="braces"),
    pytest.param('{"k": %s' % ("[" * 100_000), id="no end"),
    pytest.param('{"s": "]]]]", "k": %s}' % ('["]]]]",' * 99_000 + "1" + "]" * 99_000), id="closed ones in text"),
    pytest.param(r'{"s": "\"]\\", "k": %s}' % ("[" * 5000 + "]" * 5000), id="behind escapes"),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", DEEP)
@pytest.mark.parametrize("later", [False, True])
def test_deeply_nested_json(tmp_path: Path, text: str, later: bool) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_text(('{"k": 1, "s": "x"}\n' * (60_000 if later else 0)) + text + "\n")
    with pytest.raises(FileError, match=r"read '.*deep\.jsonl' as json: .*(brackets within each other|row takes)"):
        ivjoin.band_join(path, RIGHT, on="k").read_all()


def test_brackets_in_text_are_no_depth(tmp_path: Path) -> None:
    path = tmp_path / "flat.jsonl"
    row = '{"k": %d, "s": "%s", "x": [[{"a": "\\\\"}], [{"a": "\\"[[["}]]}\n'
    path.write_text("".join(row % (7 * i, "[{" * 300) for i in range(50)))
    assert ivjoin.band_join(path, RIGHT, on="k").read_all().num_rows == 50


def outcomes(kind: str, first: int, last: int) -> Counter[str]:
    """How many of these seeds give an error, and how many rows. A crash or anything else fails the test."""
    found: Counter[str] = Counter()
    command = [sys.executable, damage.__file__, kind, str(first), str(last)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    seed = lines[-1] if lines else first
    assert done.returncode == 0, f"{kind}, seed {seed}: {done.returncode}, {done.stderr[-500:]}"
    wrong = [line for line in lines if "WRONG" in line]
    assert not wrong, f"{kind}: {wrong[:5]}"
    found.update(line.split()[1] for line in lines)
    return found


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", damage.KINDS)
def test_some_damage(kind: str) -> None:
    found = outcomes(kind, 0, 20)
    assert sum(found.values()) == 20 and found["error"] > 2


@pytest.mark.soak
@pytest.mark.parametrize("kind", damage.KINDS)
def test_much_damage(kind: str) -> None:
    """SEEDS of each kind, 5,000 by default: a minute or two of processor time each."""
    last = int(os.environ.get("SEEDS", "5000"))
    for first in range(0, last, 500):
        outcomes(kind, first, min(first + 500, last))


@pytest.mark.parametrize("text", ["k,v\n1,2\n%s\n", "k,v\n" + "1,2\n" * 300_000 + "%s,3\n"], ids=["fields", "number"])
def test_an_error_quotes_80_characters_of_a_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text % ("#" * 1000))
    with pytest.raises(FileError, match="####") as e:
        ivjoin.band_join(path, RIGHT, on="k").read_all()
    assert str(e.value).count("#") <= 80


def test_a_writer_of_parquet_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"k": range(100)}), path)
    data = path.read_bytes()
    assert data.count(b"parquet-cpp-arrow") == 1
    path.write_bytes(data.replace(b"parquet-cpp-arrow", b"parquet-cpp-\xf6rrow"))
    assert ivjoin.band_join(path, RIGHT, on="k").read_all().num_rows == 15
    assert ivjoin.prune_row_groups(path, "k > 5") == [0]


def test_a_column_name_that_is_not_utf8() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema({"name": pa.int64()})) as writer:
        writer.write_table(pa.table({"name": [1]}))
    reader = pa.ipc.open_stream(sink.getvalue().to_pybytes().replace(b"name", b"n\xffme"))
    with pytest.raises(ivjoin.SchemaError, match="the left input has a column name that is not in UTF-8"):
        ivjoin.band_join(reader, RIGHT, condition="r.k > 1")
