"""Bands over doubles with a number added: of a column and its sums, the column alone is stored with a row."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from join import duck

from ivjoin import Order, Spill, SymmetricHashJoin
from ivjoin.expr.ordinal import ordinals
from ivjoin.expr.types import FLOAT64
from ivjoin.shj.arrow import with_number
from ivjoin.shj.kernels.compiling import I8, IN1, IO1, VOID, compiled
from ivjoin.shj.kernels.pointers import address_of, line_of
from ivjoin.shj.kernels.push.sum_kernels import read_least
from ivjoin.shj.registers import NAN_ORDINAL
from ivjoin.shj.store.rows.ring_room import row_bytes

pytestmark = pytest.mark.nojit

INF, NAN = float("inf"), float("nan")
EDGES = [
    0.0, -0.0, 1.0, -1.0, 1.5, 2.0**53, 2.0**53 + 2, -(2.0**53), 1e308, -1e308, 1.7976931348623157e308, 5e-324, -5e-324,
    2.0**-1022, -(2.0**-1022), INF, -INF, NAN, 0.1, 0.2, 0.3, 1e16, 3e-310,
]  # fmt: skip
NUMBERS = [0.0, -0.0, 1.0, -1.5, 0.1, 2.0**53, 1e308, -1e308, 1.7976931348623157e308, 5e-324, 1e-310, 1e16, INF, NAN]
CONDITIONS = [
    "l.x BETWEEN r.x - {0} AND r.x + {0}", "r.x BETWEEN l.x - {0} AND l.x + {0}",
    "l.x > r.x - {0} AND {0} + r.x > l.x", "l.x <= r.x + {0} AND l.x >= r.x", "l.x - {0} < r.x",
    "l.x + {0} BETWEEN r.x - 1 AND r.x + {0}",
    "l.x BETWEEN r.x - {0} AND r.x + {0} OR l.x BETWEEN r.x + 10 AND r.x + 11",
    "l.x BETWEEN r.x - {0} AND r.x OR l.x BETWEEN r.x + 0.0D AND r.x + 0.0D",
    "l.x BETWEEN r.x - {0} AND r.x + {0} AND l.x * r.x > 2",
]


def written(x: float) -> str:
    return repr(x) + "D" if np.isfinite(x) else f"CAST('{x}' AS DOUBLE)"


def values(rng: np.random.Generator, n: int, w: float, near: list[float]) -> list[float]:
    """Edges, doubles of any kind, and neighbours of others with a number added."""
    out = []
    for _ in range(n):
        kind = rng.random()
        if kind < 0.35:
            x = float(rng.choice(EDGES))
        elif kind < 0.45:
            x = float(rng.integers(-(2**63), 2**63 - 1, 1).view(np.float64)[0])
        elif kind < 0.6:
            x = float(rng.normal() * 10.0 ** rng.integers(-3, 4))
        else:
            x = float(rng.choice(near or EDGES)) + float(rng.choice([w, -w, 0.0, 1.0]))
        for _ in range(int(rng.integers(0, 3))):
            x = float(np.nextafter(x, rng.choice([-INF, INF])))
        out.append(x)
    return out


def played(seed: int, how: str, limits: dict[str, Any] | None = None) -> None:
    """A random join, its two inputs pushed in turn, with the rows of DuckDB."""
    limits = limits or {}
    rng = np.random.default_rng(seed)
    text = CONDITIONS[seed % len(CONDITIONS)]
    w = float(rng.choice(NUMBERS)) if rng.random() < 0.7 else float(rng.integers(0, 30))
    single = rng.random() < 0.15
    if single:
        text = CONDITIONS[0]
    order = rng.choice(["none", "rising", "falling"])
    on = rng.random() < 0.5
    n = int(rng.integers(1, 120)) if not limits else 400
    kind = pa.float32() if single else pa.float64()
    schema = pa.schema({"k": pa.int64(), "x": kind, "n": pa.int64()})
    sides: list[list[tuple[int, float | None]]] = []
    near: list[float] = []
    for _ in range(2):
        with np.errstate(all="ignore"):
            x = values(rng, n, w, near)
            if single:
                x = [float(np.float32(v)) for v in x]
        if order == "rising":
            x.sort(key=lambda v: (v != v, v))
        elif order == "falling":
            x.sort(key=lambda v: (v == v, -v))
        near = x
        sides.append([(int(rng.integers(0, 4)), None if rng.random() < 0.05 else v) for v in x])
    declared = Order("x", descending=order == "falling")
    orders: dict[str, Any] = {} if order == "none" else {"left_order": declared, "right_order": declared}
    op = SymmetricHashJoin(
        schema, schema, on="k" if on else None, condition=text.format(written(w)), how=how, **orders, **limits,
    )
    out: list[pa.RecordBatch] = []
    at = [0, 0]
    while at != [n, n]:
        s = int(rng.integers(0, 2))
        size = min(int(rng.integers(0, 40)), n - at[s])
        rows = sides[s][at[s] : at[s] + size]
        arrays = [
            pa.array([k for k, _ in rows], pa.int64()), pa.array([x for _, x in rows], kind, from_pandas=False),
            pa.array(range(at[s], at[s] + size), pa.int64()),
        ]  # fmt: skip
        at[s] += size
        out += op.push(("left", "right")[s], pa.RecordBatch.from_arrays(arrays, schema=schema))
        if rng.random() < 0.1:
            op = SymmetricHashJoin.restore(op.snapshot(), **limits)
    out += op.finish()
    assert op.metrics.late_rows == 0
    found: Counter[Any] = Counter()
    for b in out:
        left = b.column("n").to_pylist() if "n" in b.schema.names else [None] * b.num_rows
        right = b.column("n_right").to_pylist() if "n_right" in b.schema.names else [None] * b.num_rows
        found.update(zip(left, right, strict=True))
    tables = [
        pa.table([pa.array([k for k, _ in side], pa.int64()), pa.array([x for _, x in side], kind, from_pandas=False)],
                 names=["k", "x"])
        for side in sides
    ]  # fmt: skip
    said = text.replace("0.0D", "0.0::DOUBLE").format(f"'{w}'::DOUBLE")
    want = Counter(duck.pairs(*tables, how, f"l.k = r.k AND ({said})" if on else said))
    if how.startswith("right_"):
        found = Counter({(None, a): c for (a, _), c in found.items()})
    assert found == want, (seed, text, w, order, on, kind)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["inner", "left", "full", "left_anti", "right_semi"])
def test_bands_of_doubles_at_their_edges(how: str) -> None:
    for seed in range(24):
        played(1000 * len(how) + seed, how)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["inner", "full"])
def test_bands_of_doubles_partly_in_files(how: str, tmp_path: Any) -> None:
    for seed in range(3):
        played(77 + seed, how, {"memory_limit": 24_000, "when_full": Spill(tmp_path)})


def test_sums_are_as_the_machine_adds() -> None:
    rng = np.random.default_rng(5)
    x = np.array([*EDGES, *rng.integers(-(2**63), 2**63 - 1, 5000).view(np.float64)])
    for number in (w for w in NUMBERS if np.isfinite(w)):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(with_number(ordinals(x, FLOAT64), number), ordinals(x + number, FLOAT64))


@compiled(VOID(IN1, I8, IO1, I8))
def _least_of(bounds: Any, bits: Any, out: Any, cell: Any) -> None:
    read_least(line_of(bounds), 0, bits, bounds.shape[0], line_of(out), cell)


@pytest.mark.slow
@pytest.mark.parametrize("number", [w for w in NUMBERS if np.isfinite(w)])
def test_the_least_double_that_comes_to_a_bound(number: float) -> None:
    cell = np.zeros(4, dtype=np.int64)
    rng = np.random.default_rng(6)
    x = np.array([*EDGES, *rng.integers(-(2**63), 2**63 - 1, 200).view(np.float64), *rng.normal(size=200)])
    bounds = ordinals(x, FLOAT64)
    bounds = np.concatenate([bounds, bounds + 1, bounds - 1, with_number(bounds, number), [-(2**63), 2**63 - 1]])
    out = np.empty(len(bounds), dtype=np.int64)
    _least_of(bounds, int(np.float64(number).view(np.int64)), out, address_of(cell))
    inner = (out > -(2**63)) & (out < 2**63 - 1)
    assert (with_number(out[inner], number) >= bounds[inner]).all()
    before = out[inner] - 1
    there = before >= ordinals(np.array([-INF]), FLOAT64)[0]
    assert (with_number(before[there], number) < bounds[inner][there]).all()
    assert (bounds[out == -(2**63)] <= ordinals(np.array([-INF]), FLOAT64)[0]).all()
    assert (bounds[out == 2**63 - 1] > NAN_ORDINAL).all()


def test_only_the_column_of_a_band_of_doubles_is_stored() -> None:
    """Two words of links, the column, which no ring holds again, and the number."""
    schema = pa.schema({"k": pa.int64(), "x": pa.float64(), "n": pa.int64()})
    op = SymmetricHashJoin(schema, schema, on="k", condition="l.x BETWEEN r.x - 5 AND r.x + 5")
    side = op.plan.sides[1]
    assert [str(n) for n in side.axes] == ["r.x", "r.x - 5.0D", "r.x + 5.0D"]
    assert side.sums == [(0, -5.0), (0, 5.0)]
    assert row_bytes(op._engine.stores[1]) == 32
    assert op.plan.sides[0].sums == []
