"""Values at the ends of their types, NaN, -0.0 and nulls, as keys and on axes, whatever the layout."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import oracle
import pyarrow as pa
import pytest
from routing.routed import copies, owned_output, random_plan

from ivjoin.routing import plan_join

I64 = [-(2**63), -(2**63) + 1, -(2**62), -(2**53) - 1, -1, 0, 1, 2**31, 2**53 + 1, 2**62, 2**63 - 2, 2**63 - 1, None]
U64 = [0, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1, None]
F64 = [-math.inf, -1.7976931348623157e308, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, 2.0**53, math.inf, math.nan, None]


def rank(v: Any) -> tuple[int, Any]:
    return (1, 0) if v != v else (0, v)


@pytest.mark.one_in(17)
@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize(
    ("values", "t"), [(I64, pa.int64()), (U64, pa.uint64()), (F64, pa.float64()), (I64, pa.timestamp("ns"))], ids=str
)
def test_ranges_between_columns(how: str, values: list[Any], t: pa.DataType) -> None:
    for seed in range(12):
        rng = random.Random(seed)
        keyed = rng.random() < 0.5
        rows = [[{n: rng.choice(values) for n in "kab"} for _ in range(20)] for _ in "lr"]
        fixed = rng.random() < 0.4

        def meet(p: dict[str, Any], q: dict[str, Any], keyed: bool = keyed, fixed: bool = fixed) -> bool:
            low, high = (q["a"], q["a"]) if fixed else (q["a"], q["b"])
            if None in (p["a"], low, high) or (keyed and None in (p["k"], q["k"])):
                return False
            return rank(low) <= rank(p["a"]) <= rank(high) and (not keyed or rank(p["k"]) == rank(q["k"]))

        met = {(i, j) for i, p in enumerate(rows[0]) for j, q in enumerate(rows[1]) if meet(p, q)}
        schema = pa.schema([("k", t), ("a", t), ("b", t)])
        arrays = [[pa.array([r[n] for r in side], pa.int64() if pa.types.is_timestamp(t) else t) for n in "kab"]
                  for side in rows]  # fmt: skip
        left, right = (pa.RecordBatch.from_arrays([a.cast(t) for a in side], schema=schema) for side in arrays)
        call = {
            "on": "k" if keyed else None, "how": how,
            # an equality off a key: as a range of width nothing
            "condition": "l.a >= r.a AND l.a <= r.a" if fixed else "l.a BETWEEN r.a AND r.b",
        }
        want = Counter(oracle.pairs(range(20), range(20), how, (), lambda i, j, met=met: (i, j) in met))
        plan, made = random_plan(left, right, call, rng)
        scheme = rng.choice(["auto", "slices", "grid"])
        planned = plan_join(left, right, **call, workers=rng.randint(1, 6), scheme=scheme)
        for p in (plan, planned):
            sent = [copies(p.cells, side, b) for side, b in (("left", left), ("right", right))]
            assert owned_output(sent[0], sent[1], met, how) == want, (seed, made)


def test_a_row_whose_range_errs_reaches_all() -> None:
    """``l.a - r.w <= r.a`` is searched as ``l.a <= r.a + r.w``, which overflows where the condition does not."""
    top = 2**63 - 1
    left = pa.record_batch({"a": pa.array([0, 7, top - 3, top - 1], pa.int64())})
    right = pa.record_batch({"a": pa.array([0, top - 3], pa.int64()), "w": pa.array([10, 10], pa.int64())})
    call = {"condition": "l.a - r.w <= r.a AND l.a >= r.a", "how": "left"}
    met = {(0, 0), (1, 0), (2, 1), (3, 1)}
    sliced = 0
    for seed in range(40):
        plan, made = random_plan(left, right, call, random.Random(seed))
        sent = [copies(plan.cells, side, b) for side, b in (("left", left), ("right", right))]
        assert owned_output(sent[0], sent[1], met, "left") == Counter(dict.fromkeys(met, 1)), made
        sliced += plan.axis is not None and len(plan.layout.entries[0].cuts) > 1
    assert sliced > 5
