"""Plans that change along the band: hash, grids, slices, new plans at random moments, disorder, all join types."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pytest
from routing.routed import owned_output, random_plan

from ivjoin import OptionError, SymmetricHashJoin
from ivjoin.routing import Edge, PlanList, RoutingPlan, along, plan_join
from ivjoin.routing.along import MOST_LIVE

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "n": pa.int64()})


def stream(rng: random.Random, n: int, keys: int, slack: int) -> list[dict[str, int | None]]:
    """Rows whose t rises, but for some disorder and a few nulls."""
    t, out = 0, []
    for i in range(n):
        t += rng.choice([0, 0, 1, 1, 2])
        row: dict[str, int | None] = {"k": rng.randrange(keys), "t": t - rng.randint(0, slack), "n": i}
        if rng.random() < 0.03:
            row[rng.choice("kt")] = None
        out.append(row)
    return out


def batch(rows: list[dict[str, int | None]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


class Run:
    """Two streams through a list of plans that grows meanwhile."""

    def __init__(self, seed: int, how: str) -> None:
        self.rng = rng = random.Random(seed)
        self.how = how
        down, up = rng.randint(0, 8), rng.randint(0, 8)
        if rng.random() < 0.2:
            down = -rng.randint(0, up)
        self.falling = rng.random() < 0.3
        self.keyed = rng.random() < 0.8
        self.call: dict[str, Any] = {
            "on": "k" if self.keyed else None, "condition": f"l.t BETWEEN r.t - {down} AND r.t + {up}", "how": how,
        }
        n, keys, slack = rng.randint(10, 70), rng.randint(1, 4), rng.randint(0, 4)
        self.sides = [stream(rng, n, keys, slack) for _ in "lr"]
        if self.falling:
            for row in self.sides[0] + self.sides[1]:
                row["t"] = None if row["t"] is None else -row["t"]
        self.met = {
            (i, j)
            for i, a in enumerate(self.sides[0])
            for j, b in enumerate(self.sides[1])
            if a["t"] is not None and b["t"] is not None and b["t"] - down <= a["t"] <= b["t"] + up
            and (not self.keyed or (a["k"] is not None and a["k"] == b["k"]))
        }  # fmt: skip
        self.plans = 0
        self.sent: list[list[tuple[int, int, bool]]] = [[], []]

    def plan(self) -> RoutingPlan:
        return random_plan(batch(self.sides[0][:10]), batch(self.sides[1][:10]), self.call, self.rng)[0]

    def route(self) -> None:
        rng, at = self.rng, [0, 0]
        plans, edge, number = along(self.plan(), falling=self.falling), Edge(), {}
        while any(at[s] < len(self.sides[s]) for s in (0, 1)):
            for s, name in ((0, "left"), (1, "right")):
                start = at[s]
                at[s] = min(len(self.sides[s]), start + rng.randint(0, 15))
                piece = batch(self.sides[s][start : at[s]])
                rows, where, cells, owned = plans.cells(name, piece)
                assert set(rows.tolist()) == set(range(piece.num_rows))
                for r, e, c, o in zip(rows.tolist(), where.tolist(), cells.tolist(), owned.tolist()):
                    self.sent[s].append((start + r, number.setdefault((e, c), len(number)), o))
                edge = edge.joined(plans.edge(name, piece))
            if rng.random() < 0.35:
                plans = self.grown(plans, edge)
        self.plans = len(plans.plans) + plans.first
        self.cells = {n: where for where, n in number.items()}

    def grown(self, plans: PlanList, edge: Edge) -> PlanList:
        start = plans.next_start(edge)
        assert start is not None
        more = plans.add(self.plan(), edge, None if self.rng.random() < 0.5 else start + self.rng.randint(0, 5))
        assert (more is None) == (len(plans.plans) >= MOST_LIVE)
        return more or plans

    def expected(self) -> Counter[tuple[int | None, int | None]]:
        n, m = (range(len(side)) for side in self.sides)
        return Counter(oracle.pairs(n, m, self.how, (), lambda a, b: (a, b) in self.met))


@pytest.mark.slow
@pytest.mark.parametrize("how", oracle.HOWS)
def test_every_row_once_over_all_plans(how: str) -> None:
    plans = 0
    for seed in range(30):
        run = Run(seed, how)
        run.route()
        assert owned_output(*run.sent, run.met, how) == run.expected(), seed
        plans += run.plans
    assert plans > 50


@pytest.mark.soak
@pytest.mark.parametrize("how", oracle.HOWS)
def test_every_row_once_at_length(how: str) -> None:
    for seed in range(1000, 4000):
        run = Run(seed, how)
        run.route()
        assert owned_output(*run.sent, run.met, how) == run.expected(), seed


@pytest.mark.parametrize("how", oracle.HOWS)
def test_cells_joined_by_the_operator(how: str) -> None:
    """One operator for all cells: the cell's number is one more equality key, and ownership rides along."""
    for seed in range(100, 104):
        run = Run(seed, how)
        run.route()
        sides = []
        for s in (0, 1):
            rows, cells, owned = (np.array(x) for x in zip(*run.sent[s])) if run.sent[s] else (np.empty(0, int),) * 3
            table = batch(run.sides[s]).take(pa.array(rows.astype(np.int64)))
            names = [*SCHEMA.names, "cell", "mine"]
            columns = [*table.columns, pa.array(cells.astype(np.int64)), pa.array(owned.astype(bool))]
            sides.append(pa.RecordBatch.from_arrays(columns, names=names))
        on = ["k", "cell"] if run.keyed else ["cell"]
        op = SymmetricHashJoin(sides[0].schema, sides[1].schema, **{**run.call, "on": on})
        out = [*op.push("left", sides[0]), *op.push("right", sides[1]), *op.finish()]
        joined = pa.Table.from_batches(out, op.schema).to_pylist()
        single = how.endswith(("semi", "anti"))
        got: Counter[tuple[int | None, int | None]] = Counter()
        for row in joined:
            if single:
                if row["mine"]:
                    got[(row["n"], None) if how.startswith("left") else (None, row["n"])] += 1
            elif row["mine"] if row["n"] is not None else row["mine_right"]:
                got[row["n"], row["n_right"]] += 1
        assert got == run.expected(), seed


def test_a_new_plan_begins_beyond_all_that_was_routed() -> None:
    rows = batch([{"k": 1, "t": t, "n": t} for t in range(100)])
    plan = plan_join(rows, rows, condition="l.t BETWEEN r.t - 3 AND r.t + 7", workers=2)
    plans = along(plan)
    left, right = plans.edge("left", rows), plans.edge("right", rows)
    assert (left.top, right.top) == (99, 106)
    edge = left.joined(right)
    assert plans.next_start(edge) == 107
    with pytest.raises(OptionError, match="expected 107 or more, because routed rows reach up to 106"):
        plans.add(plan, edge, start=106)
    with pytest.raises(OptionError, match="edge is None; expected the Edge of all routed rows"):
        plans.add(plan, None)  # type: ignore[arg-type]
    two = plans.add(plan, edge)
    assert two is not None and two.starts == (107,)
    assert two.next_start(Edge()) == 108
    later = batch([{"k": 1, "t": 106, "n": 0}, {"k": 1, "t": 107, "n": 1}, {"k": 1, "t": 109, "n": 2}])
    assert set(zip(*(x.tolist() for x in two.cells("left", later)[:2]))) == {(0, 0), (1, 1), (2, 1)}
    # right rows reach three back and seven on
    reached = set(zip(*(x.tolist() for x in two.cells("right", later)[:2])))
    assert reached == {(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)}
    assert two.without_dead(106) == two
    rest = two.without_dead(107)
    assert (len(rest.plans), rest.first, rest.starts) == (1, 1, ())
    assert rest.cells("left", later)[1].tolist() == [1, 1, 1]


def test_full_joins_begin_beyond_homes_too() -> None:
    rows = batch([{"k": 1, "t": t, "n": t} for t in range(100)])
    plan = plan_join(rows, rows, condition="l.t BETWEEN r.t - 10 AND r.t", workers=2, how="full")
    plans = along(plan)
    # a left row at 99 meets right rows up to 109, whose homes are five below
    assert plans.edge("left", rows).top == 104
    assert plans.edge("right", rows).top == 99


def test_no_more_than_three_plans_live() -> None:
    rows = batch([{"k": 1, "t": t, "n": t} for t in range(10)])
    plan = plan_join(rows, rows, condition="l.t BETWEEN r.t AND r.t + 1", workers=2)
    plans: PlanList | None = along(plan)
    for _ in range(MOST_LIVE - 1):
        assert plans is not None
        plans = plans.add(plan, Edge(20))
    assert plans is not None and plans.starts == (21, 22)
    assert plans.add(plan, Edge(20)) is None
    assert plans.without_dead(21).add(plan, Edge(20)) is not None


def test_rows_that_reach_without_end_keep_the_plan() -> None:
    rows = batch([{"k": 1, "t": t, "n": t} for t in range(10)])
    one_sided = plan_join(rows, rows, condition="l.t <= r.t", workers=2)
    with pytest.raises(OptionError, match="has only one end.*Use the first plan"):
        along(one_sided)
    plan = plan_join(rows, rows, condition="l.t BETWEEN r.t AND r.t + 1", workers=2)
    plans = along(plan)
    top = batch([{"k": 1, "t": 2**63 - 1, "n": 0}])
    edge = plans.edge("right", top)
    assert edge.is_endless
    assert plans.next_start(edge) is None
    assert plans.add(plan, edge) is None
    with pytest.raises(OptionError, match="for the join of the first one"):
        plans.add(one_sided, Edge())
