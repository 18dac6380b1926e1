"""Grids of workers for joins of many inputs: the papers' examples, and every choice against trying all."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from ivjoin import OptionError
from ivjoin.routing import Relation, hypercube
from ivjoin.routing.grids.hypercube import best_dims

H = 1_000_000
CHAIN = {"R": Relation(H, ("x", "y")), "S": Relation(H, ("y", "z")), "T": Relation(H, ("z", "t"))}


def test_hash_on_64_workers() -> None:
    plan = hypercube(CHAIN, workers=64, scheme="hash")
    assert (plan.dims, plan.workers) == ({"y": 8, "z": 8}, 64)
    assert round(plan.load / H, 4) == 0.2656
    assert (plan.total, round(plan.replication, 4)) == (17 * H, round(17 / 3, 4))


def test_random_on_64_workers() -> None:
    plan = hypercube(CHAIN, workers=64, scheme="random")
    assert (plan.dims, plan.load, plan.total) == ({"R": 4, "S": 4, "T": 4}, 0.75 * H, 48 * H)


def test_a_skewed_attribute() -> None:
    hashed = hypercube(CHAIN, workers=64, scheme="hash", skewed={"z"})
    assert (hashed.dims, hashed.load) == ({"y": 8, "z": 8}, 0.6875 * H)
    plan = hypercube(CHAIN, workers=64, scheme="auto", skewed={"z"})
    assert (plan.scheme, plan.dims, plan.workers) == ("hybrid", {"y": 9, "T.z": 7}, 63)
    assert (round(plan.load / H, 4), round(plan.total / H)) == (0.3651, 23)
    assert plan.members == {"R": ("y",), "S": ("y", "S.z"), "T": ("T.z",)}
    assert hypercube(CHAIN, workers=64, scheme="hybrid", skewed={"z"}) == plan


def test_one_skewed_occurrence() -> None:
    plan = hypercube(CHAIN, workers=64, scheme="hybrid", skewed={("T", "z")})
    assert plan.members["S"] == ("y", "z") and plan.members["T"] == ("T.z",)
    assert plan.load <= hypercube(CHAIN, workers=64, skewed={"z"}).load


def test_a_random_dim_is_not_an_attribute_of_its_name() -> None:
    both = {"t": Relation(H, ("k",)), "u": Relation(H, ("k", "t.k")), "v": Relation(H, ("t.k",))}
    plan = hypercube(both, workers=8, scheme="hybrid", skewed={("t", "k")})
    assert set(plan.members["t"]).isdisjoint({*plan.members["u"], *plan.members["v"]})
    assert "t.k" in plan.members["u"] and plan.members["v"] == ("t.k",)


def test_unequal_inputs_and_odd_numbers_of_workers() -> None:
    two = {"A": Relation(4, ("x",)), "B": Relation(1, ("x",))}
    assert hypercube(two, workers=64, scheme="random").dims == {"A": 16, "B": 4}
    assert hypercube(CHAIN, workers=7, scheme="random").dims == {"S": 2, "T": 3}
    assert hypercube(CHAIN, workers=36, scheme="hash").dims == {"y": 6, "z": 6}
    assert hypercube(CHAIN, workers=36).dims == {"y": 6, "z": 6}


def test_auto_takes_the_least_load() -> None:
    for skewed in ((), {"y"}, {"z"}, {"y", "z"}):
        loads = {s: hypercube(CHAIN, 64, s, skewed).load for s in ("hash", "random", "hybrid")}
        assert hypercube(CHAIN, 64, "auto", skewed).load == min(loads.values())


def test_attributes_without_a_join_have_no_dimension() -> None:
    lone = hypercube({"R": Relation(10, ("a", "b"))}, workers=8)
    assert (lone.dims, lone.workers, lone.load, lone.replication) == ({"R": 8}, 8, 1.25, 1.0)
    hashed = hypercube({"R": Relation(10, ("a", "b"))}, workers=8, scheme="hash")
    assert (hashed.dims, hashed.workers, hashed.load) == ({}, 1, 10)
    assert hypercube(CHAIN, workers=1).dims == {}
    empty = hypercube({"R": Relation(0, ("a",)), "S": Relation(0, ("a",))}, workers=4)
    assert (empty.load, empty.total, empty.replication) == (0, 0, 1.0)


def every_vector(n: int, workers: int) -> list[tuple[int, ...]]:
    if n == 0:
        return [()]
    return [(d, *rest) for d in range(1, workers + 1) for rest in every_vector(n - 1, workers // d)]


@pytest.mark.parametrize("seed", range(40))
def test_no_vector_of_dims_is_better(seed: int) -> None:
    rng = random.Random(seed)
    n, k, p = rng.randint(1, 4), rng.randint(1, 4), rng.choice([1, 2, 5, 7, 8, 12, 30, 36])
    rows = [rng.choice([0, 1, 1, 2, 5, 10, 100]) for _ in range(k)]
    has = [[rng.random() < 0.6 for _ in range(n)] for _ in range(k)]
    got = tuple(best_dims(np.array(rows, dtype=float), np.array(has), p))

    def load(dims: tuple[int, ...]) -> float:
        return sum(r / math.prod(d for d, h in zip(dims, own) if h) for r, own in zip(rows, has))

    vectors = every_vector(n, p)
    best = min(load(v) for v in vectors)
    assert got in vectors and load(got) <= best * (1 + 1e-9)
    equal = [v for v in vectors if load(v) <= best * (1 + 1e-9)]
    assert max(got) == min(max(v) for v in equal)


@pytest.mark.parametrize("scheme", ["hash", "random", "hybrid", "auto"])
def test_a_thousand_workers_and_six_attributes(scheme: str) -> None:
    ring = {f"R{i}": Relation(H + i, (f"a{i}", f"a{(i + 1) % 6}")) for i in range(6)}
    plan = hypercube(ring, workers=1000, scheme=scheme, skewed={"a0", "a3"})
    assert 500 < plan.workers == math.prod(plan.dims.values()) <= 1000
    # no dim can be one greater, nor two be moved by one
    rows = np.array([float(r.rows) for r in ring.values()])
    names = list(dict.fromkeys(d for own in plan.members.values() for d in own))
    has = np.array([[d in own for d in names] for own in plan.members.values()])
    dims = np.array([plan.dims.get(d, 1) for d in names])

    def load(d: np.ndarray) -> float:
        return float((rows / np.where(has, d, 1).prod(axis=1)).sum())

    for i, j in itertools.permutations(range(len(names)), 2):
        other = dims.copy()
        other[i] += 1
        other[j] = max(1, other[j] - 1)
        assert math.prod(other.tolist()) > 1000 or load(other) >= load(dims) * (1 - 1e-9)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: hypercube(CHAIN, workers=0), "workers is 0; expected a whole number from 1"),
    (lambda: hypercube(CHAIN, workers=True), "workers is True"),
    (lambda: hypercube(CHAIN, workers=2.0), "workers is 2.0"),
    (lambda: hypercube(CHAIN, 8, "hahs"), "scheme is 'hahs'; expected .* did you mean 'hash'"),
    (lambda: hypercube(CHAIN, 8, skewed={"q"}), "'q' is unknown; expected one of x, y, z, t"),
    (lambda: hypercube(CHAIN, 8, skewed="z"), "skewed is 'z'; expected a set"),
    (lambda: hypercube(CHAIN, 8, skewed={("T", "y")}), "T has the attributes z, t"),
    (lambda: hypercube(CHAIN, 8, skewed={("U", "y")}), "names an unknown relation; the relations are R, S, T"),
    (lambda: hypercube(CHAIN, 8, skewed={3}), "skewed contains 3"),
    (lambda: hypercube({}, 8), "relations are {}"),
    (lambda: hypercube({"R": (5, ("x",))}, 8), "expected a Relation"),  # type: ignore[dict-item]
    (lambda: hypercube(CHAIN, 8, skew={"z"}), "no option 'skew'; did you mean 'skewed'"),  # type: ignore[call-arg]
    (lambda: Relation(-1, ("x",)), "rows of a relation are -1"),
    (lambda: Relation(float("nan"), ("x",)), "rows of a relation are nan"),
    (lambda: Relation(float("inf"), ("x",)), "rows of a relation are inf"),
    (lambda: Relation(10**400, ("x",)), "rows of a relation are .* at most 1e.30"),
    (lambda: Relation(1, "xy"), "attributes of a relation are 'xy'"),  # type: ignore[arg-type]
    (lambda: Relation(1, ("x", "x")), "'x' occurs twice"),
    (lambda: Relation(1, ("x", 2)), "an attribute of a relation is 2"),  # type: ignore[arg-type]
])  # fmt: skip
def test_mistakes_are_named(call: object, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        call()  # type: ignore[operator]
