"""Reuse the memory of an ended operator: registers, rings, key table and scratch.

Allocating this memory, growing it to the size of a batch and touching it for the first time takes as long as joining
about 10,000 rows. Programs create one operator for each file, partition or slice. This module therefore caches a few
small states for the next operator of the same plan. One thread takes a state. Until then, no operator refers to it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from ivjoin.plan.derivations import Derived
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.rows.ring_room import clear

if TYPE_CHECKING:
    from ivjoin.operator.match.kernel.state import State
    from ivjoin.operator.match.kernel.tables import SideTables
    from ivjoin.shj.store.keys import KeyTable
    from ivjoin.shj.store.rows.side import SideStore

__all__ = ["Reusable", "forget", "leave", "take"]

_MOST, _MOST_BYTES = 4, 1 << 20  # greatest number of cached states, and bytes of each


@dataclass(slots=True)
class Reusable:
    """The state that an ended operator has released."""

    derived: Derived  # results that are computed from the plan; this object identifies the plan
    state: State
    keys: KeyTable
    stores: tuple[SideStore, ...]
    tables: tuple[SideTables, SideTables]
    packs: list[bool]
    prepares: list[bool]


_waiting: deque[Reusable] = deque()
_lock = Lock()  # acquired without waiting, because an operator may end in a thread that already has the lock


def leave(left: Reusable, nbytes: int) -> None:
    """Store the state of an ending operator, of ``nbytes`` bytes, for reuse."""
    if nbytes > _MOST_BYTES or not _lock.acquire(False):
        return
    try:
        _waiting.append(left)
        while len(_waiting) > _MOST:
            _waiting.popleft()
    finally:
        _lock.release()


def take(plan: JoinPlan, account: Account) -> Reusable | None:
    """Return a cleared state of an operator of the plan, charged to ``account``, or None if no state is cached."""
    if not _waiting or not _lock.acquire(False):
        return None
    try:
        for i, left in enumerate(_waiting):
            if left.derived is plan.derived:
                del _waiting[i]
                break
        else:
            return None
    finally:
        _lock.release()
    left.state.clear(account)
    left.keys.clear(account)
    for store in left.stores:
        clear(store, account)
    return left


def forget() -> None:
    with _lock:
        _waiting.clear()
