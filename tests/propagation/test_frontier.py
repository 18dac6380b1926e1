"""What the join asks: from bounds of one side's future rows to bounds of the other side's stored ones."""

from __future__ import annotations

import sys
import threading
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pytest

from ivjoin import conditions, expr
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import INT64
from ivjoin.propagation import Dom, Outcome, Propagator, contract_nodes, forward
from ivjoin.propagation import frontier as made

TS = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [("a", pa.int64()), ("b", pa.int64()), ("x", pa.float64()), ("ts", TS), ("d", pa.date32()), ("w", pa.int64()),
     ("m", pa.decimal128(12, 2)), ("s", pa.string())]
)  # fmt: skip
SCOPE = expr.Scope(SCHEMA, SCHEMA)
DAY = 86_400_000_000
START = 11_574 * DAY + 12_345


def node(text: str) -> Node:
    return conditions.scalar(text, SCOPE)


def domains(known: dict[str, tuple[Any, Any]]) -> dict[Node, Dom]:
    return {node(t): Dom.of(node(t).type, lo, hi, null=False, nan=False) for t, (lo, hi) in known.items()}


def least(condition: str, known: dict[str, tuple[Any, Any]], want: str) -> Any:
    c = conditions.condition(condition, SCOPE)
    assert c is not None
    _, found = contract_nodes(list(c.args) if c.op == "and" else [c], domains(known), [node(want)])
    return found[node(want)].lo


# No future right row has a smaller value than this.
A, X, T = {"r.a": (1000, None)}, {"r.x": (1000.0, None)}, {"r.ts": (START, None)}
D, M = {"r.d": (19_000, None)}, {"r.m": (100_000, None)}


@pytest.mark.parametrize("condition, known, want, low", [
    ("l.a >= r.a - 10 AND l.a <= r.a + 5", A, "l.a", 990), ("(l.a - r.a) * (l.a - r.a) < 400", A, "l.a", 981),
    ("abs(l.a - r.a) < 20", A, "l.a", 981), ("l.a + l.a > r.a + r.a - 40", A, "l.a", 981),
    ("l.a - r.a BETWEEN -10 AND 10", A, "l.a", 990), ("2 * l.a + 5 > 2 * r.a", A, "l.a", 998),
    ("l.a / r.a < 1.01 AND r.a / l.a < 1.01", A | {"l.a": (1, None)}, "l.a", 991),
    ("l.a BETWEEN r.a AND r.a + r.w", A | {"r.w": (0, 50)}, "l.a", 1000),
    ("r.a BETWEEN l.a AND l.a + r.w", A | {"r.w": (0, 50)}, "l.a", 950),
    ("l.a + l.b >= r.a", A, "l.a + l.b", 1000),
    ("l.x <> r.x AND abs(l.a - r.a) < 20", A, "l.a", 981),
    ("l.a BETWEEN r.a - 5 AND r.a + 5 OR l.a BETWEEN r.a + 100 AND r.a + 110", A, "l.a", 995),
    ("CASE WHEN l.b > 5 THEN l.a >= r.a - 5 ELSE l.a >= r.a - 50 END", A, "l.a", 950),
    ("NOT (l.a < r.a - 5 OR l.a > r.a + 5)", A, "l.a", 995), ("coalesce(l.a, 0) >= r.a", A, "l.a", 1000),
    ("greatest(l.a, l.b) >= r.a", A, "l.a", INT64.limits[0]), ("least(l.a, l.b) >= r.a", A, "l.b", 1000),
    ("l.a <=> r.a", A, "l.a", 1000), ("l.a IN (r.a, r.a + 1, r.a + 2)", A, "l.a", 1000),
    ("l.a div 60 = r.a div 60", A, "l.a", 960), ("floor(l.a / 60) = floor(r.a / 60)", A, "l.a", 960),
    ("l.a >= r.a AND l.s LIKE '%x%' AND length(l.s) < r.b", A, "l.a", 1000),
    ("date_trunc('day', l.ts) = date_trunc('day', r.ts)", T, "l.ts", 11_574 * DAY),
    ("l.ts >= r.ts - INTERVAL 10 SECONDS", T, "l.ts", START - 10_000_000),
    ("unix_seconds(l.ts) >= unix_seconds(r.ts) - 60", T, "l.ts", 11_574 * DAY - 60_000_000),
    ("CAST(l.ts AS DATE) >= r.d", D, "l.ts", 19_000 * DAY), ("datediff(l.d, r.d) BETWEEN -3 AND 3", D, "l.d", 18_997),
    ("l.m - r.m > -5", M, "l.m", 99_501), ("l.x + 1.0D >= r.x", X, "l.x + 1.0D", 1000.0),
    ("abs(l.x - r.x) <= 2", X, "l.x", 998.0),
])  # fmt: skip
def test_one_side_bounds_the_other(condition: str, known: dict[str, tuple[Any, Any]], want: str, low: Any) -> None:
    assert least(condition, known, want) == low


def test_outcomes() -> None:
    a, b = node("l.a"), node("r.a")
    band = [node("l.a >= r.a - 10"), node("l.a <= r.a + 5")]
    known = {a: Dom.of(INT64, 0, 900, null=False), b: Dom.of(INT64, 1000, None, null=False)}
    outcome, found = contract_nodes(band, known, [a])
    assert outcome is Outcome.INFEASIBLE
    assert found[a].is_empty
    known[a] = Dom.of(INT64, 990, 995, null=False)
    outcome, found = contract_nodes(band, known, [a])
    assert outcome is Outcome.UNCHANGED
    assert found[a] == known[a]
    assert contract_nodes([node("l.a IS NULL")], {}, [a])[1][a] == Dom.empty(INT64, null=True)


def test_a_null_may_decide() -> None:
    # "NULL in the buffer never matches" is wrong for these.
    a = node("l.a")
    for text in ("l.a IS NULL OR l.a > 5", "coalesce(l.a, 9) > 5", "l.a <=> r.a", "least(l.a, 3) = 3"):
        outcome, found = contract_nodes([node(text)], {}, [a])
        assert outcome is not Outcome.INFEASIBLE
        assert found[a].may_null, text
    for text in ("l.a > 5", "NOT (l.a > 5)", "l.a IN (1, 2)", "l.a = r.a"):
        assert not contract_nodes([node(text)], {}, [a])[1][a].may_null, text


def test_a_known_expression_is_a_fact_of_its_own() -> None:
    total, a = node("r.a + r.b"), node("l.a")
    known = {total: Dom.of(INT64, 500, None, null=False)}
    assert contract_nodes([node("l.a >= r.a + r.b")], known, [a])[1][a].lo == 500
    # Nothing follows for another expression of the same columns.
    assert contract_nodes([node("l.a >= r.a - r.b")], known, [a])[1][a].lo == INT64.limits[0]
    assert forward(total, known) is known[total]
    assert forward(node("(r.a + r.b) * 2"), known).lo == 1000


def test_operator_without_a_rule_gives_no_bounds() -> None:
    a = node("l.a")
    strange = make("no_such_operator", (a,), (), INT64)
    assert forward(strange, {a: Dom.of(INT64, 1, 2, null=False)}) == Dom.top(INT64)
    outcome, found = contract_nodes([make("gt", (strange, node("5L")), (), node("TRUE").type)], {}, [a])
    assert outcome is Outcome.UNCHANGED
    assert found[a] == Dom.top(INT64)


def test_a_propagator_forgets() -> None:
    """What was found for one box is not carried over to the next: rows that arrive later may lie outside."""
    a, b = node("l.a"), node("r.a")
    p = Propagator([node("l.a >= r.a")], [a])
    assert p.contract({b: Dom.of(INT64, 1000, None)}, [a])[1][a].lo == 1000
    assert p.contract({b: Dom.of(INT64, 10, None)}, [a])[1][a].lo == 10
    assert p.contract({b: Dom.of(INT64, 20, 5)}, [a])[0] is Outcome.INFEASIBLE
    assert p.contract({}, [a])[1][a].lo == INT64.limits[0]


@pytest.mark.slow
def test_threads_share_what_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of a join, and joins in threads of their own, ask for propagators at one time, and the oldest go."""
    nodes = [node(f"r.a + {i}") for i in range(60)]
    known = domains({"r.a": (5, 9)})
    wrong: list[Any] = []
    ready = threading.Barrier(6)

    def ask(of: int) -> None:
        ready.wait()
        for k in range(1500):
            i = (k * (of + 1)) % 60
            try:
                found = forward(nodes[i], known)
                if (found.lo, found.hi) != (5 + i, 9 + i):
                    wrong.append(found)
            except Exception as e:
                wrong.append(e)

    monkeypatch.setattr(made, "propagator", lru_cache(3)(made.propagator.__wrapped__))
    was = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(was)
    assert not wrong, wrong[:3]
