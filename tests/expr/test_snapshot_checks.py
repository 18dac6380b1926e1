"""Expressions in a snapshot: every operator is restored as written, and anything else is refused."""

from __future__ import annotations

from typing import Any

import pytest

from bench.operator_table import SCHEMA, examples
from ivjoin.conditions import scalar
from ivjoin.conditions.snapshot_checks import check_expressions
from ivjoin.errors import SnapshotError
from ivjoin.expr import Scope
from ivjoin.expr.codec import decode, encode
from ivjoin.functions.table import OPERATORS

SCHEMAS = {"left": SCHEMA, "right": SCHEMA}
SCOPE = Scope(SCHEMA, SCHEMA)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_every_operator_passes(operator: Any) -> None:
    for _, node in examples(operator):
        check_expressions([decode(encode(node))], SCHEMAS)


def damaged(text: str, at: int, field: int, value: Any) -> list[Any]:
    """An expression as JSON, with another value in one of its nodes."""
    saved = encode(scalar(text, SCOPE))
    saved[at][field] = value
    return saved


@pytest.mark.parametrize(("text", "at", "field", "value"), [
    pytest.param("l.a + r.b", -1, 0, "add_up", id="no operator"),
    pytest.param("l.a + r.b", -1, 0, 7, id="an operator that is a number"),
    pytest.param("l.a + r.b", -1, 0, "like", id="an operator of texts"),
    pytest.param("l.a + r.b", -1, 1, [0, -1], id="an argument before the first"),
    pytest.param("l.a + r.b", -1, 1, [0, 5], id="an argument behind the last"),
    pytest.param("l.a + r.b", -1, 1, [0], id="too few arguments"),
    pytest.param("l.a + r.b", -1, 3, {"kind": "int", "bits": 24}, id="no width"),
    pytest.param("l.a + r.b", -1, 3, {"kind": "string"}, id="another kind"),
    pytest.param("l.a + r.b", -1, 3, {"kind": "number"}, id="no kind"),
    pytest.param("l.a + r.b", 0, 2, ["middle", "a"], id="no side"),
    pytest.param("l.a + r.b", 0, 2, ["left", "nowhere"], id="no column"),
    pytest.param("l.a + r.b", 0, 2, ["left", "s"], id="a column of another type"),
    pytest.param("l.a + r.b", 0, 2, ["left"], id="a column without a name"),
    pytest.param("l.a + 3", 1, 2, [1 << 80], id="a constant past its type"),
    pytest.param("l.a + 3", 1, 2, ["3"], id="a constant of another type"),
    pytest.param("l.a + 3", 1, 2, [], id="a constant without a value"),
    pytest.param("l.t + l.i", 0, 3, {"kind": "timestamp", "unit": "us", "tz": "Mars"}, id="no zone"),
    pytest.param("hour(l.t)", -1, 2, ["hour", "Mars"], id="a zone of an operator"),
    pytest.param("upper(l.s)", -1, 2, ["no_function"], id="no function"),
])  # fmt: skip
def test_what_cannot_be_is_refused(text: str, at: int, field: int, value: Any) -> None:
    def checked(saved: list[Any]) -> None:
        check_expressions([n for n in [decode(saved)] if n is not None], SCHEMAS)

    with pytest.raises(SnapshotError, match="damaged"):
        checked(damaged(text, at, field, value))


@pytest.mark.parametrize("text", ["l.a IN (1, 2, 5)", "l.s IN ('x', NULL)", "l.f IN (0.5, -0.0)"])
def test_a_list_of_an_older_snapshot_is_read(text: str) -> None:
    node = scalar(text, SCOPE)
    old = encode(node)
    at = next(i for i, (op, *_) in enumerate(old) if op == "in")
    _, (x,), constants, kind = old[at]
    items = [["literal", [], [c], old[x][3]] for c in constants]
    moved = [*old[:at], *items, ["in", [x, *range(at, at + len(items))], [], kind]]
    assert decode(moved) is node
    moved[-2] = old[x]  # a column
    with pytest.raises(SnapshotError, match="expected constants"):
        decode(moved)
