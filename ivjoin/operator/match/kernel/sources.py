"""Describe the expressions of a side that kernels read as ordinals. Kernels or Python evaluate them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ivjoin.expr import ops
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal, ordinal_of
from ivjoin.frontier.tracking import Frontier
from ivjoin.plan.join_plan import JoinPlan, of_plan
from ivjoin.plan.sums import probes
from ivjoin.shj import registers as at
from ivjoin.shj.arrow import byte_width, is_own_ordinal, offset_width
from ivjoin.shj.plain import plain_type
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["SideSources", "column_of", "key_columns", "ordinal_columns", "side_sources"]


@dataclass(slots=True)
class SideSources:
    """The expressions of one side.

    ``nodes`` are the axes, then the results for the lines of ``ivjoin.plan.sums.probes``, which have the names of their
    axes. Then follow the key if it is one ordinal, orders, guards and promises.
    """

    nodes: list[Node]
    table: np.ndarray  # SOURCE[n]: how the kernels read each node
    computed: list[int]  # places of the nodes that Python computes for each batch
    keys: list[Node]  # keys whose ids Python finds
    filters: list[Node]  # conjuncts that read only this side
    guards: list[tuple[Node, int, int]]  # guards that Python checks
    roots: list[Node]  # all expressions that Python evaluates, each once
    words: np.ndarray | None  # KEY_WORD[k], for keys that are ordinals: how to compute their words
    pieces: np.ndarray | None  # KEY_PIECE[k], for other keys: how the kernels join their pieces; None if they cannot
    columns: np.ndarray  # int64[c, 2]: columns whose addresses the kernels need, and their bytes per value
    rows: int = field(init=False)  # arrays of one word per row, for nodes and computed key words

    def __post_init__(self) -> None:
        self.rows = max(len(self.nodes), 0 if self.words is None else int(self.words["row"].max()) + 1)


def column_of(node: Node) -> Node | None:
    """Return the column of an expression that is a column or casts it to a wider integer. Both have equal ordinals."""
    while node.op == ops.CAST:
        (inner,) = node.args
        if not (node.type.kind == inner.type.kind == "int"):
            return None
        low, high = node.type.limits
        least, most = inner.type.limits
        if not low <= least <= most <= high <= I64_MAX:
            return None
        node = inner
    return node if node.op == "column" else None


@of_plan
def ordinal_columns(plan: JoinPlan, s: int) -> dict[int, int | None]:
    """Return the stored columns of a side whose values equal one of its axes, or its only key (None).

    The keys of the map are places among the stored columns. An axis can also restore doubles while
    ``OrdinalColumn.tells`` returns True.
    """
    side = plan.sides[s]
    out: dict[int, int | None] = {}
    sources: list[tuple[Node, int | None]] = [(node, a) for a, node in enumerate(side.axes[: side.n_stored_axes])]
    if plan.int_keys:
        sources.append((side.keys[0], None))
    for node, source in sources:
        column = column_of(node)
        if column is not None:
            index = side.schema.get_field_index(column.params[1])
            t = side.schema.field(index).type
            told = is_own_ordinal(t) or (source is not None and pa.types.is_float64(t))
            if index in side.stored and told:
                out.setdefault(side.stored.index(index), source)
    return out


@of_plan
def key_columns(plan: JoinPlan, s: int) -> dict[int, int]:
    """Return the stored text columns of a side whose bytes equal a piece of the key, and the number of the piece.

    The keys of the map are places among the stored columns.
    """
    side, piece = plan.sides[s], 0
    out: dict[int, int] = {}
    for key, safe in zip(side.keys, plan.null_safe, strict=True):
        if key.op == "column" and not safe and not plan.word_keys:
            index = side.schema.get_field_index(key.params[1])
            kind = _text_kind(side.schema.field(index).type)
            if index in side.stored and kind == at.TEXT_PIECE:
                out.setdefault(side.stored.index(index), piece)
        piece += 1 + safe
    return out


def _code(t: pa.DataType) -> int | None:
    """Return the code for reading values of an Arrow type as ordinals, or None if only Python can read them."""
    pt = pa.types
    width = byte_width(t)
    if width is None:
        return None
    if pt.is_decimal128(t):
        return at.CODES["d", 16] if t.precision <= 18 else None
    if pt.is_float32(t) or pt.is_float64(t):
        return at.CODES["f", width]
    if pt.is_unsigned_integer(t):
        return at.CODES["u", width]
    if pt.is_signed_integer(t) or pt.is_date32(t) or pt.is_time(t) or pt.is_timestamp(t) or pt.is_duration(t):
        return at.CODES["i", width]
    return None


def side_sources(plan: JoinPlan, s: int, frontier: Frontier, also: set[int]) -> SideSources:
    """Return the sources of side s. ``also`` are other columns whose addresses the kernels need for output."""
    side = plan.sides[s]
    by_python = {t.node for t in frontier.trackers if t.in_python}
    _, lines = probes(plan, s)
    first = len(side.axes)
    nodes = [*side.axes, *(side.axes[axis] for axis, _, _ in lines)]  # the result for an axis is named by the axis
    words = plan.word_keys
    packs = not words and bool(side.keys) and all(_is_piece(side.schema, k) for k in side.keys)
    ordinals = [k for k in side.keys if words or (packs and _column(side.schema, k) is not None)]
    wanted = [*ordinals, *(t.node for t in frontier.trackers)]
    wanted += [*frontier.bounds, *frontier.promised]
    guards = []
    for node, low, high in side.guards:
        if node.type.kind != "float" and ordinal_of(0, node.type) == 0 and _column(side.schema, node) is not None:
            wanted.append(node)
        else:
            guards.append((node, low, high))
    nodes += [n for n in dict.fromkeys(wanted) if n not in nodes]
    table = np.zeros(len(nodes), dtype=at.SOURCE)
    computed, used = [], set(also)
    for i, node in enumerate(nodes):
        if first <= i < first + len(lines):
            axis, offset, number = lines[i - first]
            bits = np.float64(number).view(np.int64)
            table[i] = -1, 0, *(I64_MIN, I64_MAX) * 2, 0, 0, 0, at.LEAST, axis, offset, bits
            continue
        found = None if node in by_python else _column(side.schema, node)
        column, code = found or (-1, 0)
        arithmetic = 0, -1, 0, 0
        if found is None and node not in by_python:
            double = _double(side.schema, node)
            if double is not None:
                column, code, *rest = double
                arithmetic = tuple(rest)  # type: ignore[assignment]
        if column < 0:
            computed.append(i)
        else:
            used.add(column)
        if arithmetic[1] >= 0:
            used.add(arithmetic[1])
        guard_low, guard_high = I64_MIN, I64_MAX
        for guarded, least, most in side.guards:
            if guarded is node and found is not None:
                guard_low, guard_high = max(guard_low, least), min(guard_high, most)
        low, high, spares_nan = frontier.limits_of(node)
        role = at.BAND_ROLE if i < side.band_axes else 0
        if any(node is key and not safe for key, safe in zip(side.keys, plan.null_safe, strict=True)):
            role |= at.KEY_ROLE
        table[i] = column, code, guard_low, guard_high, low, high, spares_nan, role, 0, *arithmetic
    guards += [g for g in side.guards if g[0] in nodes and nodes.index(g[0]) in computed]
    keys = [] if words or packs else list(side.keys)
    pieces = _pieces(plan, s, nodes) if packs else None
    if pieces is not None:
        used |= {int(c) for c in pieces["column"] if c >= 0}
    roots = [*(nodes[i] for i in computed), *keys, *side.filters, *(g for g, _, _ in guards)]
    widths = [(i, _step(plain_type(side.schema.field(i).type))) for i in sorted(used)]
    return SideSources(
        nodes, table, computed, keys, list(side.filters), list(dict.fromkeys(guards)), list(dict.fromkeys(roots)),
        _key_words(plan, s, nodes) if words else None, pieces, np.array(widths, dtype=np.int64).reshape(-1, 2),
    )


def _column(schema: pa.Schema, node: Node) -> tuple[int, int] | None:
    """Return the column that a node equals, and the code for reading it."""
    column = column_of(node)
    if column is None:
        return None
    index = schema.get_field_index(column.params[1])
    code = _code(schema.field(index).type)
    return None if code is None else (index, code)


_ARITHMETIC = {ops.ADD: at.PLUS, ops.SUB: at.MINUS, ops.MUL: at.TIMES}
_AS_DOUBLES = {at.F64, at.F32, at.I32, at.I64}


def _double(schema: pa.Schema, node: Node) -> tuple[int, int, int, int, int, int] | None:
    """Return how to read a double: from a column, two columns and an operator, or a column, a number and an operator.

    The result is (column, code, arithmetic, second column or -1, its code, bits of the number). Return None for any
    other expression.
    """
    if not (node.type.kind == "float" and node.type.bits == 64):
        return None
    first = _as_double(schema, node)
    if first is not None:
        return *first, at.AS_DOUBLE, -1, 0, 0
    if node.op not in _ARITHMETIC or len(node.args) != 2 or any(a.type != node.type for a in node.args):
        return None
    a, b = node.args
    if a.op == "literal" and node.op != ops.SUB:
        a, b = b, a
    first = _as_double(schema, a)
    if first is None:
        return None
    if b.op == "literal" and isinstance(b.params[0], float):
        return *first, _ARITHMETIC[node.op], -1, 0, int(np.float64(b.params[0]).view(np.int64))
    second = _as_double(schema, b)
    return None if second is None else (*first, _ARITHMETIC[node.op], *second, 0)


def _as_double(schema: pa.Schema, node: Node) -> tuple[int, int] | None:
    """Return a column of doubles, or a column of floats or integers that is cast to double."""
    if node.op == ops.CAST and node.type.kind == "float" and node.type.bits == 64:
        node = node.args[0]
        if node.type.kind not in ("int", "float"):
            return None
    elif node.type.kind != "float" or node.type.bits != 64:
        return None
    found = _column(schema, node) if node.op == "column" else None
    return found if found is not None and found[1] in _AS_DOUBLES else None


def _step(t: pa.DataType) -> int:
    """Return the bytes between entries of a column's second buffer: its values, or the offsets of text."""
    return byte_width(t) or offset_width(t) or 0


def _text_kind(t: pa.DataType) -> int | None:
    if offset_width(t) is not None:
        return at.TEXT_PIECE
    return at.FIXED_PIECE if pa.types.is_fixed_size_binary(t) else None


def _is_piece(schema: pa.Schema, key: Node) -> bool:
    """Return whether the kernels can read a key: a column with ordinals, or a text column."""
    if has_ordinal(key.type):
        return _column(schema, key) is not None
    return key.op == "column" and _text_kind(schema.field(key.params[1]).type) is not None


def _key_words(plan: JoinPlan, s: int, nodes: list[Node]) -> np.ndarray:
    """Return the words of a key of side s. Computed words follow the ordinals of the nodes."""
    rows: list[tuple[int, int, int]] = []
    made = len(nodes)
    for key, safe in zip(plan.sides[s].keys, plan.null_safe, strict=True):
        source = nodes.index(key)
        if safe:
            rows += [(made, source, at.VALUE_WORD), (made + 1, source, at.VALIDITY_WORD)]
            made += 2
        else:
            rows.append((source, source, at.AS_READ))
    return np.array(rows, dtype=at.KEY_WORD)


def _pieces(plan: JoinPlan, s: int, nodes: list[Node]) -> np.ndarray:
    """Return the pieces of a key of side s, in the layout of ``key_values.packed_keys``."""
    schema = plan.sides[s].schema
    rows: list[tuple[int, ...]] = []
    for key, safe in zip(plan.sides[s].keys, plan.null_safe, strict=True):
        if has_ordinal(key.type):
            where = nodes.index(key), -1, 8
            kind: int | None = at.ORDINAL_PIECE
        else:
            index = schema.get_field_index(key.params[1])
            kind = _text_kind(schema.field(index).type)
            where = -1, index, _step(schema.field(index).type)
        assert kind is not None
        rows.append((kind, *where, int(safe), 0))
        if safe:
            rows.append((at.VALIDITY_PIECE, *where, 1, 0))
    return np.array(rows, dtype=at.KEY_PIECE)
