"""The ways to lose a row: bounds that enclose the mathematics and not the machine. Every family, every join type."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import oracle
import pyarrow as pa
import pytest
from join.cases import Case, Event, OrderSpec, check
from join.conditions import Term, rank
from join.tables import KINDS, Kind, column
from join.traps import TRAPS, Trap
from seeds import each, in_blocks

I64 = KINDS["int64"]
# The boundary row of every comparison, of the kinds that the pairs of edge values (drivers.edge_driver) leave out.
EDGES: dict[str, list[Any]] = {
    "dec10": [Decimal(n) / 100 for n in (-900, 99, 100, 101, 102)], "string": ["", "a", "a\x00", "b", "é"],
    "dec20": [Decimal(n) / 100 for n in (-900, 99, 100, 101, 10**19)], "bool": [False, True],
    "ts_ms": [-5000, -1, 0, 1, 2], "ts_ns": [-5000, -1, 0, 1, 2], "time64": [0, 1, 2, 86_399_999_999],
    "date64": [-864 * 10**7, -864 * 10**5, 0, 864 * 10**5],
}  # fmt: skip


def strict(name: str, op: str, f: Callable[[Any, Any], Any]) -> Trap:
    kind = KINDS[name]
    return Trap(f"{name} {op}", f"l.a {op} r.a", (kind, kind), EDGES[name], EDGES[name], lambda a, b: f(a["a"], b["a"]))


STRICT = [strict(name, op, f) for name in EDGES
          for op, f in ((">", operator.gt), (">=", operator.ge), ("<", operator.lt), ("<=", operator.le))]  # fmt: skip

pytestmark = pytest.mark.usefixtures("contract_every_row")


def orders_of(trap: Trap) -> list[bool]:
    return [] if trap.kinds[0].name in ("string", "dec20") else [False, True]


def table(trap: Trap, side: int, descending: bool) -> pa.Table:
    values = list(trap.left if side == 0 else trap.right)
    kind = trap.kinds[side]
    columns: dict[str, tuple[Kind, list[object]]] = {"n": (I64, list(range(len(values)))), "a": (kind, values)}
    for name, more in (trap.more or {}).items():
        columns[name] = (more[0], list(more[1 + side]))
    seen = [(v is not None and v != v, v) for v in values]
    order = sorted(
        range(len(values)), key=lambda i: rank(values[i]) if seen[i][1] is not None else (2, 0), reverse=descending
    )
    return pa.table({name: column(k, [v[i] for i in order]) for name, (k, v) in columns.items()})


def scripts(n: int, m: int) -> list[list[Event]]:
    """Row by row: left first, right first, in turn, left hurrying, right hurrying; and by threes."""
    lefts: list[Event] = [("push", "left", i, i + 1) for i in range(n)]
    rights: list[Event] = [("push", "right", j, j + 1) for j in range(m)]
    turn = [e for pair in itertools.zip_longest(lefts, rights) for e in pair if e]
    hurry = [e for pair in itertools.zip_longest(lefts[::2], lefts[1::2], rights) for e in pair if e]
    threes: list[Event] = [
        e
        for i in range(0, max(n, m), 3)
        for e in (("push", "right", i, min(i + 3, m)), ("push", "left", i, min(i + 3, n)))
        if e[3] > e[2]
    ]
    return [lefts + rights, rights + lefts, turn, hurry, threes]


def play(trap: Trap, how: str, every: bool = False) -> int:
    """A trap in several orders and interleavings (``every``: in all of them); how many rows went before the end."""
    early = 0
    condition = Term(trap.condition, "", trap.holds, "bool")
    ways = orders_of(trap)
    turn = oracle.HOWS.index(how)
    for left_falls, right_falls in [(x, y) for x in ways for y in ways] or [(False, False)]:
        left, right = table(trap, 0, left_falls), table(trap, 1, right_falls)
        plays = scripts(left.num_rows, right.num_rows)
        some = plays if every else [plays[2], plays[(0, 1, 3, 4)[(turn + left_falls) % 4]]]
        trials = [(True, True, script) for script in (some if left_falls == right_falls else some[:1])]
        if left_falls == right_falls:
            # What one side alone promises must suffice to be right; the join types take turns at which.
            alone = [(True, False, plays[turn % 3]), (False, True, plays[(turn + 1) % 3])]
            trials += alone if every else [alone[(turn + left_falls) % 2]]
        for left_ordered, right_ordered, script in trials:
            left_order = (OrderSpec(trap.order[0], left_falls),) if ways and left_ordered else ()
            right_order = (OrderSpec(trap.order[1], right_falls),) if ways and right_ordered else ()
            case = Case(left, right, how, (), condition, left_order, right_order, script=tuple(script))
            early += check(case).retired_early
    return early


def spring(trap: Trap, how: str) -> None:
    early = play(trap, how)
    if trap.pruned and orders_of(trap):
        assert early > 0, "nothing was pruned, so the trap was not sprung"


@pytest.mark.parametrize("traps", in_blocks(itertools.product([*TRAPS, *STRICT], oracle.HOWS), 211))
def test_traps(traps: list[tuple[Trap, str]]) -> None:
    each(traps, spring)


@pytest.mark.nojit
@pytest.mark.parametrize(
    "trap", [t for t in TRAPS if t.name in ("float rounding", "month clamp", "wrong column")], ids=lambda t: t.name
)
def test_trap_interpreted(trap: Trap) -> None:
    assert play(trap, "full") > 0


@pytest.mark.one_in(5)
@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("falls", [False, True])
def test_a_null_outlives_bounds_that_were_there_before_it(how: str, falls: bool) -> None:
    """A row whose value is unknown is stored first, and only then a bound on that value moves."""
    sign = -1 if falls else 1
    left = pa.table({"n": range(3), "k": [1, 1, 2], "a": pa.array([None, 7 * sign, None], pa.int8())})
    right = pa.table({"n": range(6), "k": [1] * 6, "a": pa.array([sign * v for v in (2, 3, 4, 4, 3, 4)], pa.int8())})
    holds = Term(
        f"l.a IS NULL OR l.a {'<=' if falls else '>='} r.a",
        "",
        lambda a, b: True if a["a"] is None else None if b["a"] is None else sign * a["a"] >= sign * b["a"],
        "bool",
    )
    orders = (OrderSpec("a", descending=falls, slack=1),)
    bounds = {"a": (2 * sign, 4 * sign) if sign > 0 else (-4, -2)}
    pushes = [("push", "right", i, i + 1) for i in range(6)]
    for at in range(6):
        script = [*pushes[:at], ("push", "left", 0, 3), *pushes[at:]]
        check(Case(left, right, how, (("k", "k"),), holds, (), orders, right_bounds=bounds, script=tuple(script)))
