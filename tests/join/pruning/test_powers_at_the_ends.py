"""Powers of infinities, zeros and NaN as in Java, hence Spark; no row for which they are TRUE is pruned."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from math import inf, nan

import pyarrow as pa
import pytest

from ivjoin import Order, SymmetricHashJoin
from ivjoin.conditions import scalar
from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr import Scope

VALUES = [-inf, -2.0, -1.0, -0.0, 0.0, 5e-324, 0.5, 1.0, 1 + 2**-52, 2.0, 3.0, 1e308, inf, nan]
SCHEMA = pa.schema({"i": pa.int64(), "x": pa.float64()})


def power(x: float, y: float) -> float:
    """``Math.pow``."""
    if y == 0:
        return 1.0
    if math.isnan(x) or math.isnan(y) or (abs(x) == 1 and math.isinf(y)):
        return nan
    odd = y % 2 == 1
    try:
        return math.pow(x, y)
    except OverflowError:
        return -inf if x < 0 and odd else inf
    except ValueError:
        return nan if x else -inf if math.copysign(1, x) < 0 and odd else inf


def rank(v: float) -> tuple[int, float]:
    return (1, 0) if math.isnan(v) else (0, v)


def below(a: float, b: float) -> bool:
    return rank(a) <= rank(b)


SHAPES: dict[str, Callable[[float, float], float]] = {
    "pow(l.x, r.x)": power, "pow(r.x, l.x)": lambda a, b: power(b, a),
    "pow(l.x, r.x) + l.x": lambda a, b: power(a, b) + a, "pow(1e0, l.x) * r.x": lambda a, b: power(1.0, a) * b,
    "pow(l.x, 5e-1) + r.x": lambda a, b: power(a, 0.5) + b, "pow(l.x - r.x, 2e0)": lambda a, b: power(a - b, 2.0),
}  # fmt: skip
LIMITS = {"1e0": 1.0, "-1e0": -1.0, "0e0": 0.0, "CAST('NaN' AS DOUBLE)": nan, "CAST('Infinity' AS DOUBLE)": inf}


@pytest.mark.parametrize("constant", [False, True], ids=["a column", "a constant"])
def test_values(constant: bool) -> None:
    """Alone and among other values, with a constant exponent and with a column."""
    for y in VALUES:
        scope = Scope(pa.schema({"a": pa.float64(), "b": pa.float64()}), pa.schema([]))
        as_text = "CAST('NaN' AS DOUBLE)" if y != y else f"CAST('{y}' AS DOUBLE)"
        node = scalar(f"pow(a, {as_text if constant else 'b'})", scope)
        for xs in (VALUES, *([x] for x in VALUES)):
            columns = {"a": pa.array(xs), "b": pa.array([y] * len(xs))}
            (v,) = evaluate([node], lambda _, name, columns=columns: columns[name], len(xs))
            for x, found in zip(xs, v.values.tolist(), strict=True):
                want = power(x, y)
                assert found == pytest.approx(want, rel=1e-14, nan_ok=True), (x, y, found)


@pytest.mark.one_in(11)
@pytest.mark.parametrize("how", ["inner", "left_anti", "right_semi"])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_row_is_lost(shape: str, how: str) -> None:
    rng = random.Random(shape + how)
    for turn in range(12):
        limit = rng.choice(list(LIMITS))
        condition = f"{shape} <= {limit}" if turn % 2 else f"{limit} <= {shape}"
        falls = rng.random() < 0.5, rng.random() < 0.5
        sides = []
        for fall in falls:
            drawn = rng.choices(VALUES, k=9)
            values = sorted((v for v in drawn if v == v), reverse=fall)
            for _ in range(len(drawn) - len(values)):
                values.insert(rng.randint(0, len(values)), nan)  # which stands in no order
            sides.append(values)
        op = SymmetricHashJoin(
            SCHEMA, SCHEMA, condition=condition, how=how,
            left_order=Order("x", descending=falls[0]), right_order=Order("x", descending=falls[1]),
        )  # fmt: skip
        events = [0] * 9 + [1] * 9
        rng.shuffle(events)
        out, place = [], [0, 0]
        for s in events:
            i = place[s]
            place[s] += 1
            out += op.push(("left", "right")[s], pa.record_batch([[i], [sides[s][i]]], schema=SCHEMA))
        out += op.finish()
        got = Counter(tuple(v for name, v in row.items() if name != "x" and name != "x_right")
                      for b in out for row in b.to_pylist())  # fmt: skip

        def met(a: float, b: float, turn: int = turn, limit: str = limit) -> bool:
            pair = SHAPES[shape](a, b), LIMITS[limit]
            return below(*pair) if turn % 2 else below(*reversed(pair))

        pairs = {(i, j) for i, a in enumerate(sides[0]) for j, b in enumerate(sides[1]) if met(a, b)}
        want = {
            "inner": Counter(pairs), "left_anti": Counter((i,) for i in range(9) if i not in {i for i, _ in pairs}),
            "right_semi": Counter((j,) for j in {j for _, j in pairs}),
        }[how]  # fmt: skip
        assert got == want, (condition, sides, falls)
