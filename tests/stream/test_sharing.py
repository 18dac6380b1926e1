"""Joins of small tables whose conditions differ in constants share a plan, and have the rows of a plan of their own."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import oracle
import pyarrow as pa
import pytest

import ivjoin
from ivjoin.conditions.read.constants import shape_of
from ivjoin.expr.literals import literal
from ivjoin.multi import question
from ivjoin.plan import cache
from ivjoin.stream import sharing

_MOST, _LEAST = 2**63 - 1, -(2**63)


@pytest.fixture(autouse=True)
def _no_plans() -> Iterator[None]:
    cache.forget_plans()
    yield
    cache.forget_plans()


def _table(seed: int, rows: int = 8, wild: bool = False) -> pa.Table:
    draw = random.Random(seed)
    ends = (0, -1, 127, _LEAST, _MOST) if wild else (0, 9)
    whole = [draw.choice([None, *ends, *range(-5, 6)]) for _ in range(rows)]
    return pa.table({
        "k": [draw.randrange(2) for _ in range(rows)], "a": pa.array(whole, pa.int64()),
        "v": pa.array([draw.choice([None, float("nan"), -0.0, 0.5, 2.5, 1e300]) for _ in range(rows)], pa.float64()),
        "d": pa.array([Decimal(draw.randrange(-300, 300)).scaleb(-2) for _ in range(rows)], pa.decimal128(8, 2)),
        "t": pa.array([datetime(2024, 1, 1) + timedelta(seconds=draw.randrange(9)) for _ in range(rows)]),
        "s": [draw.choice(["a", "b", "", None]) for _ in range(rows)],
    })  # fmt: skip


def _rows(table: pa.Table) -> Counter[str]:
    return Counter(str(row) for row in table.to_pylist())


def _result(left: pa.Table, right: pa.Table, condition: Any, **options: Any) -> tuple[Any, bool]:
    try:
        stream = ivjoin.band_join(left, right, condition=condition, **options)
        is_shared = stream._written is not None
        table = stream.read_all()
        return (_rows(table), table.schema), is_shared
    except ivjoin.IvjoinError as e:
        return (type(e), str(e)), False


@pytest.mark.parametrize(("text", "shape", "constants"), [
    ("l.t <= r.t + 5 AND l.v < 2.50", "l.t <= r.t + `:0` AND l.v < `:1`", [5, Decimal("2.50")]),
    ("l.a > -5 and l.b - -5 < 1e1", "l.a > `:0` and l.b - `:1` < `:2`", [-5, -5, 10.0]),
    ("l.a BETWEEN 1 AND 2 AND 3 = l.b", "l.a BETWEEN `:0` AND `:1` AND `:2` = l.b", [1, 2, 3]),
    ("l.s = 'x' OR l.c1 < :w", "l.s = `:0` OR l.c1 < `:1`", ["x", 7]),
    ("l.t < r.t + INTERVAL '2' MINUTES", "l.t < r.t + `:0`", [timedelta(minutes=2)]),
    ("l.a IN (1, 2) AND l.s LIKE 'x%' AND l.b < 3", "l.a IN (1, 2) AND l.s LIKE 'x%' AND l.b < `:0`", [3]),
    ("date_trunc('day', l.t) < r.t AND 2 * l.a > 4", "date_trunc('day', l.t) < r.t AND 2 * l.a > `:0`", [4]),
    ("l.a < 2 * -5", None, []), ("l.a < 5L", None, []), ("l.s = 'it''s'", None, []), ("l.a < 5 -- '", None, []),
    ("l.a < r.a + INTERVAL 1 MONTH", None, []), ("l.a < :none", None, []), ("l.`5` = r.`a 5`", None, []),
])  # fmt: skip
def test_which_constants_are_separated(text: str, shape: str | None, constants: list[Any]) -> None:
    found = shape_of(text, {"w": 7, "none": None})
    if shape is None:
        assert found is None
    else:
        assert found is not None
        assert (found[0], found[1]) == (shape, [literal(c) for c in constants])


def test_other_constants_need_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    make = cache.make_plan
    monkeypatch.setattr(cache, "make_plan", lambda spec: made.append(spec) or make(spec))
    t = _table(1)
    ivjoin.band_join(t, t, "k", "l.a BETWEEN r.a AND r.a + 20").read_all()  # the first join may load kernels by another
    made.clear()
    near = ivjoin.left("a") - ivjoin.right("a")
    for w in range(2, 12):
        ivjoin.band_join(t, t, "k", f"l.a BETWEEN r.a AND r.a + {w} AND l.v < {w}.5").read_all()
    assert len(made) == 3  # w = 2; 3, which shows the shape; and 10, whose decimal has another type, is planned once
    made.clear()
    for w in range(2, 9):
        ivjoin.band_join(t, t, "k", "l.a BETWEEN r.a AND r.a + :w", params={"w": w}).read_all()
        ivjoin.band_join(t, t, "k", (near <= w) & (ivjoin.left("v") < w + 0.5)).read_all()
    assert len(made) == 3  # the shape of the text is that of the first join


def test_other_constants_of_many_inputs_need_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    make = question._resolved
    monkeypatch.setattr(question, "_resolved", lambda *args, **more: made.append(args) or make(*args, **more))
    t = _table(2)
    for w in range(2, 9):
        text = f"a.k = b.k AND b.k = c.k AND a.a BETWEEN b.a AND b.a + {w} AND c.d < {w}.50"
        stream = ivjoin.multi_join({"a": t, "b": t, "c": t}, text, columns=["a_a", "b_a", "c_d"])
        got = _rows(stream.read_all())
        cache.forget_plans() if w == 2 else None
        own = Counter(
            str({"a_a": x["a"], "b_a": y["a"], "c_d": z["d"]})
            for x in t.to_pylist() for y in t.to_pylist() for z in t.to_pylist()
            if x["k"] == y["k"] == z["k"] and None not in (x["a"], y["a"]) and x["a"] - w <= y["a"] <= x["a"]
            and z["d"] < Decimal(f"{w}.50")
        )  # fmt: skip
        assert got == own
    assert len(made) == 3
    assert stream._written is not None
    assert stream.views == [("a", "b")]


def test_a_shared_join_shows_its_own_constants() -> None:
    t = _table(3)
    for w in (3, 4, 5, 6):
        stream = ivjoin.band_join(t, t, "k", f"l.a <= r.a + {w}", columns=["a"])
    assert stream._written is not None
    assert "r.a + 6" in repr(stream)
    assert "r.a + 6" in stream.explain()
    assert stream.schema == pa.schema({"a": pa.int64()})
    assert stream.to_arrow().schema == stream.schema
    assert (stream.metrics.left_rows_in, stream.metrics.right_rows_in) == (8, 8)
    with pytest.raises(ivjoin.ColumnError, match="columns contains 'b', which the output does not have: k, a, v"):
        ivjoin.band_join(t, t, "k", "l.a <= r.a + 8", columns=["b"])


def test_an_error_names_the_constant() -> None:
    t = pa.table({"a": [_MOST - 6, 1]})
    for w in (3, 4, 5):
        assert ivjoin.band_join(t, t, condition=f"l.a <= r.a + {w}").to_arrow().num_rows == 3
    with pytest.raises(ivjoin.EvaluationError, match=r"integer overflow in r.a \+ 7"):
        ivjoin.band_join(t, t, condition="l.a <= r.a + 7").to_arrow()


@pytest.mark.parametrize("params", [[5], 5, {"w": [1]}, {"w": 5, "a b": 1}, {3: 4, "w": 5}, {"v": 5}])
def test_wrong_parameters_are_refused_for_a_known_shape(params: Any) -> None:
    t = _table(4)
    for w in (3, 4, 5):
        ivjoin.band_join(t, t, condition="l.a <= r.a + :w", params={"w": w})
    with pytest.raises(ivjoin.IvjoinError):
        ivjoin.band_join(t, t, condition="l.a <= r.a + :w", params=params)


@pytest.mark.parametrize("seed", range(3))
def test_rows_by_the_oracle(seed: int) -> None:
    left, right = _table(10 + seed), _table(20 + seed)
    lefts, rights = left.to_pylist(), right.to_pylist()
    draw, is_shared = random.Random(seed), 0
    for _ in range(6):
        w, low = draw.randrange(0, 9), draw.randrange(-5, 5)
        for how in ("inner", "full", "left_anti"):
            stream = ivjoin.band_join(
                left, right, "k", f"l.a - r.a BETWEEN {low} AND {low + w} AND r.d > {low}.25 OR l.s = 'a'", how
            )
            is_shared += stream._written is not None

            def condition(x: Any, y: Any, w: int = w, low: int = low) -> bool:
                known = x["a"] is not None and y["a"] is not None
                near = known and low <= x["a"] - y["a"] <= low + w and y["d"] > Decimal(f"{low}.25")
                return near or x["s"] == "a"

            pairs = oracle.pairs(lefts, rights, how, [(lambda x: x["k"], lambda y: y["k"], False)], condition)
            assert stream.read_all().num_rows == len(pairs)
    assert is_shared >= 9


_SHAPES = {
    "n": ["l.a BETWEEN r.a AND r.a + {}", "abs(l.a - r.a) <= {}", "l.v < {}", "l.d = {}", "{} < r.a + l.a",
          "NOT (l.d > {})", "l.a < {} AND l.a > {}", "coalesce(l.v, 0) > {}", "(l.a > {} OR r.v <=> {})"],
    "t": ["l.t BETWEEN r.t AND r.t + INTERVAL {} SECONDS", "l.t - r.t < INTERVAL '{}' MINUTE"],
    "s": ["l.s = '{}'", "r.s <> '{}'", "l.t >= '2024-01-01 00:00:0{}'"],
}  # fmt: skip
_VALUES = {
    "n": [["0", "1", "-1", "5", "127"], ["0.5", "-0.5", "2.5"], ["1e0", "-0e0", "1e300"],
          [str(2**62), str(_MOST), str(_LEAST)], ["0.50", "-1.25"]],
    "t": [["0", "1", "3", "100000000"]], "s": [["a", "b", "1", "3"]],
}  # fmt: skip


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 40), marks=pytest.mark.slow)])
def test_rows_of_a_plan_of_their_own(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    is_shared = 0
    for seed in seeds:
        draw = random.Random(seed)
        left, right = _table(100 + seed, wild=seed % 3 == 0), _table(200 + seed, wild=seed % 3 == 1)
        kinds = draw.choices("nnts", k=draw.randrange(1, 4))
        parts = [(draw.choice(_SHAPES[k]), draw.choice(_VALUES[k])) for k in kinds]
        join = draw.choice([" AND ", " AND ", " OR "])
        options = {"how": draw.choice(oracle.HOWS), "on": draw.choice(["k", None])}
        for _ in range(6):
            condition = join.join(p.format(*(draw.choice(v) for _ in range(p.count("{}")))) for p, v in parts)
            monkeypatch.setattr(sharing, "_MOST_ROWS", 2048)
            found, shared = _result(left, right, condition, **options)
            monkeypatch.setattr(sharing, "_MOST_ROWS", -1)
            assert found == _result(left, right, condition, **options)[0], condition
            is_shared += shared
    assert is_shared > len(seeds)


def test_a_constant_that_no_row_reaches_hides_no_error() -> None:
    none = pa.array([None], pa.int64())
    left, right = pa.table({"a": pa.array([100], pa.int8()), "c": none}), pa.table({"a": [_LEAST]})
    for w in (-7, -8, -9, 7, 8, 9):
        with pytest.raises(ivjoin.EvaluationError, match="integer overflow in CAST"):
            ivjoin.band_join(left, right, condition=f"abs(l.a - r.a) <= {w} AND l.c IS NULL OR l.c > 20").read_all()
