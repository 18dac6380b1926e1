"""Peak memory and processor time of a process and everything below it (Linux).

Spark's Python workers are children of its JVM, and what they use is used by the join.
"""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["Tree", "watched"]

_INTERVAL = 0.5
_PACKAGE = Path(__file__).resolve().parent.parent / "ivjoin"
_TICKS = os.sysconf("SC_CLK_TCK")


class Tree:
    """What a process and its descendants have used so far.

    Attributes
    ----------
    peak_bytes : int
        Greatest number of bytes held at once; a page that forked processes share counts once among them.
    peak_by_program : dict of str to int
        What each program held of them, at that time.
    cpu_seconds : float
        User and system time, also of processes that have ended since they were first seen.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._cpu: dict[int, float] = {}
        self._program: dict[int, str] = {}
        self.peak_bytes = 0
        self.peak_by_program: dict[str, int] = {}

    @property
    def cpu_seconds(self) -> float:
        return sum(self._cpu.values())

    def cpu_by_program(self) -> dict[str, float]:
        """``cpu_seconds`` apart for java and python, and for each other program by its name."""
        out: dict[str, float] = {}
        for pid, seconds in self._cpu.items():
            out[self._program[pid]] = out.get(self._program[pid], 0.0) + seconds
        return out

    def look(self) -> None:
        parents: dict[int, list[int]] = {}
        cpu: dict[int, float] = {}
        names: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    name, _, rest = (entry / "stat").read_text().rpartition(")")
                except OSError:
                    continue
                pid, fields = int(entry.name), rest.split()
                names[pid] = name.partition("(")[2]
                parents.setdefault(int(fields[1]), []).append(pid)
                cpu[pid] = (int(fields[11]) + int(fields[12])) / _TICKS
        held: dict[str, int] = {}
        stack = [self._root]
        while stack:
            pid = stack.pop()
            self._cpu[pid] = cpu.get(pid, self._cpu.get(pid, 0.0))
            # The last name counts: a shell may become the program that it starts.
            self._program[pid] = names.get(pid) or self._program.get(pid, "?")
            held[self._program[pid]] = held.get(self._program[pid], 0) + _proportional(pid)
            stack.extend(parents.get(pid, []))
        total = sum(held.values())
        if total > self.peak_bytes:
            self.peak_bytes, self.peak_by_program = total, held


def _proportional(pid: int) -> int:
    with suppress(OSError):  # it may have ended meanwhile
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0


def watched(command: list[str], **options: Any) -> tuple[str, Tree]:
    """Run a command to its end; its standard output, and what its tree of processes used.

    ivjoin has its bytecode, as where a package is installed: driver and workers would else compile it in each process.

    Raises
    ------
    SystemExit
        If it ends with an error.
    """
    compileall.compile_dir(_PACKAGE, quiet=2)
    # A process group of its own, so that nothing it started outlives it.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, **options)
    tree, done = Tree(process.pid), threading.Event()

    def watch() -> None:
        while not done.wait(_INTERVAL):
            tree.look()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        out, _ = process.communicate()
    finally:
        done.set()
        watcher.join()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return out, tree


def answer_of(command: list[str]) -> tuple[dict[str, Any], Tree]:
    """The JSON object in the last line that a command prints, and what its tree of processes used.

    Raises
    ------
    SystemExit
        If it ends with an error.
    """
    text, tree = watched(command, stderr=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    return found, tree
