"""The ways to keep rows for ever: after many rows with a small window, the state is about the window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

BATCH = 256
FAST, LONG = 20_000, 1_000_000
HOWS = ("inner", "full", "left_anti", "right_semi")

Columns = dict[str, np.ndarray]


def ints(n: int) -> Columns:
    """One row a unit, ascending; a small random offset, a width, a word and a bounded column beside it."""
    rng = np.random.default_rng(n)
    return {
        "a": np.arange(n) + 1000, "x": rng.integers(0, 50, n), "w": rng.integers(0, 21, n), "k": rng.integers(0, 7, n),
        "s": rng.choice(np.array(["ab", "b", "c"]), n),
    }


@dataclass(frozen=True, eq=False)
class Weak:
    """A condition under which pruning is easily lost, and how its pairs are found by brute force.

    ``reach`` bounds how far apart in ``pos`` (the place on the common axis) the rows of a pair can lie; ``window`` is
    how many rows a side the operator may have to keep.
    """

    name: str
    condition: str
    window: int
    holds: Callable[[Columns, Columns], np.ndarray]
    left: Callable[[int], Columns] = ints
    right: Callable[[int], Columns] = ints
    options: dict[str, Any] = field(default_factory=lambda: {"left_order": "a", "right_order": "a"})
    reach: int = 50
    pos: tuple[Callable[[Columns], np.ndarray], Callable[[Columns], np.ndarray]] = (lambda c: c["a"], lambda c: c["a"])
    types: dict[str, pa.DataType] = field(default_factory=dict)


def near(d: int) -> Callable[[Columns, Columns], np.ndarray]:
    return lambda l, r: np.abs(l["a"] - r["a"]) <= d


def minutes(n: int) -> Columns:
    """A row every half hour, in microseconds."""
    return {"a": np.arange(n) * 1_800_000_000 + 1_700_000_000_000_000}


def halves(n: int) -> Columns:
    """Neither column is in order, their sum is."""
    c = ints(n)
    return {**c, "p": c["a"] - 3 * c["x"], "q": 3 * c["x"]}


def jittered(n: int) -> Columns:
    c = ints(n)
    return {**c, "a": c["a"] - np.random.default_rng(1).integers(0, 11, n)}


def falling(n: int) -> Columns:
    return {"a": -ints(n)["a"]}


def grouped(n: int) -> Columns:
    """A column without order but with declared bounds, beside one in order."""
    c = ints(n)
    return {**c, "u": c["a"] - c["k"]}


def real(n: int) -> Columns:
    c = ints(n)
    return {**c, "a": c["a"].astype(float)}


def ratio(l: Columns, r: Columns) -> np.ndarray:
    return (l["a"] / r["a"] < 1.01) & (r["a"] / l["a"] < 1.01) & (l["x"] == r["x"])


US = pa.timestamp("us")
DAY = 86_400_000_000
RATIO = "l.a / r.a < 1.01 AND r.a / l.a < 1.01 AND l.x = r.x"
ABOVE_ZERO = {"left_bounds": {"a": (1, None)}, "right_bounds": {"a": (1, None)}}
ORDERED = {"left_order": "a", "right_order": "a"}

WEAK = [
    Weak("equality of ordered columns", "l.a = r.a", 20, near(0)),
    Weak("equality of ordered timestamps", "l.a = r.a", 20, near(0), minutes, minutes, types={"a": US}, reach=0),
    Weak("square of the difference", "(l.a - r.a) * (l.a - r.a) < 400", 20, near(19)),
    Weak("power of the difference", "pow(l.a - r.a, 2) < 400", 20, near(19)),
    Weak("absolute difference", "abs(l.a - r.a) < 20", 20, near(19)),
    Weak("repeated columns", "l.a + l.a > r.a + r.a - 40 AND r.a + r.a > l.a + l.a - 40", 20, near(19)),
    Weak("difference between", "l.a - r.a BETWEEN -10 AND 10", 10, near(10)),
    Weak("factors", "2 * l.a < 2 * r.a + 5 AND 2 * r.a < 2 * l.a + 40", 20,
         lambda l, r: (2 * l["a"] < 2 * r["a"] + 5) & (2 * r["a"] < 2 * l["a"] + 40)),
    Weak("ratio of integers", RATIO, 210, ratio, options={**ORDERED, **ABOVE_ZERO}, reach=250),
    Weak("ratio of doubles", RATIO, 210, ratio, real, real, {**ORDERED, **ABOVE_ZERO}, reach=250),
    Weak("a width that is a column", "l.a BETWEEN r.a AND r.a + r.w", 20,
         lambda l, r: (l["a"] >= r["a"]) & (l["a"] <= r["a"] + r["w"]), options={**ORDERED, "right_bounds": {"w": (0, 20)}}),
    Weak("a width both ways", "l.a BETWEEN r.a - r.w AND r.a + r.w", 20, lambda l, r: np.abs(l["a"] - r["a"]) <= r["w"],
         options={**ORDERED, "right_bounds": {"w": (0, 20)}}),
    Weak("equal days", "date_trunc('DAY', l.a) = date_trunc('DAY', r.a)", 48, lambda l, r: l["a"] // DAY == r["a"] // DAY,
         minutes, minutes, types={"a": US}, reach=DAY),
    Weak("an order of a sum", "l.p + l.q BETWEEN r.p + r.q - 10 AND r.p + r.q + 10", 10, near(10), halves, halves,
         {"left_order": "p + q", "right_order": "p + q"}),
    Weak("an order of a sum written otherwise", "l.p + l.q - r.p - r.q <= 10 AND r.p + r.q - l.p - l.q <= 10", 10, near(10),
         halves, halves, {"left_order": "p + q", "right_order": "p + q"}),
    Weak("an unknown conjunct <>", "l.a BETWEEN r.a - 10 AND r.a + 10 AND l.x <> r.x", 10,
         lambda l, r: near(10)(l, r) & (l["x"] != r["x"])),
    Weak("an unknown conjunct LIKE", "concat(l.s, r.s) LIKE '%b%' AND l.a BETWEEN r.a - 10 AND r.a + 10", 10,
         lambda l, r: near(10)(l, r) & ((l["s"] != "c") | (r["s"] != "c"))),
    Weak("an unknown conjunct CASE", "abs(l.a - r.a) <= 10 AND CASE WHEN l.x > r.x THEN l.w <> 3 ELSE r.w <> 4 END", 10,
         lambda l, r: near(10)(l, r) & np.where(l["x"] > r["x"], l["w"] != 3, r["w"] != 4)),
    Weak("OR of two windows", "l.a BETWEEN r.a - 5 AND r.a OR l.a BETWEEN r.a + 10 AND r.a + 20", 20,
         lambda l, r: ((l["a"] - r["a"] >= -5) & (l["a"] <= r["a"])) | ((l["a"] - r["a"] >= 10) & (l["a"] - r["a"] <= 20))),
    Weak("NOT outside", "NOT (l.a < r.a - 10 OR l.a > r.a + 10)", 10, near(10)),
    Weak("ascending against descending", "l.a + r.a BETWEEN -20 AND 20", 20, lambda l, r: np.abs(l["a"] + r["a"]) <= 20,
         right=falling, options={"left_order": "a", "right_order": {"expr": "a", "descending": True}},
         pos=(lambda c: c["a"], lambda c: -c["a"])),
    Weak("both descending", "l.a BETWEEN r.a - 10 AND r.a + 10", 10, near(10), falling, falling,
         {"left_order": {"expr": "a", "descending": True}, "right_order": {"expr": "a", "descending": True}}),
    Weak("order with slack", "l.a BETWEEN r.a - 10 AND r.a + 10", 20, near(10), jittered, jittered,
         {"left_order": {"expr": "a", "slack": 10}, "right_order": {"expr": "a", "slack": 10}}),
    Weak("unordered but bounded", "l.u + l.k BETWEEN r.a - 10 AND r.a + 10", 20, near(10), grouped, ints,
         {"left_order": {"expr": "u", "slack": 7}, "right_order": "a", "left_bounds": {"k": (0, 6)}}),
    Weak("a one-sided filter", "l.a BETWEEN r.a - 10 AND r.a + 10 AND l.x < 25 AND r.x >= 10", 10,
         lambda l, r: near(10)(l, r) & (l["x"] < 25) & (r["x"] >= 10)),
    Weak("containment", "l.a <= r.a AND r.a <= l.b", 20, lambda l, r: (l["a"] <= r["a"]) & (r["a"] <= l["b"]),
         lambda n: (lambda c: {**c, "b": c["a"] + c["w"]})(ints(n))),
    Weak("doubles as written", "l.a >= r.a - 10.0 AND l.a <= r.a + 10.0", 20, near(10), real, real),
    Weak("difference of doubles", "abs(l.a - r.a) <= 10.0", 20, near(10), real, real),
    Weak("unix seconds", "unix_micros(l.a) - unix_micros(r.a) BETWEEN -86400000000 AND 86400000000", 48,
         lambda l, r: np.abs(l["a"] - r["a"]) <= DAY, minutes, minutes, types={"a": US}, reach=DAY),
    Weak("timestamp difference", "l.a - r.a BETWEEN INTERVAL '-1' DAY AND INTERVAL '1' DAY", 48,
         lambda l, r: np.abs(l["a"] - r["a"]) <= DAY, minutes, minutes, types={"a": US}, reach=DAY),
    Weak("floor of a quotient", "floor(l.a / 20) = floor(r.a / 20)", 20, lambda l, r: l["a"] // 20 == r["a"] // 20),
    Weak("integer division", "l.a div 20 = r.a div 20", 20, lambda l, r: l["a"] // 20 == r["a"] // 20),
    Weak("greatest minus least", "greatest(l.a, r.a) - least(l.a, r.a) <= 10", 10, near(10)),
]


def record(columns: Columns, types: dict[str, pa.DataType]) -> pa.Table:
    arrays: dict[str, pa.Array] = {"n": pa.array(np.arange(len(columns["a"])))}
    for name, v in columns.items():
        array = pa.array(v)
        arrays[name] = array.view(types[name]) if name in types else array
    return pa.table(arrays)


def expected(weak: Weak, n: int) -> np.ndarray:
    """Pairs (left n, right n) by brute force over what lies within reach, int64[m, 2] in order."""
    left, right = weak.left(n), weak.right(n)
    p, q = weak.pos[0](left), weak.pos[1](right)
    order = np.argsort(q, kind="stable")
    found = []
    for at in range(0, n, 50_000):
        mine = np.arange(at, min(at + 50_000, n))
        start, stop = (np.searchsorted(q[order], p[mine] + d, s) for d, s in ((-weak.reach, "left"), (weak.reach, "right")))
        many = stop - start
        i = np.repeat(mine, many)
        j = order[np.arange(len(i)) + np.repeat(start - np.cumsum(many) + many, many)]
        keep = weak.holds({c: v[i] for c, v in left.items()}, {c: v[j] for c, v in right.items()})
        found.append(np.stack([i[keep], j[keep]], axis=1))
    return in_order(np.concatenate(found))


def in_order(pairs: np.ndarray) -> np.ndarray:
    return pairs[np.lexsort(pairs.T[::-1])]


def joined(how: str, pairs: np.ndarray, n: int, m: int) -> np.ndarray:
    """The output of a join type from its matching pairs, -1 where a side is absent."""
    lone = np.setdiff1d(np.arange(n), pairs[:, 0])
    other = np.setdiff1d(np.arange(m), pairs[:, 1])
    lone, other = (np.stack([x, np.full(len(x), -1)], axis=1) for x in (lone, other))
    seen = np.unique(pairs[:, 1])
    return in_order({
        "inner": pairs, "full": np.concatenate([pairs, lone, other[:, ::-1]]), "left_anti": lone,
        "left": np.concatenate([pairs, lone]), "right_semi": np.stack([np.full(len(seen), -1), seen], axis=1),
    }[how])


def call(weak: Weak, how: str) -> dict[str, Any]:
    import ivjoin

    options = {k: ivjoin.Order(**v) if k.endswith("order") and isinstance(v, dict) else v for k, v in weak.options.items()}
    return {"condition": weak.condition, "how": how, **options}


def out_pairs(how: str, batches: list[pa.RecordBatch], schema: pa.Schema) -> np.ndarray:
    table = pa.Table.from_batches(batches, schema)
    absent = pa.array(np.full(table.num_rows, -1))
    n = table.column("n").fill_null(-1)
    if how.startswith("left_"):
        columns = [n, absent]
    elif how.startswith("right_"):
        columns = [absent, n]
    else:
        columns = [n, table.column("n_right").fill_null(-1)]
    return in_order(np.stack([c.to_numpy() for c in columns], axis=1))


def run(weak: Weak, how: str, n: int, batch: int) -> tuple[np.ndarray, Any]:
    """Batches of both sides in turn."""
    from ivjoin import SymmetricHashJoin

    left, right = record(weak.left(n), weak.types), record(weak.right(n), weak.types)
    op = SymmetricHashJoin(left.schema, right.schema, **call(weak, how))
    out: list[pa.RecordBatch] = []
    for a, b in zip(left.to_batches(max_chunksize=batch), right.to_batches(max_chunksize=batch)):
        out += op.push("left", a)
        out += op.push("right", b)
    before = op.metrics.left_rows_retired + op.metrics.right_rows_retired
    out += op.finish()
    assert before >= 2 * n - 10 * weak.window - 2 * batch
    return out_pairs(how, out, op.schema), op.metrics


@lru_cache(maxsize=2)
def matches(weak: Weak) -> np.ndarray:
    return expected(weak, FAST)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("weak", WEAK, ids=lambda w: w.name.replace(" ", "-"))
def test_state_is_about_the_window(weak: Weak, how: str) -> None:
    n = FAST
    got, metrics = run(weak, how, n, BATCH)
    assert metrics.peak_state_rows <= 10 * weak.window + 2 * BATCH
    np.testing.assert_array_equal(got, joined(how, matches(weak), n, n))


@pytest.mark.soak
@pytest.mark.parametrize("weak", WEAK, ids=lambda w: w.name.replace(" ", "-"))
def test_state_is_about_the_window_after_a_million_rows(weak: Weak) -> None:
    batch = 4096
    got, metrics = run(weak, "left_anti", LONG, batch)
    assert metrics.peak_state_rows <= 10 * weak.window + 2 * batch
    np.testing.assert_array_equal(got, joined("left_anti", expected(weak, LONG), LONG, LONG))


@pytest.mark.nojit
def test_state_is_about_the_window_interpreted() -> None:
    weak = WEAK[4]
    got, metrics = run(weak, "full", 400, 16)
    assert metrics.peak_state_rows <= 10 * weak.window + 32
    np.testing.assert_array_equal(got, joined("full", expected(weak, 400), 400, 400))


def test_reads_from_the_side_that_lags() -> None:
    """Ten left rows to one right row: read in step with time, not in step with batches."""
    import ivjoin

    n = 50_000
    left = pa.table({"n": np.arange(n), "a": np.arange(n) // 10})
    right = pa.table({"n": np.arange(n // 10), "a": np.arange(n // 10)})
    for first, second in ((left, right), (right, left)):
        stream = ivjoin.band_join(
            first.to_reader(max_chunksize=BATCH), second.to_reader(max_chunksize=BATCH),
            condition="l.a BETWEEN r.a - 10 AND r.a + 10", left_order="a", right_order="a",
        )
        rows = sum(b.num_rows for b in stream)
        # Each of the n/10 units has ten rows here and one there, 21 units in reach but at the ends.
        assert rows == n * 21 - 10 * 110
        assert stream.metrics.peak_state_rows <= 10 * (100 + 10) + 10 * 2 * BATCH


def test_peak_of_a_pull_at_equal_rates() -> None:
    import ivjoin

    left = record(ints(FAST), {})
    stream = ivjoin.band_join(
        left.to_reader(max_chunksize=BATCH), left.to_reader(max_chunksize=BATCH), how="full",
        condition="l.a BETWEEN r.a - 10 AND r.a + 10", left_order="a", right_order="a",
    )
    assert sum(b.num_rows for b in stream) == FAST * 21 - 110
    assert stream.metrics.peak_state_rows <= 100 + 2 * BATCH


@pytest.mark.parametrize("how", ["inner", "full", "left_anti", "right_anti", "left_semi", "right_semi"])
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("short", ["left", "right"])
def test_one_input_ends_after_a_hundredth_of_the_other(how: str, ordered: bool, short: str) -> None:
    import ivjoin

    n = 20_000
    full, head = record({"a": ints(n)["a"]}, {}), record({"a": ints(n // 100)["a"]}, {})
    left, right = (head, full) if short == "left" else (full, head)
    order = {"left_order": "a", "right_order": "a"} if ordered else {}
    stream = ivjoin.band_join(
        left.to_reader(max_chunksize=BATCH), right.to_reader(max_chunksize=BATCH), how=how, condition="abs(l.a - r.a) <= 10", **order,
    )
    rows = sum(b.num_rows for b in stream)
    met, close = 200 * 21 - 55, 210
    lone = n - close
    assert rows == {
        "inner": met, "full": met + lone, "left_anti": 0 if short == "left" else lone, "right_anti": 0 if short == "right" else lone,
        "left_semi": 200 if short == "left" else close, "right_semi": 200 if short == "right" else close,
    }[how]
    assert stream.metrics.peak_state_rows <= 2 * (n // 100) + 2 * BATCH


@pytest.mark.parametrize("how", ["inner", "full", "left_anti", "right_semi"])
def test_nothing_is_kept_once_the_sides_have_passed_each_other(how: str) -> None:
    """One side rises, the other falls: when they have crossed, no row can match any more, the future ones included."""
    from ivjoin import Order, SymmetricHashJoin

    n = 4_000
    up = record({"a": np.arange(n)}, {})
    down = record({"a": np.arange(n)[::-1]}, {})
    op = SymmetricHashJoin(
        up.schema, down.schema, condition="abs(l.a - r.a) < 20", how=how, left_order="a", right_order=Order("a", descending=True),
    )
    out = []
    for a, b in zip(up.to_batches(max_chunksize=100), down.to_batches(max_chunksize=100)):
        out += op.push("left", a)
        out += op.push("right", b)
        if a.column("a")[-1].as_py() > n // 2 + 150:
            assert op.metrics.state_rows == 0
    out += op.finish()
    met = n * 39 - 380
    assert sum(b.num_rows for b in out) == {"inner": met, "full": met, "left_anti": 0, "right_semi": n}[how]


def test_a_one_sided_band_prunes_one_side() -> None:
    """``2 * l.a < 2 * r.a + 5``: a left row waits for ever, a right row only until the left has passed it."""
    from ivjoin import SymmetricHashJoin

    n = 5_000
    t = pa.table({"k": np.arange(n), "a": np.arange(n)})
    op = SymmetricHashJoin(t.schema, t.schema, on="k", condition="2 * l.a < 2 * r.a + 5", left_order="a", right_order="a")
    rows = 0
    for b in t.to_batches(max_chunksize=100):
        rows += sum(x.num_rows for x in op.push("left", b))
        rows += sum(x.num_rows for x in op.push("right", b))
    assert rows == n
    assert op.metrics.right_rows_retired >= n - 110


def test_bytes_are_given_back() -> None:
    """The memory of retired rows is counted out again, wide payload included."""
    from ivjoin import SymmetricHashJoin

    n = 20_000
    t = pa.table({"a": np.arange(n), "text": ["x" * 1000] * n})
    op = SymmetricHashJoin(t.schema, t.schema, condition="l.a = r.a", left_order="a", right_order="a")
    for b in t.to_batches(max_chunksize=BATCH):
        for side in ("left", "right"):
            assert all(x.num_rows for x in op.push(side, b))
    assert 0 < op.metrics.peak_state_bytes <= 40 * BATCH * 1100
    assert op.metrics.state_bytes <= op.metrics.peak_state_bytes
