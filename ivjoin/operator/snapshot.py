"""The operator's state as bytes: a JSON header (plan, frontiers, counts), then each side's rows as Arrow IPC.

Keys and axis values are not written: the stored columns hold everything the condition reads, so they are computed
again, and a snapshot does not depend on how a version of ivjoin lays its index out. Only which axes a side's rows are
searched by is, once that was found to be better than the first one.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.errors import IvjoinError, SnapshotError, came
from ivjoin.expr.codec import decode, encode
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.core import Core
from ivjoin.plan.cache import plan_of
from ivjoin.plan.planner import JoinPlan
from ivjoin.plan.spec import JoinSpec

__all__ = ["VERSION", "read", "write"]

_PIECE = 65536  # rows
MAGIC = b"IVJOINSN"
VERSION = 1


def write(core: Core) -> bytes:
    """Header and rows, with a checksum behind the magic and the version."""
    tables = [_rows(core, s) for s in (0, 1)]
    header = {
        "plan": core.plan.spec.as_json,
        "frontiers": [_frontier(f) for f in core.frontiers],
        # the same rows take another number of bytes in the operator that is restored
        "metrics": core.counts().as_dict() | {"state_bytes": 0},
        "careful": core.careful,
        "rekeyed": core.rekeyed,
        "late_within": core.intake.late_within,
        "led": [_led(core, s) for s in (0, 1)],
        "sizes": [len(t) for t in tables],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    body = len(text).to_bytes(8, "little") + text + b"".join(tables)
    return MAGIC + VERSION.to_bytes(2, "little") + zlib.crc32(body).to_bytes(4, "little") + body


def read(blob: bytes, limit: Callable[[Core], None] | None = None) -> Core:
    """What :func:`write` wrote; ``limit`` sees to it that the rows fit before they are read."""
    try:
        header, tables = _open(_bytes(blob))
        core = Core(_planned(header["plan"]), late_within=header["late_within"])
        for p, saved in enumerate(header["frontiers"]):
            _load_frontier(core, p, saved)
        if header.get("rekeyed"):
            core.rekey()
        core.learn()  # axes that came with what was promised
        for s, led in zip((0, 1), header.get("led", (None, None)), strict=True):
            if led is not None:
                axis, second = (_axis(core, s, saved) for saved in led)
                if all(a is None or 0 <= a < core.stores[s].n_axes for a in (axis, second)):
                    core.stores[s].lead(axis or 0, second)
        if limit is not None:
            limit(core)
        for s in (0, 1):
            arrays, matched = _split(tables[s])
            size = _PIECE if core.limits is None else core.limits.least_rows()
            for start in range(0, len(matched), size):
                piece = slice(start, start + size)
                core.adopt_rows(s, [a[piece] for a in arrays], matched[piece])
                if core.limits is not None:
                    core.limits.stepped()
        core.careful = header["careful"]
        core.metrics = JoinMetrics(**header["metrics"])
        core.refresh_bounds()
        core.metrics.state_bytes = core.bytes_held()
    except IvjoinError:
        raise
    except Exception as e:  # its checksum fits: another program wrote it, and anything may be missing
        raise SnapshotError(f"the snapshot is damaged: {came(e)}") from e
    return core


def _led(core: Core, s: int) -> list[Any] | None:
    """The expressions by which a side's rows are found in sorted runs; their places among the axes may be others."""
    led, axes = core.stores[s].led(), core.plan.sides[s].axes
    return None if led is None else [None if a is None else encode(axes[a]) for a in led]


def _axis(core: Core, s: int, saved: Any) -> int | None:
    """The place of an axis, -1 if there is none such; older snapshots hold the place itself."""
    if saved is None or isinstance(saved, int):
        return saved
    node = decode(saved)
    found = None if node is None else core.plan.axis(s, node)
    return -1 if found is None else found


def _bytes(blob: Any) -> bytes:
    try:
        return memoryview(blob).tobytes()
    except TypeError as e:
        raise SnapshotError(f"a snapshot is bytes, as snapshot() gives them; got {came(blob)}") from e


def _open(blob: bytes) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
    if len(blob) < 22 or blob[:8] != MAGIC:
        raise SnapshotError(f"not an ivjoin snapshot: it begins with {blob[:8]!r}, expected {MAGIC!r}")
    version = int.from_bytes(blob[8:10], "little")
    if version > VERSION:
        raise SnapshotError(
            f"the snapshot has format {version}; the newest that this ivjoin reads is {VERSION}: upgrade ivjoin"
        )
    body = blob[14:]
    if zlib.crc32(body) != int.from_bytes(blob[10:14], "little"):
        raise SnapshotError(f"the snapshot of {len(blob)} bytes is damaged: its checksum does not fit")
    size = int.from_bytes(body[:8], "little")
    header = json.loads(body[8 : 8 + size])
    at = 8 + size
    tables = []
    for n in header["sizes"]:
        reader = pa.ipc.open_stream(pa.py_buffer(body[at : at + n]))
        tables.append(reader.read_next_batch())
        at += n
    return header, tables


# -- rows --------------------------------------------------------------------------------------------------------


def _rows(core: Core, s: int) -> bytes:
    store = core.stores[s]
    ids = store.live_ids()
    arrays = [store.gather(i, ids) for i in range(len(store.columns))]
    arrays.append(pa.array(store.matched(ids)))
    fields = [pa.field(str(i), a.type) for i, a in enumerate(arrays)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _split(batch: pa.RecordBatch) -> tuple[list[pa.Array], np.ndarray]:
    return batch.columns[:-1], np.asarray(batch.columns[-1])


def _planned(saved: dict[str, Any]) -> JoinPlan:
    try:
        return plan_of(JoinSpec.from_json(saved))
    except SnapshotError:
        raise
    except IvjoinError as e:
        raise SnapshotError(f"the snapshot's join cannot be planned by this version: {e}") from e


# -- frontiers ---------------------------------------------------------------------------------------------------


def _frontier(frontier: Any) -> dict[str, Any]:
    return {
        "orders": [t.save() for t in frontier.trackers],
        "promised": [[encode(n), low, high] for n, (low, high) in frontier.promised.items()],
        "ended": frontier.ended,
    }


def _load_frontier(core: Core, p: int, saved: dict[str, Any]) -> None:
    frontier = core.frontiers[p]
    for t, state in zip(frontier.trackers, saved["orders"], strict=True):
        t.load(state)
    promised = ((decode(n), low, high) for n, low, high in saved["promised"])
    frontier.promised = {n: (low, high) for n, low, high in promised if n is not None}
    frontier.ended = core.ended[p] = saved["ended"]
    frontier.refresh()
