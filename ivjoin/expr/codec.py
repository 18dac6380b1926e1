"""Encode expressions as plain JSON values, for snapshots and fingerprints."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import Any

from ivjoin.errors import SnapshotError, came
from ivjoin.expr import ops
from ivjoin.expr.nodes import Node, make, walk
from ivjoin.expr.types import Type

__all__ = ["decode", "encode"]


def encode(node: Node | None) -> Any:
    """Return a node as JSON: a list of its distinct sub-expressions, arguments before the nodes that use them."""
    if node is None:
        return None
    order = {n: i for i, n in enumerate(walk(node))}
    return [
        [n.op, [order[a] for a in n.args], [_param(p) for p in n.params], _type(n.type)] for n in order
    ]


def decode(data: Any) -> Node | None:
    """Return the node that :func:`encode` has encoded, or raise SnapshotError."""
    if data is None:
        return None
    nodes: list[Node] = []
    try:
        for op, args, params, t in data:
            if not isinstance(op, str) or any(isinstance(i, bool) or i < 0 for i in args):
                raise ValueError(f"{came(op)} of {came(args)}")
            found, constants = tuple(nodes[i] for i in args), tuple(_unparam(p) for p in params)
            if op == ops.IN and len(found) > 1:  # older snapshots store the constants as arguments
                found, constants = found[:1], tuple(_constant(n) for n in found[1:])
            nodes.append(make(op, found, constants, Type(**t)))
        return nodes[-1]
    except (TypeError, ValueError, IndexError, KeyError) as e:
        raise SnapshotError(f"an expression in the snapshot is damaged: {came(e)}") from e


def _constant(n: Node) -> Any:
    if n.op != "literal":
        raise ValueError(f"a list has {n}; expected constants")
    return n.params[0]


def _type(t: Type) -> dict[str, Any]:
    default = Type(t.kind)
    return {k: v for k, v in asdict(t).items() if k == "kind" or v != getattr(default, k)}


def _param(p: Any) -> Any:
    if isinstance(p, bool) or p is None or isinstance(p, (int, str)):
        return p
    if isinstance(p, float):
        return {"float": p.hex()}
    if isinstance(p, bytes):
        return {"bytes": base64.b64encode(p).decode()}
    if isinstance(p, Type):
        return {"type": _type(p)}
    if isinstance(p, tuple):
        return {"tuple": [_param(x) for x in p]}
    raise AssertionError(f"a parameter of type {type(p).__name__} has no encoding")


def _unparam(p: Any) -> Any:
    if not isinstance(p, dict):
        return p
    (tag, value), = p.items()
    if tag == "float":
        return float.fromhex(value)
    if tag == "bytes":
        return base64.b64decode(value)
    if tag == "type":
        return Type(**value)
    if tag == "tuple":
        return tuple(_unparam(x) for x in value)
    raise ValueError(f"unknown parameter {tag!r}")
