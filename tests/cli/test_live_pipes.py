"""Pipes with a slow trickle of rows: types come from the first rows, and each match is written at once."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivjoin.files.formats import open_source

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo") or not hasattr(select, "poll"), reason="named pipes and poll")


def trickle(pipe: Path, parts: list[bytes], pause: float, ended: threading.Event) -> threading.Thread:
    """Write parts with pauses between them, and end after the event."""

    def write() -> None:
        with open(pipe, "wb", buffering=0) as file:
            for part in parts:
                file.write(part)
                time.sleep(pause)
            ended.wait(20)

    os.mkfifo(pipe)
    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


ARRAY = [b"[\n", b'{"k": 1, "s": "x"},\n', b'{"k": 2, "s": "y"},{"k"', b': 3, "s": "z"}]']
CASES = [
    pytest.param("csv", [b"k,s\n", b"1,x\n", b"2,y\n3", b",z\n"], id="csv"),
    pytest.param("json", [b'{"k": 1, "s": "x"}\n', b'{"k": 2, "s": "y"}\n{"k"', b': 3, "s": "z"}\n'], id="json"),
    pytest.param("json", ARRAY, id="array"),
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("kind", "parts"), CASES)
def test_types_and_rows_are_emitted_before_the_pipe_ends(tmp_path: Path, kind: str, parts: list[bytes]) -> None:
    ended = threading.Event()
    thread = trickle(tmp_path / "pipe", parts, 0.15, ended)
    start = time.monotonic()
    source = open_source(str(tmp_path / "pipe"), kind)
    assert source.schema == pa.schema([("k", pa.int64()), ("s", pa.string())])
    rows: list[int] = []
    while len(rows) < 3:
        rows += next(source.batches)["k"].to_pylist()
    assert rows == [1, 2, 3]
    assert time.monotonic() - start < 10
    assert thread.is_alive(), "the pipe has not ended"
    ended.set()
    assert next(source.batches, None) is None
    thread.join(20)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "line"), [
    ("csv", lambda i: b"%d,x\n" % i), ("json", lambda i: b'{"k": %d, "s": "x"}\n' % i),
])  # fmt: skip
def test_a_match_is_written_line_by_line(tmp_path: Path, kind: str, line: Callable[[int], bytes]) -> None:
    pq.write_table(pa.table({"k": [1, 2, 3], "t": [10, 20, 30]}), tmp_path / "r.parquet")
    command = [sys.executable, "-m", "ivjoin", "join", "-", str(tmp_path / "r.parquet"), "--on", "k", "-q"]
    with subprocess.Popen(
        [*command, "--format", kind, "--output-format", kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        watch = threading.Timer(60, process.kill)
        watch.start()
        process.stdin.write((b"k,s\n" if kind == "csv" else b"") + line(1))
        if kind == "csv":
            assert process.stdout.readline() == b'"k","s","t"\n'
        assert b"10" in process.stdout.readline()
        for i in (2, 3):
            process.stdin.write(line(i))
            assert b"%d0" % i in process.stdout.readline(), "while the pipe is still open"
        process.stdin.close()
        assert process.wait(60) == 0
        watch.cancel()
