"""Create key tables for pairs, and find the ids of a slice's keys that kernels cannot look up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.operator.key_values import key_ids
from ivjoin.operator.match.kernel.sources import SideSources
from ivjoin.operator.match.kernel.state import State
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.shj import registers as at
from ivjoin.shj.kernels.keys import packed_key_kernels
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.keys import ByteKeys, IntKeys, KeyTable, NoKeys, WordKeys

__all__ = ["key_table", "name_keys"]

_OPERATOR = at.words_of(at.OPERATOR)
_KEY_WORDS = np.array([
    _OPERATOR[name]
    for name in (
        "live_keys", "n_ids", "n_free", "free", "table_size", "slots_size", "passed", "stirred", "table", "slots",
        "spans", "arena", "rest", "arena_room", "arena_top",
    )
])  # fmt: skip


class Slice(Protocol):
    """The sides of a slice, as this module reads them."""

    plan: JoinPlan
    index: tuple[dict[str, int], dict[str, int]]
    sources: list[SideSources]
    keys: KeyTable
    states: tuple[State, State]


def key_table(plan: JoinPlan, operator: np.ndarray, account: Account | None = None) -> KeyTable:
    """Return an empty table for the keys of a plan. Its registers are in an operator's record."""
    if plan.int_keys:
        return IntKeys(operator, account)
    if plan.word_keys:
        return WordKeys(len(plan.null_safe) + sum(plan.null_safe), operator, account)
    return (ByteKeys if plan.null_safe else NoKeys)(operator, account)


def name_keys(part: Slice, batches: Sequence[pa.RecordBatch]) -> int:
    """Write the ids of both sides' keys to their scratch. Return a number above all ids."""
    for p, (state, batch) in enumerate(zip(part.states, batches, strict=True)):
        if part.sources[p].keys:
            continue  # the ids were found while the side was prepared
        if part.sources[p].pieces is not None:
            _name_packed(part, p, batch)
            continue
        n, nodes = batch.num_rows, part.plan.sides[p].keys
        found = evaluate(nodes, lambda _, name: batch.column(part.index[p][name]), n)  # noqa: B023
        usable = state["usable"][:n].astype(bool) if state.get("masked") else None
        ids = key_ids(part.plan, p, n, dict(zip(nodes, found, strict=True)), part.keys, usable)
        state["key_ids"][:n] = ids
    return max(1, part.keys.n_ids)


def _name_packed(part: Slice, p: int, batch: pa.RecordBatch) -> None:
    """Find the ids of byte-string keys with the kernel of a push. The left side's record has the key table."""
    n, state = batch.num_rows, part.states[p]
    assert isinstance(part.keys, ByteKeys)
    part.keys.make_room(n, state.get("key_bytes"))
    part.keys.point()
    mine, theirs = (at.as_words(each.operator) for each in part.states)
    if p:
        theirs[_KEY_WORDS] = mine[_KEY_WORDS]
    state.set(n_named=0, n_kept=1)
    if packed_key_kernels.name_packed(state.at, p):
        raise AssertionError("no capacity for keys after it was made")
    if p:
        mine[_KEY_WORDS] = theirs[_KEY_WORDS]
