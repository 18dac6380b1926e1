"""Decimal quotients that round to 0: values far larger than the dividends still match."""

from __future__ import annotations

from collections import Counter
from typing import Any

import oracle
import pyarrow as pa
import pytest
from oracle import HOWS

import ivjoin

SCHEMAS = [pa.schema({"k": pa.int64(), name: pa.int64()}) for name in ("x", "y")]
DIVIDENDS, DIVISORS = [1, 1, 2, 100], [3, 10**14, 10**15, 10**15, 10**17]
# of the scale 6, so that from some 1e13 on all is 0
QUOTIENT = "CAST(l.x AS DECIMAL(38, 10)) / CAST(r.y AS DECIMAL(38, 10))"


KNOWN: list[dict[str, Any]] = [
    {"left_order": "x", "left_bounds": {"x": (1, 100)}}, {"right_order": "y", "left_bounds": {"x": (1, 100)}},
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("compared", ["<= 0", "= 0", "< 0.0000001", "BETWEEN -0.000001 AND 0"])
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("known", KNOWN)
def test_large_divisors_are_kept(compared: str, how: str, known: dict[str, Any]) -> None:
    tables = [
        pa.table([[1] * len(values), values], schema=schema)
        for schema, values in zip(SCHEMAS, (DIVIDENDS, DIVISORS), strict=True)
    ]
    pieces = [iter(t.to_batches(max_chunksize=1)) for t in tables]
    got = ivjoin.band_join(*pieces, on="k", condition=f"{QUOTIENT} {compared}", how=how, **known).to_arrow()
    pairs = oracle.pairs(DIVIDENDS, DIVISORS, how, (), lambda a, b: 2 * a * 10**6 < b)
    want = Counter((None if i is None else DIVIDENDS[i], None if j is None else DIVISORS[j]) for i, j in pairs)
    assert Counter((row.get("x"), row.get("y")) for row in got.to_pylist()) == want
