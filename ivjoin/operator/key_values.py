"""Compute the keys of rows: their ids in a key table, their bytes and their hashes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import Vector, evaluate
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal, ordinals
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.shj.arrow import Bytes
from ivjoin.shj.kernels.keys import byte_key_kernels
from ivjoin.shj.kernels.pointers import address_of
from ivjoin.shj.store.keys import ByteKeys, IntKeys, KeyTable, NoKeys, WordKeys, pack

__all__ = ["hashed", "key_hashes", "key_ids", "packed_keys"]


def key_ids(
    plan: JoinPlan, s: int, n: int, values: dict[Node, Vector], keys: KeyTable, usable: np.ndarray | None = None
) -> np.ndarray:
    """Return the key id of each row of side s : int64[n], -1 where ``usable`` is False."""
    if isinstance(keys, NoKeys):
        return keys.ids(n, usable)
    if isinstance(keys, WordKeys):
        return keys.ids(_words(plan, s, values), usable)
    if isinstance(keys, IntKeys):
        key = plan.sides[s].keys[0]
        return keys.ids(np.ascontiguousarray(ordinals(values[key].values, key.type)), usable)
    assert isinstance(keys, ByteKeys)
    return keys.ids(_packed(plan, s, n, values), usable)


def key_hashes(plan: JoinPlan, s: int, n: int, column: Callable[[str, str], pa.Array]) -> np.ndarray:
    """Return 63-bit hashes of the keys of n rows : int64[n]. Equal keys of both sides have equal hashes."""
    return hashed(packed_keys(plan, s, n, column))


def packed_keys(plan: JoinPlan, s: int, n: int, column: Callable[[str, str], pa.Array]) -> Bytes:
    """Return the keys of n rows as byte strings. Equal keys of both sides have equal bytes."""
    nodes = plan.sides[s].keys
    return _packed(plan, s, n, dict(zip(nodes, evaluate(nodes, column, n), strict=True)))


def hashed(keys: Bytes) -> np.ndarray:
    out = np.empty(len(keys.offsets) - 1, dtype=np.int64)
    byte_key_kernels.hash_bytes(keys.offsets, address_of(keys.buffer), out)
    return out


def _words(plan: JoinPlan, s: int, values: dict[Node, Vector]) -> np.ndarray:
    """Return the keys of each row as words : int64[words, n]."""
    words = []
    for node, safe in zip(plan.sides[s].keys, plan.null_safe, strict=True):
        o, valid = ordinals(values[node].values, node.type), values[node].valid
        words.append(o if not safe or valid is None else np.where(valid, o, 0))
        if safe:
            words.append(np.ones(len(o)) if valid is None else valid)
    return np.array(words, dtype=np.int64)


def _packed(plan: JoinPlan, s: int, n: int, values: dict[Node, Vector]) -> Bytes:
    pieces = []
    for node, safe in zip(plan.sides[s].keys, plan.null_safe, strict=True):
        v = values[node]
        pieces.append(_key_bytes(node, v))
        if safe:
            valid = np.ones(n, dtype=np.uint8) if v.valid is None else v.valid.astype(np.uint8)
            pieces.append(Bytes.fixed(valid.reshape(n, 1)))
    return pack(pieces)


def _key_bytes(node: Node, v: Vector) -> Bytes:
    """Return a key column as bytes. Equal values have equal bytes, whatever their Arrow layout."""
    if has_ordinal(node.type):
        o = np.ascontiguousarray(ordinals(v.values, node.type))
        if v.valid is not None:
            o = np.where(v.valid, o, 0)
        return Bytes.fixed(o.view(np.uint8).reshape(len(o), 8))
    if isinstance(v.values, (pa.Array, pa.ChunkedArray)):
        array = v.values if v.valid is None else _blank(v.values, v.valid)
        return Bytes.of(array)
    # Both sides of a key have one type, so the sizes agree. They exceed what the precision needs, because Arrow permits
    # numbers with more digits.
    size = 32 if node.type.kind == "decimal" else 33 + node.type.precision // 2
    wide = [b"" if v.valid is not None and not ok else int(x).to_bytes(size, "little", signed=True)
            for x, ok in zip(v.values, v.valid if v.valid is not None else [True] * len(v.values), strict=True)]
    return Bytes.of(pa.array(wide, type=pa.large_binary()))


def _blank(array: pa.Array, valid: np.ndarray) -> pa.Array:
    import pyarrow.compute as pc

    empty = pa.scalar(b"" if pa.types.is_large_binary(array.type) or pa.types.is_binary(array.type) else "", array.type)
    return pc.if_else(pa.array(valid), array, empty)
