"""Bad input on the command line: one clear line, exit code 2, and nothing half-written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from places import environment

from ivjoin.cli import main

LEFT = pa.table(
    {
        "id": [1, 2, 3], "ts": [10, 20, 30], "price": [1.5, 2.5, 3.5], "name": ["x", "y", "z"],
        "tags": [["a"], [], None],
        # one value that overflows with nothing: where every row must err, a whole row group can be refuted instead
        "small": pa.array([1, 120, 127], pa.int8()),
    }
)
RIGHT = pa.table({"id": [1, 2, 3], "ts": [11, 19, 45], "name": ["x", "q", "z"], "zero": [1, 0, 2]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(LEFT, tmp_path / "l.parquet")
    pq.write_table(RIGHT, tmp_path / "r.parquet")
    (tmp_path / "out.parquet").write_bytes(b"the old file")
    return tmp_path


def refusal(folder: Path, *arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a join that must fail; what it says, after checking that it did no harm."""
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    try:
        code = main([str(folder / a) if re.fullmatch(r"\w+\.(parquet|csv|arrow|gone)", a) else a for a in arguments])
    except SystemExit as e:  # argparse
        code = e.code  # type: ignore[assignment]
    said = capsys.readouterr()
    assert code == 2
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    assert said.err.startswith("ivjoin: error: ")
    assert "Traceback" not in said.err
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    return said.err.removeprefix("ivjoin: error: ").rstrip("\n")


QUESTIONS = [
    pytest.param(["--condition", "l.pric > r.ts"], r"'pric'.*id, ts, price.*did you mean 'price'", id="unknown column"),
    pytest.param(["--on", "idd"], r"'?idd'?.*id", id="unknown key"),
    pytest.param(["--on", "id=idx"], r"'?idx'?.*id", id="unknown right key"),
    pytest.param(["--condition", "ts > 3"], r"(?i)ambiguous.*ts|ts.*both", id="ambiguous column"),
    pytest.param(["--condition", "l.ts >"], r"line 1, column \d+.*, at '>'$", id="incomplete condition"),
    pytest.param(["--condition", "l.ts >= (r.ts"], r"line 1, column \d+", id="open bracket"),
    pytest.param(["--condition", "l.ts =\n r.ts 3"], r"line 2, column \d+.*, at '3'$", id="condition of two lines"),
    pytest.param(["--condition", "l.ts + 1"], r"true or false.*int64", id="not a condition"),
    pytest.param(["--condition", "l.tags > 3"], r"(?i)list<.*>", id="type an operator cannot take"),
    pytest.param(["--condition", "l.name - r.name > 3"], r"(?i)string|cast", id="text minus text"),
    pytest.param(["--condition", "soundex(l.name) = r.name"], r"(?i)soundex", id="unknown function"),
    pytest.param(["--condition", "l.ts = r.ts", "--how", "outerr"], r"outerr.*inner", id="unknown join type"),
    pytest.param(["--on", "id", "--left-order", "tz"], r"'?tz'?.*id, ts", id="order on a missing column"),
    pytest.param(["--on", "id", "--left-order", "r.ts"], r"(?i)order", id="order on the other side"),
    pytest.param(["--on", "id", "--left-order", "name"], r"(?i)order.*string", id="order of text"),
    pytest.param(["--on", "id", "--left-order", "ts SLACK soon"], r"slack is 'soon'", id="slack in words"),
    pytest.param(["--on", "id", "--left-order", "ts SLACK 5s"], r"(?i)slack.*number", id="time slack of a number"),
    pytest.param(["--on", "id", "--left-bounds", "ts:0-5"], r"expected NAME=LEAST\.\.GREATEST", id="bounds form"),
    pytest.param(["--on", "id", "--left-bounds", "ts=9..5"], r"least is above the greatest", id="bounds crossed"),
    pytest.param(["--on", "id", "--left-bounds", "tz=1..5"], r"'?tz'?", id="bounds of a missing column"),
    pytest.param(["--on", "id", "--on-late", "ignore"], r"on_late is 'ignore'; expected", id="unknown late rule"),
    pytest.param(["--on", "id", "--batch-size", "0"], r"batch_size is 0; expected", id="no batch"),
    pytest.param(["--on", "id", "--batch-size", "many"], r"--batch-size.*'many'", id="batch size in words"),
    pytest.param(["--on", "id", "--timezone", "Mars/Base"], r"Mars/Base", id="unknown zone"),
    pytest.param(["--on", "id", "--suffix", ""], r"(?i)name", id="names that collide"),
    pytest.param(["--on", "id=name"], r"(?i)int64.*string|string.*int64|cast", id="keys of types that do not meet"),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("question", "said"), QUESTIONS)
def test_refused_before_any_work(
    folder: Path, question: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refusal(folder, "join", "l.parquet", "r.parquet", *question, "-o", "out.parquet", capsys=capsys)
    assert re.search(said, message), message


@pytest.mark.parametrize(("question", "said"), [
    pytest.param(["--condition", "l.small + CAST(20 AS TINYINT) > r.ts"], r"(?i)overflow.*small", id="overflow"),
    pytest.param(["--condition", "l.ts div r.zero > 3"], r"(?i)division by zero|divi", id="division by zero"),
    pytest.param(["--condition", "CAST(l.name AS INT) > r.ts"], r"(?i)cast.*'x'|'x'", id="a cast of text"),
    pytest.param(["--on", "id", "--left-order", "ts DESC"], r"late row on the left side.*ts is 20", id="late row"),
    pytest.param(["--on", "id", "--left-bounds", "ts=0..25"], r"(?i)ts is 30.*25", id="row out of bounds"),
])  # fmt: skip
def test_refused_at_a_row(folder: Path, question: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(folder, "join", "l.parquet", "r.parquet", *question, "-o", "out.parquet", capsys=capsys)
    assert re.search(said, message), message


@pytest.mark.parametrize(("arguments", "said"), [
    pytest.param(["join", "l.parquet", "r.gone"], "does not show its format", id="unknown format"),
    pytest.param(["join", "l.parquet", "r.arrow"], "there is no such file", id="missing file"),
    pytest.param(["join", "l.parquet", "nowhere/"], "'nowhere/': there is no such file", id="missing folder"),
    pytest.param(["join", "-", "-"], "both standard input", id="twice standard input"),
    pytest.param(["join", "l.parquet"], "RIGHT.*see 'ivjoin join --help'", id="one file"),
    pytest.param(["join", "l.parquet", "r.parquet", "--onn", "i"], "unrecognized arguments: --onn", id="option"),
    pytest.param(["jion"], "invalid choice: 'jion'", id="unknown command"),
    pytest.param([], "COMMAND.*see 'ivjoin --help'", id="no command"),
])  # fmt: skip
def test_refused_arguments(folder: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert re.search(said, refusal(folder, *arguments, capsys=capsys))


def test_unwritable_places(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "d.parquet").mkdir()
    for place, said in (
        (str(folder / "nowhere" / "out.parquet"), "there is no directory"),
        (str(folder / "d.parquet"), "it is a directory"),
        (str(folder / "l.parquet" / "out.parquet"), "there is no directory"),
        ("/proc/out.parquet", "cannot write '/proc/out.parquet': "),
    ):
        for option in ("-o", "--metrics-json"):
            message = refusal(folder, "join", "l.parquet", "r.parquet", "--on", "id", option, place, capsys=capsys)
            assert said in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.chmod(0o555)
    try:
        message = refusal(folder, "join", "l.parquet", "r.parquet", "--on", "id", "-o", "new.parquet", capsys=capsys)
    finally:
        folder.chmod(0o755)
    assert "Permission denied" in message


WORDS = {
    "empty": "", "blank": " ", "a word": "nope", "dots": "..", "equals": "=", "a pair": "ts=..", "minus": "-1",
    "a huge number": "1e999999999999", "a long number": "9" * 5000, "not a number": "nan", "brackets": "(" * 3000,
    "a slack": "ts SLACK 1e30d", "a long slack": "ts SLACK " + "9" * 5000, "an offset": "+99:99",
    "a huge bound": "ts=1e999999999999..", "bounds of no number": "ts=nan..nan", "bounds too far": "small=0..300",
    "half a character": "a\udcff", "NUL": "a\0b",
}  # fmt: skip
OPTIONS = (
    "--on", "--condition", "--how", "--left-order", "--left-bounds", "--on-late", "--suffix", "--batch-size",
    "--timezone", "--format", "--csv-null", "-o", "--metrics-json", "LEFT",
)  # fmt: skip
# What has a meaning: (option, word).
MEANT = {
    *(("--suffix", w) for w in WORDS if w not in ("empty", "half a character")),
    *(("--csv-null", w) for w in WORDS),  # no input is CSV
    *(("--metrics-json", w) for w in WORDS if 0 < len(WORDS[w]) < 100 and w not in ("NUL", "dots")),
    ("--left-bounds", "a pair"), ("--left-order", "minus"), ("--timezone", "minus"),
}  # fmt: skip


@pytest.mark.one_in(13)
@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_with_every_word(
    folder: Path, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    for name, word in WORDS.items():
        arguments = ["join", "l.parquet", "r.parquet", "--on", "id", "-q", "-o", "out.parquet", option, word]
        if option == "LEFT":
            arguments = ["join", word, "r.parquet", "--on", "id", "-q", "-o", "out.parquet"]
        if (option, name) in MEANT:
            assert main(arguments) == 0, name
            assert capsys.readouterr() == ("", "")
            (folder / "out.parquet").write_bytes(b"the old file")
        else:
            assert refusal(folder, *arguments, capsys=capsys), name


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "arrows"])
def test_names_that_are_not_utf8(folder: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / f"names.{kind}"
    if kind == "csv":
        path.write_bytes(b"id,ts\n1,2\n")
    else:
        from ivjoin.files.formats import Sink

        sink = Sink(str(path), pa.schema({"id": pa.int64(), "ts": pa.int64()}))
        sink.write(pa.record_batch({"id": [1], "ts": [2]}))
        sink.commit()
    path.write_bytes(path.read_bytes().replace(b"ts", b"t\xe4"))
    message = refusal(folder, "join", str(path), "r.parquet", "--on", "id", "-o", "out.parquet", capsys=capsys)
    assert "cannot read" in message


def test_a_damaged_input_stops_the_join(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "l.csv").write_text("id,ts\n" + "1,2\n" * 400_000 + "x,y\n")
    question = ["--on", "id", "--how", "left_anti", "-o", "out.parquet"]
    message = refusal(folder, "join", "l.csv", "r.parquet", *question, capsys=capsys)
    assert re.search(r"cannot read '.*l\.csv' as csv: ", message)


@pytest.mark.slow
def test_no_traceback_in_a_process_of_its_own(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ivjoin.cli", "join", "l.parquet", "r.parquet", "--condition", "l.tz = r.ts"],
        cwd=folder, capture_output=True, text=True, timeout=60, check=False,
        env=environment(),
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("ivjoin: error: ")
