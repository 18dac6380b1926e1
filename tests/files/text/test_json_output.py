"""JSON lines and compressed text as outputs: what was written is read back."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from written import write

import ivjoin
from ivjoin.cli import main
from ivjoin.files.atomic import FileError
from ivjoin.files.datasets import open_files

TABLE = pa.table({
    "i": [1, None, -(2**63)], "u": pa.array([2**64 - 1, 0, None], pa.uint64()), "f": [1.0, 0.1, None],
    "e": [1e300, 1.5, -0.0],
    "s": ['a"b\\c\n\x01', "ü", None], "b": [True, False, None], "p": ["x", "y", None],
    "m": pa.array([Decimal("1.50"), None, Decimal("12345678901234567890.12")], pa.decimal128(38, 2)),
    "d": [date(2024, 2, 29), date(9999, 12, 31), None],
    "t": pa.array([datetime(2024, 1, 1, 12, 0, 0, 5), datetime(9999, 12, 31), None], pa.timestamp("us")),
    "z": pa.array([datetime(2024, 1, 1, tzinfo=UTC), None, datetime(1, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    "l": [[1, 2], [], None], "r": [{"x": 1.5, "y": "a"}, None, {"x": None, "y": "b"}],
})  # fmt: skip


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson.gz", "t.json.zst", "t.jsonl.bz2"])
def test_json_lines_read_back(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, TABLE)
    got = open_files(tmp_path / name).table(None)
    for column in TABLE.schema.names:
        assert got[column].to_pylist() == TABLE[column].to_pylist(), column
    assert got.schema.field("u").type == pa.uint64()
    assert got.schema.field("z").type == pa.timestamp("us", "UTC")
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_every_line_is_json(tmp_path: Path) -> None:
    more = pa.table({
        "n": [float("nan"), float("inf"), 2.0], "h": pa.array([1.5, None, 2.0], pa.float32()),
        "q": pa.array([timedelta(seconds=1), None, timedelta(0)], pa.duration("us")),
        "o": pa.array([time(1, 2, 3), None, time(0)], pa.time64("us")),
        "k": pa.array(["a", None, 'b"']).dictionary_encode(), "v": pa.array(["a", None, "b"], pa.string_view()),
        "w": pa.array([datetime(2024, 1, 1, 12)] * 3, pa.timestamp("s", "Asia/Tokyo")), "null": pa.nulls(3),
        "id": pa.array([UUID(int=1).bytes] * 3, pa.uuid()), "nested": [[float("nan")], None, [1.0]],
        "when": pa.array([[date(2024, 1, 1)], None, []]), 'na"me': [1, 2, 3],
    })  # fmt: skip
    write(tmp_path / "t.jsonl", more)
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [list(r) for r in rows] == [more.schema.names] * 3
    assert [r["n"] for r in rows] == [None, None, 2.0]
    assert [r["q"] for r in rows] == [1_000_000, None, 0]
    assert rows[0]["w"] == "2024-01-01T12:00:00Z"
    assert (rows[0]["o"], rows[0]["k"], rows[2]["k"], rows[0]["id"]) == ("01:02:03.000000", "a", 'b"', str(UUID(int=1)))
    assert (rows[0]["nested"], rows[0]["when"], rows[2]['na"me']) == ([None], ["2024-01-01"], 3)


def test_types_without_a_json_form_are_refused_before_any_row(tmp_path: Path) -> None:
    for column in (pa.array([b"x"]), pa.array([[b"x"]])):
        with pytest.raises(FileError, match=r"JSON lines cannot store column 'b', which is .*binary"):
            write(tmp_path / "t.jsonl", pa.table({"b": column}))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["t.csv.gz", "t.tsv.zst", "t.tsv", "t.csv.lz4", "t.arrows.gz"])
def test_compressed_text_reads_back(tmp_path: Path, name: str) -> None:
    table = pa.table({"a": list(range(1000)), "s": ['x,\ty"'] * 1000})
    write(tmp_path / name, table)
    assert open_files(tmp_path / name).table(None).equals(table)
    write(tmp_path / "plain.csv", table)
    assert (tmp_path / name).stat().st_size < 1.1 * (tmp_path / "plain.csv").stat().st_size


@pytest.mark.parametrize("name", ["t.parquet.gz", "t.arrow.zst", "t.bed"])
def test_outputs_that_are_no_text(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileError, match=f"cannot write '.*{name}': "):
        write(tmp_path / name, pa.table({"a": [1]}))
    assert not list(tmp_path.iterdir())


def test_write_json_and_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    left, right = pa.table({"k": [1, 2]}), pa.table({"k": [2], "v": ["x"]})
    assert ivjoin.band_join(left, right, on="k").write_json("o.json.gz") == 1
    assert open_files("o.json.gz").table(None).to_pylist() == [{"k": 2, "v": "x"}]
    with pytest.raises(FileError, match="as json: the name is one of a csv file"):
        ivjoin.band_join(left, right, on="k").write_json("o.csv")
    write(tmp_path / "l.parquet", left)
    write(tmp_path / "r.parquet", right)
    arguments = ["join", "l.parquet", "r.parquet", "--on", "k", "-q"]
    assert main([*arguments, "-o", "out.jsonl"]) == 0
    assert (tmp_path / "out.jsonl").read_text() == '{"k": 2, "v": "x"}\n'
    for options in (["--format", "json"], ["--output-format", "json"], ["--format", "json", "-o", "/dev/stdout"]):
        assert main([*arguments, *options]) == 0
        assert capfdbinary.readouterr().out == b'{"k": 2, "v": "x"}\n'
