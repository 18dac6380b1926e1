"""The operator's state as bytes: a JSON header (plan, frontiers, counts), then each side's rows as Arrow IPC.

Keys and axis values are not written: the stored columns hold everything the condition reads, so they are computed
again, and a snapshot does not depend on how a version of ivjoin lays its index out. Only which axes a side's rows are
searched by is, once that was found to be better than the first one.
"""

from __future__ import annotations

import base64
import json
import zlib
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.errors import IvjoinError, SnapshotError, came
from ivjoin.expr.build import literal
from ivjoin.expr.codec import decode, encode
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import value_of
from ivjoin.frontier.order import Order
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.symmetric import SymmetricHashJoin
from ivjoin.plan.cache import planned

__all__ = ["VERSION", "read", "write"]

MAGIC = b"IVJOINSN"
VERSION = 1


def write(op: SymmetricHashJoin) -> bytes:
    """Header and rows, with a checksum behind the magic and the version."""
    tables = [_rows(op, s) for s in (0, 1)]
    header = {
        "plan": _plan(op),
        "frontiers": [_frontier(f) for f in op._frontiers],
        # the same rows take another number of bytes in the operator that is restored
        "metrics": op._counts().as_dict() | {"state_bytes": 0},
        "careful": op._careful,
        "rekeyed": op._rekeyed,
        "late_within": op._intake.late_within,
        "led": [store.led() for store in op._stores],
        "sizes": [len(t) for t in tables],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    body = len(text).to_bytes(8, "little") + text + b"".join(tables)
    return MAGIC + VERSION.to_bytes(2, "little") + zlib.crc32(body).to_bytes(4, "little") + body


def read(blob: bytes) -> SymmetricHashJoin:
    """The operator that :func:`write` wrote."""
    try:
        header, tables = _open(_bytes(blob))
        op = SymmetricHashJoin.from_plan(_replan(header["plan"]), late_within=header["late_within"])
        for p, saved in enumerate(header["frontiers"]):
            _load_frontier(op, p, saved)
        if header.get("rekeyed"):
            op._rekey()
        for s, led in enumerate(header.get("led", (None, None))):
            store = op._stores[s]
            if led is not None and all(axis is None or axis < store.n_axes for axis in led):
                store.lead(*led)
            op.adopt_rows(s, *_split(tables[s]))
        op._careful = header["careful"]
        op._metrics = JoinMetrics(**header["metrics"])
        op.refresh_bounds()
        op._metrics.state_bytes = op._bytes_held()
    except IvjoinError:
        raise
    except Exception as e:  # its checksum fits: another program wrote it, and anything may be missing
        raise SnapshotError(f"the snapshot is damaged: {came(e)}") from e
    return op


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


def _rows(op: SymmetricHashJoin, s: int) -> bytes:
    store = op._stores[s]
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


# -- plan --------------------------------------------------------------------------------------------------------


def _plan(op: SymmetricHashJoin) -> dict[str, Any]:
    plan = op.plan
    return {
        "schemas": [base64.b64encode(side.schema.serialize().to_pybytes()).decode() for side in plan.sides],
        "on": plan.on,
        "condition": encode(plan.given),
        "how": plan.how.name,
        "orders": [
            [[encode(n), o.descending, _slack(o.slack), o.nulls] for n, _, o in side.orders] for side in plan.sides
        ],
        "bounds": [[[encode(n), low, high] for n, (low, high) in side.bounds.items()] for side in plan.sides],
        "options": plan.options,
    }


def _replan(saved: dict[str, Any]) -> Any:
    schemas = [pa.ipc.read_schema(pa.py_buffer(base64.b64decode(t))) for t in saved["schemas"]]
    orders = [
        [Order(decode(n), descending, _unslack(slack), nulls) for n, descending, slack, nulls in side]
        for side in saved["orders"]
    ]
    bounds = [{_node(n): _pair(_node(n), low, high) for n, low, high in side} for side in saved["bounds"]]
    try:
        return planned(
            schemas[0], schemas[1], on=[tuple(p) for p in saved["on"]], condition=decode(saved["condition"]),
            how=saved["how"], left_order=orders[0], right_order=orders[1], left_bounds=bounds[0],
            right_bounds=bounds[1], **saved["options"],
        )
    except IvjoinError as e:
        raise SnapshotError(f"the snapshot's join cannot be planned by this version: {e}") from e


def _node(data: Any) -> Node:
    node = decode(data)
    assert node is not None
    return node


def _pair(node: Node, low: int, high: int) -> tuple[Node, Node]:
    return tuple(literal(value_of(o, node.type), node.type) for o in (low, high))  # type: ignore[return-value]


def _slack(slack: Any) -> Any:
    if isinstance(slack, timedelta):
        return {"us": (slack.days * 86_400 + slack.seconds) * 1_000_000 + slack.microseconds}
    if isinstance(slack, Decimal):
        return {"decimal": str(slack)}
    if isinstance(slack, float):
        return {"float": slack.hex()}
    return slack


def _unslack(slack: Any) -> Any:
    if not isinstance(slack, dict):
        return slack
    (tag, value), = slack.items()
    if tag == "us":
        return timedelta(microseconds=value)
    return Decimal(value) if tag == "decimal" else float.fromhex(value)


# -- frontiers ---------------------------------------------------------------------------------------------------


def _frontier(frontier: Any) -> dict[str, Any]:
    return {
        "orders": [t.save() for t in frontier.trackers],
        "promised": [[encode(n), low, high] for n, (low, high) in frontier.promised.items()],
        "ended": frontier.ended,
    }


def _load_frontier(op: SymmetricHashJoin, p: int, saved: dict[str, Any]) -> None:
    frontier = op._frontiers[p]
    for t, state in zip(frontier.trackers, saved["orders"], strict=True):
        t.load(state)
    frontier.promised = {_node(n): (low, high) for n, low, high in saved["promised"]}
    frontier.ended = op._ended[p] = saved["ended"]
    frontier.refresh()
