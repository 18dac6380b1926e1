"""State under every join type: what nothing can match goes at once, whatever tells so."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pytest

from ivjoin import Order, SymmetricHashJoin

N, STEP = 3_000, 100


def rows_of(how: str, pairs: np.ndarray, n: int, m: int) -> int:
    """How many rows a join type makes of its matching pairs (left row, right row)."""
    left, right = len(np.unique(pairs[:, 0])), len(np.unique(pairs[:, 1]))
    return {
        "inner": len(pairs), "left": len(pairs) + n - left, "right": len(pairs) + m - right,
        "full": len(pairs) + n - left + m - right, "left_semi": left, "left_anti": n - left, "right_semi": right,
        "right_anti": m - right,
    }[how]  # fmt: skip


def within(a: np.ndarray, b: np.ndarray, low: int, high: int) -> np.ndarray:
    """The pairs with ``low <= a - b <= high``, int64[m, 2]."""
    order = np.argsort(b, kind="stable")
    start = np.searchsorted(b[order], a - high, "left")
    stop = np.searchsorted(b[order], a - low, "right")
    many = stop - start
    i = np.repeat(np.arange(len(a)), many)
    return np.stack([i, order[np.arange(len(i)) + np.repeat(start - np.cumsum(many) + many, many)]], axis=1)


class Play:
    """An operator that is fed, and the number of rows that have come out."""

    def __init__(self, left: pa.Table, right: pa.Table, **options: Any) -> None:
        self.op = SymmetricHashJoin(left.schema, right.schema, **options)
        self.tables = {"left": left, "right": right}
        self.out = 0

    def push(self, side: str, start: int, stop: int) -> None:
        for b in self.tables[side].slice(start, stop - start).combine_chunks().to_batches():
            self.out += sum(x.num_rows for x in self.op.push(side, b))

    def finish(self, side: str | None = None) -> None:
        self.out += sum(x.num_rows for x in self.op.finish(side))

    @property
    def held(self) -> int:
        return self.op.metrics.state_rows


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("falling", [False, True], ids=["rising", "falling"])
def test_unordered_rows_go_by_their_values(how: str, falling: bool) -> None:
    """The left column has no order: its rows lie as they came, and leave as the right side passes their values."""
    rng = np.random.default_rng(1)
    a, b = rng.permutation(N), np.arange(N)[:: -1 if falling else 1].copy()
    play = Play(
        pa.table({"a": a}), pa.table({"b": b}), condition="l.a BETWEEN r.b - 10 AND r.b + 10", how=how,
        right_order=Order("b", descending=falling),
    )  # fmt: skip
    play.push("left", 0, N)
    for at in range(0, N, STEP):
        play.push("right", at, at + STEP)
        # Right rows wait for left ones until the end; a semi or anti join of the right lets go of matched ones.
        of_right = at + STEP
        assert play.held <= N - at + 20 + of_right
        assert play.op.metrics.left_rows_retired >= at + STEP - 12 - (1 if how.startswith("right_") else 0)
    play.finish()
    assert play.out == rows_of(how, within(a, b, -10, 10), N, N)


@pytest.mark.parametrize("how", oracle.HOWS)
def test_unordered_rows_behind_the_frontier_are_not_stored(how: str) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, N, N), np.arange(N)
    play = Play(
        pa.table({"a": a}), pa.table({"b": b}), condition="l.a BETWEEN r.b - 10 AND r.b + 10", how=how,
        right_order="b", left_bounds={"a": (0, N - 1)},
    )  # fmt: skip
    for at in range(0, N, STEP):
        play.push("right", at, at + STEP)
        play.push("left", at, at + STEP)
        ahead = int((a[: at + STEP] >= at + STEP - 11).sum())
        assert play.held <= ahead + at + STEP
    play.finish()
    assert play.out == rows_of(how, within(a, b, -10, 10), N, N)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("condition, low, high", [
    pytest.param("l.a BETWEEN r.b - 5 AND r.b + 5", -5, 5, id="band"),
    pytest.param("(l.a - r.b) * (l.a - r.b) <= 25", -5, 5, id="square"),
    pytest.param("pow(2D, abs(l.a - r.b)) <= 32", -5, 5, id="no inverse"),
    pytest.param("CASE WHEN l.a > r.b THEN l.a <= r.b + 5 ELSE l.a >= r.b - 5 END", -5, 5, id="CASE"),
])  # fmt: skip
def test_rows_past_the_other_sides_bounds_are_not_stored(how: str, condition: str, low: int, high: int) -> None:
    """Nothing buffered can match any future row, nor can what is to come: all of it goes, and nothing is kept."""
    rng = np.random.default_rng(3)
    a, b = np.arange(N), rng.integers(0, 1_000, N)
    play = Play(
        pa.table({"a": a}), pa.table({"b": b}), condition=condition, how=how, left_order="a",
        right_bounds={"b": (0, 999)},
    )  # fmt: skip
    for at in range(0, N, STEP):
        play.push("left", at, at + STEP)
        play.push("right", at, at + STEP)
        if at > 1_000 + 3 * 256:
            # By now the left side is past 999 + 5, and the last contraction knows.
            assert play.op.metrics.right_rows_retired == at + STEP
            assert play.held <= 1_000 + 5 + 1, "only left rows within the bounds can still match"
    play.finish()
    assert play.out == rows_of(how, within(a, b, low, high), N, N)


@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("ended", ["left", "right"])
def test_an_ended_side_retires_the_other_at_once(how: str, ordered: bool, ended: str) -> None:
    a = np.arange(N)
    order = {"left_order": "a", "right_order": "b"} if ordered else {}
    play = Play(pa.table({"a": a}), pa.table({"b": a}), condition="l.a BETWEEN r.b - 3 AND r.b + 3", how=how, **order)
    other = "right" if ended == "left" else "left"
    play.push(ended, 0, STEP)
    play.push(other, 0, STEP)
    play.push(other, STEP, N // 2)
    play.finish(ended)
    retired = getattr(play.op.metrics, f"{other}_rows_retired")
    assert retired == N // 2, "every row of the side that goes on is decided"
    assert play.held <= STEP
    for at in range(N // 2, N, STEP):
        play.push(other, at, at + STEP)
        assert play.held <= STEP, "a row that meets the end is decided on arrival"
    play.finish()
    n, m = (STEP, N) if ended == "left" else (N, STEP)
    assert play.out == rows_of(how, within(a[:n], a[:m], -3, 3), n, m)


@pytest.mark.parametrize("how", oracle.HOWS)
def test_ascending_against_descending_windows(how: str) -> None:
    """One side rises, the other falls: a row goes when the other side has come to it."""
    a, b = np.arange(N), np.arange(N)[::-1].copy()
    play = Play(
        pa.table({"a": a}), pa.table({"b": b}), condition="abs(l.a - r.b) < 20", how=how, left_order="a",
        right_order=Order("b", descending=True),
    )  # fmt: skip
    for at in range(0, N, STEP):
        play.push("left", at, at + STEP)
        play.push("right", at, at + STEP)
        assert play.held <= 2 * (N - at - STEP + 20)
    play.finish()
    assert play.out == rows_of(how, within(a, b, -19, 19), N, N)
