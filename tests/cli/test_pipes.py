"""Pipes: silent and slow ones, pipes that end while the join waits, and two at once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ivjoin.files.datasets import open_files
from ivjoin.files.formats import FileError, Sink, open_source
from ivjoin.files.text.blocks import BLOCK as CSV_BLOCK
from ivjoin.files.text.blocks import ROW_TOO_LONG
from ivjoin.files.text.csvs import end_of_rows

COMMAND = [sys.executable, "-m", "ivjoin.cli", "join"]
BAND = ["--on", "k", "--condition", "l.t = r.t", "--left-order", "t", "--right-order", "t", "-q"]
needs_named_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")


def table(rows: int) -> pa.Table:
    return pa.table({"k": [i % 7 for i in range(rows)], "t": range(rows), "s": [f"text {i}" for i in range(rows)]})


def text_of(rows: int) -> bytes:
    return b"k,t,s\n" + b"".join(b"%d,%d,text %d\n" % (i % 7, i, i) for i in range(rows))


def written(path: Path, of: pa.Table) -> str:
    sink = Sink(str(path), of.schema)
    sink.write(of.combine_chunks().to_batches()[0])
    sink.commit()
    return str(path)


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [*COMMAND, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
        # a shell starts its background jobs, and so perhaps these tests, with SIGINT ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        watch = threading.Timer(60, process.kill)
        watch.start()
        try:
            yield process
        finally:
            watch.cancel()
            process.kill()


def lines_until(process: subprocess.Popen[bytes], last: bytes) -> int:
    """The number of lines up to the first that begins so."""
    assert process.stdout is not None
    for n, line in enumerate(os.fdopen(os.dup(process.stdout.fileno()), "rb", 0)):
        if line.startswith(last):
            return n
    raise AssertionError(f"nothing begins with {last!r}")


@pytest.mark.slow
def test_rows_are_emitted_on_arrival_and_a_signal_ends_the_wait(tmp_path: Path) -> None:
    number = signal.SIGINT
    rows = 130_000
    right = written(tmp_path / "r.parquet", table(rows))
    text = text_of(rows)
    assert len(text) > 2 * CSV_BLOCK
    # one row for each that has come; the other side reads on, and no more of this one is in coming
    with started("-", right, *BAND, "--format", "csv") as process:
        assert process.stdin is not None
        assert process.stderr is not None
        come = text[: CSV_BLOCK + CSV_BLOCK // 2]
        threading.Thread(target=process.stdin.write, args=(come,), daemon=True).start()
        last = come.rpartition(b"\n")[0].rpartition(b"\n")[2].split(b",")[1]
        near = int(last) - 20_000  # the last batches of either side may wait for the other
        assert lines_until(process, b"%d,%d," % (near % 7, near)) == near + 1
        process.send_signal(number)
        assert process.wait(timeout=30) == 128 + number
        assert process.stderr.read() == b"ivjoin: error: stopped\n"


@pytest.mark.slow
@pytest.mark.parametrize(("bad", "more"), [(b"1,5\n", 0), (b"x,5,y\n", 300_000), (b"1,\xff,y\n", 0)])
def test_an_error_in_a_later_block_ends_the_join_at_once(tmp_path: Path, bad: bytes, more: int) -> None:
    right = written(tmp_path / "r.parquet", table(10))
    with started("-", right, *BAND, "--format", "csv") as process:
        assert process.stdin is not None
        assert process.stderr is not None
        rows = text_of(60_000)
        process.stdin.write(rows + bad + rows[6 : 6 + more])  # and stays open
        said = process.stderr.read()
        assert process.wait(timeout=30) == 2
    assert said.startswith(b"ivjoin: error: cannot read standard input as csv: ")
    assert said.count(b"\n") == 1


@pytest.mark.slow
@needs_named_pipes
@pytest.mark.parametrize("kind", ["csv", "arrows"])
def test_two_named_pipes(tmp_path: Path, kind: str) -> None:
    of = table(50_000)
    source = Path(written(tmp_path / f"x.{kind}", of)).read_bytes()
    pipes = [tmp_path / f"{name}.{kind}" for name in ("l", "r")]
    for pipe in pipes:
        os.mkfifo(pipe)
        threading.Thread(target=pipe.write_bytes, args=(source,), daemon=True).start()
    out = tmp_path / "out.parquet"
    done = subprocess.run(
        [*COMMAND, *map(str, pipes), *BAND, "-o", str(out)], check=False, timeout=60, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")
    source = open_source(str(out))
    got = pa.Table.from_batches(source.batches, source.schema)
    assert sorted(got["t"].to_pylist()) == list(range(50_000))
    assert got["s_right"].equals(got["s"])


@needs_named_pipes
def test_formats_that_cannot_be_read_from_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "l.parquet"
    os.mkfifo(pipe)
    with pytest.raises(FileError, match="Parquet cannot be read from the pipe .*its schema is at the end"):
        open_source(str(pipe))


def csv_of(pipe: Path, text: bytes, pieces: int, seed: int) -> pa.Table:
    """What is read of text that comes in pieces of any size."""
    os.mkfifo(pipe)
    draw = random.Random(seed)

    def write() -> None:
        with suppress(BrokenPipeError), pipe.open("wb", buffering=0) as file:
            rest = text
            while rest:
                n = draw.randrange(1, pieces)
                file.write(rest[:n])
                rest = rest[n:]

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    source = open_source(str(pipe), "csv")
    got = pa.Table.from_batches(list(source.batches), source.schema)
    writer.join(60)
    return got


@pytest.mark.slow
@needs_named_pipes
def test_text_of_several_lines_and_of_any_beginning(tmp_path: Path) -> None:
    pieces = 700
    each = ["a\nb", 'q"q', "", None, "\ufeffmark", "x\r\ny", 'e"', "plain", ',"', '"\n']
    values = each * 17_000
    of = pa.table({"n": range(len(values)), "s": values, "f": [i / 4 for i in range(len(values))]})
    path = Path(written(tmp_path / "t.csv", of))
    assert path.stat().st_size > 2 * CSV_BLOCK
    got = csv_of(tmp_path / "pipe", path.read_bytes(), pieces, pieces)
    assert got.equals(of)
    assert pa.Table.from_batches(open_source(str(path)).batches, of.schema).equals(of)


@pytest.mark.one_in(2)
@needs_named_pipes
@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
def test_a_single_column_whose_nulls_are_empty_lines(tmp_path: Path, ends: bytes) -> None:
    values = [None if i % 3 == 0 else i for i in range(400_000)]
    text = ends.join([b"n", *(b"" if v is None else b"%d" % v for v in values), b""])
    assert csv_of(tmp_path / "pipe", text, 40_000, 1)["n"].to_pylist() == values


@pytest.mark.slow
def test_columns_of_one_name_and_of_changing_types(tmp_path: Path) -> None:
    rows = 200_000
    text = b"a,a,b\n" + b"".join(b"%d,x%d,\n" % (i, i) for i in range(rows))
    got = csv_of(tmp_path / "one", text, 50_000, 2)
    assert got.schema.names == ["a", "a", "b"]
    assert got.column(0).to_pylist() == list(range(rows))
    assert got.column(1)[rows - 1].as_py() == f"x{rows - 1}"
    late = csv_of(tmp_path / "two", text + b"1,x,5\n", 50_000, 3)
    assert late.column(2)[rows].as_py() == "5", "a column without a value in the first block is text"
    # Arrow finds the row first where the pipe pauses behind it.
    with pytest.raises(FileError, match="a quote in it is never closed|Expected 3 columns, got 2"):
        csv_of(tmp_path / "three", text + b'1,"x,5\n' + text, 50_000, 4)
    (tmp_path / "four.csv").write_bytes(text + b'1,"x,5\n' + text)
    with pytest.raises(FileError, match="a row takes more than 1,048,576 bytes, or a quote in it is never closed"):
        list(open_source(str(tmp_path / "four.csv")).batches)


@pytest.mark.slow
def test_rows_end_outside_of_quotes() -> None:
    """Against the parser's state machine, a byte at a time."""
    draw = random.Random(7)
    for _ in range(20_000):
        text = bytes(draw.choice(b'",\n\rab') for _ in range(draw.randint(0, 14)))
        assert end_of_rows(text) == end_by_state(text), text


def end_by_state(text: bytes) -> int:
    end, state, i = 0, "start", 0
    while i < len(text):
        c, after = text[i : i + 1], text[i + 1 : i + 2]
        i += 1
        if state == "quoted":
            if c == b'"' == after:
                i += 1
            elif c == b'"':
                state = "field"
        elif c == b'"' and state == "start":
            state = "quoted"
        elif c == b"\n" or (c == b"\r" and after):
            i += c == b"\r" and after == b"\n"
            state, end = "start", i
        elif c != b"\r":
            state = "start" if c == b"," else "field"
    return end


def test_empty_file_and_a_header_only(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="Empty CSV"):
        csv_of(tmp_path / "nothing", b"", 2, 1)
    got: Any = csv_of(tmp_path / "header", b"a,b\n", 2, 1)
    assert (got.num_rows, got.schema.names) == (0, ["a", "b"])


@pytest.mark.slow
def test_a_few_rows_reach_their_reader_at_once(tmp_path: Path) -> None:
    """Less than what a buffer of standard output holds, while the input does not end."""
    right = written(tmp_path / "r.parquet", table(10))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table(10).schema) as writer:
        writer.write_table(table(10))
    text = sink.getvalue().to_pybytes()[:-8]  # without its end
    with started("-", right, *BAND) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(text)
        reader = pa.ipc.open_stream(os.fdopen(os.dup(process.stdout.fileno()), "rb"))
        assert reader.read_next_batch()["t"].to_pylist() == list(range(10))
        assert process.poll() is None


@pytest.mark.slow
@pytest.mark.parametrize(("text", "said"), [
    (b"ARROW1\0\0", b"it is an Arrow file, which is not a stream; expected an Arrow stream, or the name of a file"),
    (b'{"k": 1, "t": 2}\n', b"it begins with b'{\"k\": 1,'; expected an Arrow stream. --format json reads JSON lines"),
    (b"k,t,s\n1,2,3\n", b"it begins with b'k,t,s\\n1,'; expected an Arrow stream. --format csv reads CSV"),
])  # fmt: skip
def test_inputs_that_are_not_streams_are_refused_at_once(tmp_path: Path, text: bytes, said: bytes) -> None:
    right = written(tmp_path / "r.parquet", table(10))
    with started("-", right, *BAND) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(text)  # and stays open
        assert process.stderr.read() == b"ivjoin: error: cannot read standard input as arrows: " + said + b"\n"
        assert process.wait(timeout=30) == 2


def jsonl_of(rows: pa.Table) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows.to_pylist())


@pytest.mark.slow
def test_json_lines(tmp_path: Path) -> None:
    rows, pieces = 60_000, 7
    given = table(rows).append_column("n", pa.array([None if i % 3 else f"ü\n{{{i}" for i in range(rows)]))
    text = jsonl_of(given)
    assert len(text) > 2 * CSV_BLOCK
    right, out = written(tmp_path / "r.parquet", table(rows)), tmp_path / "out.parquet"
    with started("-", right, *BAND, "--format", "json", "-o", str(out)) as process:
        assert process.stdin is not None
        for start in range(0, len(text), -(-len(text) // pieces)):
            process.stdin.write(text[start : start + -(-len(text) // pieces)])
            process.stdin.flush()
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    source = open_source(str(out))
    got = pa.Table.from_batches(source.batches, source.schema).sort_by("t")
    assert got.select(given.schema.names).equals(given)


@needs_named_pipes
def test_json_lines_of_a_named_pipe_and_what_they_cannot_be(tmp_path: Path) -> None:
    few = jsonl_of(table(5))
    rows = table(5)
    for text, want in (
        (few, rows),
        (few.rstrip(), rows),  # a last line that does not end
        (few + b"\n  \n" + few, pa.concat_tables([rows, rows])),
        (few + b"{", "json: "), (b"", "json: "), (b"[1]\n", "json: "),
        (few + b'{"k": "' + b"x" * (3 * CSV_BLOCK), ROW_TOO_LONG),
    ):
        pipe = tmp_path / "l.jsonl"
        os.mkfifo(pipe)
        threading.Thread(target=fill, args=(pipe, text), daemon=True).start()
        if isinstance(want, str):
            with pytest.raises(FileError, match=want):
                read_all(str(pipe))
        else:
            assert read_all(str(pipe)).equals(want), text
        pipe.unlink()


def fill(pipe: Path, text: bytes) -> None:
    with suppress(BrokenPipeError):
        pipe.write_bytes(text)


def read_all(path: str) -> pa.Table:
    files = open_files(path)
    return pa.Table.from_batches(files.batches(None), files.schema)
