"""Shedding: a subset of the rows, in the right order of priority, and an honest report of what is missing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from memory.kinds import KINDS, QUESTIONS, piece, schema_of
from oracle import rows_of

from ivjoin import Shed, SymmetricHashJoin
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.memory.lost_matches import Recall
from ivjoin.shedding.policies import POLICIES, DecayedCounts, DecayedSample

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "v": pa.float64()})
KINDS_OF_ROWS = [(q, k) for i, q in enumerate(["a band", "no key", "semi", "slow order", "small batches"])
                 for j, k in enumerate(KINDS) if (i + j) % 4 == 0]  # fmt: skip


def joined(
    seed: int, keys: int = 40, skewed: bool = True, steps: int = 40, n: int = 60,
    condition: str = "abs(l.t - r.t) <= 600", on: str | None = "k", **limit: Any,
) -> tuple[Counter[str], JoinMetrics]:
    """All rows of a join of a skewed stream with a uniform one, and what it counted."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, keys + 1)
    op = SymmetricHashJoin(SCHEMA, SCHEMA, on=on, condition=condition, left_order="t", right_order="t", **limit)
    found: Counter[str] = Counter()
    for i in range(steps):
        for side in ("left", "right"):
            much = skewed and side == "left"
            k = rng.choice(keys, n, p=weights / weights.sum()) if much else rng.integers(0, keys, n)
            t = np.sort(rng.integers(0, n, n)) + i * n
            v = np.arange(n) + i * n + 0.0
            found += rows_of(op.push(side, pa.record_batch([k, t, v], schema=SCHEMA)))
    found += rows_of(op.finish())
    return found, op.metrics


@pytest.mark.one_in(11)
@pytest.mark.parametrize(("question", "kind"), KINDS_OF_ROWS)
def test_no_row_is_invented(question: str, kind: str) -> None:
    """Whatever is stored, and with a snapshot now and then: a subset, within the limit."""
    seed = len(question) * 31 + len(kind)
    policy = POLICIES[(len(question) + 2 * len(kind)) % 3]
    rng = np.random.default_rng(seed)
    key = [pa.int64(), pa.string()][seed % 2]
    schema = schema_of(kind, key)
    free = SymmetricHashJoin(schema, schema, **QUESTIONS[question])
    limit: dict[str, Any] = {"memory_limit": 40_000, "when_full": Shed(policy, shared=bool(seed % 3))}
    op = SymmetricHashJoin(schema, schema, **QUESTIONS[question], **limit)
    want: Counter[Any] = Counter()
    got: Counter[Any] = Counter()
    for i in range(14):
        for side in ("left", "right"):
            batch = piece(kind, key, rng, 25 * i, int(rng.choice([1, 60, 200])), question)
            want += rows_of(free.push(side, batch))
            got += rows_of(op.push(side, batch))
            assert op.metrics.state_bytes <= 40_000
        if i in (5, 9):
            shed = op.metrics.shed_left, op.metrics.shed_right
            op = SymmetricHashJoin.restore(op.snapshot(), **limit)
            assert (op.metrics.shed_left, op.metrics.shed_right) >= shed
    want += rows_of(free.finish())
    got += rows_of(op.finish())
    assert not got - want
    if op.metrics.shed_left + op.metrics.shed_right == 0:
        assert got == want
    assert question != "slow order" or op.metrics.shed_left + op.metrics.shed_right > 0


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_shed_while_the_state_fits(policy: str) -> None:
    whole, _ = joined(1)
    got, m = joined(1, memory_limit="10MB", when_full=Shed(policy))
    assert got == whole
    assert (m.shed_left, m.shed_right, m.recall, m.recall_error) == (0, 0, None, None)


@pytest.mark.slow
def test_likely_rows_stay() -> None:
    whole, _ = joined(3)
    shares = {}
    for policy in POLICIES:
        got, m = joined(3, memory_limit="36kB", when_full=Shed(policy))
        assert m.shed_left > 0 < m.shed_right
        shares[policy] = got.total() / whole.total()
    assert shares["prob"] > shares["life"] - 0.05
    assert shares["life"] > shares["random"] + 0.05


@pytest.mark.slow
def test_a_band_is_worth_what_lies_in_it() -> None:
    """Without keys: rows whose band on an unordered column holds much of the other side stay."""
    band = "abs(l.t - r.t) <= 600 AND abs(l.k - r.k) <= 1"
    whole, _ = joined(4, keys=300, on=None, condition=band)
    share = {}
    for policy in ("random", "prob"):
        got, _ = joined(4, keys=300, on=None, condition=band, memory_limit="36kB", when_full=Shed(policy))
        assert not got - whole
        share[policy] = got.total() / whole.total()
    assert share["prob"] > 1.1 * share["random"]


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "good"), [(4, 3), pytest.param(60, 54, marks=pytest.mark.soak)], ids=["few", "many"])
def test_the_estimate_is_right_within_its_error(runs: int, good: int) -> None:
    right = 0
    for seed in range(runs):
        kind = {"keys": (3, 20, 60)[seed % 3], "steps": 30}
        full = Shed(POLICIES[seed % 3], shared=seed % 4 == 0)
        limit = {"memory_limit": (30_000, 36_000)[seed % 2], "when_full": full}
        whole, _ = joined(seed, **kind)  # type: ignore[arg-type]
        got, m = joined(seed, **kind, **limit)  # type: ignore[arg-type]
        assert m.recall is not None
        assert m.recall_error is not None
        assert m.recall_error < 0.25
        right += abs(got.total() / whole.total() - m.recall) <= m.recall_error + 1e-9
    assert right >= good


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("on", "limit", "band"), [("k", 48_000, ""), (None, 60_000, " AND abs(l.k - r.k) <= 1")], ids=["key", "band"]
)
@pytest.mark.parametrize("policy", POLICIES)
def test_where_all_that_was_dropped_is_looked_at_nothing_is_estimated(
    policy: str, on: str | None, limit: int, band: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the batch on its way count, too, for which a dropped row is dead once it has come."""
    monkeypatch.setattr(Recall, "_is_large", lambda self: False)
    question: dict[str, Any] = {"on": on, "condition": f"abs(l.t - r.t) <= 600{band}"}
    whole, _ = joined(5, **question)
    got, m = joined(5, **question, memory_limit=limit, when_full=Shed(policy))
    assert m.shed_left > 0
    assert m.recall == pytest.approx(got.total() / whole.total(), rel=1e-9)
    assert m.recall_error == 0


@pytest.mark.one_in(11)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("snapshots", [False, True])
def test_reported_losses_never_shrink(seed: int, snapshots: bool) -> None:
    """One key, so that the few rows of a sample that is halved again and again have nearly all of the matches."""
    limit: dict[str, Any] = {"memory_limit": 70_000, "when_full": Shed("random", shared=True)}
    question: dict[str, Any] = {"on": "k", "condition": "l.t BETWEEN r.t - 300 AND r.t"}
    free, op = (SymmetricHashJoin(SCHEMA, SCHEMA, **question, **more) for more in ({}, limit))
    rng = np.random.default_rng(seed)
    lost = 0.0
    for i in range(24):
        for side, j in (("left", i), ("right", i - 5)):
            t = np.sort(rng.integers(0, 100, 100)) + 100 * j
            batch = pa.record_batch([np.ones(100, np.int64), t, rng.random(100)], schema=SCHEMA)
            for each in (free, op):
                list(each.push(side, batch))
        if snapshots and i % 9 == 5:
            op = SymmetricHashJoin.restore(op.snapshot(), **limit)
        op.snapshot()  # brings the estimate up to date
        m = op.metrics
        if m.recall is not None:
            now = m.rows_out / m.recall - m.rows_out
            assert now >= lost * (1 - 1e-9)
            lost = now
    list(free.finish())
    list(op.finish())
    m = op.metrics
    assert lost > 0
    assert m.recall is not None
    assert m.recall_error is not None
    assert abs(m.rows_out / free.metrics.rows_out - m.recall) <= m.recall_error


@pytest.mark.slow
def test_a_restored_operator_goes_on_estimating() -> None:
    limit: dict[str, Any] = {"memory_limit": 30_000, "when_full": Shed("random")}
    question: dict[str, Any] = {"on": "k", "condition": "abs(l.t - r.t) <= 600", "left_order": "t", "right_order": "t"}
    free, op = (SymmetricHashJoin(SCHEMA, SCHEMA, **question, **more) for more in ({}, limit))
    rng = np.random.default_rng(9)
    for i in range(30):
        for side in ("left", "right"):
            batch = pa.record_batch([rng.integers(0, 9, 60), np.arange(60) + 60 * i, rng.random(60)], schema=SCHEMA)
            for each in (free, op):
                list(each.push(side, batch))
        if i % 7 == 3:
            before = op.metrics
            op = SymmetricHashJoin.restore(op.snapshot(), **limit)
            assert (op.metrics.shed_left, op.metrics.rows_out) == (before.shed_left, before.rows_out)
    list(free.finish())
    list(op.finish())
    m = op.metrics
    assert m.shed_left > 0
    assert m.recall is not None
    assert m.recall_error is not None
    assert abs(m.rows_out / free.metrics.rows_out - m.recall) <= 1.5 * m.recall_error
    assert m.recall < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("limited", [False, True])
def test_restored_rows_that_do_not_fit_are_counted(limited: bool) -> None:
    question: dict[str, Any] = {"on": "k", "condition": "abs(l.t - r.t) <= 600", "left_order": "t", "right_order": "t"}
    limit: dict[str, Any] = {"memory_limit": 90_000, "when_full": Shed("random")}
    rng = np.random.default_rng(3)
    batches = [
        pa.record_batch([rng.integers(0, 9, 60), np.arange(60) + 60 * i, rng.random(60)], schema=SCHEMA)
        for i in range(60)
    ]
    free, op = SymmetricHashJoin(SCHEMA, SCHEMA, **question), SymmetricHashJoin(SCHEMA, SCHEMA, **question, **(
        limit if limited else {}
    ))  # fmt: skip
    for i, batch in enumerate(batches):
        if i == 30:
            before = op.metrics
            op = SymmetricHashJoin.restore(op.snapshot(), **limit | {"memory_limit": 24_000})
            m = op.metrics
            gone = m.shed_left + m.shed_right - before.shed_left - before.shed_right
            assert gone == before.state_rows - m.state_rows > 100
        for each in (free, op):
            for side in ("left", "right"):
                list(each.push(side, batch))
    list(op.finish())
    m = op.metrics
    assert m.recall is not None
    assert m.recall_error is not None
    assert abs(m.rows_out / free.metrics.rows_out - m.recall) <= 1.5 * m.recall_error
    assert m.recall < 0.95


def test_counts_forget() -> None:
    counts = DecayedCounts(1024, half_life=100)
    counts.see(np.full(1000, 7))
    often = float(counts.of(np.array([7]))[0])
    assert float(counts.of(np.array([8]))[0]) == 0
    for _ in range(40):  # unit and counters are brought back before they leave the range of doubles
        counts.see(np.full(1000, 8))
    assert float(counts.of(np.array([7]))[0]) < 1e-6 * often
    a, b = counts.of(np.array([8, 9]))
    assert a > 0 == b


def test_a_sample_forgets() -> None:
    sample = DecayedSample(256, np.random.default_rng(1))
    low, high = np.array([0, 90, 5]), np.array([50, 200, 4])
    assert sample.mass(low, high).tolist() == [1, 1, 1]
    sample.see(np.arange(100).repeat(20), 500.0)
    here = sample.mass(low, high)
    assert 0.1 < here[0] < 0.8
    assert here[1] < 0.5
    assert 0 < here[2] < 0.01
    sample.see(np.full(20_000, 150), 500.0)
    assert sample.mass(low, high)[1] > 0.99


@pytest.mark.one_in(2)
@pytest.mark.parametrize("full", ["shed", "raise"])
def test_unused_keys_take_no_memory_from_rows(full: Any) -> None:
    """Many keys, few rows at a time: ids of unused keys are reclaimed before the limit is reached."""
    schema = pa.schema({"k": pa.int64(), "t": pa.int64()})
    question: dict[str, Any] = {"on": "k", "condition": "abs(l.t - r.t) <= 100", "left_order": "t", "right_order": "t"}
    free, op = (
        SymmetricHashJoin(schema, schema, **question, **more)
        for more in ({}, {"memory_limit": 50_000, "when_full": full})
    )
    rng = np.random.default_rng(22)
    for i in range(400):
        for side in ("left", "right"):
            t = np.sort(rng.integers(0, 16, 16)) + 16 * i
            batch = pa.record_batch([rng.integers(0, 5000, 16), t], schema=schema)
            assert rows_of(op.push(side, batch)) == rows_of(free.push(side, batch))
    assert free.metrics.peak_state_bytes > 1.2 * 50_000
    assert op.metrics.peak_state_bytes <= 50_000
    assert op.metrics.shed_left == op.metrics.shed_right == 0


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "condition",
    ["l.t = r.t", "l.t * r.u <= r.t + 5", "(l.t <= r.t + 5 AND l.u > r.u) OR (l.t <= r.t + 2 AND r.u > 3)",
     "CASE WHEN l.u > 3 THEN l.t <= r.t + 2 ELSE l.t <= r.t END"],
)  # fmt: skip
def test_rows_go_where_nothing_is_compared_and_after_more_is_promised(condition: str, policy: str) -> None:
    """With keys alone no axis identifies a row; a watermark adds axes after rows have been dropped."""
    schema = pa.schema({"k": pa.int64(), "t": pa.int64(), "u": pa.int64()})
    limit = {"memory_limit": 400_000, "when_full": Shed(policy)}
    ways = [SymmetricHashJoin(schema, schema, on="k", condition=condition, **given) for given in (limit, {})]
    found: list[Counter[Any]] = [Counter(), Counter()]
    for op, rows in zip(ways, found, strict=True):
        rng = np.random.default_rng(5)
        for i in range(30):
            for side in ("left", "right"):
                n = 300
                columns = rng.integers(0, 4000, n), np.sort(rng.integers(0, 10, n)) + 10 * i, rng.integers(0, 9, n)
                rows.update(rows_of(op.push(side, pa.record_batch([*columns], schema=schema))))
                if i > 12:
                    rows.update(rows_of(op.advance(side, {"t": 10 * i} if i != 16 else {"u": 0})))
        rows.update(rows_of(op.finish()))
    metrics = ways[0].metrics
    assert metrics.shed_left + metrics.shed_right > 0
    assert not found[0] - found[1]
    assert metrics.state_rows == 0
