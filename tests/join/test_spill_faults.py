"""A folder to spill to that goes, or has no room, at any moment: no row is lost, and none comes twice."""

from __future__ import annotations

import errno
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from join.test_spill_folders import drawn, question_of, rows_of, schema_of

from ivjoin import MemoryLimitError, ProtocolError, SpillError, SymmetricHashJoin

TURNS, MOMENTS = 10, 8  # moments of each run that are tried
# What of the system fails, and how: the folder is gone; the disk is full; it takes nothing more where there was room.
FAULTS: dict[str, tuple[dict[str, Any], int]] = {
    "gone": ({"TemporaryFile": tempfile}, errno.ENOENT),
    "full": ({"posix_fallocate": os}, errno.ENOSPC),
    "broken": ({"pwrite": os}, errno.EIO),
}


class Failing:
    """Calls of the system, of which those behind the first so many fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
        self.calls, self.left = 0, 1 << 60
        names, self.number = FAULTS[fault]
        for name, owner in names.items():
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            if self.calls > self.left:
                raise OSError(self.number, os.strerror(self.number))
            return call(*arguments, **named)

        return counted


def limited(folder: Path) -> dict[str, Any]:
    return {"memory_limit": 60_000, "when_full": "spill", "spill_dir": folder}


def operator(kind: str, how: str, **within: Any) -> SymmetricHashJoin:
    schema = schema_of(kind)
    return SymmetricHashJoin(schema, schema, **question_of(kind, how), **within)


def joined(op: SymmetricHashJoin, kind: str, failing: Failing, folder: Path) -> Counter[str] | SpillError:
    """All rows, from a snapshot once a batch was refused; or what the operator stopped with."""
    got: Counter[str] = Counter()
    for i in range(TURNS):
        for side in ("left", "right"):
            batch = drawn(kind, i, side)
            while batch.num_rows:
                try:
                    for out in op.push(side, batch):
                        got += rows_of([out])
                    break
                except MemoryLimitError as e:
                    batch = batch.slice(e.rows_taken)
                    failing.left = 1 << 60
                    op = SymmetricHashJoin.restore(op.snapshot(), **limited(folder))
                except SpillError as e:
                    with pytest.raises(ProtocolError, match="stopped with an error"):
                        op.snapshot()
                    return e
    return got + rows_of(op.finish())


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("kind", "how"), [("key", "left_anti"), ("key", "full"), ("no key", "full")])
def test_whatever_call_fails_first(
    kind: str, how: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected: Counter[str] = Counter()
    op = operator(kind, how)
    for i in range(TURNS):
        for side in ("left", "right"):
            expected += rows_of(op.push(side, drawn(kind, i, side)))
    expected += rows_of(op.finish())
    failing = Failing(monkeypatch, fault)
    op = operator(kind, how, **limited(tmp_path))
    before = failing.calls
    assert joined(op, kind, failing, tmp_path) == expected
    calls = range(before, failing.calls)
    assert calls
    ends: Counter[str] = Counter()
    for first in calls[:: max(1, len(calls) // MOMENTS)]:
        failing.left = 1 << 60
        op = operator(kind, how, **limited(tmp_path))
        failing.calls, failing.left = before, first
        got = joined(op, kind, failing, tmp_path)
        ends[type(got).__name__] += 1
        assert isinstance(got, SpillError) or got == expected, f"from call {first} on"
        assert not any(tmp_path.iterdir())
    assert ends["SpillError" if fault == "broken" else "Counter"] > 0
