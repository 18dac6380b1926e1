"""A memory limit that all steps of a join of many inputs share, and the columns of the output."""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from multi.turns import ids, pushed
from multi.wild import Case

import ivjoin
from ivjoin import (
    ColumnError,
    IvjoinError,
    MemoryLimitError,
    MultiJoin,
    ProtocolError,
    Spill,
    SpillError,
    UnsupportedError,
)

S = pa.schema({"k": pa.int64(), "ts": pa.int64(), "s": pa.string()})
CHAIN = "a.k = b.k AND b.k = c.k AND b.ts BETWEEN a.ts AND a.ts + 20 AND c.ts BETWEEN b.ts AND b.ts + 20"
ROWS = 40_000


def rows(seed: int, n: int = ROWS) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, 2 * n, n))
    return pa.record_batch([rng.integers(0, 50, n), ts, [f"text {t}" for t in ts.tolist()]], schema=S)


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("views", ["auto", "none"])
@pytest.mark.parametrize("size", [100, 5000])
def test_results_within_the_limit_are_complete(views: str, size: int) -> None:
    orders = dict.fromkeys("abc", "ts")
    free = MultiJoin(dict.fromkeys("abc", S), CHAIN, orders=orders, views=views)
    limited = MultiJoin(dict.fromkeys("abc", S), CHAIN, orders=orders, views=views, memory_limit="4MB")
    given = {a: rows(i) for i, a in enumerate("abc")}
    assert pushed(limited, given, size) == pushed(free, given, size) > 0
    assert not list(limited.finish())
    assert limited.metrics.peak_state_bytes <= 4_000_000
    assert limited.metrics.rows_in == free.metrics.rows_in
    assert limited.metrics.state_rows == 0


@pytest.mark.slow
@pytest.mark.parametrize("views", ["auto", "none", [("b", "c")]])
def test_refused_batch_is_pushed_again_when_memory_is_free(views: Any) -> None:
    op = MultiJoin(dict.fromkeys("abc", S), CHAIN, orders=dict.fromkeys("abc", "ts"), views=views, memory_limit="1MB")
    batch = rows(0)
    taken = 0

    def push_all() -> None:
        nonlocal taken
        while taken < ROWS:
            list(op.push("a", batch.slice(taken, 1000)))
            taken += 1000

    with pytest.raises(MemoryLimitError, match=r"limit of 1,000,000 bytes.*input a [\d,]+.*[Pp]ush .* again") as e:
        push_all()
    taken += e.value.rows_taken
    assert 0 < taken < ROWS
    assert op.metrics.rows_in["a"] == taken, "what was refused is not counted"
    assert op.metrics.peak_state_bytes <= 1_000_000
    reached = int(batch.column("ts")[taken].as_py())
    saved = op.snapshot()
    op = MultiJoin.restore(saved, memory_limit="1MB")
    with pytest.raises(MemoryLimitError) as e:
        list(op.push("a", batch.slice(taken, 1000)))
    if "has stopped" in str(e.value):  # a cascade stores the rows twice, and there was room for the first copy alone
        op = MultiJoin.restore(saved, memory_limit="1MB")
    for alias in "bc":
        list(op.advance(alias, {"ts": reached}))
    list(op.push("a", batch.slice(taken, 1)))
    list(op.push("b", pa.record_batch([batch.column("k").slice(taken, 1), [reached], ["b"]], schema=S)))
    out = list(op.push("c", pa.record_batch([batch.column("k").slice(taken, 1), [reached], ["c"]], schema=S)))
    assert [b.num_rows for b in out] == [1]


def test_a_batch_that_is_refused_in_the_middle_of_its_results_stops_the_operator() -> None:
    op = MultiJoin(
        dict.fromkeys("abc", S), "a.k = b.k AND b.k = c.k AND c.ts < a.ts", views=[("a", "b")], memory_limit="2MB"
    )
    same = pa.record_batch([[1] * 1000, range(1000), ["x" * 20] * 1000], schema=S)
    list(op.push("a", same))
    with pytest.raises(MemoryLimitError, match="this operator has stopped"):
        list(op.push("b", same))  # a view of a million rows
    with pytest.raises(ProtocolError, match="stopped with an error"):
        op.push("c", same)


def test_a_late_row_is_refused_before_any_piece_is_taken() -> None:
    op = MultiJoin(dict.fromkeys("abc", S), CHAIN, orders={"a": "ts"}, memory_limit="3MB")
    n = 20_000
    ts = np.append(np.arange(n - 1), 3)
    late = pa.record_batch([np.ones(n, np.int64), ts, ["x"] * n], schema=S)
    with pytest.raises(ivjoin.LateRowError, match=r"\(row 19999 of the batch\): a.ts is 3"):
        list(op.push("a", late))
    assert op.metrics.rows_in["a"] == op.metrics.state_rows == 0


@pytest.mark.parametrize("options, error, said", [
    pytest.param({"memory_limit": 0}, IvjoinError, "memory_limit is 0", id="zero"),
    pytest.param({"memory_limit": "much"}, IvjoinError, "memory_limit is 'much'", id="text"),
    pytest.param({"when_full": "raise"}, None, "", id="no limit"),
    pytest.param({"memory_limit": 2**20, "when_full": "shed"}, UnsupportedError, "pairs with band_", id="shed"),
    pytest.param({"memory_limit": 2**20, "spill_dir": "/tmp"}, IvjoinError, "ivjoin.Spill", id="no spill"),
    pytest.param({"when_full": "spill"}, IvjoinError, "without a limit", id="spill without a limit"),
])  # fmt: skip
def test_options(options: dict[str, Any], error: type[Exception] | None, said: str) -> None:
    t = pa.table({"k": [1], "ts": [2]})
    if error is None:
        assert ivjoin.multi_join({"a": t, "b": t}, "a.k = b.k", **options).read_all().num_rows == 1
        return
    with pytest.raises(error, match=said):
        ivjoin.multi_join({"a": t, "b": t}, "a.k = b.k", **options)
    with pytest.raises(error, match=said):
        MultiJoin({"a": t.schema, "b": t.schema}, "a.k = b.k", **options)


WIDE = "a.k = b.k AND b.k = c.k AND b.ts BETWEEN a.ts AND a.ts + 4000 AND c.ts = b.ts"


def _spilled_and_free(views: Any, size: int, tmp_path: Path) -> tuple[MultiJoin, MultiJoin]:
    """Push the same rows within a limit, and without one; the results are the same, and the limit holds."""
    given: dict[str, Any] = {"inputs": dict.fromkeys("abc", S), "condition": WIDE, "views": views}
    given["orders"] = dict.fromkeys("abc", "ts")
    free = MultiJoin(**given)
    limit = 500_000
    op = MultiJoin(**given, memory_limit=limit, when_full=Spill(tmp_path))
    batches = {a: rows(i, 20_000) for i, a in enumerate("abc")}
    found: Counter[Any] = Counter()
    spilled = 0
    for start in range(0, 20_000, size):
        for alias, batch in batches.items():
            for out in free.push(alias, batch.slice(start, size)):
                found.update(_rows(out))
            for out in op.push(alias, batch.slice(start, size)):
                found.subtract(_rows(out))
            spilled = max(spilled, op.metrics.spilled_rows)
            assert op.metrics.state_bytes <= limit
        if start == 8000:  # a snapshot holds what lies in files, too
            op = MultiJoin.restore(op.snapshot(), memory_limit=limit, when_full=Spill(tmp_path))
    assert free.metrics.rows_out > 1000 and not any(found.values())
    assert free.metrics.peak_state_bytes > limit and op.metrics.peak_state_bytes <= limit
    assert spilled > 0 and op.metrics.spilled_bytes > 0
    return op, free


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("views", ["none", [("a", "b")]])
@pytest.mark.parametrize("size", [500, 4000])
def test_rows_that_do_not_fit_spill(views: Any, size: int, tmp_path: Path) -> None:
    op, free = _spilled_and_free(views, size, tmp_path)
    assert op.metrics.stored == free.metrics.stored or views == "none"
    for alias in "bca":
        assert not list(op.finish(alias))
    assert op.metrics.state_rows == 0


@pytest.mark.slow
@pytest.mark.parametrize("size", [5000, 8000])
def test_a_view_that_spills_stays_within_the_limit_however_many_rows_are_pushed(size: int, tmp_path: Path) -> None:
    op, _ = _spilled_and_free([("a", "b")], size, tmp_path)
    for alias in "abc":
        assert not list(op.finish(alias))
    assert op.metrics.state_rows == 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("views", ["none", [("a", "b")]])
def test_a_batch_that_files_are_no_help_for_is_refused_whole(views: Any, tmp_path: Path) -> None:
    """The error is of the limit that was given, and true: the operator goes on, and its snapshot elsewhere."""
    spill: dict[str, Any] = {"when_full": Spill(tmp_path)}
    given: dict[str, Any] = {"orders": dict.fromkeys("abc", "ts"), "views": views}
    op = MultiJoin(dict.fromkeys("abc", S), CHAIN, **given, memory_limit=9_000, **spill)
    batches = {a: rows(i, 500) for i, a in enumerate("abc")}
    said = r"limit of 9,000 bytes, \d,\d{3} for each step: .*The batch was not taken; push it again when"
    for _ in range(2):
        with pytest.raises(MemoryLimitError, match=said) as e:
            list(op.push("a", batches["a"]))
        assert "shed" not in str(e.value) and "left" not in str(e.value)
        assert e.value.rows_taken == op.metrics.rows_in["a"] == op.metrics.state_rows == 0
        op = MultiJoin.restore(op.snapshot(), memory_limit=9_000, **spill)
    op = MultiJoin.restore(op.snapshot(), memory_limit=200_000, **spill)
    free = MultiJoin(dict.fromkeys("abc", S), CHAIN, **given)
    found: list[Counter[Any]] = []
    for each in (free, op):
        found.append(Counter(r for a, b in batches.items() for out in each.push(a, b) for r in _rows(out)))
    assert found[0] == found[1] and found[0]


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("fails", range(0, 40, 3))
def test_a_folder_that_fails_at_some_moment_stops_or_refuses(
    fails: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a refused batch says is true: all of it can be pushed to what its snapshot restores elsewhere."""
    left = fails
    make = os.posix_fallocate

    def full(*arguments: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        make(*arguments)

    given: dict[str, Any] = {"orders": dict.fromkeys("abc", "ts"), "views": "none"}
    free = MultiJoin(dict.fromkeys("abc", S), WIDE, **given)
    spill: dict[str, Any] = {"memory_limit": 400_000, "when_full": Spill(tmp_path)}
    op = MultiJoin(dict.fromkeys("abc", S), WIDE, **given, **spill)
    monkeypatch.setattr(os, "posix_fallocate", full)
    found: Counter[Any] = Counter()
    errors = 0
    for start in range(0, 12_000, 1500):
        for i, alias in enumerate("abc"):
            batch = rows(i, 12_000).slice(start, 1500)
            for out in free.push(alias, batch):
                found.update(_rows(out))
            before = op.snapshot()
            given_back: Counter[Any] = Counter()
            try:
                for out in op.push(alias, batch):
                    given_back.update(_rows(out))
            except (MemoryLimitError, SpillError) as e:
                errors += 1
                monkeypatch.setattr(os, "posix_fallocate", make)
                stopped = isinstance(e, SpillError) or "this operator has stopped" in str(e)
                assert stopped or not given_back
                op = MultiJoin.restore(before if stopped else op.snapshot(), **spill)
                given_back = Counter(r for out in op.push(alias, batch) for r in _rows(out))
            found.subtract(given_back)
    assert errors == 1 and free.metrics.rows_out > 500 and not any(found.values())


def _rows(out: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return list(zip(*(out.column(n).to_pylist() for n in ("a_s", "b_s", "c_s", "a_k")), strict=True))


@pytest.mark.one_in(11)
@pytest.mark.parametrize("seed", range(300, 330))
def test_random_joins_in_files(seed: int, tmp_path: Path) -> None:
    c = Case(seed)
    limit = int(np.random.default_rng(seed).choice([700_000, 1_500_000]))
    options: dict[str, Any] = {"memory_limit": limit, "when_full": Spill(tmp_path)}
    stream = ivjoin.multi_join(c.tables, c.condition, orders=c.orders, views=c.views, allow_cross=True, **options)
    assert ids(c.tables, stream) == c.expected()
    assert stream.metrics.peak_state_bytes <= limit


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(200, 206))
def test_columns_of_the_output(seed: int) -> None:
    c = Case(seed)
    first, *_, last = c.tables
    names = [f"{last}_s", f"{first}_id", f"{last}_id"]
    options: dict[str, Any] = {"orders": c.orders, "views": c.views, "allow_cross": True}
    whole = ivjoin.multi_join(c.tables, c.condition, **options)
    some = ivjoin.multi_join(c.tables, c.condition, columns=names, **options)
    assert some.schema.names == names
    assert list(some.output_bounds()) == names
    order = [(n, "ascending") for n in names[1:]]
    assert some.read_all().sort_by(order).equals(whole.read_all().select(names).sort_by(order))


def test_unknown_columns_are_refused() -> None:
    t = pa.table({"k": [1], "ts": [2]})
    for columns, said in (
        (["a.k"], "columns contains 'a.k', which the output does not have: a_k, a_ts, b_k, b_ts"), ([], "at least one"),
        (["a_k", "a_k"], "each once"), ("a_k", "expected a list"),
    ):
        with pytest.raises(ColumnError, match=said):
            ivjoin.multi_join({"a": t, "b": t}, "a.k = b.k", columns=columns)
    out = ivjoin.multi_join({"a": t, "b": t}, "a.k = b.k", orders={"a": "ts"}, columns=["b_ts"]).read_all()
    assert out.to_pylist() == [{"b_ts": 2}]
