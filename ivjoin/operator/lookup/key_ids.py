"""Assign ids to keys while left rows wait or while whole tables are looked up, and free unused ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ivjoin.plan.join_plan import JoinPlan
from ivjoin.shj.registers import I64_MAX
from ivjoin.shj.store.keys import ByteKeys, IntKeys, KeyTable, NoKeys

__all__ = ["KeyIds", "ends_of", "key_table", "sweep_keys"]

_NARROW = 4  # integer keys are their own ids if their range is at most _NARROW times the number of rows, plus _SOME
_SOME = 1024  # see _NARROW
_MANY_IDS = 4096  # unused ids are freed only if at least this number of ids exists
_NEVER = 2**31  # keys in use: with this value, a table frees no ids on its own


def key_table(plan: JoinPlan) -> KeyTable:
    keys = (IntKeys if plan.int_keys else ByteKeys if plan.null_safe else NoKeys)()
    keys.live = _NEVER  # only `sweep_keys` frees ids, because only the caller knows which ids are in use
    return keys


def sweep_keys(keys: KeyTable, rows: int, used: Callable[[], Iterable[np.ndarray]]) -> None:
    """Free the ids of keys without rows, if they are many. ``used`` returns the ids of ``rows`` stored rows."""
    if isinstance(keys, NoKeys) or keys.n_ids < _MANY_IDS or keys.used < 2 * rows + _MANY_IDS // 2:
        return
    there = np.zeros(keys.n_ids, dtype=bool)
    for kids in used():
        there[kids] = True
    keys.slots[: keys.n_ids, 0] = np.where(there, 0, -1)
    keys.live = int(np.count_nonzero(there))
    keys.sweep()
    keys.live = _NEVER


def ends_of(values: np.ndarray, usable: np.ndarray | None) -> tuple[int, int] | None:
    """Return the least and greatest usable value : int64[n], or None if no value is usable."""
    values = values if usable is None else values[usable]
    if not len(values):
        return None
    return int(values.min()), int(values.max())


@dataclass(frozen=True, slots=True)
class KeyIds:
    """Ids of both sides' keys: ``kid - least`` of rows that can match."""

    least: int
    n_ids: int

    @classmethod
    def of(
        cls, left: tuple[np.ndarray, np.ndarray | None], right: tuple[np.ndarray, np.ndarray | None], keys: KeyTable,
        ends: Callable[[np.ndarray, np.ndarray | None], tuple[int, int] | None] | None = None,
    ) -> tuple[KeyIds, tuple[np.ndarray, np.ndarray]]:
        """Return ids of both sides' keys, and the keys.

        If integer keys are close to each other, they are their own ids.

        ``left`` and ``right`` : (int64[n], bool[n] or None) are keys and the rows that can match. ``ends`` is
        :func:`ends_of` with several threads.
        """
        kids = left[0], right[0]
        if not isinstance(keys, IntKeys):
            return cls(0, max(1, keys.n_ids)), kids
        both = [found for side in (left, right) if (found := (ends or ends_of)(*side)) is not None]
        least, most = min((x for x, _ in both), default=I64_MAX), max((x for _, x in both), default=I64_MAX)
        if most - least < _NARROW * sum(map(len, kids)) + _SOME:
            return cls(least, most - least + 1), kids
        theirs = keys.ids(*right)
        mine = keys.ids(*left)
        return cls(0, max(1, keys.n_ids)), (mine, theirs)
