"""Values of every type of a record, and arrays of them."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ivjoin.expr.types import Type, nested_arrow, to_arrow

DAY = 86_400_000_000

# Values of each kind: small ones that meet, the ends, and their neighbours.
VALUES: dict[str, list[Any]] = {
    "int64": [0, 1, -1, 2, 3, 5, 7, -7, 31, 64, 1 << 31, (1 << 53) + 1, (1 << 62), (1 << 63) - 1, -(1 << 63), None],
    "int32": [0, 1, -1, 2, -2, 5, 11, 12, 33, (1 << 31) - 1, -(1 << 31), None],
    "float64": [0.0, -0.0, 0.5, -0.5, 1.0, 1.5, 2.0, -2.5, 0.1, 1e16, 5e-324, 1.7976931348623157e308, 9.2e18, math.inf,
                -math.inf, math.nan, None],
    "float32": [0.0, -0.0, 0.5, 1.0, -2.5, 16777216.0, math.inf, math.nan, None],
    "decimal": [0, 1, -1, 5, 49, 50, 51, 100, 249, 250, -250, 9_999, 99_999_999, -99_999_999, None],
    "string": ["", "a", "ab", "abc", "b", "aab", "A", "zz", "ß", " a ", "12", "a%", "\U0001f600", None],
    "binary": [b"", b"a", b"ab", b"\xff\x00", b"\x00", None],
    "date": [0, 1, -1, 30, 31, 58, 59, 60, 18_261, 19_782, 19_753, -141_427, 2_932_896, None],
    "timestamp": [0, 1, -1, DAY, DAY - 1, -DAY, 59 * DAY + 1, 1_698_541_200_000_000, 1_711_846_799_999_999,
                  4_102_444_800_000_000, -(10**16), None],
    "duration": [0, 1, -1, 1_000_000, DAY, -DAY, 3 * DAY + 1, 10**15, None],
    "bool": [True, False, None],
}  # fmt: skip


def values_of(t: Type) -> list[Any]:
    return VALUES.get(t.kind) or VALUES[str(t)]


def array_of(values: list[Any], t: Type) -> pa.Array:
    if t.kind == "decimal":
        values = [None if v is None else Decimal(v).scaleb(-t.scale) for v in values]
    return pa.array(values, type=nested_arrow(t) or to_arrow(t))
