"""A memory limit: refused in time, or spilled, with the rows of the nested loop; and wrong arguments."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import (
    IvjoinError,
    LateRowError,
    MemoryLimitError,
    Shed,
    Spill,
    SymmetricHashJoin,
    UnsupportedError,
    band_join,
    multi_join,
    window_join,
)
from ivjoin.operator.memory.budget import bytes_of

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "x": pa.string(), "v": pa.float64()})
WINDOW = {"on": "k", "condition": "abs(l.t - r.t) <= 40", "left_order": "t", "right_order": "t"}


def rows_of(batches: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def drawn(rng: np.random.Generator, t: int, n: int, keys: int = 5) -> pa.RecordBatch:
    k = [None if rng.random() < 0.05 else int(x) for x in rng.integers(0, keys, n)]
    x = [None if rng.random() < 0.1 else "y" * int(i) for i in rng.integers(0, 30, n)]
    return pa.record_batch([k, np.sort(rng.integers(t, t + 20, n)), x, rng.random(n)], schema=SCHEMA)


def test_error_names_what_takes_memory_and_a_fix() -> None:
    op = SymmetricHashJoin(SCHEMA, SCHEMA, on="k", condition="l.t >= r.t", left_order="t", memory_limit="30kB")
    rng = np.random.default_rng(1)
    with pytest.raises(MemoryLimitError) as said:  # noqa: PT012
        for i in range(100):
            list(op.push("left", drawn(rng, 20 * i, 50)))
    text = str(said.value)
    for part in (
        "memory_limit of 30,000 bytes", "left stores", "rows in", "right stores 0 rows", "What evicts rows",
        "a greater memory_limit", "when_full='spill'", "when_full='shed'", "snapshot()",
    ):
        assert part in text
    assert "can never be evicted before the right input ends" in text
    n = op.metrics.state_rows
    assert SymmetricHashJoin.restore(op.snapshot()).metrics.state_rows == n
    with pytest.raises(MemoryLimitError) as refused:
        SymmetricHashJoin.restore(op.snapshot(), memory_limit=20_000)
    said = str(refused.value)
    assert "batch" not in said and said.endswith("restore it with a greater limit"), said


def test_a_large_batch_is_looked_at_before_its_first_piece() -> None:
    op = SymmetricHashJoin(SCHEMA, SCHEMA, **WINDOW, memory_limit=100_000)
    batch = drawn(np.random.default_rng(2), 0, 3000)
    late = pa.concat_batches([batch, drawn(np.random.default_rng(3), -50, 1)])
    with pytest.raises(LateRowError):
        op.push("left", late)
    assert op.metrics.left_rows_in == 0
    assert op.metrics.state_rows == 0


def test_abandoned_and_refused_operators_differ() -> None:
    op = SymmetricHashJoin(SCHEMA, SCHEMA, condition="l.t = r.t", memory_limit=60_000)
    rng = np.random.default_rng(4)
    list(op.push("left", drawn(rng, 0, 200)))
    out = op.push("right", drawn(rng, 0, 3000))
    with pytest.raises(MemoryLimitError, match=r"the first [0-9,]+ rows were taken and no more") as said:
        for _ in out:
            pass
    assert 0 < said.value.rows_taken == op.metrics.right_rows_in
    assert list(out) == []
    assert op.snapshot()
    list(op.advance("left", {"t": 100}))


@pytest.mark.parametrize(
    ("given", "bytes_"),
    [("512MB", 512_000_000), (" 1.5 GiB ", 3 << 29), ("64k", 64_000), ("7", 7), ("2tb", 2 * 10**12), ("1KiB", 1024),
     (np.int32(9), 9), (".5k", 500), ("100 B", 100)],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:memory_limit is")
def test_sizes(given: Any, bytes_: int) -> None:
    assert bytes_of(given) == bytes_


@pytest.mark.parametrize(
    "bad", [0, -1, True, 1.5, "", "MB", "0", "0MB", "-5MB", "12 apples", "1e9", "1iB", "5 MB MB", None, [1], 2**70]
)
def test_sizes_that_are_none(bad: Any) -> None:
    with pytest.raises(IvjoinError, match="memory_limit is .*; expected bytes above zero"):
        bytes_of(bad)


def test_more_than_the_machine_has_is_a_warning() -> None:
    with pytest.warns(UserWarning, match="this machine has") as told:
        SymmetricHashJoin(SCHEMA, SCHEMA, on="k", memory_limit="4000TB")
    assert told[0].filename == __file__, "it is of the line that can be mended"


@pytest.mark.parametrize(("options", "says"), [
    ({"when_full": "spil"}, "when_full is 'spil'; expected 'raise', 'spill', 'shed'"),
    ({"when_full": "spill"}, "when_full is 'spill' without a limit"),
    ({"memory_limit": "1MB", "spill_dir": "."}, "no option 'spill_dir'; write when_full=ivjoin.Spill"),
    ({"memory_limit": "1MB", "shed": "prob"}, "no option 'shed'; write when_full=ivjoin.Shed"),
    ({"memory_limit": "1MB", "when_full": Shed}, "expected 'raise', 'spill', 'shed', ivjoin.Spill"),
    ({"when_full": Shed("life")}, "when_full is 'shed' without a limit"),
    ({"memory_limit": "1MB", "when_full": Spill("/no/such")}, "'/no/such', which does not exist"),
    ({"memory_limit": "1MB", "when_full": Spill(__file__)}, "which is no folder"),
    ({"memory_limit": "1MB", "when_full": Spill(3)}, "the folder of Spill is 3; expected the path"),
])  # fmt: skip
def test_bad_options(options: dict[str, Any], says: str) -> None:
    with pytest.raises(IvjoinError, match=says):
        SymmetricHashJoin(SCHEMA, SCHEMA, on="k", **options)
    table = pa.table(drawn(np.random.default_rng(0), 0, 3).to_pydict(), schema=SCHEMA)
    with pytest.raises(IvjoinError, match=says):
        band_join(table, table, on="k", **options)


@pytest.mark.parametrize("how", ["left", "right", "full", "left_anti", "right_anti"])
def test_joins_that_may_not_shed(how: str) -> None:
    with pytest.raises(UnsupportedError, match="the row would be emitted as unmatched"):
        SymmetricHashJoin(SCHEMA, SCHEMA, on="k", how=how, memory_limit="1MB", when_full="shed")


@pytest.mark.slow
def test_a_join_of_tables_within_a_limit(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    left, right = (pa.Table.from_batches([drawn(rng, 20 * i, 100) for i in range(30)]) for _ in range(2))
    want = Counter(rows_of(band_join(left, right, **WINDOW).read_all().to_batches()))
    stream = band_join(left, right, **WINDOW, memory_limit="30kB", when_full=Spill(tmp_path))
    assert Counter(rows_of(stream.read_all().to_batches())) == want
    assert stream.metrics.reads > 0
    assert stream.metrics.peak_state_bytes <= 30_000
    with pytest.raises(MemoryLimitError):
        band_join(left, right, **WINDOW, memory_limit="25kB").read_all()
    spilled = band_join(left, right, **WINDOW, memory_limit="30kB", when_full="spill", threads=2)
    assert Counter(rows_of(spilled.read_all().to_batches())) == want


@pytest.mark.slow
def test_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A full disk when a file is made or grows: one clear error, and the batch can be pushed again later."""
    rng = np.random.default_rng(6)
    free = SymmetricHashJoin(SCHEMA, SCHEMA, **WINDOW)
    op = SymmetricHashJoin(SCHEMA, SCHEMA, **WINDOW, memory_limit=100_000, when_full=Spill(tmp_path))
    real, errors = os.posix_fallocate, 0
    for i in range(16):
        for side in ("left", "right"):
            batch = drawn(rng, 20 * i, 100 * (i + 1), 2000)
            want = rows_of(free.push(side, batch))
            got: list[Any] = []
            failing = int(rng.integers(0, 4))

            def no_room(fd: int, at: int, size: int, failing: int = failing) -> None:
                if failing:
                    raise OSError(28, "No space left on device")
                real(fd, at, size)

            monkeypatch.setattr(os, "posix_fallocate", no_room)
            while batch.num_rows:
                try:
                    for out in op.push(side, batch):
                        got += rows_of([out])
                    break
                except MemoryLimitError as e:
                    assert "No space left on device" in str(e)  # noqa: PT017
                    errors += 1
                    batch = batch.slice(e.rows_taken)
                    assert op.snapshot()
                    monkeypatch.setattr(os, "posix_fallocate", real)
            assert Counter(got) == Counter(want)
    assert errors > 3
    monkeypatch.setattr(os, "posix_fallocate", real)
    assert Counter(rows_of(op.finish())) == Counter(rows_of(free.finish()))


def test_a_folder_that_vanishes(tmp_path: Path) -> None:
    folder = tmp_path / "spill"
    folder.mkdir()
    op = SymmetricHashJoin(SCHEMA, SCHEMA, on="k", condition="l.t < r.t", memory_limit=30_000, when_full=Spill(folder))
    rng = np.random.default_rng(7)
    list(op.push("left", drawn(rng, 0, 10)))
    folder.rmdir()
    with pytest.raises(MemoryLimitError, match="cannot spill .* No such file or directory"):  # noqa: PT012
        for i in range(100):
            list(op.push("left", drawn(rng, 20 * i, 100)))
    assert SymmetricHashJoin.restore(op.snapshot()).metrics.state_rows == op.metrics.state_rows


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("more", [{}, {"aggregate": {"n": ("*", "count")}}], ids=["pairs", "aggregates"])
def test_pull_errors_do_not_mention_the_operator(threads: int, more: dict[str, Any]) -> None:
    rows = pa.table({"k": np.arange(50_000) % 100, "t": np.arange(50_000)})
    joined = (window_join if more else band_join)(
        rows, rows, on="k", condition="l.t >= r.t", left_order="t", right_order="t", threads=threads,
        memory_limit=300_000, **more,
    )
    with pytest.raises(MemoryLimitError, match=r"Fixes: .*\. The join has stopped: join again$") as said:
        joined.read_all()
    assert not any(word in str(said.value) for word in ("snapshot", "Push", "push", "operator"))
    assert said.value.reason in str(said.value)
    assert pickle.loads(pickle.dumps(said.value)).reason == said.value.reason


@pytest.mark.slow
def test_pull_errors_of_many_inputs_do_not_mention_the_operator() -> None:
    rows = pa.table({"k": np.arange(50_000) % 100, "t": np.arange(50_000)})
    joined = multi_join(
        {"a": rows, "b": rows, "c": rows}, "a.k = b.k AND b.k = c.k AND a.t >= b.t AND c.t <= b.t",
        orders=dict.fromkeys("abc", "t"), memory_limit=300_000,
    )
    with pytest.raises(MemoryLimitError, match=r"Fixes: .*\. The join has stopped: join again$") as said:
        joined.read_all()
    assert "again when memory is free" not in str(said.value)
