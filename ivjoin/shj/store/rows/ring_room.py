"""Change the capacity of a store's rings, and move rows to the new ring."""

from __future__ import annotations

import numpy as np

from ivjoin.errors import MemoryLimitError
from ivjoin.shj.kernels.push import index_kernels, ring_kernels
from ivjoin.shj.registers import SIDE, words_of
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.disk.backing import fresh, in_memory, moving, slide
from ivjoin.shj.store.disk.pages import lengthened, let_go
from ivjoin.shj.store.rows.runs import SortedRuns
from ivjoin.shj.store.rows.spilled_payload import InFile
from ivjoin.shj.store.rows.stored_rows import StoredRows
from ivjoin.shj.store.sizes import TIGHT, fitting, larger
from ivjoin.shj.store.values.columns import BoolColumn, OrdinalColumn, WordColumn
from ivjoin.shj.store.values.rings import spans
from ivjoin.shj.store.values.segments import SegmentColumn
from ivjoin.shj.store.values.texts import BytesColumn

__all__ = [
    "can_be_cleared", "clear", "drop", "is_loose", "keep_apart", "leave", "more", "next_cap", "note_order",
    "recap", "renumber", "row_bytes", "sort",
]

_WORDS = words_of(SIDE)
_SINCE, _SWEPT, _LOOSE = _WORDS["since"], _WORDS["swept"], _WORDS["loose"]
_CLEARED = np.array([_WORDS[name] for name in (
    "lo", "hi", "live", "nothing", "ended", "fitted", "least", "most", "peak_span", "steps", "linked", "refused",
    "probed", "retired", "rows_in", "trimmed", "since", "swept", "sweeps", "loose",
)])  # fmt: skip


def is_loose(store: StoredRows) -> bool:
    """Return whether some rows may be in no list. This can be so between two pushes and while kernels evict rows."""
    return store._registers.item(_LOOSE) != 0


def note_order(store: StoredRows, values: np.ndarray) -> None:
    """Update the first row id from which the first axis rises, before ``values`` : int64[n] are stored."""
    r = store._registers
    if store.live == 0:
        r[_SINCE] = store.hi
    elif values[0] < r.item(_WORDS["most"]):
        r[_SINCE] = store.hi + len(values)
    if (values[1:] < values[:-1]).any():
        r[_SINCE] = store.hi + len(values)


def can_be_cleared(store: StoredRows) -> bool:
    """Return whether :func:`clear` restores the initial state."""
    return store.runs is None and not store.disordered and not store.others


def clear(store: StoredRows, account: Account) -> None:
    """Reset to the initial state, with the same memory, for another account."""
    store.account = account
    store._registers[_CLEARED] = 0
    store._patience = index_kernels.SOME_REFUSED
    store._led_by = 0, None
    store.schedules.clear(account)
    for column in store.columns:
        if isinstance(column, (BytesColumn, BoolColumn, WordColumn, OrdinalColumn)):
            column.clear()
    store.point()


def next_cap(store: StoredRows, n: int) -> int:
    """Return the capacity for n more rows. When memory is short, the slack is small."""
    need = store.hi - store.lo + n
    if need <= store.cap:
        return store.cap
    cap = larger(store.cap, need)
    if store.hi > store.cap or not in_memory(store.rows) or store.account.fits(more(store, cap)):
        return cap  # a ring that wraps around or is in a file is copied when it grows, so let it grow by more
    return min(cap, fitting(need + need // TIGHT))


def row_bytes(store: StoredRows) -> int:
    return sum(c.row_bytes for c in store.columns) + (store.rows.strides[0] if in_memory(store.rows) else 0)


def _want_disk(store: StoredRows, rows: int, payload: bool = False) -> None:
    if store.account.files is None:
        return
    arrays = [store.rows, *(c.valid.ring for c in store.columns if c.valid is not None and c.valid.ring is not None)]
    size = sum(a.strides[0] for a in arrays if not in_memory(a)) * max(rows, 0)
    if payload:
        size += sum(c.disk() for c in store.columns if isinstance(c, (InFile, SegmentColumn)))
    store.account.want_disk(size)


def more(store: StoredRows, cap: int) -> int:
    """Return the additional bytes of a ring with capacity ``cap``, including temporary copies."""
    twice = 0 if store.hi <= store.cap else store.account.beyond(in_memory(store.rows))
    return (cap - store.cap) * row_bytes(store) + twice


def recap(store: StoredRows, cap: int) -> None:
    _want_disk(store, cap)
    same = store.hi <= min(cap, store.cap)  # whether all rows stay at their places
    rows = lengthened(store.rows, cap) if same else None
    if rows is None:
        rows = fresh(store.rows, (cap, store.rows.shape[1]))
        if same:
            slide(rows, store.lo, store.rows[store.lo : store.hi])
        elif store.hi > store.lo:
            _move(store, rows)
    with moving():
        for column in store.columns:
            column.grow(cap, store.lo, store.hi)
    store.rows, store.links, store.cap = rows, rows.view(np.int32), cap
    store.point()


def _move(store: StoredRows, rows: np.ndarray) -> None:
    """Copy all rows to a ring of another capacity, at other places, and link their lists again."""
    assert not is_loose(store)
    links, slots = rows.view(np.int32), store.keys.slots
    for start, stop in spans(store.rows, store.lo, store.hi):
        n_ids = store.keys.n_ids if stop == store.hi else 0
        ring_kernels.move(store.lo, start, stop, store.rows, store.links, rows, links, slots, n_ids, store.offset)
        let_go(store.rows, start % store.cap, start % store.cap + stop - start)


def keep_apart(store: StoredRows, i: int) -> None:
    """Give a column that was read from an axis its own ring, before values arrive that ordinals do not determine."""
    column = store.columns[i]
    assert isinstance(column, OrdinalColumn)
    store.account.want(lambda: store.cap * column.type.bit_width // 8)  # `on_full` may remove rows
    store.columns[i] = WordColumn.taking_over(column, store.cap, store.places(np.arange(store.lo, store.hi)))
    store.point()


def leave(store: StoredRows, ids: np.ndarray) -> None:
    """Remove the oldest live rows without counting them as evicted. Another store takes them over."""
    assert not is_loose(store)
    places = store.places(ids)
    store.keys.live -= int(index_kernels.unlink(places, store.links, store.keys.slots, store.offset))
    store.live -= len(ids)
    store.lo = int(ids[-1]) + 1
    store._trim()


def drop(store: StoredRows, ids: np.ndarray, gone: np.ndarray) -> None:
    """Remove the rows of ``ids`` that ``gone`` : bool[n] marks, and renumber the others. ``ids`` are all live rows."""
    assert not is_loose(store)
    places = store.places(ids[gone])
    store.keys.live -= int(index_kernels.unlink(places, store.links, store.keys.slots, store.offset))
    store.live -= len(places)
    kept = ids[~gone]
    renumber(store, kept, len(kept) + len(kept) // 16)


def renumber(store: StoredRows, ids: np.ndarray, room: int) -> None:
    """Retain only these rows (``ids`` rise), renumbered from 0, in a ring of at least ``room``.

    Link every list again.
    """
    assert not is_loose(store)
    n = len(ids)
    cap = fitting(max(room, n))
    _want_disk(store, cap, payload=True)
    places = ids
    if n:
        places = store.places(ids)
        key_ids = store.links[places, index_kernels.KEY].astype(np.int64)
        axes = np.ascontiguousarray(store.rows[places, index_kernels.FIRST_AXIS:].T)
        kept_flags = store._flags(places)
        store.keys.live -= int(index_kernels.unlink(places, store.links, store.keys.slots, store.offset))
    with moving():
        for column in store.columns:
            column.select(ids, places, cap)
        store.rows = fresh(store.rows, (cap, store.rows.shape[1]))
        store.links = store.rows.view(np.int32)
        store._registers[_SINCE] = 0 if store.lo >= store._registers.item(_SINCE) else n
        store._registers[_SWEPT] = 0
        store.cap, store.lo, store.hi, store.live, store._trimmed = cap, 0, n, n, 0
        if store.runs is not None:
            store.runs.clear()
        if n:
            store._link(key_ids, axes, 0)
            store.links[:n, index_kernels.FLAGS] = kept_flags
        store.point()
        store.reschedule()


def sort(store: StoredRows) -> None:
    """Replace the ordered lists with sorted runs. If the disk is full, change nothing and raise MemoryLimitError."""
    ordered, store.ordered, store.disordered = store.ordered, 0, False
    store.runs = SortedRuns(*store._led_by)
    store.point()
    ids = store.live_ids()
    if len(ids) == store.hi - store.lo:
        if len(ids):
            key_ids = store.links[store.places(ids), index_kernels.KEY].astype(np.int64)
            values = store.axis_values(store.runs.axis, ids)
            store.runs.add(key_ids, values, store.lo, store.rows, store.links, store.lo)
        return
    try:
        renumber(store, ids, store.cap)
    except MemoryLimitError:
        store.runs, store.ordered, store.disordered = None, ordered, True
        store.point()
        raise
