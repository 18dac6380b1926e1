"""Picks that right rows decide as they arrive, as ``asof_join`` makes them for any condition."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ivjoin.expr import build
from ivjoin.expr.types import INT64
from ivjoin.plan import spec
from ivjoin.plan.picking.pick import meeting
from ivjoin.plan.question import side_expression


def one_of(left: pa.Schema, right: pa.Schema, which: str, by: str | list[str], near: str = "t") -> Any:
    """Return a pick of one right row: the last, first or nearest, never one with null in the first of ``by``."""
    nodes = [side_expression(b, 1, right, "UTC", "pick") for b in ([by] if isinstance(by, str) else by)]
    nodes = [build.cast(n, INT64) if n.type.kind == "null" else n for n in nodes]
    start = side_expression(near, 0, left, "UTC", "pick") if which == "nearest" else None
    if start is not None:
        meeting(start, nodes[0], "UTC")
    return spec.Pick(which, tuple(nodes), start)
