"""An operator that is not in the library: its record alone suffices to read, write, evaluate, bound and prune by it."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import oracle
import pyarrow as pa
import pytest

import ivjoin
from ivjoin.conditions import condition, scalar
from ivjoin.conditions.text import to_text
from ivjoin.expr import Scope
from ivjoin.expr.kernels.cells import Cell
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import INT64
from ivjoin.functions import table
from ivjoin.functions.records import direction
from ivjoin.functions.records.record import NOT_LINEAR, Absent, Meaning, Operator, call
from ivjoin.functions.records.writing import called
from ivjoin.functions.rules.rule import strict_unary
from tests.functions import test_table

LIMITS = INT64.limits


def toward_zero(cell: Cell) -> Cell:
    """A number one nearer to zero."""
    x, ok, err = cell
    return x - np.sign(x), ok, err


def nearer(x: int) -> int:
    return x - (x > 0) + (x < 0)


def farther(x: int) -> int:
    return x + (x > 0) - (x < 0)


def build(args: list[Node], zone: str) -> Node:
    return make("nearer", tuple(args), (), INT64)


NEARER = Operator(
    "nearer",
    {"int": Meaning(
        lambda node, consts: toward_zero,
        lambda p: strict_unary(
            p, lambda x: (nearer(x[0]), nearer(x[1])),
            lambda z, x: (farther(z[0]) if z[0] else -1, farther(z[1]) if z[1] else 1), LIMITS,
        ),
    )},
    ("nearer(l.a)",), called("nearer"), direction.rises, NOT_LINEAR, build,
    calls=(call("nearer", 1, 1, build),), sympy=Absent("it is of this test alone"), warns=False,
)  # fmt: skip


@pytest.fixture(autouse=True)
def in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table.OPERATORS, "nearer", NEARER)
    monkeypatch.setitem(table.FUNCTIONS, "nearer", NEARER.calls[0])


def test_the_walk_over_the_table_takes_it() -> None:
    test_table.test_a_record_is_complete(NEARER)
    node = scalar("nearer(l.a)", test_table.SCOPE)
    assert to_text(node) == "nearer(l.a)"
    for check in (
        test_table.test_text_reads_back, test_table.test_the_exact_value_lies_inside_the_interval,
        test_table.test_the_inverse_keeps_witnesses, test_table.test_the_direction_is_true,
    ):  # fmt: skip
        check(NEARER, "nearer(l.a)", node)


def test_a_join_reads_it_and_prunes_by_it() -> None:
    schema = pa.schema([("id", pa.int64()), ("a", pa.int64())])
    rng = random.Random(1)
    sides = [[{"id": i, "a": a} for i, a in enumerate(sorted(rng.choices(range(-300, 300), k=400)))] for _ in "lr"]
    op = ivjoin.SymmetricHashJoin(
        schema, schema, condition="nearer(l.a) - nearer(r.a) BETWEEN -2 AND 2", how="full", left_order="a",
        right_order="a", suffix="_r",
    )  # fmt: skip
    out, most = [], 0
    for at in range(0, 400, 20):
        for name, rows in zip(("left", "right"), sides, strict=True):
            out += list(op.push(name, pa.RecordBatch.from_pylist(rows[at : at + 20], schema=schema)))
        most = max(most, op.metrics.state_rows)
    out += list(op.finish())
    found = Counter((r["id"], r["id_r"]) for b in out for r in b.to_pylist())
    near = lambda x, y: abs(nearer(x["a"]) - nearer(y["a"])) <= 2  # noqa: E731
    assert found == Counter(oracle.pairs(*sides, "full", (), near))
    assert most < 80


def test_python_agrees() -> None:
    scope = Scope(pa.schema([("a", pa.int64())]), pa.schema([("a", pa.int64())]))
    node = condition(ivjoin.left("a").nearer() <= ivjoin.right("a"), scope)
    assert node is not None and to_text(node) == "nearer(l.a) <= r.a"
