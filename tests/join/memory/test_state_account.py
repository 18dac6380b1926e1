"""``metrics.state_bytes`` against the arrays and buffers that are reachable from the operator."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from memory.kinds import KINDS, QUESTIONS, piece, schema_of

from ivjoin import Order, SymmetricHashJoin
from ivjoin.shj.kernels.compiling import COMPILES
from ivjoin.shj.store.disk.pages import Pages

pytestmark = pytest.mark.nojit

PASSED_BY = (ModuleType, FunctionType, MethodType, type, str, bytes, int, float, pa.DataType, pa.Schema, pa.Field)


def buffers_of(array: pa.Array) -> Iterator[pa.Buffer]:
    if isinstance(array, pa.DictionaryArray):
        yield from buffers_of(array.dictionary)
    yield from (b for b in array.buffers() if b is not None)


def reachable(root: Any, without: set[int]) -> dict[int, int]:
    """Address -> bytes of each array and buffer reachable from an object, except those of ``without``."""
    found: dict[int, int] = {}
    seen = set()
    stack = [root]
    while stack:
        it = stack.pop()
        if id(it) in seen or isinstance(it, PASSED_BY):
            continue
        seen.add(id(it))
        if isinstance(it, np.ndarray):
            while isinstance(it.base, np.ndarray):
                it = it.base
            assert it.base is None or isinstance(it.base, Pages), "an array over memory of another's"
            if it.nbytes and it.ctypes.data not in without:
                found[it.ctypes.data] = it.nbytes
        elif isinstance(it, pa.Array):
            found |= {b.address: b.size for b in buffers_of(it)}
        elif isinstance(it, pa.lib._Weakrefable):
            raise AssertionError(f"an operator holds a {type(it).__name__}, which is in no account")
        else:
            stack.extend(gc.get_referents(it))
    return found


def held(op: SymmetricHashJoin) -> int:
    plans = reachable(op.plan, set())  # tables that all operators of a plan share
    mine = {k: v for k, v in op.__dict__.items() if k not in ("plan", "_layouts", "_builder")}
    return sum(reachable(mine, set(plans)).values())


@pytest.mark.one_in(47)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_account_equals_memory_in_use(question: str, kind: str, path: str) -> None:
    seed = list(QUESTIONS).index(question) * 10 + list(KINDS).index(kind)
    rng = np.random.default_rng(seed)
    key = [pa.int64(), pa.string()][seed % 2] if path == "no blocks" else pa.int64()
    schema = schema_of(kind, key)
    op = SymmetricHashJoin(schema, schema, **QUESTIONS[question])
    told, peak = [], 0

    def look() -> None:
        nonlocal peak
        gc.collect(0)
        told.append(op.metrics.state_bytes)
        assert told[-1] == held(op)
        peak = max(peak, told[-1])
        assert op.metrics.peak_state_bytes >= peak

    look()
    for i in range(30):
        n = int(rng.choice([1, 5, 30, 30, 400 if i == 8 else 3]))
        for side in ("left", "right"):
            out = op.push(side, piece(kind, key, rng, 25 * i, n, question))
            if i % 5 == 0:
                look()
            for at, _ in enumerate(out):
                if at == 0 and i % 5 == 1:
                    look()
        if i % 3 == 0:
            look()
        if i == 15:
            list(op.advance("left", {"t": 25 * i - 400}))
            look()
        if i == 20:
            op = SymmetricHashJoin.restore(op.snapshot())
            look()
    assert len(set(told)) > 3
    list(op.finish("left"))
    look()
    list(op.finish())
    look()
    assert op.metrics.state_rows == 0


def plain(t: int, n: int, keys: int) -> pa.RecordBatch:
    rng = np.random.default_rng(t)
    return pa.record_batch({"k": rng.integers(0, keys, n), "t": np.arange(n) + t, "v": rng.random(n)})


@pytest.mark.slow
@pytest.mark.skipif(not COMPILES, reason="small inputs do not show it, and large ones take long uncompiled")
def test_through_bursts_sweeps_and_sorted_runs(path: str) -> None:
    """What grows and is given back: scratch for pairs and rows, rings, the table of keys, sorted runs."""
    schema = plain(0, 1, 1).schema
    options = {"on": "k", "left_order": Order("t", slack=1000), "right_order": Order("t", slack=1000)}
    seen = set()
    for condition, keys in (("l.t BETWEEN r.t - 900 AND r.t + 5", 40), ("l.t BETWEEN r.t - 60 AND r.t", 10**6)):
        op = SymmetricHashJoin(schema, schema, condition=condition, **options)
        t = 0
        for i in range(150):
            n = 20_000 if i in (40, 41) else 200
            batch = plain(t, n, keys)
            t += n
            if i > 100:
                batch = batch.take(np.random.default_rng(i).permutation(n))
            for side in ("left", "right"):
                for at, _ in enumerate(op.push(side, batch)):
                    if at == 2:
                        assert op.metrics.state_bytes == held(op)
            seen.add(op._engine.state.get("blocks"))
            if i % 7 == 0 or 38 < i < 50:
                assert op.metrics.state_bytes == held(op)
        most, now = op.metrics.peak_state_bytes, op.metrics.state_bytes
        assert most > 2 * now
    assert seen == {path == "blocks"}


def test_many_small_operators_take_little_memory(path: str) -> None:
    schema = plain(0, 1, 1).schema
    op = SymmetricHashJoin(schema, schema, on="k", condition="l.t = r.t")
    assert op.metrics.state_bytes == held(op) < 12_000


def test_slices_of_one_array_count_its_buffers_once() -> None:
    schema = pa.schema({"t": pa.int64(), "v": pa.list_(pa.int64())})
    n = 4000
    whole = pa.record_batch([np.arange(n), pa.array([[i] for i in range(n)])], schema=schema)
    op = SymmetricHashJoin(schema, schema, condition="l.t < r.t")
    for at in range(0, 3900, 100):
        list(op.push("left", whole.slice(at, 100)))
    assert op.metrics.state_bytes == held(op)
    assert op.metrics.state_bytes < 2 * whole.nbytes + 100_000
