"""Stores that search by sorted runs from their first probe on, as they otherwise do only after long searches."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import PropertyMock, patch

import numpy as np

from ivjoin.operator.match import pairs, room, steps
from ivjoin.shj.store.rows.bands import BandTable
from ivjoin.shj.store.rows.side import SideStore


@contextmanager
def runs_at_once(seed: int) -> Iterator[list[tuple[int, int | None]]]:
    """Every store turns to runs over an axis, and perhaps a second one, drawn at random; gives those drawn.

    It may do so in the middle of a batch of more than three rows.
    """
    rng = random.Random(seed)
    drawn: list[tuple[int, int | None]] = []

    def choose(_axes: np.ndarray, bands: BandTable, store: SideStore) -> tuple[int, int | None]:
        there = sorted({int(a) for a in bands.terms[:, 1]})
        if there and store.runs is None:
            axis = rng.choice(there)
            second = rng.choice([None, *(a for a in there if a != axis)])
            drawn.append((axis, second))
            store._led_by, store.disordered = (axis, second), True
        return 0, None

    init = SideStore.__init__

    def impatient(self: SideStore, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        self._patience = -(2**40)

    with (
        patch.object(SideStore, "__init__", impatient),
        patch.object(SideStore, "search_by", lambda *_: None),
        patch.object(pairs, "may_crowd", lambda *_: True),
        patch.object(pairs, "most_selective", choose),
        patch.object(room, "most_selective", choose),
        patch.object(SideStore, "crowded", PropertyMock(return_value=True)),
        patch.object(steps, "PIECE", 3),
    ):
        yield drawn
