"""Cached plans: shared only by identical calls, and never changed by an operator that uses one."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from itertools import permutations, zip_longest
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
import sympy

from ivjoin import ColumnError, EvaluationError, Order, SymmetricHashJoin, band_join, left, lit, right
from ivjoin.conditions import scalar
from ivjoin.expr import Scope
from ivjoin.plan.cache import MOST_PLANS, forget_plans, planned
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.planner import make_plan
from ivjoin.plan.question import join_spec

SCHEMA = pa.schema({"k": pa.int64(), "a": pa.int32(), "b": pa.float64(), "s": pa.string(), "t": pa.timestamp("us")})
BAND = "l.a >= r.a - 5 AND l.a <= r.a"


@pytest.fixture(autouse=True)
def none_kept() -> Iterator[None]:
    forget_plans()
    yield
    forget_plans()


def described(plan: JoinPlan) -> str:
    """All that a plan says, metadata too."""
    schemas = [plan.schema, *(side.schema for side in plan.sides)]
    return "\n".join([repr(plan), *(repr((s.metadata, [f.metadata for f in s])) for s in schemas)])


def made(left_schema: pa.Schema = SCHEMA, right_schema: pa.Schema = SCHEMA, **arguments: Any) -> JoinPlan:
    """The remembered plan, which must say what a new one says."""
    plan = planned(left_schema, right_schema, **arguments)
    assert described(plan) == described(make_plan(join_spec(left_schema, right_schema, **arguments)))
    return plan


SAME = [
    pytest.param(lambda: {"on": "k", "condition": BAND, "left_order": "a", "right_order": "a"}, id="text"),
    pytest.param(lambda: {"on": ["k", ("a", "a")], "left_order": [Order("a", slack=2), "b"]}, id="lists"),
    pytest.param(lambda: {"condition": (left("a") + 1 >= right("a")) & (left("b") < 2.5)}, id="python operators"),
    pytest.param(lambda: {"condition": left("a") > right("a"), "left_order": left("a") + 1}, id="an order"),
    pytest.param(lambda: {"condition": scalar(BAND, Scope(SCHEMA, SCHEMA))}, id="a node"),
    pytest.param(lambda: {"left_bounds": {"a": (1, None), "t": (dt.datetime(2024, 1, 1), None)}}, id="bounds"),
    pytest.param(lambda: {"left_order": Order("t", slack=dt.timedelta(seconds=1))}, id="slack of a time"),
    pytest.param(lambda: {"left_order": Order("b", slack=0.5)}, id="slack of a float"),
]


@pytest.mark.parametrize("arguments", SAME)
def test_the_same_words_are_planned_once(arguments: Any) -> None:
    first = made(**arguments())
    assert planned(SCHEMA, SCHEMA, **arguments()) is first
    again = pa.schema(list(SCHEMA), metadata=SCHEMA.metadata)
    assert planned(again, again, **arguments()) is first


def fluent(value: Any) -> Any:
    return left("b") + lit(value) >= right("b")


def with_field(**change: Any) -> pa.Schema:
    f = SCHEMA.field("a")
    t, metadata = change.get("type", f.type), change.get("metadata")
    return SCHEMA.set(1, pa.field("a", t, change.get("nullable", True), metadata))


class Stamp(pa.ExtensionType):
    """A type that travels as int64."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "ivjoin.tests.stamp")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: Any) -> Stamp:
        return Stamp()


EXTENDED = pa.schema([pa.field("k", pa.int64()), pa.field("e", Stamp())])
AS_STORED = pa.schema([
    pa.field("k", pa.int64()),
    pa.field("e", pa.int64(), metadata={"ARROW:extension:metadata": "", "ARROW:extension:name": "ivjoin.tests.stamp"}),
])  # fmt: skip


def wrapped(schema: pa.Schema, wrap: Any) -> pa.Schema:
    f = schema.field("e")
    inner = wrap(f.type) if wrap is not pa.list_ else pa.list_(pa.field("item", f.type, metadata=f.metadata))
    return schema.set(1, pa.field("e", inner, metadata=f.metadata))


# Arguments that Python, or a careless reader, takes for equal: no two of a line may share a plan.
APART = [
    pytest.param([{"condition": fluent(v)} for v in (1, 1.0, Decimal(1), Decimal("1.0"))], id="constants"),
    pytest.param([{"condition": left("a") < lit(v)} for v in (1, 1.0, Decimal(1), Decimal("1.0"))], id="ones"),
    pytest.param([{"condition": fluent(v)} for v in (0.0, -0.0, 0)], id="zeros"),
    pytest.param([{"condition": lit(v) == lit(v)} for v in (True, 1, 1.0)], id="truths"),
    pytest.param([{"condition": left("s") == lit(v)} for v in ("1", "1.0", "true")], id="texts"),
    pytest.param([{"left_order": Order("b", slack=v)} for v in (1, 1.0, Decimal(1), Decimal("1.0"), None)],
                 id="slacks"),
    pytest.param([{"left_order": Order("b", slack=v)} for v in (0.0, -0.0, 0)], id="no slacks"),
    pytest.param([{"left_order": Order("a", descending=v)} for v in (False, True)], id="directions"),
    pytest.param([{"left_order": Order("a", nulls=v)} for v in (None, "first", "last")], id="nulls"),
    pytest.param([{"left_order": v} for v in ("a", "b", "-a", ["a", "b"], ["b", "a"], None, "a + 0")], id="orders"),
    pytest.param([{"left_order": "a"}, {"right_order": "a"}, {"left_order": "a", "right_order": "a"}], id="sides"),
    pytest.param([{"left_bounds": {"b": (v, 2)}} for v in (1, 1.0, 0, 0.0, -0.0, None)], id="bounds"),
    pytest.param([{"left_bounds": {"a": (0, 2)}}, {"right_bounds": {"a": (0, 2)}}, {"left_bounds": {"b": (0, 2)}}],
                 id="bounded sides"),
    pytest.param([{"left_bounds": {"t": (v, None)}} for v in (
        dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.date(2024, 1, 1),
        dt.datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC")),
        dt.datetime(2024, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), "2024-01-01",
    )], id="times"),
    pytest.param([{"condition": c} for c in (BAND, BAND + " ", BAND.lower(), BAND.replace("5", "6"))], id="words"),
    pytest.param([{"on": v} for v in ("k", ["k", "a"], ["a", "k"], [("k", "a")], [("a", "k")], None)], id="keys"),
    pytest.param([{"on": "k", "how": v} for v in ("inner", "left", "right", "full", "left_semi", "left_anti")],
                 id="join types"),
    pytest.param([{"suffix": v} for v in ("_right", "_r", "right")], id="suffixes"),
    pytest.param([{"batch_size": v} for v in (1, 2, 65536)], id="batch sizes"),
    pytest.param([{"on_late": v} for v in ("raise", "drop", "join")], id="late rows"),
    pytest.param([{"timezone": v} for v in ("UTC", "Europe/Paris", "+01:00")], id="zones"),
]  # fmt: skip


@pytest.mark.parametrize("arguments", APART)
def test_calls_that_differ_have_plans_of_their_own(arguments: list[dict[str, Any]]) -> None:
    plans = [made(**a) for a in arguments]
    for (i, a), (j, b) in permutations(enumerate(plans), 2):
        assert a is not b, f"{arguments[i]} and {arguments[j]} share a plan"
    assert [made(**a) for a in reversed(arguments)] == plans[::-1], "in another order they find their own again"


SCHEMAS = [
    SCHEMA, with_field(nullable=False), with_field(type=pa.int64()),
    with_field(type=pa.dictionary(pa.int8(), pa.int32())),
    with_field(metadata={"unit": "m"}),
    SCHEMA.with_metadata({"of": "clicks"}),
    pa.schema([SCHEMA.field(i) for i in (1, 0, 2, 3, 4)]),
    SCHEMA.append(pa.field("z", pa.int32())),
    SCHEMA.set(4, pa.field("t", pa.timestamp("us", "UTC"))),
    SCHEMA.set(4, pa.field("t", pa.timestamp("ms"))),
    SCHEMA.append(pa.field("z", pa.list_(pa.field("item", pa.int32(), nullable=False)))),
    SCHEMA.append(pa.field("z", pa.list_(pa.field("item", pa.int32())))),
    SCHEMA.append(pa.field("z", pa.list_(pa.field("other", pa.int32())))),
]


def test_schemas_differ_by_all_their_parts() -> None:
    options: dict[str, Any] = {"on": "k", "how": "left_semi"}
    plans = [made(a, b, **options) for a in SCHEMAS for b in (SCHEMA, SCHEMAS[1])]
    assert len({id(p) for p in plans}) == len(plans)
    for a, plan in zip([s for s in SCHEMAS for _ in range(2)], plans, strict=True):
        assert plan.sides[0].schema.equals(a, check_metadata=True)
        assert plan.schema.equals(pa.schema(list(a), metadata=a.metadata), check_metadata=True)


def test_an_extension_type_is_not_its_storage() -> None:
    assert EXTENDED.serialize() == AS_STORED.serialize(), "their bytes do not tell"
    for wrap in (lambda t: t, pa.list_):
        plans = [made(s, s, on="k") for s in (wrapped(EXTENDED, wrap), wrapped(AS_STORED, wrap))]
        assert plans[0] is not plans[1]
        assert [p.schema.field("e").type for p in plans] == [wrap(Stamp()), wrap(pa.int64())]


UNTOLD = [
    pytest.param({"condition": sympy.Symbol("left.a") < sympy.Symbol("right.a")}, id="sympy"),
    pytest.param({"batch_size": np.int64(7)}, id="a numpy number"),
    pytest.param({"left_bounds": {"a": (np.int32(1), None)}}, id="a numpy bound"),
    pytest.param({"condition": f"l.a IN ({', '.join(str(i) for i in range(3000))})"}, id="a long text"),
    pytest.param({"condition": left("a").isin(list(range(2000)))}, id="many constants"),
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("arguments", UNTOLD)
def test_indistinguishable_joins_are_planned_again(arguments: dict[str, Any]) -> None:
    assert made(**arguments) is not planned(SCHEMA, SCHEMA, **arguments)


def test_an_iterator_of_keys_is_read_once() -> None:
    assert made(on=["k", "a"]).spec.on == planned(SCHEMA, SCHEMA, on=iter(["k", "a"])).spec.on


def test_arguments_that_change_later_change_no_plan() -> None:
    keys, bounds = ["k"], {"a": (0, 5)}
    first = made(on=keys, left_bounds=bounds)
    keys.append("a")
    bounds["a"] = (0, 6)
    second = made(on=keys, left_bounds=bounds)
    assert (len(first.spec.on), len(second.spec.on)) == (1, 2)
    assert planned(SCHEMA, SCHEMA, on=["k"], left_bounds={"a": (0, 5)}) is first


def test_mistake_is_reported_each_time() -> None:
    for _ in range(2):
        with pytest.raises(ColumnError, match="did you mean 'a'"):
            planned(SCHEMA, SCHEMA, on="A")
    with pytest.raises(TypeError, match="condifion"):
        planned(SCHEMA, SCHEMA, condifion=BAND)


@pytest.mark.slow
def test_cache_has_a_greatest_size() -> None:
    first = planned(SCHEMA, SCHEMA, batch_size=1)
    for size in range(2, MOST_PLANS + 1):
        planned(SCHEMA, SCHEMA, batch_size=size)
    assert planned(SCHEMA, SCHEMA, batch_size=1) is first, "the room is for that many"
    planned(SCHEMA, SCHEMA, batch_size=MOST_PLANS + 1)
    assert planned(SCHEMA, SCHEMA, batch_size=1) is first, "it was used last but one"
    for size in range(2, MOST_PLANS + 2):
        planned(SCHEMA, SCHEMA, batch_size=10_000 + size)
    assert planned(SCHEMA, SCHEMA, batch_size=1) is not first


# -- operators of one plan ---------------------------------------------------------------------------------------

MAX32 = 2**31 - 1
NUMBERS = pa.schema({"k": pa.int64(), "a": pa.int32(), "c": pa.int64()})
# A computed key that errs for a value, a band that an order prunes, and a residual that a watermark may prune.
COMPUTED = {
    "on": "k", "condition": "l.a + 1 = r.a AND l.c >= r.c - 5 AND l.c <= r.c", "how": "full",
    "left_order": "c", "right_order": "c",
}  # fmt: skip
WATCHED = {"on": "k", "condition": "abs(l.c - r.c) + r.a * 2 <= l.a * 2", "how": "left", "left_order": "c"}


def rows(*values: tuple[int, int, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(NUMBERS.names, v, strict=True)) for v in values], NUMBERS)


Step = tuple[str, Any]


def play(op: SymmetricHashJoin, steps: list[Step]) -> Iterator[tuple[SymmetricHashJoin, Any]]:
    """One step at a time: the operator (a new one after a restore) and its output; an error ends it."""
    for what, about in steps:
        out: Any = ()
        try:
            if what in ("left", "right"):
                out = op.push(what, about)
            elif what == "advance":
                out = op.advance(*about)
            elif what == "finish":
                out = op.finish()
            else:
                op = SymmetricHashJoin.restore(op.snapshot())
            rows_ = Counter(repr(row) for b in out for row in b.to_pylist())
        except EvaluationError as e:
            yield op, str(e)
            return
        yield op, rows_


QUIET: list[Step] = [
    ("left", rows((1, 1, 1), (1, 2, 2))), ("right", rows((1, 2, 2), (2, 3, 3))), ("left", rows((1, 2, 6))),
    ("snapshot", None), ("right", rows((1, 3, 9))), ("finish", None),
]  # fmt: skip
ERRING: list[Step] = [
    ("left", rows((1, 1, 1), (2, MAX32, 2))), ("right", rows((1, 2, 3))), ("left", rows((1, 7, 4), (1, 2, 5))),
    ("snapshot", None), ("right", rows((1, 8, 5), (1, 3, 5))), ("right", rows((2, 1, 6))), ("finish", None),
]  # fmt: skip
OVERFLOWING: list[Step] = [("left", rows((9, MAX32, 1), (1, 1, 1))), *QUIET[1:]]
PROMISED: list[Step] = [
    ("left", rows((1, 1, 1))), ("advance", ("right", {"a": 2})), ("right", rows((1, 4, 2))), ("snapshot", None),
    ("left", rows((1, 3, 2))), ("advance", ("left", {"a": 5})), ("right", rows((1, 9, 2))), ("finish", None),
]  # fmt: skip
QUIETLY_FIRST = [QUIET, ERRING, OVERFLOWING, PROMISED, QUIET]
QUIETLY_LAST = [PROMISED, OVERFLOWING, ERRING, QUIET, PROMISED]


def alone(arguments: dict[str, Any], steps: list[Step]) -> list[Any]:
    """The output of the steps on an operator with a plan of its own."""
    op = SymmetricHashJoin.from_plan(make_plan(join_spec(NUMBERS, NUMBERS, **arguments)))
    return [out for _, out in play(op, steps)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("arguments", [COMPUTED, WATCHED], ids=["computed keys", "a watched residual"])
@pytest.mark.parametrize("scripts", [QUIETLY_FIRST, QUIETLY_LAST], ids=["the quiet one first", "the quiet one last"])
def test_operators_of_one_plan_do_not_see_each_other(arguments: dict[str, Any], scripts: Any) -> None:
    """Five at once, step by step in turn: one errs and is rekeyed, one gets axes, all are saved and restored."""
    plan = planned(NUMBERS, NUMBERS, **arguments)
    before = described(plan)
    ops = [SymmetricHashJoin(NUMBERS, NUMBERS, **arguments) for _ in scripts]
    got: list[list[Any]] = [[] for _ in scripts]
    for turn in zip_longest(*(play(op, steps) for op, steps in zip(ops, scripts, strict=True))):
        for outs, step in zip(got, turn, strict=True):
            if step is not None:
                outs.append(step[1])
    assert got == [alone(arguments, steps) for steps in scripts]
    assert planned(NUMBERS, NUMBERS, **arguments) is plan
    assert described(plan) == before


def test_rekeyed_operators_change_only_their_own_plan() -> None:
    plan = planned(NUMBERS, NUMBERS, **COMPUTED)
    ops = [SymmetricHashJoin(NUMBERS, NUMBERS, **COMPUTED) for _ in range(2)]
    list(ops[0].push("left", rows((1, MAX32, 1))))
    assert len(ops[0].plan.sides[0].keys) == 1, "this row makes the operator hash by plain columns"
    assert [len(p.sides[0].keys) for p in (plan, ops[1].plan)] == [2, 2]
    plan = planned(NUMBERS, NUMBERS, **WATCHED)
    ops = [SymmetricHashJoin(NUMBERS, NUMBERS, **WATCHED) for _ in range(2)]
    axes = len(plan.sides[0].axes)
    list(ops[0].advance("right", {"a": 2}))
    assert len(ops[0].plan.sides[0].axes) > axes, "the promise gives the other side an axis to prune by"
    assert [len(p.sides[0].axes) for p in (plan, ops[1].plan)] == [axes, axes]
    third = SymmetricHashJoin(NUMBERS, NUMBERS, **WATCHED)
    assert len(third.plan.sides[0].axes) == axes


def test_an_operator_of_a_changed_plan_is_laid_out_for_it() -> None:
    """What operators share of a plan is not of use to one that is made from a plan which has got an axis since."""
    arguments = {"on": "k", "condition": "l.c >= r.c AND l.a = r.a", "left_order": "c", "right_order": "c"}
    op = SymmetricHashJoin(NUMBERS, NUMBERS, **arguments)
    axes = len(op.plan.sides[0].axes)
    list(op.advance("right", {"a": 2}))
    assert len(op.plan.sides[0].axes) == axes + 1
    other = SymmetricHashJoin.from_plan(op.plan)
    assert not list(other.push("left", rows((1, 3, 4), (1, 4, 4), (1, 5, 5))))
    want = [{"k": 1, "a": 4, "c": 4, "a_right": 4, "c_right": 4}]
    assert [row for b in other.push("right", rows((1, 4, 4))) for row in b.to_pylist()] == want


def tables(seed: int, n: int = 3000) -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(seed)
    a, b = (pa.table({
        "k": rng.integers(0, 20, n), "a": pa.array(rng.integers(0, 100, n).astype(np.int32)),
        "c": np.arange(n) // 2 + rng.integers(0, 2, n),
    }) for _ in range(2))  # fmt: skip
    return a.cast(NUMBERS), b.cast(NUMBERS)


PLAIN = {"on": "k", "condition": "l.c >= r.c - 40 AND l.c <= r.c + 7", "how": "full",
         "left_order": Order("c", slack=1), "right_order": Order("c", slack=1)}  # fmt: skip


def answer(out: Any) -> Counter[str]:
    return Counter(repr(row) for row in out.read_all().to_pylist())


@pytest.mark.slow
def test_joins_at_the_same_time_and_one_after_the_other() -> None:
    data = [tables(seed) for seed in range(4)]
    want = []
    for pair in data:
        forget_plans()
        want.append(answer(band_join(*pair, **PLAIN)))
    for threads in (1, 2):
        for pair, rows_ in zip(data, want, strict=True):
            assert answer(band_join(*pair, **PLAIN, threads=threads)) == rows_
    forget_plans()
    jobs = [(i % 4, 1 + i % 2, 20 + i % 3) for i in range(24)]

    def work(job: tuple[int, int, int]) -> Counter[str]:
        number, threads, size = job
        return answer(band_join(*data[number], **PLAIN, threads=threads, batch_size=size))

    with ThreadPoolExecutor(8) as pool:
        for job, rows_ in zip(jobs, pool.map(work, jobs), strict=True):
            assert rows_ == want[job[0]], job


def test_pulled_streams_read_in_turn() -> None:
    pair = tables(9)
    want = answer(band_join(*pair, **PLAIN))
    streams = [band_join(*pair, **PLAIN, batch_size=50) for _ in range(3)]
    got: list[Counter[str]] = [Counter() for _ in streams]
    for turn in zip_longest(*streams):
        for rows_, batch in zip(got, turn, strict=True):
            if batch is not None:
                rows_.update(repr(row) for row in batch.to_pylist())
    assert got == [want] * 3
