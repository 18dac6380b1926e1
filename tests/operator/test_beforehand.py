"""What a plan says of the kernels that its operators will call, beside what they call."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module

import pyarrow as pa
import pytest

from ivjoin.operator import beforehand
from ivjoin.plan.cache import plan_of
from ivjoin.plan.question import join_spec
from ivjoin.shj.kernels import compiling

# Of each question: keys, their type, a column of text beside them or none, and what else is asked.
QUESTIONS: dict[str, dict[str, object]] = {
    "int": {"key": "int64"},
    "int32 and text": {"key": "int32", "text": True},
    "text": {"key": "string"},
    "text twice": {"key": "string", "on": ["k", "t"], "condition": None, "text": True},
    "none": {"on": None},
    "two ints": {"on": ["k", "t"], "condition": None},
    "computed": {"condition": "l.t - r.t BETWEEN 0 AND 30 AND l.t % 2 = r.t % 2"},
    "float": {"key": "double", "how": "full"},
    "semi": {"how": "left_semi"},
    "residual": {"condition": "l.t - r.t BETWEEN 0 AND 30 AND l.t % 2 = 1 OR l.t = r.t"},
    "product": {"condition": "l.t - r.t BETWEEN 0 AND 30 AND l.t * r.k > 5"},
    "aggregate": {"aggregate": {"n": ["*", "count"]}, "how": "left"},
    "pick": {"pick": "last", "pick_by": "t", "condition": "r.t <= l.t", "how": "left"},
}

_CALLED = """
import json, sys
from importlib import import_module
import numpy as np, pyarrow as pa
from ivjoin import SymmetricHashJoin
from ivjoin.operator import beforehand
from ivjoin.shj.kernels import compiling

groups = [group for group in vars(beforehand).values() if isinstance(group, tuple)]
modules = {name.partition(".")[0] for group in groups for name in group if "." in name}
rooms = [vars(import_module(f"ivjoin.shj.kernels.{m}")) for m in modules]
first_calls = [(room, n, k) for room in rooms for n, k in room.items() if hasattr(k, "signature")]
called, plain = set(), compiling._words
compiling._words = lambda function, signature: (called.add(compiling._name(function)), plain(function, signature))[1]

def run(key="int64", text=False, on="k", condition="abs(l.t - r.t) <= 30", **said):
    schema = pa.schema([("k", key), ("t", pa.int64()), *([("s", pa.string())] if text else [])])
    orders = {"left_order": "t", "right_order": "t", "on_late": "drop"}
    op = SymmetricHashJoin(schema, schema, on=on, condition=condition, **orders, **said)
    for i in range(8):
        t = np.arange(500 * i, 500 * i + 500)
        columns = [pa.array((t % 7).tolist()).cast(schema.types[0]), pa.array(t), pa.array(t).cast(pa.string())]
        for side in ("left", "right"):
            list(op.push(side, pa.RecordBatch.from_arrays(columns[: len(schema)], schema=schema)))
        if i % 4 == 3:
            op = SymmetricHashJoin.restore(op.snapshot())
    list(op.finish())

out = {}
for name, said in json.loads(sys.argv[1]).items():
    for room, n, kernel in first_calls:  # as in a process that has called none
        room[n] = kernel
    called.clear()
    run(**said)
    out[name] = sorted(called)
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def called() -> dict[str, list[str]]:
    command = [sys.executable, "-c", _CALLED, json.dumps(QUESTIONS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    answer: dict[str, list[str]] = json.loads(done.stdout)
    return answer


@pytest.mark.slow
@pytest.mark.skipif(not compiling.COMPILES, reason="nothing is compiled")
@pytest.mark.parametrize("name", QUESTIONS)
def test_the_kernels_that_a_plan_names_are_those_that_its_operators_call(
    name: str, called: dict[str, list[str]]
) -> None:
    said = dict(QUESTIONS[name])
    key, text = str(said.pop("key", "int64")), bool(said.pop("text", False))
    schema = pa.schema([("k", key), ("t", pa.int64()), *([("s", pa.string())] if text else [])])
    said = {"on": "k", "condition": "abs(l.t - r.t) <= 30", **said}
    spec = join_spec(schema, schema, left_order="t", right_order="t", **said)  # type: ignore[arg-type]
    named = beforehand.kernels_of(plan_of(spec))
    assert set(called[name]) <= set(named)
    assert len(named) == len(set(named))
    assert called[name] or "aggregate" in said
    if "push_kernels.push_batch" in called[name]:
        assert named[: len(beforehand.EVERY_PUSH)] == list(beforehand.EVERY_PUSH)


def test_every_name_is_that_of_a_kernel() -> None:
    names = {
        name for group in vars(beforehand).values() if isinstance(group, tuple) for name in group if "." in name
    }
    assert set(beforehand.EVERY_PUSH) < names
    for name in names:
        module = f"{compiling.__name__.rpartition('.')[0]}.{name.partition('.')[0]}"
        kernels = vars(import_module(module))
        callbacks = {function.__name__ for function, _ in kernels.get("CALLBACKS", ())}
        assert name.partition(".")[2] in callbacks | set(kernels)
