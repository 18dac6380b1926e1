"""A spill folder that disappears or fills up at any moment: no row is lost, and none is emitted twice."""

from __future__ import annotations

import errno
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from join.refused import pushed_on
from memory.spilled import drawn, question_of, rows_of, schema_of

from ivjoin import MemoryLimitError, Order, ProtocolError, Spill, SpillError, SymmetricHashJoin
from ivjoin.shj.store.disk.backing import Files
from ivjoin.shj.store.disk.logs import Log
from ivjoin.shj.store.keys import ByteKeys
from ivjoin.shj.store.rows import ring_room

TURNS, MOMENTS = 8, 5  # moments of each run that are tried
# What of the system fails, and how: the folder is gone; the disk is full; it takes nothing more where there was room.
FAULTS: dict[str, tuple[dict[str, Any], int]] = {
    "gone": ({"TemporaryFile": tempfile}, errno.ENOENT), "full": ({"posix_fallocate": os}, errno.ENOSPC),
    "broken": ({"pwrite": os}, errno.EIO),
}


class Failing:
    """System calls that fail after the first so many."""

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
    return {"memory_limit": 60_000, "when_full": Spill(folder)}


def operator(kind: str, how: str, **within: Any) -> SymmetricHashJoin:
    schema = schema_of(kind)
    return SymmetricHashJoin(schema, schema, **question_of(kind, how), **within)


def joined(op: SymmetricHashJoin, kind: str, failing: Failing, folder: Path) -> Counter[str] | SpillError:
    """All rows, from a snapshot once a batch was refused; or what the operator stopped with."""
    got: Counter[str] = Counter()

    def restored(_: MemoryLimitError, refusing: SymmetricHashJoin) -> SymmetricHashJoin:
        nonlocal op
        failing.left = 1 << 60
        op = SymmetricHashJoin.restore(refusing.snapshot(), **limited(folder))
        return op

    for i in range(TURNS):
        for side in ("left", "right"):
            try:
                op, out = pushed_on(op, side, drawn(kind, i, side), restored)
            except SpillError as e:
                with pytest.raises(ProtocolError, match="stopped with an error"):
                    op.snapshot()
                return e
            got += rows_of(out)
    return got + rows_of(op.finish())


@pytest.mark.slow
@pytest.mark.one_in(4)
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


@pytest.mark.slow
def test_change_to_sorted_runs_waits_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema({"k": pa.int64(), "t": pa.int64()})
    order = Order("t", slack=2000)
    want_disk = ring_room._want_disk
    refused: list[int] = []

    def full(store: Any, *arguments: Any, **named: Any) -> None:
        if not refused and store.runs is not None and not store.runs.count:
            refused.append(store.live)
            raise MemoryLimitError("no space left on device")
        want_disk(store, *arguments, **named)

    def rows_out(crowded: bool) -> int:
        rng = np.random.default_rng(0)
        op = SymmetricHashJoin(
            schema, schema, on="k", condition="l.t BETWEEN r.t - 400 AND r.t + 400", left_order=order, right_order=order
        )
        out = 0
        for i in range(40):
            if crowded and i == 20:
                for store in op._engine.stores:  # type: ignore[attr-defined]
                    store._steps = 1 << 30
            for side in ("left", "right"):
                t = 50 * i + rng.integers(0, 1800, 500)
                rows = pa.record_batch({"k": rng.integers(0, 50, 500), "t": t}, schema=schema)
                out += sum(b.num_rows for b in op.push(side, rows))
        return out + sum(b.num_rows for b in op.finish())

    expected = rows_out(False)
    monkeypatch.setattr(ring_room, "_want_disk", full)
    assert rows_out(True) == expected
    assert refused
    assert refused[0] > 0


def test_keys_are_unchanged_if_their_bytes_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ByteKeys()

    def full(cap: int) -> None:
        raise MemoryLimitError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(keys, "_grow_ids", full)
        with pytest.raises(MemoryLimitError):
            keys.reserve(5000)
    assert 2 * len(keys.slots) <= len(keys._spans)
    keys.reserve(5000)
    assert 2 * 5000 <= 2 * len(keys.slots) <= len(keys._spans)


@pytest.mark.nojit
def test_an_empty_piece_at_the_end_of_a_log(tmp_path: Path) -> None:
    log = Log(Files(str(tmp_path)))
    whole = (np.arange(65_536) % 251).astype(np.uint8)  # up to the last byte of a segment
    log.append(whole)
    begins, sizes = np.arange(12, dtype=np.int64) * 100, np.full(12, 5, np.int64)
    begins[-1], sizes[-1] = len(whole), 0
    outs = np.cumsum(sizes) - sizes
    out = np.empty(int(sizes.sum()), np.uint8)
    log.read(begins, sizes, outs, out)
    assert out.tolist() == [int(whole[b + i]) for b in begins[:-1] for i in range(5)]
