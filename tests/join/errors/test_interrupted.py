"""A KeyboardInterrupt at every point where Python handles signals: the call continues exactly, or refuses."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

import ivjoin
from ivjoin import MultiJoin, ProtocolError, SymmetricHashJoin

LEFT = pa.table({"t": [1, 2, 3, 4, 9], "x": [0, 1, 2, 3, 4]})
RIGHT = pa.table({"t": [2, 3, 3, 7, 8], "y": [0, 1, 2, 3, 4]})
WHERE = "l.t BETWEEN r.t - 1 AND r.t"
WORDS = ("stopped", "abandoned", "not taken to its end")  # what a refusal says

# What is raised while a generator is closed by the garbage collector is lost.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

Calls = list[tuple[str, Callable[[], Any]]]


@contextmanager
def interrupt_at(n: int) -> Iterator[list[int]]:
    """Raise KeyboardInterrupt at the n-th place within ivjoin where Python would see that a signal has come."""
    seen = [0]

    def look(frame: Any, event: str, _: object) -> None:
        # Python looks as a function begins, as a built-in one returns, and as loops go round, which is in between.
        code = frame.f_code
        if event not in ("call", "c_return") or "/ivjoin/" not in code.co_filename or code.co_name == "__del__":
            return  # what is raised by __del__ is lost
        seen[0] += 1
        if seen[0] == n:
            raise KeyboardInterrupt

    sys.setprofile(look)
    try:
        yield seen
    finally:
        sys.setprofile(None)


def pushed(how: str) -> Calls:
    op = SymmetricHashJoin(
        LEFT.schema, RIGHT.schema, condition=WHERE, how=how, left_order="t", right_order="t", batch_size=2
    )
    return calls_of(op, "left", "right")


def pushed_to_many(_: str) -> Calls:
    op = MultiJoin({"l": LEFT.schema, "r": RIGHT.schema}, WHERE, orders={"l": "t", "r": "t"}, batch_size=2)
    return calls_of(op, "l", "r")


def calls_of(op: Any, left: str, right: str) -> Calls:
    return [
        ("left", lambda: op.push(left, LEFT.slice(0, 3).combine_chunks().to_batches()[0])),
        ("right", lambda: op.push(right, RIGHT.combine_chunks().to_batches()[0])),
        ("advance", lambda: op.advance(left, {"t": 4})),
        ("left", lambda: op.push(left, LEFT.slice(3).combine_chunks().to_batches()[0])),
        ("finish", op.finish),
    ]


def run(calls: Calls, n: int) -> tuple[Counter[tuple[Any, ...]], str | None, bool]:
    """The rows, by whose words it was refused (None: it went on), and whether the n-th place was reached.

    A call that was interrupted is made again, and output that was being taken goes on being taken.
    """
    out: Counter[tuple[Any, ...]] = Counter()
    hit = False
    with interrupt_at(n):
        for _, call in calls:
            output = None
            while True:
                try:
                    if output is None:
                        output = call()
                    batch = next(output)
                except StopIteration:
                    break
                except KeyboardInterrupt:
                    hit = True
                    continue
                except ProtocolError as e:
                    return out, str(e), hit
                out.update(tuple(r.values()) for r in batch.to_pylist())
    return out, None, hit


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "how"),
    [(pushed, "inner"), (pushed, "full"), (pushed, "left_anti"), (pushed, "right_semi"), (pushed_to_many, "inner")],
)
def test_pushes(make: Callable[[str], Calls], how: str) -> None:
    whole, refused, _ = run(make(how), 0)
    assert refused is None and whole.total() >= 2
    n = went_on = 0
    while True:
        n += 1
        rows, refused, hit = run(make(how), n)
        if not hit:
            break
        if refused is None:
            went_on += 1
            assert rows == whole, (n, rows, whole)
        else:
            assert rows <= whole and any(word in refused for word in WORDS), (n, refused)
    assert n > 20 and went_on > 0


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("how", ["inner", "full", "left_anti"])
def test_pulls(how: str, threads: int) -> None:
    def make() -> Any:
        return ivjoin.band_join(
            iter(LEFT.to_batches(max_chunksize=2)), iter(RIGHT.to_batches(max_chunksize=2)), condition=WHERE, how=how,
            left_order="t", right_order="t", batch_size=2, threads=threads,
        )  # fmt: skip

    whole, refused, _ = run([("next", make)], 0)
    assert refused is None and whole.total() >= 2
    n = 0
    while True:
        n += 1
        stream = make()
        rows, refused, hit = run([("next", lambda s=stream: s)], n)  # type: ignore[misc]
        if not hit:
            break
        if refused is None:
            assert rows == whole, (n, rows, whole)
        else:
            assert rows <= whole and "stopped with an error" in refused, (n, refused)
    assert n > 20
