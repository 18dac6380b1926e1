"""What an operator that is gone leaves to the next one of its plan: registers, rings, key table and scratch.

Making them, growing them to the size of a batch and touching their memory for the first time takes as long as joining
some ten thousand rows, and programs make an operator a file, a partition or a slice. So a few that are small wait here
for an operator of the same plan. Each belongs to nobody while it waits, and to one operator from when it is taken.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from ivjoin.operator.blocks import wanted
from ivjoin.plan.planner import JoinPlan
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.ring_room import can_be_cleared, clear

if TYPE_CHECKING:
    from ivjoin.operator.core import Core
    from ivjoin.operator.state import State
    from ivjoin.operator.tables import SideTables
    from ivjoin.shj.store.keys import KeyTable
    from ivjoin.shj.store.side import SideStore

__all__ = ["Left", "forget", "leave", "take"]

_MOST, _MOST_BYTES = 4, 1 << 20  # that wait, and of each


@dataclass(slots=True)
class Left:
    """What is left of an operator.

    Attributes
    ----------
    kept : dict
        The plan's, by which it is known.
    blocks : bool
        Whether compiled blocks were wanted.
    """

    kept: dict[Any, Any]
    blocks: bool
    state: State
    keys: KeyTable
    stores: tuple[SideStore, ...]
    keeps_text: bool
    mixes: bool
    tables: tuple[SideTables, SideTables]
    packs: list[bool]
    prepares: list[bool]


_waiting: deque[Left] = deque()
_lock = Lock()  # never waited for: an operator may end while its own thread holds it


def leave(core: Core) -> None:
    """Let what an operator has made wait for another, if it is as a new one's but for its size.

    What a search for circles has found cannot be used: by now nothing within refers weakly to anything.
    """
    account = core.account
    if account.limit is not None or account.on_full is not None or account.files is not None:
        return
    if core.rekeyed or core.shared is None or core.limits is not None or core.frozen is not None:
        return
    if core.emitter.batch_size != core.plan.spec.batch_size or not core.state.is_idle:
        return
    if not all(map(can_be_cleared, core.stores)):
        return
    if core.alive() is None or core.bytes_held() > _MOST_BYTES or not _lock.acquire(False):
        return
    try:
        _waiting.append(
            Left(
                core.plan.kept, wanted(), core.state, core.keys, core.stores, core.keeps_text, core.mixes, core.shared,
                core.packs, core.prepares,
            )
        )
        while len(_waiting) > _MOST:
            _waiting.popleft()
    finally:
        _lock.release()


def take(plan: JoinPlan, account: Account) -> Left | None:
    """What an operator of the plan has left, as if nothing had ever been in it, for a new account; None of nothing."""
    if not _waiting or not _lock.acquire(False):
        return None
    try:
        for i, left in enumerate(_waiting):
            if left.kept is plan.kept and left.blocks == wanted():
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
    """Let go of all that waits."""
    with _lock:
        _waiting.clear()
