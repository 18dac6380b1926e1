"""Pairs of edge values through shapes of conditions, as ``edge_driver.py`` plays them: some, always the same."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from drivers.edge_driver import MODES, TYPES, Job, check, condition, differences, jobs, pairs_of, sample, truth
from drivers.edge_unseen import may_be_unseen
from oracle import HOWS


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPES)
def test_rows_are_those_of_a_nested_loop(name: str) -> None:
    rng = random.Random(name)
    tried, found = 0, []
    for job, pairs, most in sample(rng, name, 14):
        found += check(job, pairs, most)
        tried += len(pairs)
    assert not found, "\n".join(found[:10])
    assert tried > 200


@pytest.mark.soak
@pytest.mark.parametrize("name", TYPES)
def test_all_rows_are_those_of_a_nested_loop(name: str) -> None:
    found = [d for job, pairs, most in jobs([name]) for d in check(job, pairs, most)]
    assert not found, "\n".join(found[:10])


# Rows that were lost once: type, shape, mode, left and right value.
LOST = [
    ("int64", "sum <= 0", "right falling", 0, -(2**63)), ("int64", "sum <= 0", "right retreat", 0, -(2**63)),
    ("int64", "sum <= 0", "right up to", 0, -(2**63)), ("int64", "2 l + r", "right falling", 1, -(2**63)),
    ("int64", "from one", "right falling", 0, -(2**63)), ("int64", "l + 2 r", "right falling", 0, -(2**62)),
    ("int64", "l + -2 r", "right rising", 0, 2**62),
    ("int64", "sum < half", "left rising", 2**62 - 1, -(2**63)),
    ("duration", "sum <= 0", "right falling", 0, -(2**63)),
    ("int64", "sum <= 0", "left rising", 2**63 - 1, -(2**63)),
    ("int64", "l + -2 r", "left from", 2**63 - 1, 2**62),
    ("int64", "sum >= low", "left falling", 0, -(2**63)),
    ("int64", "greatest sum", "right falling", 0, -(2**63)),
    ("int64", "not sum", "right up to", 0, -(2**63)),
    ("int64", "or of sums", "right retreat", 0, -(2**63)),
    ("int64", "size of sum", "right falling", 1, -(2**63)),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(("name", "shape", "mode", "left", "right"), LOST)
def test_a_pair_at_the_end_of_its_type(name: str, shape: str, mode: str, left: int, right: int, how: str) -> None:
    job = Job(name, shape, mode, how, compiled=False, keyed=False)
    assert truth(condition(job), (left, right)) is True
    assert differences(job, [(left, right)]) == []


# Of pairs that err, those that may go unseen, and why; None: has to raise.
UNSEEN_PAIRS = [
    ("int64", "difference = 0", -(2**63), 1, "solved_for_a_side"),
    ("int32", "window", None, -(2**31), "row_is_dropped"),
    ("float64", "quotient", math.nan, 0.0, "row_is_dropped"),
    ("uint32", "band after", 1, 5, "refused_by_another_band"),
    ("int64", "square", 0, 2**62, "product_by_its_root"),
    ("uint8", "sum in a sum", 127, 129, "narrow_sum"),
    ("int16", "sum of a side", 16384, 16385, "narrow_sum"),
    ("int64", "div in or", -2, 0, "other_operation"),
    ("int64", "product in greatest", 2**62, 2, "other_operation"),
    ("int64", "square", -(2**63), 2**63 - 1, None), ("int64", "difference between", -(2**63), 1, None),
    ("uint8", "difference between", 1, 5, None), ("uint16", "apart after", 1, 5, None),
    ("int64", "or", -(2**63), 1, None), ("uint64", "greatest diff", 5, 6, None), ("int8", "greatest sum", 126, 2, None),
    ("int32", "spread", 2**31 - 1, -1, None), ("int16", "twice", -(2**15), -2, None),
    ("int32", "sum in a sum", 2**31 - 1, -1, None), ("int64", "remainder", 1, 0, None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape", "left", "right", "row"), UNSEEN_PAIRS)
def test_which_errors_go_unseen(
    name: str, shape: str, left: Any, right: Any, row: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the table of the documents, and no more than the join leaves unseen."""
    job = Job(name, shape, "unordered", "full", compiled=False, keyed=False)
    assert truth(condition(job), (left, right)) is None
    assert may_be_unseen(condition(job), (left, right)) == row
    assert differences(job, [(left, right)]) == []
    monkeypatch.setattr("drivers.edge_unseen.UNSEEN", [])
    assert ["no error" in d for d in differences(job, [(left, right)])] == [True] * (row is not None)


def test_the_driver_tells_a_lost_row_an_invented_one_and_a_missing_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison works: an answer that is wrong in each possible respect is a difference."""
    job = Job("int64", "l = r", "unordered", "inner", compiled=False)
    pairs = [(5, 5), (5, 6)]
    assert check(job, pairs) == []
    for wrong, word in ((True, "lost"), (False, "invented"), (None, "no error")):
        monkeypatch.setattr("drivers.edge_driver.truth", lambda e, p, wrong=wrong: wrong)
        assert word in "".join(check(job, pairs))


@pytest.mark.slow
def test_every_mode_and_join_type_is_played() -> None:
    """Each mode finds the rows of a plain equality, under each join type and on either way of a push."""
    pairs = pairs_of("int8")[::5]
    for i, mode in enumerate(MODES):
        for compiled in (False, True):
            assert check(Job("int8", "l = r", mode, HOWS[(i + compiled) % len(HOWS)], compiled), pairs) == []
