"""band_join(threads=...) against one thread: the same rows whatever the join, and errors that come through."""

from __future__ import annotations

import gc
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from drivers.sliced import BAND, all_ended, at_work, both, rows_of, side

from ivjoin import EvaluationError, IvjoinError, LateRowError, band_join, explain
from ivjoin.operator.match import whole
from ivjoin.plan.cache import planned
from ivjoin.plan.cutting import Cut, cut_of
from ivjoin.stream import workers
from ivjoin.stream.threads import sliced_stream
from ivjoin.stream.threads.pieces import Piece
from ivjoin.stream.threads.sliced_stream import SlicedStream

pytestmark = pytest.mark.usefixtures("small_slices")


def cut(stream: Any) -> bool:
    """Whether it was joined in slices to its end."""
    return isinstance(stream._run.operator, SlicedStream) and stream._run.operator._alone is None


@pytest.mark.parametrize("on_late", ["raise", "drop"])
def test_lateness_is_that_of_the_side_not_of_a_slice(on_late: str) -> None:
    left, right = side(3, 2000, 3), side(4, 2000)
    options = {"on": "k", "condition": BAND, "left_order": "x", "right_order": "x", "on_late": on_late}

    def run(threads: int) -> tuple[Any, ...]:
        stream = band_join(left.to_batches(max_chunksize=64), right, threads=threads, **options)
        try:
            rows, m = rows_of(stream.read_all()), stream.metrics
        except LateRowError as e:
            return (str(e).split("): ")[1],)
        assert m.left_rows_in == left.num_rows
        return rows, m.late_rows, m.left_rows_in, m.right_rows_in, m.left_rows_retired, m.right_rows_retired

    assert run(2) == run(1)


@pytest.mark.slow
def test_joined_late_row_is_emitted_once() -> None:
    left, right = side(3, 2000, 3), side(4, 2000)
    options: dict[str, Any] = {"condition": BAND, "left_order": "x", "right_order": "x", "on_late": "join"}
    want = rows_of(band_join(left, right, condition=BAND).read_all())
    stream = band_join(left.to_batches(max_chunksize=64), right, threads=3, how="left", **options)
    got = rows_of(stream.read_all())
    pairs = Counter({row: n for row, n in got.items() if "'v_right': None" not in row})
    assert stream.metrics.late_rows > 0
    assert not pairs - want, "a pair that is none, or twice"
    assert sum(got.values()) >= left.num_rows


@pytest.mark.slow
@pytest.mark.parametrize("how", ["inner", "full"])
def test_a_band_too_wide_to_be_cut_is_joined_by_one_operator(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_stream, "_MOST_ROWS", 2)
    left, right = side(1, 2500), side(2, 2500)
    options: dict[str, Any] = {
        "on": "k", "condition": "l.x BETWEEN r.x - 900 AND r.x + 900", "how": how, "left_order": "x",
        "right_order": "x",
    }  # fmt: skip
    want = rows_of(band_join(left, right, **options).read_all())
    readers = (pa.RecordBatchReader.from_batches(t.schema, t.to_batches(max_chunksize=150)) for t in (left, right))
    many = band_join(*readers, threads=2, **options)
    assert rows_of(many.read_all()) == want
    assert isinstance(many._run.operator, SlicedStream) and many._run.operator._alone is not None
    assert many.metrics.state_rows == 0


def test_a_row_whose_band_errs_is_met_as_by_one_operator() -> None:
    n = 1200
    x = np.arange(n)
    left = pa.table({"k": x % 2, "x": x})
    right = pa.table({"k": np.where(x == 700, 5, x % 2), "x": x, "d": np.where(x == 700, 2**63 - 1, x)})
    condition = "l.x <= r.d + 3 AND l.x >= r.d - 3"
    options = {"on": "k", "condition": condition, "left_order": "x", "right_order": "x"}
    both(left, right, 2, **options)  # of a key that no left row has
    bad = right.set_column(0, "k", pa.array(x % 2))
    said = []
    for threads in (1, 2):
        with pytest.raises(EvaluationError) as e:
            band_join(left, bad, threads=threads, **options).read_all()
        said.append(str(e.value))
    assert said[0] == said[1]


def test_an_error_of_one_slice_ends_the_join() -> None:
    x = np.arange(4000)
    left = pa.table({"k": x % 3, "x": x, "d": np.where(x == 1700, 0, 1)})
    stream = band_join(
        left.to_reader(512), left.to_reader(512), on="k", threads=2, left_order="x", right_order="x",
        condition="l.x BETWEEN r.x - 3 AND r.x + 3 AND l.x % r.d = 0",
    )
    with pytest.raises(EvaluationError, match="by zero"):
        stream.read_all()
    assert all_ended()


@pytest.mark.parametrize("how", ["inner", "full"])
def test_the_reader_is_one_of_the_threads(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_MOST_BYTES", 0)  # threads wait for the reader
    monkeypatch.setattr(whole, "_MOST_PAIRS", 1 << 10)
    left, right = side(1, 4000), side(2, 4000)
    options: dict[str, Any] = {"on": "k", "condition": BAND, "how": how, "left_order": "x", "right_order": "x"}
    for threads in (2, 3):
        want = rows_of(band_join(left, right, **options).read_all())
        stream: Any = band_join(left.to_reader(512), right.to_reader(512), threads=threads, batch_size=50, **options)
        found, others = [], []
        for batch in stream:
            found.append(batch)
            others.append(len(at_work()))
        assert max(others) == threads - 1
        assert rows_of(pa.Table.from_batches(found)) == want
        assert stream.metrics.rows_out == sum(want.values())
        assert all_ended()


def test_one_operator_emits_no_row_again_that_a_slice_has_emitted() -> None:
    """The last right row lies where the condition may overflow, so no slice is cut any more."""
    x = np.arange(2000)
    left = pa.table({"k": x % 7, "x": x, "v": x})
    right = pa.table({"k": x % 5, "x": np.where(x == 1999, 2**62 + 5, x), "v": x})
    options: dict[str, Any] = {
        "on": "k", "condition": "abs(l.x - r.x) <= 20", "how": "full", "left_order": "x", "right_order": "x",
    }  # fmt: skip
    want = rows_of(band_join(left, right, threads=1, **options).read_all())
    stream: Any = band_join(left.to_reader(100), right.to_reader(100), threads=2, **options)
    assert rows_of(stream.read_all()) == want
    assert stream._run.operator._alone is not None


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_an_input_that_raises_ends_the_join(threads: int) -> None:
    x = np.arange(6000)

    def batches() -> Any:
        for start in range(0, 5000, 500):
            yield pa.record_batch({"x": x[start : start + 500]})
        raise OSError("the source is gone")

    stream = band_join(
        batches(), pa.table({"x": x}), condition="l.x BETWEEN r.x - 3 AND r.x + 3", left_order="x", right_order="x",
        threads=threads,
    )
    rows = 0
    with pytest.raises(OSError, match="the source is gone"):  # noqa: PT012
        for batch in stream:
            rows += batch.num_rows
    assert rows > 1000
    with pytest.raises(IvjoinError, match="stopped with an error"):
        next(stream)
    assert all_ended()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("left_by", ["close", "drop"])
def test_a_reader_that_stops_leaves_no_thread_at_work(left_by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_MOST_BYTES", 0)  # a slice waits for each of its batches to be taken
    monkeypatch.setattr(whole, "_MOST_PAIRS", 1 << 10)
    n = 20_000
    table = pa.table({"k": np.zeros(n, dtype=np.int64), "x": np.arange(n)})
    readers = (table.to_reader(max_chunksize=500) for _ in range(2))
    stream: Any = band_join(
        *readers, on="k", condition="l.x BETWEEN r.x - 40 AND r.x + 40", left_order="x", right_order="x",
        batch_size=100, threads=2,
    )
    assert next(iter(stream)).num_rows == 100
    assert at_work(), "slices wait for somebody to take their output"
    if left_by == "close":
        stream.close()
    else:
        del stream
        gc.collect()
    assert all_ended()


def test_a_slow_consumer_holds_the_threads_back() -> None:
    n = 60_000
    x = np.arange(n)
    read = []

    def batches() -> Any:
        for start in range(0, n, 500):
            read.append(start)
            yield pa.record_batch({"x": x[start : start + 500]})

    stream: Any = band_join(
        batches(), pa.table({"x": x}), condition="l.x BETWEEN r.x - 20 AND r.x + 20", left_order="x",
        right_order="x", batch_size=100, threads=2,
    )
    batches_out = iter(stream)
    for _ in range(20):
        next(batches_out)
    assert len(read) < 40, "of 120: what is read ahead is some slices"
    stream.close()


@pytest.mark.slow
def test_joins_without_slices_explain_why_and_use_one_thread() -> None:
    left = side(1, 300)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"condition": BAND}, "the left side has no declared order; the right side has no declared order"),
        ({"condition": "l.x <= r.x", "left_order": "x"}, "l.x has a band with one end alone; the right side has no"),
        ({"on": "k", "left_order": "x"}, "l.x has no band; the right side has no declared order"),
        ({"condition": BAND, "how": "left", "right_order": "x"}, "the left side has no declared order"),
    ]
    for options, why in cases:
        said = cut_of(planned(left.schema, left.schema, **options))
        assert isinstance(said, str) and said.startswith(why), said
        _, many = both(left, left, 2, sort="never", **options)
        assert not isinstance(many._run.operator, SlicedStream)
    found = cut_of(planned(left.schema, left.schema, condition=BAND, how="right", left_order="x", right_order="x"))
    assert isinstance(found, Cut)
    text = explain(left.schema, left.schema, condition=BAND, how="right", left_order="x", right_order="x")
    assert text.endswith("threads\n  any number: slices along r.x of the right side")
    assert explain(left.schema, left.schema, condition=BAND).endswith("the right side has no declared order")


@pytest.mark.parametrize("threads", [0, True, 1.5, "2", 2000])
def test_bad_numbers_of_threads(threads: Any) -> None:
    with pytest.raises(IvjoinError, match="threads is "):
        band_join(side(1, 10), side(1, 10), on="k", threads=threads)


def test_waiting_rows_are_not_scanned_for_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def rows(piece: Piece) -> int:
        nonlocal looks
        looks += 1
        return len(piece.low)

    monkeypatch.setattr(sliced_stream, "_SLICE_ROWS", 5000)
    monkeypatch.setattr(Piece, "rows", property(rows))
    n = 600
    batches = [pa.record_batch({"x": [i], "v": [i]}) for i in range(n)]
    stream = band_join(iter(batches), iter(batches), condition=BAND, left_order="x", right_order="x", threads=2)
    assert sum(b.num_rows for b in stream) == sum(max(0, n - abs(by)) for by in range(-3, 7))
    assert cut(stream)
    assert looks < 20 * n


TABLES = {
    "few rows": (500, "l.x BETWEEN r.x - 3 AND r.x + 3"),
    "overflow": (40_000, "(l.x - r.x) / 10.0 BETWEEN -0.3 AND 0.3"),
    "no band": (3000, "l.x <= r.x"),
    "bands": (40_000, "l.x BETWEEN r.x - 3 AND r.x + 3"),
}


@pytest.mark.parametrize("sort", ["auto", "never"])
@pytest.mark.parametrize("name", TABLES)
def test_the_order_of_the_rows_of_tables_does_not_depend_on_the_threads(name: str, sort: str) -> None:
    rows, condition = TABLES[name]
    x = np.arange(rows) // 2
    shuffled = np.random.default_rng(0).permutation(x)
    left, right = pa.table({"k": x % 997, "x": x}), pa.table({"k": shuffled % 997, "x": shuffled})
    if sort == "never" and rows > 3000:
        left, right = left.slice(0, 3000), right.slice(0, 3000)
    options: dict[str, Any] = {"on": "k", "condition": condition, "sort": sort}
    one = band_join(left, right, threads=1, **options).read_all()
    for threads in (2, 3, 16):
        assert band_join(left, right, threads=threads, **options).read_all().equals(one)
    assert one.num_rows


def test_slices_of_wide_rows_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 4000
    table = pa.table({"t": range(n), "text": ["x" * 100] * n})
    peaks = []
    for most in (16 << 20, 20_000):
        for name, value in {"_SLICE_ROWS": 1 << 20, "_SLICE_BYTES": most, "_WIDE_ROWS": 16}.items():
            monkeypatch.setattr(sliced_stream, name, value)
        readers = (pa.RecordBatchReader.from_batches(table.schema, table.to_batches(50)) for _ in (0, 1))
        stream = band_join(*readers, condition="l.t = r.t", left_order="t", right_order="t", threads=2)
        assert stream.read_all().num_rows == n
        peaks.append(stream.metrics.peak_state_rows)
    assert peaks[1] < 1600 < 2 * n == peaks[0]
