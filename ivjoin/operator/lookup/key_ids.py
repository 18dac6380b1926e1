"""The ids of keys while left rows wait or while whole tables are looked up, and the release of ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ivjoin.plan.join_plan import JoinPlan
from ivjoin.shj.registers import I64_MAX
from ivjoin.shj.store.keys import ByteKeys, IntKeys, KeyTable, NoKeys

__all__ = ["KeyIds", "ends_of", "key_table", "sweep_keys"]

_NARROW = 4  # times as many ids as rows are worth less than naming keys by a table
_SOME = 1024  # ids that are worth so in any case
_MANY_IDS = 4096  # ids from which on some may be freed
_NEVER = 2**31  # keys in use: a table with so many frees none by itself


def key_table(plan: JoinPlan) -> KeyTable:
    keys = (IntKeys if plan.int_keys else ByteKeys if plan.null_safe else NoKeys)()
    keys.live = _NEVER  # only `sweep_keys` frees ids, because only the caller knows which are in use
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
    """Return the least and the greatest of the usable values : int64[n]; None if there are none."""
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
        """Return ids of both sides' keys, and the keys. Whole numbers close to each other are their own ids.

        ``left``, ``right`` : (int64[n], bool[n] or None) are keys and the rows that can match. ``ends`` is
        :func:`ends_of` by several threads.
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
