"""A caller writes to the buffers of a batch after the push: flat columns were copied, nested ones were not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ivjoin

WORDS = np.arange(8, dtype=np.int64)


def flat(data: np.ndarray) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), 8, [None, pa.py_buffer(data)])


def text(data: np.ndarray, t: pa.DataType) -> pa.Array:
    offsets = np.arange(9, dtype=np.int64 if pa.types.is_large_binary(t) else np.int32) * 8
    return pa.Array.from_buffers(t, 8, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def listed(data: np.ndarray) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(9), pa.int32()), flat(data))


def after_reuse(make: Any) -> tuple[Any, Any]:
    """The payload as it was pushed, and as it is emitted after the buffer was overwritten."""
    data = WORDS.copy()
    payload = make(data)
    batch = pa.record_batch({"k": pa.array(range(8)), "p": payload})
    want = batch.column("p").to_pylist()
    op = ivjoin.SymmetricHashJoin(batch.schema, pa.schema({"k": pa.int64()}), on="k")
    list(op.push("left", batch))
    data[:] = 99
    found = [r for b in op.push("right", pa.record_batch({"k": range(8)})) for r in b.to_pylist()]
    return want, [r["p"] for r in sorted(found, key=lambda r: r["k"])]


@pytest.mark.parametrize("make", [
    flat, lambda d: text(d, pa.binary()), lambda d: text(d, pa.large_binary()),
    lambda d: pa.Array.from_buffers(pa.binary(8), 8, [None, pa.py_buffer(d)]),
], ids=["numbers", "binary", "large binary", "fixed binary"])  # fmt: skip
def test_flat_columns_are_copied(make: Any) -> None:
    want, got = after_reuse(make)
    assert got == want


@pytest.mark.parametrize("make", [
    listed, lambda d: pa.StructArray.from_arrays([flat(d)], ["a"]),
    lambda d: pa.DictionaryArray.from_arrays(pa.array(range(8), pa.int32()), flat(d)),
], ids=["list", "struct", "dictionary"])  # fmt: skip
def test_nested_columns_are_referenced_as_push_states(make: Any) -> None:
    want, got = after_reuse(make)
    assert got != want
