"""Strict and loose comparisons at the edges of each kind: the boundary row of every ``<``, ``<=``, ``>``, ``>=``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from join.conditions import rank
from join.machine import INF, f32, ge, gt, near
from join.tables import KINDS, Kind
from join.traps import F64, STR, Trap


def strict(kind: Kind, values: Sequence[Any], op: str, f: Callable[[Any, Any], Any]) -> Trap:
    return Trap(f"{kind.name} {op}", f"l.a {op} r.a", (kind, kind), values, values, lambda a, b: f(a["a"], b["a"]))


F32 = KINDS["float32"]
SINGLES = [
    f32(-2.0), -f32(1e-45), -0.0, f32(1e-45), float(np.nextafter(np.float32(1), np.float32(0))), 1.0, f32(1.0000001),
]
EDGES: list[tuple[Kind, list[Any]]] = [
    (F64, [-9.0, *near(1.1), -0.0, 5e-324, INF]),
    (F32, SINGLES),
    (KINDS["dec10"], [Decimal(n) / 100 for n in (-900, 99, 100, 101, 102)]),
    (KINDS["dec20"], [Decimal(n) / 100 for n in (-900, 99, 100, 101, 10**19)]),
    (KINDS["ts_ms"], [-5000, -1, 0, 1, 2]),
    (KINDS["ts_ns"], [-5000, -1, 0, 1, 2]),
    (KINDS["date64"], [-864 * 10**7, -864 * 10**5, 0, 864 * 10**5]),
    (KINDS["int8"], [-128, -1, 0, 1, 127]),
    (KINDS["uint64"], [0, 1, 2, 2**63, 2**64 - 1]),
    (KINDS["bool"], [False, True]),
    (KINDS["time64"], [0, 1, 2, 86_399_999_999]),
    (KINDS["dur_us"], [-(2**60), -1, 0, 1, 2**60]),
    (STR, ["", "a", "a\x00", "b", "é"]),
]
STRICT = [
    strict(kind, sorted(values, key=rank), op, f)
    for kind, values in EDGES
    for op, f in ((">", gt), (">=", ge), ("<", lambda a, b: gt(b, a)), ("<=", lambda a, b: ge(b, a)))
]
