"""Random joins at length, by every leg: as many as ``IVJOIN_JOINS`` says, from seed ``IVJOIN_SEED`` on.

Keys of all kinds, axes, join types, orders and interleavings are drawn; each result is the nested loop's.
"""

from __future__ import annotations

import os

import pytest
from drivers.fuzz import LEGS, play

JOINS = int(os.environ.get("IVJOIN_JOINS", "21000"))
SEED = int(os.environ.get("IVJOIN_SEED", "1"))


@pytest.mark.soak
@pytest.mark.parametrize("leg", LEGS)
def test_random_joins_by_every_leg(leg: str) -> None:
    share = JOINS // len(LEGS)
    done, last = play(leg, SEED, lambda joins: joins >= share)
    assert sum(done.values()) == share
    assert len(done) > 4 or share < 100  # join types
    assert last < SEED + share


def test_different_result_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEGS, "push", lambda case, number: 1 / (number - 3))  # type: ignore[func-returns-value]
    with pytest.raises(AssertionError, match=r"(?s)seed 5, case .*ZeroDivisionError.*left = pa.table"):
        play("push", 5, lambda joins: joins >= 100)
