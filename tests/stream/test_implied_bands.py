"""Conditions that only the residual decides: an implied band selects the pairs of rows to compare."""

from __future__ import annotations

import re
import warnings
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import ivjoin
from ivjoin.errors import SlowJoinWarning
from ivjoin.plan.cache import planned
from ivjoin.stream.sort.axis import compared_share
from ivjoin.stream.sources import compared

N = 1100  # rows a side: more pairs than are joined as they come
WIDTH = 60


def table(seed: int) -> pa.Table:
    """Times over a long stretch, in no order, with lengths, a few open ends, and some NULL and NaN."""
    rng = np.random.default_rng(seed)
    t = rng.permutation(N) * 50 + rng.integers(0, 50, N)
    x = t + 1.0
    return pa.table({
        "i": np.arange(N), "t": t, "b": pa.array(t + rng.integers(1, 2 * WIDTH, N), mask=rng.random(N) < 0.01),
        "n": pa.array(t, mask=rng.random(N) < 0.005), "ts": pa.array(t * 1_000_000, pa.timestamp("us")),
        "x": pa.array(np.where(rng.random(N) < 0.005, np.nan, x)), "y": x + 3,
        "d": pa.array(t, pa.int32()).cast(pa.decimal128(10, 0)).cast(pa.decimal128(12, 2)),
        "day": pa.array(t, pa.int32()).view(pa.date32()),
        "kind": rng.integers(0, 200, N),
    })  # fmt: skip


LEFT, RIGHT = table(1), table(2)
# As ivjoin reads it, and as DuckDB does where it has other words for it.
SHAPES: list[tuple[str, str]] = [
    ("r.t <= l.t AND (r.b IS NULL OR l.t < r.b)", ""),
    ("r.t <= l.t AND (l.t < r.b OR r.b IS NULL OR l.kind = 7)", ""),
    ("r.t <= l.t AND (r.kind = 3 OR l.t < r.b)", ""),
    ("r.t <= l.t AND CASE WHEN r.b IS NULL THEN TRUE ELSE l.t < r.b END", ""),
    ("r.t <= l.t AND CASE WHEN r.b IS NOT NULL THEN l.t < r.b ELSE TRUE END", ""),
    ("r.t <= l.t AND coalesce(l.t < r.b, TRUE)", ""),
    ("r.t <= l.t AND l.t < coalesce(r.b, l.t + 1)", ""),
    ("r.t <= l.t AND NOT (l.t >= coalesce(r.b, 99999999))", ""),
    ("r.t <= l.t AND NOT (l.t >= coalesce(r.b, l.t + 1))", ""),
    ("NOT (l.t < r.t OR l.t >= coalesce(r.b, 99999999))", ""),
    ("NOT (l.y < r.y OR l.y >= coalesce(r.b, l.y + 9))", ""),
    ("(l.t - r.t) / 1000.0 BETWEEN 0 AND 0.05", "(l.t - r.t) / 1000::DOUBLE BETWEEN 0 AND 0.05"),
    ("abs(l.t - r.t) / 7.0 <= 5", "abs(l.t - r.t) / 7::DOUBLE <= 5"),
    ("floor((l.t - r.t) / 10.0) = 3", "floor((l.t - r.t) / 10::DOUBLE) = 3"),
    ("round(l.x - r.x) = 3", ""),
    ("(l.d - r.d) / 3 BETWEEN 0 AND 20", "(l.d - r.d) / 3::DOUBLE BETWEEN 0 AND 20"),
    ("timestampdiff(SECOND, r.ts, l.ts) BETWEEN 0 AND 50", "epoch(l.ts) - epoch(r.ts) BETWEEN 0 AND 50"),
    ("timestampdiff(MICROSECOND, r.ts, l.ts) BETWEEN 0 AND 50000000", "epoch(l.ts) - epoch(r.ts) BETWEEN 0 AND 50"),
    ("months_between(l.day, r.day) = 2",
     "12 * (year(l.day) - year(r.day)) + month(l.day) - month(r.day) = 2 AND (day(l.day) = day(r.day) "
     "OR (last_day(l.day) = l.day AND last_day(r.day) = r.day))"),
    ("l.y / r.y BETWEEN 0.999 AND 1.001", ""), ("abs(l.y / r.y - 1) < 0.001", ""), ("abs(l.y - r.y) / r.y < 0.001", ""),
    ("ln(l.y / r.y) BETWEEN -0.001 AND 0.001", ""), ("coalesce(l.n - r.n, 0) BETWEEN 0 AND 50", ""),
    ("l.n - r.n BETWEEN 0 AND 50 OR r.n IS NULL", ""),
]


def share(condition: str, how: str = "inner") -> float:
    """Of all pairs of rows, the share for which the condition is decided, by the bands of its plan."""
    plan = planned(LEFT.schema, RIGHT.schema, condition=condition, how=how)
    (left,), (right,) = LEFT.combine_chunks().to_batches(), RIGHT.combine_chunks().to_batches()
    return compared_share(plan, (left, right)) if plan.separation.residual else 0.0


def ids(out: pa.Table) -> pa.Table:
    return out.sort_by([(n, "ascending") for n in out.schema.names])


@pytest.mark.one_in(7)
@pytest.mark.parametrize("condition, text", SHAPES)
def test_few_pairs_are_compared(condition: str, text: str) -> None:
    stream = ivjoin.band_join(LEFT, RIGHT, condition=condition, columns=["i", "i_right"])
    got = stream.to_arrow()
    with duckdb.connect(config={"threads": 1}) as db:
        db.register("l", LEFT)
        db.register("r", RIGHT)
        want = db.sql(f"SELECT l.i, r.i AS i_right FROM l, r WHERE {text or condition}").arrow().read_all()
    assert want.num_rows > 20
    assert ids(got).equals(ids(want.cast(got.schema)))
    assert stream.sorting.startswith("neither side was ordered: both were sorted, by")
    assert share(condition) * N * N < 3 * want.num_rows + 8 * N


def test_explain_shows_that_it_is_sorted() -> None:
    text = ivjoin.explain(LEFT, RIGHT, condition="r.t <= l.t AND (r.b IS NULL OR l.t < r.b)")
    assert "neither side is ordered: both will be sorted by l.t and r.t, about" in text
    assert "band term* l.t - r.b <= 0" in text
    assert "pairs" not in text


EVERY_PAIR = ["abs(l.t - r.t) > 5", "l.kind * r.kind % 7 = 3", "l.t < r.t OR l.y < r.y", "l.t > 3 AND l.t + r.t <> 5"]


@pytest.mark.parametrize("condition", EVERY_PAIR)
def test_comparing_every_pair_warns_once(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compared, "MANY", N * N - 1)
    said = re.escape(f"about {N * N:,} pairs of rows are compared")
    with pytest.warns(SlowJoinWarning, match=said) as seen:
        for _ in ivjoin.band_join(LEFT, RIGHT, condition=condition, columns=["i"], batch_size=100_000):
            pass
    assert len(seen) == 1
    assert seen[0].filename == __file__
    assert f"{said.replace(chr(92), '')}" in ivjoin.explain(LEFT, RIGHT, condition=condition)
    assert "every left row is compared with every right row" in ivjoin.explain(
        LEFT.schema, RIGHT.schema, condition=condition
    )


@pytest.mark.parametrize("condition, options", [
    ("l.t - r.t BETWEEN 0 AND 5", {}), ("l.kind = r.kind AND l.y <> r.y", {}), ("l.t >= r.t", {}), (None, {}),
    ("abs(l.t - r.t) > 5", {"many": N * N}),
])  # fmt: skip
def test_others_do_not_warn(condition: str | None, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compared, "MANY", options.get("many", 1000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream = ivjoin.band_join(LEFT, RIGHT, condition=condition, columns=["i"], allow_cross=condition is None)
        assert stream.to_arrow().num_rows


def test_texts_warn_sooner_and_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compared, "MANY", 16 * 99)
    texts = pa.table({"s": [f"{i:03}" for i in range(10)]})
    join = ivjoin.band_join(texts, texts, condition="l.s BETWEEN r.s AND r.s || '5'")
    with pytest.warns(SlowJoinWarning, match="about 100 pairs .* of numbers or times: texts give no band"):
        assert join.to_arrow().num_rows == 10


def test_a_band_with_one_end_warns_of_the_pairs_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compared, "MANY", 1000)
    stream = ivjoin.band_join(LEFT, RIGHT, condition="l.t >= r.t AND l.kind * r.kind > 3000", columns=["i"])
    with pytest.warns(SlowJoinWarning, match=r"about \d{3},\d{3} pairs of rows are compared"):
        stream.to_arrow()
