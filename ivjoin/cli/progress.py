"""Report the progress of a join on standard error: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

from ivjoin import MultiJoinMetrics

__all__ = ["Progress"]

_EVERY, _EVERY_LINE = 0.2, 5.0  # seconds between two updates, on a terminal and elsewhere
_BAR = 24


class Progress:
    """Show counts that other threads update, until it is stopped.

    ``rows`` has the number of rows of each input, if known. ``metrics`` returns the join's counts.
    """

    def __init__(self, shown: bool, rows: list[int | None], metrics: Callable[[], Any]) -> None:
        known = [r for r in rows if r is not None]
        self._total = sum(known) if len(known) == len(rows) else None
        self._metrics = metrics
        self._read = 0
        self._shown = shown
        self._bar = shown and sys.stderr.isatty()
        self._start = perf_counter()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def count(self, rows: int) -> None:
        self._read += rows

    def __enter__(self) -> Progress:
        if self._shown:
            self._thread = threading.Thread(target=self._run, name="ivjoin-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=1)
        if self._bar and self._thread is not None:
            self._write("\r\x1b[K")
        self._thread = None

    def line(self) -> str:
        m = self._metrics()
        many = isinstance(m, MultiJoinMetrics)
        joined = sum(m.rows_in.values()) if many else m.left_rows_in + m.right_rows_in
        of = "" if self._total is None else f" of {self._total:,}"
        if joined:
            retired = sum(m.rows_retired.values()) if many else m.left_rows_retired + m.right_rows_retired
            gone = retired / joined
            said = f"{joined:,}{of} rows joined, {m.rows_out:,} out, {m.state_rows:,} stored, {gone:.1%} evicted"
        else:
            said = f"{self._read:,}{of} rows read"
        bar = ""
        if self._total:
            done = min(1.0, (joined or self._read) / self._total)
            full = int(done * _BAR)
            bar = f"[{'#' * full}{'.' * (_BAR - full)}] {done:4.0%} "
        return f"{bar}{said}, {perf_counter() - self._start:.1f} s"

    def _run(self) -> None:
        while not self._stopped.wait(_EVERY if self._bar else _EVERY_LINE):
            with suppress(Exception):  # a failed update must not fail the join
                self._write(f"\r{self.line()}\x1b[K" if self._bar else f"ivjoin: {self.line()}\n")

    @staticmethod
    def _write(text: str) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()
