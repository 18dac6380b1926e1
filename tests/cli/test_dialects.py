"""The options of CSV on the command line, for both inputs and for one of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ivjoin.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "semi.csv").write_text("id;v;name\n1;2,5;NULL\n2;3,5;b\n")
    (tmp_path / "latin.csv").write_bytes("1,Zürich\n2,'a,b'\n".encode("latin-1"))
    (tmp_path / "plain.csv").write_text("id,w\n1,5\n")
    return tmp_path


def rows(*arguments: str) -> list[dict[str, object]]:
    assert main(["join", *arguments, "-o", "o.parquet", "-q"]) == 0
    return pq.read_table("o.parquet").to_pylist()


def test_an_option_for_both_inputs_and_for_one() -> None:
    left = ["--left-csv-delimiter", ";", "--left-csv-decimal", ",", "--left-csv-null", "NULL"]
    assert rows("semi.csv", "plain.csv", "--on", "id", *left) == [{"id": 1, "v": 2.5, "name": None, "w": 5}]
    right = ["--right-csv-delimiter", ";", "--right-csv-types", "v=string, id=int32"]
    assert rows("plain.csv", "semi.csv", "--on", "id", *right)[0]["v"] == "2,5"
    both = ["--csv-delimiter", ";", "--csv-decimal", ",", "--csv-types", "id=decimal(5, 1),v=double"]
    assert len(rows("semi.csv", "semi.csv", "--on", "id", *both)) == 2
    named = ["--left-csv-no-header", "--left-csv-columns", "id, stadt", "--left-csv-encoding", "latin-1"]
    got = rows("latin.csv", "plain.csv", "--on", "id", *named, "--left-csv-quote", "'")
    assert got == [{"id": 1, "stadt": "Zürich", "w": 5}]


def test_asof_explain_and_inputs_by_alias() -> None:
    options = ["--csv-delimiter", ";", "--csv-decimal", ","]
    assert main(["asof", "semi.csv", "semi.csv", "--on", "id", *options, "-o", "o.csv", "-q"]) == 0
    assert main(["explain", "semi.csv", "semi.csv", "--condition", "l.v < r.v + 1", *options]) == 0
    many = ["a=semi.csv", "b=semi.csv", "c=semi.csv", "--condition", "a.id = b.id AND b.id = c.id"]
    assert len(rows(*many, *options)) == 2


@pytest.mark.parametrize(("arguments", "said"), [
    (["--csv-delimiter", ";;"], "delimiter is ';;'; expected one ASCII character"),
    (["--csv-types", "id"], "--csv-types is 'id'; expected NAME=TYPE"),
    (["--csv-types", "id=nope"], "unknown type name 'nope'"),
    (["--csv-types", "zz=int64"], "--csv-types has 'zz', which is not a column of id, w; id, w"),
    (["--csv-encoding", "nope"], "encoding is 'nope', which is unknown"),
])  # fmt: skip
def test_options_without_a_meaning(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["join", "plain.csv", "plain.csv", "--on", "id", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_an_option_of_one_side_has_no_meaning_for_an_alias(capsys: pytest.CaptureFixture[str]) -> None:
    many = ["a=semi.csv", "b=semi.csv", "c=semi.csv", "--condition", "a.id = b.id AND b.id = c.id"]
    assert main(["join", *many, "--left-csv-delimiter", ";"]) == 2
    assert "--left-csv-delimiter is for two inputs without an alias; write --csv-delimiter" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "said"), [
    ("id;w\n1;5\n", "looks like delimiter ';'; pass it, as in --csv-delimiter ';'"),
    ("id,w\n1,Z\xfcrich\n", "give its encoding, such as --csv-encoding 'latin-1'"),
    ("id,w\n" + "1,5\n" * 300_000 + "1,x\n", "declare its type: --csv-types \"w=string\""),
])  # fmt: skip
def test_errors_name_the_option(folder: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "t.csv").write_bytes(text.encode("latin-1"))
    assert main(["join", "t.csv", "plain.csv", "--on", "id", "-o", "o.parquet", "-q"]) == 2
    assert said in capsys.readouterr().err
