"""Serialize the operator's state: a JSON header (plan, frontiers, counts), then each side's rows as Arrow IPC.

A mask marks the stored rows that have matched. :func:`opened` refuses damaged snapshots and newer formats. It reads
older ones, and :func:`read` uses defaults for fields that they lack.

Keys and axis values are not written. The stored columns contain everything that the condition reads, so both are
computed again. A snapshot therefore does not depend on the index layout of an ivjoin version. A snapshot records which
axes the index of a side uses, if these were chosen while the join ran.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.conditions.snapshot_checks import check_expressions, damaged, flag, whole, wholes
from ivjoin.errors import CapacityError, EvaluationError, IvjoinError, MemoryLimitError, SnapshotError, came
from ivjoin.expr.codec import decode, encode
from ivjoin.expr.nodes import Node
from ivjoin.frontier.order import ordinal_range
from ivjoin.frontier.tracking import Frontier
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.engine import Engine
from ivjoin.operator.engines import engine_of
from ivjoin.operator.evaluated import evaluated, of_stored
from ivjoin.operator.memory.budget import NOT_RESTORED
from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.restored import check_side, check_spec
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.shj.nested import has_unions
from ivjoin.shj.plain import plain_type, to_plain

__all__ = ["VERSION", "frontier_state", "load_frontier", "opened", "read", "sealed", "write"]

_PIECE = 65536  # rows per piece
MAGIC = b"IVJOINSN"
VERSION = 1


def write(engine: Engine) -> bytes:
    """Return the header and the rows, with a checksum after the magic and the version."""
    tables = [_rows(engine, s) for s in (0, 1)]
    header = {
        "plan": engine.plan.spec.as_json,
        "frontiers": [frontier_state(f) for f in engine.frontiers],
        # The same rows use a different number of bytes in the restored operator.
        "metrics": engine.counts().as_dict() | {"state_bytes": 0},
        "careful": engine.full_predicate,
        "rekeyed": engine.rekeyed,
        "late_within": engine.intake.late_within,
        "keeps": list(engine.keeps),
        "led": [_led(engine, s) for s in (0, 1)],
        "sizes": [len(t) for t in tables],
    }
    if (sample := engine.saved_sample()) is not None:
        header["sample"] = sample
    return sealed(MAGIC, VERSION, header, tables)


def sealed(magic: bytes, version: int, header: dict[str, Any], parts: list[bytes]) -> bytes:
    """Return eight bytes of magic, the version, a checksum, the header as JSON and the parts."""
    text = json.dumps(header, separators=(",", ":")).encode()
    body = len(text).to_bytes(8, "little") + text + b"".join(parts)
    return magic + version.to_bytes(2, "little") + zlib.crc32(body).to_bytes(4, "little") + body


def read(blob: bytes, limit: Callable[[Engine], None] | None = None) -> Engine:
    """Return the engine that :func:`write` wrote. ``limit`` sets its limit before the rows are read."""
    try:
        header, parts = opened(blob, MAGIC, VERSION)
        tables = [_whole(pa.ipc.open_stream(pa.py_buffer(part)).read_next_batch()) for part in parts]
        metrics = _counts(header["metrics"])
        late_within = flag(header["late_within"], "late_within")
        rekeyed = flag(header.get("rekeyed", False), "rekeyed")
        careful = flag(header["careful"], "careful")
        engine = engine_of(_planned(header["plan"]), late_within=late_within, keeps=_keeps(header))
        for p, (frontier, saved) in enumerate(zip(engine.frontiers, header["frontiers"], strict=True)):
            load_frontier(frontier, saved, p, engine.plan.spec.schemas[p])
            engine.ended[p] = frontier.ended
        if rekeyed:
            engine.rekey()
        engine.learn()  # adds the axes that promises need
        for s, led in zip((0, 1), header.get("led", (None, None)), strict=True):
            if led is not None:
                engine.lay_out(s, *(_axis(engine, s, saved) for saved in led))
        if limit is not None:
            limit(engine)
        limits = engine.limits
        engine.metrics = metrics  # after `limit`, and before rows are shed, which changes the metrics
        # The files belong to the operator that wrote the snapshot.
        engine.metrics.spilled_rows = engine.metrics.spilled_bytes = 0
        if header.get("sample") is not None:
            engine.load_sample(header["sample"])
        for s in (0, 1):
            arrays, matched = _split(tables[s])
            stored = _types(engine.saved_rows(s)[0])
            if stored != _types(arrays):
                raise damaged(f"its rows have the types {_types(arrays)}; expected {stored}")
            size = _PIECE if limits is None else limits.budget.least_rows
            for start in range(0, len(matched), size):
                piece = slice(start, start + size)
                rows, marks = [a[piece] for a in arrays], matched[piece]
                careful |= _check_rows(engine, s, rows, len(marks), careful) and not engine.plan.spec.picks_one
                engine.adopt_rows(s, rows, marks)
                if limits is not None:
                    limits.stepped()
                    limits.stay_within()
        engine.full_predicate = careful or engine.rekeyed
        engine.refresh_bounds()
        engine.look()
    except MemoryLimitError as e:
        raise MemoryLimitError(e.reason, NOT_RESTORED) from e  # the caller has no batch
    except EvaluationError as e:
        raise damaged(f"a stored row cannot be read: {e}") from e
    except IvjoinError:
        raise
    except Exception as e:  # the checksum is right, so another program wrote it, and any field may be missing
        raise SnapshotError(f"the snapshot is damaged: {came(e)}") from e
    return engine


def _whole(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch after full validation. Kernels follow its offsets, and a checksum does not stop a forger."""
    batch.validate(full=True)
    return batch


def _counts(saved: dict[str, Any]) -> JoinMetrics:
    return JoinMetrics(**{name: whole(value, name, 0) for name, value in saved.items()})


def _types(arrays: list[pa.Array]) -> list[pa.DataType]:
    return [a.type for a in arrays]


def _keeps(header: dict[str, Any]) -> tuple[bool, bool]:
    left, right = header.get("keeps", (True, True))  # older snapshots lack this field
    return flag(left, "keeps"), flag(right, "keeps")


def _led(engine: Engine, s: int) -> list[Any] | None:
    """Return the axes that sort a side's rows, as expressions, because the places of axes may change."""
    led, axes = engine.saved_layout(s), engine.plan.sides[s].axes
    return None if led is None else [None if a is None else encode(axes[a]) for a in led]


def _axis(engine: Engine, s: int, saved: Any) -> int | None:
    """Return the place of an axis, or -1 if it does not exist. Older snapshots contain the place itself."""
    if saved is None or isinstance(saved, int):
        return saved
    node = decode(saved)
    found = None if node is None else engine.plan.axis(s, node)
    return -1 if found is None else found


def _bytes(blob: Any) -> bytes:
    try:
        return memoryview(blob).tobytes()
    except TypeError as e:
        raise SnapshotError(f"a snapshot is bytes, as snapshot() gives them; got {came(blob)}") from e


def opened(blob: Any, magic: bytes, newest: int) -> tuple[dict[str, Any], list[bytes]]:
    """Return the header and the parts that :func:`sealed` wrote. Damaged or newer data raises a SnapshotError."""
    blob = _bytes(blob)
    if len(blob) < 22 or blob[:8] != magic:
        raise SnapshotError(f"not an ivjoin snapshot: it begins with {blob[:8]!r}, expected {magic!r}")
    version = int.from_bytes(blob[8:10], "little")
    if version > newest:
        raise SnapshotError(
            f"the snapshot has format {version}; the newest that this ivjoin reads is {newest}: upgrade ivjoin"
        )
    body = blob[14:]
    if zlib.crc32(body) != int.from_bytes(blob[10:14], "little"):
        raise SnapshotError(f"the snapshot of {len(blob)} bytes is damaged: its checksum does not fit")
    size = int.from_bytes(body[:8], "little")
    header = json.loads(body[8 : 8 + size])
    at = 8 + size
    parts = []
    sizes = wholes(header["sizes"], "sizes", 0, len(body))
    if sum(sizes) != len(body) - at:
        raise damaged(f"{len(body) - at} bytes follow the header; expected {sum(sizes)}")
    for n in sizes:
        parts.append(body[at : at + n])
        at += n
    return header, parts


def _check_rows(engine: Engine, s: int, arrays: Sequence[pa.Array], n: int, careful: bool) -> bool:
    """Refuse rows that a push would not have stored. Return whether some pair needs the whole condition.

    ``arrays`` are the stored columns of side s. With ``careful``, the whole condition is evaluated for each pair, so
    rows without a key or an axis value may be stored. Otherwise a probe does not check keys, bands and filters again.
    """
    plan, side = engine.plan, engine.plan.sides[s]
    for column, array in zip(side.stored, arrays, strict=True):
        if array.null_count and not side.schema.field(column).nullable:
            raise damaged(f"column {side.schema.names[column]!r} is declared not nullable, and stored rows have nulls")
    found = evaluated(plan, s, n, of_stored(plan, s, arrays), True)
    if not (careful or plan.raises or found.usable.all()):
        row = int(np.argmin(found.usable))
        raise damaged(f"row {row} of the {SIDES[s]} side can match no row, by a null or a filter, and is stored")
    return found.wild


def _rows(engine: Engine, s: int) -> bytes:
    try:
        arrays, marked = engine.saved_rows(s)
    except MemoryLimitError:
        raise
    except (CapacityError, pa.ArrowInvalid) as e:
        raise CapacityError(
            f"the snapshot cannot have all stored rows of the {SIDES[s]} input: a column of its type has at most "
            "2,147,483,647 bytes of text or items of lists. Cast it to a large_ type in the input, such as large_string"
        ) from e
    arrays.append(pa.array(marked))
    fields = [pa.field(str(i), a.type) for i, a in enumerate(arrays)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _split(batch: pa.RecordBatch) -> tuple[list[pa.Array], np.ndarray]:
    matched = batch.columns[-1] if batch.num_columns else None
    if matched is None or matched.type != pa.bool_() or matched.null_count:
        raise damaged("it does not state for each row whether a match was found")
    columns = [pa.concat_arrays([a]) if has_unions(a.type) else a for a in batch.columns[:-1]]
    # An older snapshot may use types that are now stored as other types.
    return [to_plain(a, plain_type(a.type)) for a in columns], np.asarray(matched)


def _planned(saved: dict[str, Any]) -> JoinPlan:
    try:
        return plan_of(JoinSpec.from_json(saved), check_spec)
    except SnapshotError:
        raise
    except IvjoinError as e:
        raise SnapshotError(f"the snapshot's join cannot be planned by this version: {e}") from e


def frontier_state(frontier: Frontier) -> dict[str, Any]:
    """Return the position of each order and the promises of a side, as JSON types."""
    return {
        "orders": [t.save() for t in frontier.trackers],
        "promised": [[encode(n), low, high] for n, (low, high) in frontier.promised.items()],
        "tops": [[encode(n), top] for n, top in frontier.tops.items()],
        "ended": frontier.ended,
    }


def load_frontier(frontier: Frontier, saved: dict[str, Any], s: int, schema: pa.Schema) -> None:
    """Restore the frontier of side s from :func:`frontier_state`. An impossible value raises a SnapshotError."""
    for t, state in zip(frontier.trackers, saved["orders"], strict=True):
        edge = whole(state["edge"], f"the greatest value of {t.name}")
        limit = t.least_after(edge)
        if whole(state["limit"], f"the least value of {t.name}") != limit:
            raise damaged(f"rows of {t.name} are late below {state['limit']}; expected {limit}")
        t.load({"edge": edge, "limit": limit, **{name: flag(state[name], name) for name in ("value", "null")}})

    def expression(data: Any) -> Node:
        node = decode(data)
        if node is None:
            raise damaged("a watermark has no expression")
        check_expressions([node], {SIDES[s]: schema})
        check_side(node, s)
        return node

    frontier.promised, frontier.tops = {}, {}
    for data, low, high in saved["promised"]:
        node = expression(data)
        least, most = ordinal_range(node.type)
        frontier.promised[node] = whole(low, "a watermark", least, most), whole(high, "a watermark", least, most)
    for data, top in saved.get("tops", ()):  # older snapshots lack this field
        frontier.tops[expression(data)] = whole(top, "a watermark")
    if not frontier.tops.keys() <= frontier.promised.keys():
        raise damaged("a watermark of a falling order is not among the watermarks")
    frontier.ended = flag(saved["ended"], "ended")
    frontier.refresh()
