"""One call at a time, its output read to the end: checked on every path, with an error otherwise."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from join.builders import by_arrow

import ivjoin
from ivjoin import EvaluationError, JoinStream, ProtocolError, SymmetricHashJoin, band_join
from ivjoin.operator import protocol
from ivjoin.operator.match import output
from ivjoin.shj.kernels.compiling import COMPILES

pytestmark = pytest.mark.nojit

N = 300  # rows of a key: N * N pairs are many batches on either path


@pytest.fixture(params=["blocks", "no blocks", "text"], autouse=True)
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    """Who builds the output: compiled code, or Arrow."""
    with by_arrow(request.param != "blocks"):
        yield request.param


def schema(path: str) -> pa.Schema:
    return pa.schema({"k": pa.string() if path == "text" else pa.int64(), "t": pa.int64()})


def rows(path: str, n: int = 3, t: int = 5) -> pa.RecordBatch:
    key = ["x"] * n if path == "text" else [7] * n
    return pa.record_batch([pa.array(key), pa.array([t] * n)], schema=schema(path))


def operator(path: str, how: str = "inner", **options: Any) -> SymmetricHashJoin:
    s = schema(path)
    band = "l.t BETWEEN r.t - 10 AND r.t + 10"
    return SymmetricHashJoin(s, s, on="k", condition=band, how=how, left_order="t", right_order="t", **options)


def count(out: Iterator[pa.RecordBatch]) -> int:
    return sum(b.num_rows for b in out)


def calls(op: SymmetricHashJoin, path: str) -> list[Callable[[], Any]]:
    return [
        lambda: op.push("left", rows(path)), lambda: op.advance("left", {"t": 1}), lambda: op.reach("left", [1]),
        lambda: op.finish(), lambda: op.finish("left"), lambda: op.snapshot(),
    ]  # fmt: skip


def refused(op: SymmetricHashJoin, path: str, why: str) -> None:
    for call in calls(op, path):
        with pytest.raises(ProtocolError, match=why):
            call()


# -- output not taken --------------------------------------------------------------------------------------------


def test_path_is_the_requested_one(path: str) -> None:
    op = operator(path)
    list(op.push("left", rows(path)))
    assert op._engine.state.get("blocks") == (path == "blocks")


@pytest.mark.parametrize("taken", [0, 1])
@pytest.mark.parametrize("options", [{}, {"batch_size": 2}], ids=["one batch", "several"])
def test_waiting_output_is_retained(path: str, options: dict[str, int], taken: int) -> None:
    op = operator(path, **options)
    assert count(op.push("left", rows(path))) == 0
    out = op.push("right", rows(path))
    got = sum(next(out).num_rows for _ in range(taken))
    refused(op, path, "output of the last push was not taken to its end; drain")
    assert op.metrics.rows_out == got
    assert got + count(out) == 9
    assert op.metrics.rows_out == 9
    assert list(out) == []
    assert count(op.push("left", rows(path))) == 9
    list(op.finish())
    assert op.metrics.rows_out == 18


@pytest.mark.parametrize("call", ["advance", "reach", "finish", "finish one side"])
def test_output_of_every_call_waits(path: str, call: str) -> None:
    op = operator(path, "left")
    list(op.push("left", rows(path)))
    out = {
        "advance": lambda: op.advance("right", {"t": 100}), "reach": lambda: op.reach("right", [100]),
        "finish": op.finish, "finish one side": lambda: op.finish("right"),
    }[call]()  # fmt: skip
    refused(op, path, f"output of the last {call.partition(' ')[0]} was not taken")
    assert count(out) == 3
    assert count(op.finish()) == 0


def test_a_call_without_output_needs_no_draining(path: str) -> None:
    op = operator(path)
    for _ in range(3):
        op.push("left", rows(path))
    op.advance("left", {"t": 5})
    op.reach("left", [5])
    empty = op.push("left", rows(path))
    empty.close()
    assert count(op.push("right", rows(path, 1))) == 12
    assert list(empty) == []
    op.finish("left")
    op.snapshot()
    op.finish()


@pytest.mark.parametrize("how", ["never begun", "begun", "last batch taken", "closed", "closed when begun", "break"])
def test_output_given_up_stops_the_operator(path: str, how: str) -> None:
    op = operator(path, batch_size=65536 if how in ("last batch taken", "break") else 2)
    list(op.push("left", rows(path)))
    before = op.snapshot()
    if how == "break":
        for _batch in op.push("right", rows(path)):
            break
    else:
        out = op.push("right", rows(path))
        if how != "never begun" and how != "closed":
            next(out)
        if how.startswith("closed"):
            out.close()
            assert list(out) == []
        else:
            del out
    refused(op, path, "the output of the last push was abandoned.*restore it from a snapshot")
    assert op.metrics.state_rows == 0
    assert op.metrics.left_rows_in == op.metrics.right_rows_in == 3
    again = SymmetricHashJoin.restore(before)
    assert count(again.push("right", rows(path))) == 9


@pytest.mark.one_in(5)
def test_output_in_a_circle_is_given_up_when_it_is_found(path: str) -> None:
    op = operator(path)
    list(op.push("left", rows(path)))
    circle: list[Any] = [op.push("right", rows(path))]
    circle.append(circle)
    refused(op, path, "drain")
    del circle
    gc.collect()
    refused(op, path, "abandoned")


@pytest.mark.one_in(5)
def test_output_outlives_the_name_of_its_operator(path: str) -> None:
    op = operator(path, batch_size=2)
    list(op.push("left", rows(path)))
    out = op.push("right", rows(path))
    del op
    gc.collect()
    assert count(out) == 9


# -- calls that break off ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError("no luck")], ids=["interrupt", "error"])
@pytest.mark.parametrize("size", [65536, 100])
def test_an_error_between_the_join_and_its_output_stops(
    path: str, error: Any, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = operator(path, batch_size=size)
    list(op.push("left", rows(path, N)))

    def broken(*args: Any) -> Any:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(output, "made", broken)
        patch.setattr(type(op._engine.builder), "batch", broken)
        with pytest.raises(error if isinstance(error, type) else RuntimeError):
            op.push("right", rows(path, N))
    refused(op, path, "stopped with an error and cannot go on: (KeyboardInterrupt|no luck)")
    assert op.metrics.state_rows == 0


@pytest.mark.one_in(5)
@pytest.mark.skipif(not COMPILES, reason="no output blocks")
@pytest.mark.parametrize("path", ["blocks"], indirect=True)
def test_memory_of_a_broken_push_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    op = operator("blocks", batch_size=100)
    list(op.push("left", rows("blocks", N)))
    held = op._engine.state
    before = pa.total_allocated_bytes()
    batch = pa.concat_batches([rows("blocks", N)] * 2)  # in memory of Arrow's own
    assert pa.total_allocated_bytes() > before
    monkeypatch.setattr(output, "made", lambda self: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        op.push("right", batch)
    del batch
    gc.collect()
    assert pa.total_allocated_bytes() == before
    assert not held["structs"].reshape(2, -1)[:, 8].any()  # neither struct has a release callback left
    assert op.metrics.state_bytes < 12_000


def test_error_in_the_middle_stops_and_releases(path: str) -> None:
    s = schema(path)
    op = SymmetricHashJoin(s, s, on="k", condition="l.t / r.t > 0")
    list(op.push("left", rows(path)))
    list(op.push("right", rows(path, t=1)))
    with pytest.raises(EvaluationError):
        list(op.push("right", rows(path, t=0)))
    refused(op, path, "stopped with an error")
    assert op.metrics.state_rows == 0


def test_an_iterator_after_an_error_does_not_seem_at_its_end(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op = operator(path, batch_size=2)
    list(op.push("left", rows(path)))
    out = op.push("right", rows(path))
    next(out)
    with monkeypatch.context() as patch:
        patch.setattr(output, "made", lambda self: 1 // 0)
        patch.setattr(type(op._engine.builder), "batch", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            list(out)
    with pytest.raises(ProtocolError, match="stopped with an error"):
        next(out)


def test_what_is_refused_at_the_door_harms_nothing(path: str) -> None:
    op = operator(path)
    list(op.push("left", rows(path)))
    for wrong in (
        lambda: op.push("up", rows(path)), lambda: op.push("left", 3), lambda: op.push("left", rows(path, t=1)),
        lambda: op.advance("left", {"zz": 1}), lambda: op.advance("left", {}), lambda: op.reach("left", []),
    ):  # fmt: skip
        with pytest.raises(ivjoin.IvjoinError):
            wrong()
    assert count(op.push("right", rows(path))) == 9


# -- threads -----------------------------------------------------------------------------------------------------


def elsewhere(call: Callable[[], Any]) -> BaseException | None:
    """What a call in another thread raises."""
    found: list[BaseException | None] = [None]

    def run() -> None:
        try:
            call()
        except BaseException as e:
            found[0] = e

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def here(call: Callable[[], Any]) -> BaseException | None:
    """What a call in this thread raises."""
    try:
        call()
    except BaseException as e:
        return e
    return None


@pytest.mark.parametrize("run", [elsewhere, here])
def test_a_call_while_another_is_at_work(path: str, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    op = operator(path, batch_size=2)
    list(op.push("left", rows(path)))
    said: list[Any] = []

    def meanwhile() -> None:
        others = [*calls(op, path), lambda: next(out), lambda: out.close(), lambda: op.lagging(0, 0)]
        said.extend(run(call) for call in others)
        assert op.metrics.left_rows_in == 3
        assert op.schema is not None

    made, batch = output.made, type(op._engine.builder).batch
    out: Any = iter(())
    out = op.push("right", rows(path))
    with monkeypatch.context() as patch:
        patch.setattr(output, "made", lambda self: (meanwhile(), made(self))[1])
        patch.setattr(type(op._engine.builder), "batch", lambda *args: (meanwhile(), batch(*args))[1])
        assert count(out) == 9
    assert len(said) >= 9
    assert all(isinstance(e, ProtocolError) and "another thread, or a call further up" in str(e) for e in said)
    assert count(op.push("left", rows(path))) == 9


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("run", [elsewhere, here])
def test_a_stream_has_one_reader_at_a_time(path: str, run: Any, threads: int) -> None:
    said: list[Any] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for i in range(4):
            if i:
                said.extend(run(call) for call in (lambda: next(stream), stream.read_all, stream.close))
                assert stream.metrics.left_rows_in >= 0
            yield rows(path)

    stream: JoinStream = band_join(batches(), rows(path), on="k", condition="l.t = r.t", threads=threads)
    assert count(stream) == 4 * 9
    assert len(said) == 9
    assert all(isinstance(e, ProtocolError) and "read by another thread at this moment" in str(e) for e in said)


@pytest.mark.skipif(not COMPILES, reason="batches go while an error is on its way, when no callback in Python can run")
def test_a_stream_that_broke_off_does_not_seem_at_its_end(path: str) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield rows(path)
        raise OSError("the disk is gone")

    stream = band_join(batches(), rows(path), on="k", condition="l.t = r.t")
    with pytest.raises(OSError, match="disk"):
        stream.read_all()
    for read in (stream.read_all, lambda: next(stream), lambda: list(stream)):
        with pytest.raises(ProtocolError, match="stopped with an error and gives nothing more: the disk is gone"):
            read()


def test_different_operators_run_side_by_side(path: str) -> None:
    left, right = rows(path, 50), rows(path, 50)
    found: list[int] = []

    def work() -> None:
        for _ in range(20):
            op = operator(path)
            found.append(count(op.push("left", left)) + count(op.push("right", right)) + count(op.finish()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [2500] * 80


def test_the_guard_is_one_object_for_calls_and_output(path: str) -> None:
    """Whatever a step locks is released after it, also after an error."""
    op = operator(path, batch_size=2)
    list(op.push("left", rows(path)))
    out = op.push("right", rows(path))
    assert isinstance(out, protocol.Output)
    assert iter(out) is out
    for _ in out:
        assert not op._busy
    for wrong in (lambda: op.push("left", None), lambda: op.advance("left", None), lambda: op.reach("left", [])):
        with pytest.raises(ivjoin.IvjoinError):
            wrong()
        assert not op._busy
