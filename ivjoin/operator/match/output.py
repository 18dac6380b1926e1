"""Import output batches that the kernels have built, and build output batches with Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa

from ivjoin.errors import CapacityError
from ivjoin.operator.match.pair_state import PairState
from ivjoin.outer.batches import BatchRows, Rows, StoredRows
from ivjoin.shj import registers as at
from ivjoin.shj.kernels.push import push_kernels

__all__ = ["gathered", "in_parts", "made"]

T = TypeVar("T")  # a batch, or several batches


def made(engine: PairState) -> pa.RecordBatch:
    """Return the output batch that the kernels have just built."""
    return pa.RecordBatch._import_from_c(engine.state.out_struct, engine.plan.schema)


def gathered(engine: PairState, p: int, batch: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
    """Yield output batches with columns that compiled code cannot build."""
    state = engine.state
    r = state.operator[0]
    which, cursor, phase = int(r["out_which"]), int(r["cursor"]), int(r["phase"])
    total, listed = {
        at.EMITTING: (int(r["n_pairs"]), "pair_places"), at.ALONE: (int(r["n_alone"]), "alone"),
        at.EVICTED: (int(r["n_dead"]), "dead"),
    }[phase]
    store, size = engine.stores[1 - p], engine.builder.batch_size
    # Copy these: kernels may write to the scratch while the caller still uses earlier batches.
    places = state[listed][cursor:total].copy()
    rows = state["pair_rows"][cursor:total].copy() if which == push_kernels.PAIRS else None
    r["cursor"] = total
    if rows is not None and total == state.pairs:
        state.more_pairs()

    def built(cut: slice) -> pa.RecordBatch:
        if rows is not None:
            assert batch is not None
            here: Rows = BatchRows(batch, rows[cut], engine.widths[p])
            there: Rows = StoredRows(store, engine.places[1 - p], store.ids_at(places[cut]))
            return engine.builder.batch(here, there) if p == 0 else engine.builder.batch(there, here)
        if phase == at.ALONE:
            assert batch is not None
            alone: Rows = BatchRows(batch, places[cut], engine.widths[p])
        else:
            alone = StoredRows(store, engine.places[1 - p], store.ids_at(places[cut]))
        is_left = which == push_kernels.LEFT_ROWS
        return engine.builder.batch(alone, None) if is_left else engine.builder.batch(None, alone)

    for start in range(0, total - cursor, size):
        yield from in_parts(built, start, min(start + size, total - cursor))


def in_parts(built: Callable[[slice], T], start: int, stop: int) -> Iterator[T]:
    """Yield a batch of some rows. If its text exceeds the offsets of its type, yield two batches of half the rows.

    A CapacityError is raised if the text of one row exceeds the offsets.
    """
    try:
        batch = built(slice(start, stop))
    except (pa.lib.ArrowCapacityError, pa.ArrowInvalid, CapacityError) as e:
        if isinstance(e, pa.ArrowInvalid) and "overflow" not in str(e) and "capacity" not in str(e):
            raise
        if stop - start < 2 and isinstance(e, CapacityError):
            raise
        if stop - start < 2:
            raise CapacityError(f"one output row has more text in a column than its type can represent: {e}") from e
    else:
        yield batch
        return
    middle = (start + stop) // 2
    yield from in_parts(built, start, middle)
    yield from in_parts(built, middle, stop)
