"""Paths that look like an alias, and files whose names do not show their format."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivjoin.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("year=2023/x.parquet", "year=2024/y.parquet", "b.parquet", "c.parquet"):
        Path(name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"k": [1]}), name)
    return tmp_path


@pytest.mark.parametrize("inputs", [
    pytest.param(["year=2023/x.parquet", "b.parquet"], id="left"),
    pytest.param(["b.parquet", "year=2023/x.parquet"], id="right"),
    pytest.param(["year=2023", "b.parquet"], id="folder"),
    pytest.param(["year=2023/*.parquet", "b.parquet"], id="pattern"),
    pytest.param(["year=2023/x.parquet", "year=2024/y.parquet"], id="both"),
])  # fmt: skip
@pytest.mark.parametrize("command", ["join", "explain"])
def test_a_path_that_exists_is_no_alias(inputs: list[str], command: str) -> None:
    out = ["-o", "o.parquet", "-q"] if command == "join" else []
    assert main([command, *inputs, "--on", "k", *out]) == 0
    if command == "join":
        assert pq.read_table("o.parquet")["k"].to_pylist() == [1]


def test_an_alias_of_a_path_with_an_equals_sign() -> None:
    inputs = ["a=year=2023/x.parquet", "b=b.parquet", "c=year=2024/*.parquet"]
    assert main(["join", *inputs, "--condition", "a.k = b.k AND b.k = c.k", "-o", "o.parquet", "-q"]) == 0
    assert pq.read_table("o.parquet").num_rows == 1


def test_one_alias_cannot_name_both_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["join", "year=2025/x.parquet", "b.parquet", "--on", "k"]) == 2
    said = capsys.readouterr().err
    assert "'b.parquet' has no alias" in said
    assert "'year=2025/x.parquet' is read as alias=path, since no file has that name" in said


def test_json_lines_from_standard_input_give_an_arrow_stream(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (folder / "in").write_text('{"k": 1}\n{"k": 2}\n')
    with open("in") as standard:
        monkeypatch.setattr("sys.stdin", standard)
        assert main(["join", "-", "b.parquet", "--format", "json", "--on", "k", "-q"]) == 0
    out = capfdbinary.readouterr().out
    assert pa.ipc.open_stream(out).read_all().to_pylist() == [{"k": 1}]


def test_format_of_an_output_only(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    pq.write_table(pa.table({"k": [1]}), "no_suffix")
    arguments = ["join", "no_suffix", "b.parquet", "--on", "k", "-q", "--format", "parquet"]
    assert main([*arguments, "--output-format", "csv"]) == 0
    assert capfdbinary.readouterr().out.splitlines() == [b'"k"', b"1"]
