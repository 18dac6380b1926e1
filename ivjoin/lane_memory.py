"""The memory of a lane: its registers, the arrays that they point to, and two structs of Arrow's C data interface."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.plan import JoinPlan
from ivjoin.shj import lane_layout as at

__all__ = ["FIRST_PAIRS", "MOST_PAIRS", "LaneMemory", "address"]

FIRST_PAIRS, MOST_PAIRS = 4096, 1 << 17


def address(array: np.ndarray) -> int:
    found: int = pa.py_buffer(array).address  # six times as fast as by ctypes
    return found


class LaneMemory:
    """What the compiled kernel works on, by address."""

    def __init__(self, plan: JoinPlan) -> None:
        from ivjoin.shj.memory import ARROW_ARRAY, release_struct

        self._plan = plan
        self._struct_size = ARROW_ARRAY
        self._release = release_struct
        self._r = np.zeros(at.TOTAL, dtype=np.int64)
        self._held: dict[Any, np.ndarray] = {}  # arrays that registers point to
        self._shared: frozenset[Any] = frozenset()  # names of those that belong to the plan
        self._room = self._pairs = 0
        self._own_memory()

    def _own_memory(self) -> None:
        """Registers, and what they point to, that no two operators may share."""
        self._structs = np.zeros(2 * self._struct_size // 8, dtype=np.int64)
        self._in = address(self._structs)
        self._out = self._in + self._struct_size
        self._at = address(self._r)
        r = self._r
        r[at.STATE_AT] = self._at + 8 * at.STATE
        r[at.IN_STRUCT], r[at.OUT_STRUCT] = self._in, self._out
        columns = max(len(side.schema) for side in self._plan.sides)
        r[at.IN_POINTERS] = self._hold("in", np.zeros(columns + 1, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Memory held: registers, and the arrays of this lane alone that they point to."""
        own = sum(array.nbytes for name, array in self._held.items() if name not in self._shared)
        return own + self._r.nbytes + self._structs.nbytes

    def _hold(self, name: Any, array: np.ndarray) -> int:
        self._held[name] = array
        return address(array)

    def _row_room(self, n: int, sources: int) -> None:
        r = self._r
        self._room = r[at.ROOM_ROWS] = n
        r[at.VALUES] = self._hold("values", np.empty((max(sources, 1), n), dtype=np.int64))
        r[at.MATCHED_ROWS] = self._hold("matched", np.empty(n, dtype=np.uint8))
        r[at.EVERY] = self._hold("every", np.arange(n + 1))
        for register in (at.KIDS, at.KEPT, at.LEFT, at.CHOSEN):
            r[register] = self._hold(register, np.empty(n + 1, dtype=np.int64))

    def _pair_room(self, pairs: int) -> None:
        r = self._r
        self._pairs = r[at.PAIRS_SIZE] = min(pairs, MOST_PAIRS, self._plan.options["batch_size"])
        r[at.PAIR_ROWS] = self._hold("rows", np.empty(self._pairs, dtype=np.int64))
        r[at.PAIR_IDS] = self._hold("ids", np.empty(self._pairs, dtype=np.int64))

    def _clear(self) -> None:
        """Let go of what is of use on board alone."""
        self._held = {name: array for name, array in self._held.items() if name in self._shared or name == "in"}
        self._room = self._r[at.ROOM_ROWS] = self._r[at.DEAD_SIZE] = 0

    def _give_back(self) -> None:
        """Release the batches that a push which broke off has left in the structs."""
        for struct in (self._in, self._out):
            self._release(struct)

    def __del__(self) -> None:
        with suppress(AttributeError):  # never made whole
            self._give_back()
