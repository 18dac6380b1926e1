"""The command line end to end: files and pipes in, files and pipes out."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import written

import ivjoin
from ivjoin import JoinMetrics
from ivjoin.cli import main, progress
from ivjoin.cli.progress import Progress
from ivjoin.files.formats import open_source

BAND = "l.t BETWEEN r.t - 3 AND r.t + 2"
ORDERED = ["--on", "k", "--condition", BAND, "--left-order", "t", "--right-order", "t"]


def side(rows: int, seed: int, payload: str) -> pa.Table:
    draw = random.Random(seed)
    t = 0
    columns: dict[str, list[Any]] = {"k": [], "t": [], payload: []}
    for i in range(rows):
        t += draw.randrange(3)
        columns["k"].append(draw.choice([None, 1, 2, 3]))
        columns["t"].append(t)
        columns[payload].append(f"{payload}{i}" if i % 5 else None)
    return pa.table(columns)


LEFT, RIGHT = side(400, 1, "a"), side(300, 2, "b")


def expected(how: str) -> Counter[tuple[Any, ...]]:
    """The join as a nested loop: rows of k, t, a, t_right, b."""
    lefts, rights = LEFT.to_pylist(), RIGHT.to_pylist()
    rows: Counter[tuple[Any, ...]] = Counter()
    for x in lefts:
        found = [y for y in rights if x["k"] is not None and x["k"] == y["k"] and -3 <= x["t"] - y["t"] <= 2]
        rows.update((x["k"], x["t"], x["a"], y["t"], y["b"]) for y in found)
        if not found and how == "left":
            rows[(x["k"], x["t"], x["a"], None, None)] += 1
    return rows


write = partial(written.write, rows=64)


def rows_of(path: Path) -> Counter[tuple[Any, ...]]:
    source = open_source(str(path))
    return Counter(tuple(row.values()) for row in pa.Table.from_batches(source.batches, source.schema).to_pylist())


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    return str(write(tmp_path / "l.parquet", LEFT)), str(write(tmp_path / "r.parquet", RIGHT))


@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow", "arrows"])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_join_in_every_format(tmp_path: Path, kind: str, how: str) -> None:
    left, right = write(tmp_path / f"l.{kind}", LEFT), write(tmp_path / f"r.{kind}", RIGHT)
    out = tmp_path / f"out.{kind}"
    assert main(["join", str(left), str(right), *ORDERED, "--how", how, "-q", "-o", str(out)]) == 0
    assert rows_of(out) == expected(how)
    assert {p.name for p in tmp_path.iterdir()} == {left.name, right.name, out.name}


@pytest.mark.slow
def test_a_limit(tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    out, report = tmp_path / "out.parquet", tmp_path / "m.json"
    limit = ["--memory-limit", "15kB"]
    spill = [*limit, "--when-full", "spill", "--spill-dir", str(tmp_path), "--metrics-json", str(report)]
    assert main(["join", *files, *ORDERED, "--how", "left", "-q", *spill, "-o", str(out)]) == 0
    assert rows_of(out) == expected("left")
    assert json.loads(report.read_text())["peak_state_bytes"] <= 15_000
    assert main(["join", *files, *ORDERED, "-q", "--memory-limit", "2000", "-o", str(out)]) == 2
    assert "memory_limit of 2,000 bytes" in capsys.readouterr().err
    assert main(["join", *files, *ORDERED, "-q", *limit, "--when-full", "shed", "--how", "left", "-o", str(out)]) == 2
    assert "Only inner and semi joins may shed" in capsys.readouterr().err
    assert main(["join", *files, *ORDERED, "-q", "--memory-limit", "none", "-o", str(out)]) == 2
    assert "memory_limit is 'none'; expected bytes above zero" in capsys.readouterr().err


def test_metrics_on_standard_error_and_as_json(
    tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    out, report = tmp_path / "out.parquet", tmp_path / "m.json"
    assert main(["join", *files, *ORDERED, "-o", str(out), "--metrics-json", str(report)]) == 0
    said = capsys.readouterr()
    figures = json.loads(report.read_text())
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith(f"ivjoin: 400 + 300 rows in, {figures['rows_out']:,} out, in ")
    assert f"at most {figures['peak_state_rows']:,} rows stored" in said.err
    assert (figures["left_rows_in"], figures["right_rows_in"]) == (400, 300)
    assert figures["rows_out"] == sum(expected("inner").values())
    assert figures["seconds"] > 0


def test_quiet_prints_nothing(tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["join", *files, *ORDERED, "-q", "-o", str(tmp_path / "o.csv")]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_orders_keep_the_state_small(tmp_path: Path) -> None:
    big = pa.table({"t": pa.array(range(100_000))})
    files = [str(tmp_path / name) for name in ("l.parquet", "r.parquet")]
    for file in files:
        pq.write_table(big, file, row_group_size=10_000)
    peaks = {}
    ordered = ["--left-order", "t", "--right-order", "t"]
    for name, orders in (("with", ordered), ("without", ["--sort", "never"]), ("found", [])):
        report = tmp_path / f"{name}.json"
        where = ["--condition", "l.t BETWEEN r.t - 10 AND r.t + 10"]
        arguments = ["join", *files, *where, *orders, "--how", "left_semi", "-q", "-o", os.devnull]
        assert main([*arguments, "--format", "arrows", "--metrics-json", str(report)]) == 0
        figures = json.loads(report.read_text())
        assert figures["rows_out"] == 100_000
        peaks[name] = figures["peak_state_rows"]
    assert peaks["with"] < 5_000
    assert peaks["found"] < 10_000
    assert peaks["without"] > 50_000


def test_slack_and_late_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = str(write(tmp_path / "l.csv", pa.table({"t": [1, 5, 4, 9, 2]})))
    right = str(write(tmp_path / "r.csv", pa.table({"t": [1, 2, 4, 5, 9]})))
    question = ["join", left, right, "--condition", "l.t = r.t", "--right-order", "t", "-o", str(tmp_path / "o.csv")]
    assert main([*question, "--left-order", "t SLACK 7"]) == 0
    assert "late" not in capsys.readouterr().err
    assert len(rows_of(tmp_path / "o.csv")) == 5
    assert main([*question, "--left-order", "t SLACK 1", "--on-late", "drop"]) == 0
    assert capsys.readouterr().err.rstrip().endswith("; 1 late")
    assert len(rows_of(tmp_path / "o.csv")) == 4


def test_one_place_for_result_and_metrics(
    tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for one, other in (("o.csv", "o.csv"), ("o.csv", "./o.csv")):
        places = ["-o", f"{tmp_path}/{one}", "--metrics-json", f"{tmp_path}/{other}"]
        assert main(["join", *files, *ORDERED, *places]) == 2
        assert "would go where the result (-o) goes" in capsys.readouterr().err
    assert main(["join", *files, *ORDERED, "--metrics-json", "-"]) == 2
    assert "would go where the result (-o) goes" in capsys.readouterr().err
    quiet = ["--format", "arrows", "-q", "-o", os.devnull, "--metrics-json", os.devnull]
    assert main(["join", *files, *ORDERED, *quiet]) == 0, "a device is written to, never replaced"


def test_the_old_file_stays_when_the_join_fails_midway(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rising = list(range(50_000))
    left = str(write(tmp_path / "l.parquet", pa.table({"t": [*rising, 0]})))
    right = str(write(tmp_path / "r.parquet", pa.table({"t": rising})))
    out = tmp_path / "out.csv"
    out.write_text("old\n")
    before = {p.name for p in tmp_path.iterdir()}
    report = tmp_path / "m.json"
    arguments = ["join", left, right, "--where", "l.t = r.t", "--left-order", "t", "--right-order", "t", "-o", str(out)]
    assert main([*arguments, "--metrics-json", str(report)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("ivjoin: error: ")
    assert "late row on the left side" in said
    assert out.read_text() == "old\n"
    assert {p.name for p in tmp_path.iterdir()} == before


def test_explain(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *files, *ORDERED]) == 0
    said = capsys.readouterr().out
    assert "band term" in said
    assert "key" in said


# -- other processes --------------------------------------------------------------------------------------------------

COMMAND = [sys.executable, "-m", "ivjoin.cli"]


def stream_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=64)
    return sink.getvalue().to_pybytes()


@pytest.mark.slow
def test_a_pipe_in_and_a_pipe_out(files: tuple[str, str]) -> None:
    arguments = ["join", "-", files[1], *ORDERED]
    done = subprocess.run([*COMMAND, *arguments], input=stream_bytes(LEFT), capture_output=True, check=True)
    result = pa.ipc.open_stream(done.stdout).read_all()
    assert Counter(tuple(row.values()) for row in result.to_pylist()) == expected("inner")
    assert b"rows in" in done.stderr  # metrics, but no bar: standard error is no terminal here
    assert b"\x1b[" not in done.stderr


@pytest.mark.slow
def test_csv_through_pipes(files: tuple[str, str]) -> None:
    text = "k,t,a\n1,5,x\n"
    arguments = ["join", "-", files[1], "--format", "csv", *ORDERED, "-q"]
    done = subprocess.run([*COMMAND, *arguments], input=text.encode(), capture_output=True, timeout=120, check=True)
    assert done.stdout.splitlines()[0] == b'"k","t","a","t_right","b"'


@pytest.mark.slow
@pytest.mark.parametrize("end", ["stdin", "stdout"])
def test_a_redirected_input_is_never_written_over(tmp_path: Path, files: tuple[str, str], end: str) -> None:
    left = write(tmp_path / "l.arrows", LEFT)
    before = left.read_bytes()
    source, place = ("-", ["-o", str(left)]) if end == "stdin" else (str(left), [])
    with left.open("r+b") as file:
        done = subprocess.run(
            [*COMMAND, "join", source, files[1], *ORDERED, *place], check=False, timeout=60, stderr=subprocess.PIPE,
            **{end: file},
        )  # fmt: skip
    assert done.returncode == 2
    assert b"would replace the input" in done.stderr
    assert left.read_bytes() == before


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    big = pa.table({"t": pa.array(range(200_000))})
    files = [str(write(tmp_path / name, big)) for name in ("l.parquet", "r.parquet")]
    arguments = ["join", *files, "--where", "l.t = r.t", "--left-order", "t", "--right-order", "t", "--format", "csv"]
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b'"t","t_right"\n'
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(timeout=60) == 128 + signal.SIGPIPE
    assert said == b""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_join_leaves_nothing_behind(tmp_path: Path, files: tuple[str, str], number: signal.Signals) -> None:
    out = tmp_path / "out.csv"
    out.write_text("old\n")
    before = {p.name for p in tmp_path.iterdir()}
    with subprocess.Popen(
        [*COMMAND, "join", "-", files[1], *ORDERED, "-o", str(out)], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        # a shell or nohup starts its background jobs, and so perhaps these tests, with some signals ignored
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(stream_bytes(LEFT)[:-8])  # no end yet: the join waits for more
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while {p.name for p in tmp_path.iterdir()} == before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(list(tmp_path.iterdir())) == len(before) + 1, "the unfinished output should be there by now"
        process.send_signal(number)
        process.stdin.close()
        said = process.stderr.read()
        assert process.wait(timeout=60) == 128 + number
    assert b"Traceback" not in said
    assert {p.name for p in tmp_path.iterdir()} == before
    assert out.read_text() == "old\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_while_modules_load(tmp_path: Path, number: signal.Signals) -> None:
    script = tmp_path / "command.py"
    # stands for whoever presses the keys while the command's modules are imported
    script.write_text(
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from ivjoin.cli import main\n"
        "assert 'pyarrow' not in sys.modules\n"
        "class Pressed:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == 'pyarrow': os.kill(os.getpid(), {int(number)})\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "raise SystemExit(main(['demo', '--batch-size', '0']))\n"
    )
    done = subprocess.run([sys.executable, str(script)], check=False, timeout=120, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, b"", b"ivjoin: error: stopped\n")


@pytest.mark.slow
def test_closed_standard_streams(tmp_path: Path, files: tuple[str, str]) -> None:
    def run(closed: tuple[int, ...], *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*COMMAND, "join", *arguments, *ORDERED], check=False, timeout=120, stderr=subprocess.PIPE,
            preexec_fn=lambda: [os.close(n) for n in closed],
        )  # fmt: skip

    done = run((1,), *files, "--format", "csv")
    assert (done.returncode, done.stderr) == (2, b"ivjoin: error: cannot write standard output: it is closed\n")
    done = run((0,), "-", files[1], "-q", "-o", str(tmp_path / "o.csv"))
    assert (done.returncode, done.stderr) == (2, b"ivjoin: error: cannot read standard input: it is closed\n")
    out = tmp_path / "out.csv"
    assert run((0, 1, 2), *files, "-o", str(out)).returncode == 0
    assert rows_of(out) == expected("inner")



@pytest.mark.parametrize("words", [["--version"], ["--help"], *([c, "--help"] for c in ("join", "explain", "demo"))])
def test_version_and_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="^0$"):
        main(words)
    said = capsys.readouterr().out
    assert said == f"ivjoin {ivjoin.__version__}\n" if "--version" in words else said.startswith("usage: ivjoin")


# -- tables as they come ----------------------------------------------------------------------------------------------


def test_folders_without_an_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(range(3000))
    random.Random(3).shuffle(rows)
    for side in ("l", "r"):
        (tmp_path / side).mkdir()
        for part in range(3):
            write(tmp_path / side / f"{part}.parquet", pa.table({"t": rows[part::3], "v": rows[part::3]}))
    out = tmp_path / "o.csv"
    question = ["--condition", "l.t BETWEEN r.t - 1 AND r.t + 1", "--columns", "v_right,t"]
    assert main(["join", str(tmp_path / "l"), str(tmp_path / "r" / "*.parquet"), *question, "-o", str(out)]) == 0
    said = capsys.readouterr().err
    assert "; neither side was ordered: both were sorted, by l.t and r.t, with 0.1 MB" in said
    got = rows_of(out)
    assert got == Counter((i + d, i) for i in range(3000) for d in (-1, 0, 1) if 0 <= i + d < 3000)
    assert main(["explain", str(tmp_path / "l"), str(tmp_path / "r"), *question[:2]]) == 0
    assert "neither side is ordered: both will be sorted by l.t and r.t, about" in capsys.readouterr().out


def test_explain_names_options_of_the_command_line(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *files, "--left-order", "k", "--condition", "l.t >= r.t - 3 AND l.k <> r.k"]) == 0
    said = capsys.readouterr().out
    assert "declare --left-order t or --left-bounds" in said
    assert "left_order" not in said


def test_progress_without_a_terminal(
    tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_EVERY_LINE", 0.0001)
    assert main(["join", *files, *ORDERED, "--progress", "-o", str(tmp_path / "o.csv")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("ivjoin: ") for line in lines)
    assert lines[-1].startswith("ivjoin: 400 + 300 rows in")


def test_a_line_of_progress() -> None:
    counts = JoinMetrics()
    shown = Progress(True, [600, 400], lambda: counts)
    shown.count(250)
    assert shown.line().startswith("[######..................]  25% 250 of 1,000 rows read, ")
    counts.left_rows_in, counts.left_rows_retired, counts.rows_out, counts.state_rows = 500, 490, 7, 10
    assert shown.line().startswith(
        "[############............]  50% 500 of 1,000 rows joined, 7 out, 10 stored, 98.0% evicted, "
    )
    assert Progress(True, [600, None], lambda: JoinMetrics()).line().startswith("0 rows read")


def test_the_package_is_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ivjoin", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("ivjoin ")


def test_a_csv_file_without_rows_may_have_an_order_and_bounds(tmp_path: Path) -> None:
    """Its columns have no type, so nothing is known of them: no row can break the promise."""
    (tmp_path / "l.csv").write_text("k,t\n1,5\n2,7\n")
    (tmp_path / "r.csv").write_text("k,t\n")
    out = tmp_path / "out.csv"
    code = main([
        "join", str(tmp_path / "l.csv"), str(tmp_path / "r.csv"), "--condition", "l.t BETWEEN r.t AND r.t + 2",
        "--how", "left", "--left-order", "t", "--right-order", "t DESC NULLS LAST", "--right-bounds", "t=..",
        "-q", "-o", str(out),
    ])  # fmt: skip
    assert code == 0
    assert out.read_text().splitlines()[1:] == ["1,5,,", "2,7,,"]


def test_window(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / f"{name}.parquet", pa.table({"k": [1, 1, 2], "t": [1, 5, 9], "x": [2.0, 4.0, 8.0]}))
    out = tmp_path / "out.parquet"
    command = ["window", str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet"), "--on", "k",
               "--condition", "r.t BETWEEN l.t - 2 AND l.t", "--aggregate", "n=count(*)",
               "--aggregate", "half = sum(r.x) / 2", "-q", "-o", str(out)]  # fmt: skip
    assert main(command) == 0
    got = pq.read_table(out).sort_by("t")
    assert got["n"].to_pylist() == [1, 1, 1] and got["half"].to_pylist() == [1.0, 2.0, 4.0]
    assert main([*command, "--include-previous", "--columns", "t,n"]) == 0
    assert pq.read_table(out).sort_by("t").to_pydict() == {"t": [1, 5, 9], "n": [1, 2, 1]}
    assert main([*command, "--aggregate", "n=sum(r.x)"]) == 2
    assert main([*command, "--aggregate", "count(*)"]) == 2


def test_pick(tmp_path: Path) -> None:
    left, right = pa.table({"x": [10]}), pa.table({"x": [7, 11, 14, 12, 12]})
    paths = [str(write(tmp_path / f"{i}.parquet", t)) for i, t in enumerate((left, right))]
    out = tmp_path / "out.parquet"
    command = ["join", *paths, "--condition", "abs(l.x - r.x) < 9", "-q", "-o", str(out), "--pick"]
    for pick, wanted in (
        ("first 3 by abs(l.x - r.x)", [11, 12, 12]), ("last by r.x", [14]),
        ("first 2 with ties by abs(l.x - r.x)", [11, 12, 12]),
        ("FIRST BY r.x % 2, -r.x", [14]), ("last 2 by greatest(l.x, r.x), r.x", [12, 14]),
    ):  # fmt: skip
        assert main([*command, pick]) == 0
        assert sorted(pq.read_table(out)["x_right"].to_pylist()) == wanted
    assert main([*command, "third by r.x"]) == 2


def test_asof_options(tmp_path: Path) -> None:
    left, right = pa.table({"t": [3, 7]}), pa.table({"t": [2, 6, 6, 9], "x": [1.0, 2.0, 3.0, 5.0]})
    paths = [str(write(tmp_path / f"{i}.parquet", t)) for i, t in enumerate((left, right))]
    out = tmp_path / "out.parquet"
    for more, column, wanted in (
        (["--ties", "all"], "x", [1.0, 2.0, 3.0]), (["--how", "right"], "x", [1.0, 2.0, 3.0, 5.0]),
        (["--condition", "r.x < :most", "--param", "most=3"], "x", [1.0, 2.0]),
        (["--offsets=-4,2"], "x_2", [1.0, 5.0]), (["--interpolate", "x", "--condition", "r.x <> 3"], "x", [1.25, 3.0]),
    ):  # fmt: skip
        assert main(["asof", *paths, "--on", "t", "-q", "-o", str(out), *more]) == 0
        assert sorted(pq.read_table(out)[column].to_pylist()) == wanted
