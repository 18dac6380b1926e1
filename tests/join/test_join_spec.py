"""The question of a join is one value: equal for equal joins, the same in every process, read back from its bytes."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from ivjoin import Order
from ivjoin.plan.cache import plan_of, planned
from ivjoin.plan.question import join_options, join_spec
from ivjoin.plan.spec import JoinSpec

LEFT = pa.schema(
    [pa.field("k", pa.string(), nullable=False), ("a", pa.int64()), ("x", pa.float64()), ("d", pa.date32())]
)
RIGHT = pa.schema([("k", pa.string()), ("b", pa.int64()), ("x", pa.float64()), ("d", pa.date32())], {"of": "it"})
BASE: dict[str, Any] = {"on": "k", "condition": "l.a - r.b BETWEEN -2 AND 2"}
CHANGES: list[dict[str, Any]] = [
    {}, {"on": None}, {"on": ["k", "d"]}, {"condition": None}, {"condition": "l.a - r.b BETWEEN -2 AND 3"},
    {"condition": "l.x > 0.0"}, {"condition": "l.x > CAST('NaN' AS DOUBLE)"},
    {"how": "left"}, {"how": "leftanti"}, {"left_order": "a"}, {"right_order": "b"}, {"left_order": ["a", "d"]},
    {"left_order": Order("a", slack=2)}, {"left_order": Order("a", slack=2.5)},
    {"left_order": Order("a", slack=Decimal("2.5"))}, {"left_order": Order("a", descending=True)},
    {"left_order": Order("a", nulls="first")}, {"left_order": Order("d", slack=timedelta(days=3))},
    {"left_bounds": {"a": (0, None)}}, {"left_bounds": {"a": (0, 7)}}, {"right_bounds": {"b": (0, 7)}},
    {"left_bounds": {"d": (date(2020, 1, 1), None)}}, {"left_bounds": {"x": (-0.0, None)}}, {"suffix": "_r"},
    {"batch_size": 7}, {"on_late": "drop"}, {"timezone": "Europe/Berlin"},
]  # fmt: skip
SPECS = [join_spec(LEFT, RIGHT, **(BASE | change)) for change in CHANGES]


@pytest.mark.parametrize("spec", SPECS, ids=[str(c) for c in CHANGES])
def test_a_spec_is_read_back_whole(spec: JoinSpec) -> None:
    for again in (
        pickle.loads(pickle.dumps(spec)), JoinSpec.from_json(json.loads(json.dumps(spec.as_json))),
        JoinSpec.from_json(json.loads(spec.encoded)),
    ):
        assert again == spec and hash(again) == hash(spec) and again is not spec
        assert again.schemas[1].metadata == {b"of": b"it"} and not again.schemas[0].field("k").nullable
        assert (again.orders, again.bounds, again.condition) == (spec.orders, spec.bounds, spec.condition)
        assert plan_of(again) is plan_of(spec)


def test_different_joins_are_different_specs() -> None:
    assert len({*SPECS}) == len({s.encoded for s in SPECS}) == len({s.fingerprint for s in SPECS}) == len(SPECS)
    assert all((a == b) == (a is b) for a in SPECS for b in SPECS)
    assert SPECS[0] != "a join"


def test_the_same_join_in_other_words_is_the_same_spec() -> None:
    first = join_spec(LEFT, RIGHT, on="k", condition="abs(l.a - r.b) <= 2", how="outer", left_order="a")
    words = {"on": [("k", "k")], "condition": "ABS(left.a - right.b)   <= 2", "how": "full", "left_order": ["l.a"]}
    assert join_spec(LEFT, RIGHT, **words) == first


def test_a_spec_is_frozen() -> None:
    with pytest.raises(AttributeError):
        SPECS[0].how = "left"  # type: ignore[misc]


def test_it_is_encoded_alike_in_another_process() -> None:
    code = (
        "import sys, pickle; s = pickle.loads(sys.stdin.buffer.read()); "
        "print(*[x.fingerprint for x in s])"
    )
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(SPECS), capture_output=True, check=True)
    assert done.stdout.decode().split() == [s.fingerprint for s in SPECS]


def test_every_option_of_a_join_is_in_its_plan() -> None:
    options = {"suffix": "_2", "batch_size": 3, "on_late": "join", "timezone": "Asia/Tokyo"}
    spec = planned(LEFT, RIGHT, **BASE, **options).spec
    assert {name: getattr(spec, name) for name in options} == options
    assert set(join_options()) - {f"{s}_{w}" for s in ("left", "right") for w in ("order", "bounds")} == {
        "on", "condition", "how", *options
    }
