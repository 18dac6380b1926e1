"""How a command ends: by signals, and when standard output cannot be written."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivjoin.cli import main
from ivjoin.cli.stopping import stopping

JOIN = ["join", "a.parquet", "a.parquet", "--on", "k"]
needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"k": range(20_000)}), "a.parquet")
    return tmp_path


CAUGHT = ("SIGINT", "SIGQUIT", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGXCPU")


@pytest.fixture
def restored() -> Iterator[None]:
    """Signals as a terminal starts a process: a shell's background jobs ignore some of them."""
    names = ("SIGHUP", "SIGUSR1", *CAUGHT)
    before = {number: signal.getsignal(number) for number in (getattr(signal, name) for name in names)}
    for number in before:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_every_signal_that_ends_a_process_is_handled(restored: None) -> None:
    def own(*_: object) -> None: ...

    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    signal.signal(signal.SIGUSR1, own)  # as a program does that calls main()
    signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    with stopping([]):
        stop = signal.getsignal(signal.SIGTERM)
        assert stop is not before[signal.SIGTERM]
        for number in CAUGHT:
            assert signal.getsignal(getattr(signal, number)) is stop, number
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGUSR1) is own
    assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before


@needs_full
@pytest.mark.parametrize("arguments", [
    [*JOIN, "-q"], [*JOIN, "-q", "--format", "csv"], [*JOIN, "-q", "-o", "o.csv", "--metrics-json", "-"],
    ["explain", *JOIN[1:]],
])  # fmt: skip
def test_standard_output_that_cannot_be_written(
    arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = open("/dev/full", "w")  # noqa: SIM115
    monkeypatch.setattr(sys, "stdout", full)
    assert main(arguments) == 2
    assert capsys.readouterr().err == "ivjoin: error: cannot write standard output: No space left on device\n"
    full.close()  # as the interpreter does at exit: nothing is left that it would complain of


def test_closed_standard_output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Python has no object for a standard stream that was closed when it started."""
    monkeypatch.setattr(sys, "stdout", None)
    for arguments in ([*JOIN, "--format", "arrow"], JOIN, ["explain", *JOIN[1:]]):
        assert main(arguments) == 2
        assert capsys.readouterr().err == "ivjoin: error: cannot write standard output: it is closed\n"


@needs_full
def test_standard_error_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with io.TextIOWrapper(open("/dev/full", "wb", 0), write_through=True) as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert main([*JOIN, "-o", "o.csv"]) == 0
        assert main(["join", "missing.parquet", "a.parquet", "--on", "k"]) == 2
        monkeypatch.undo()
