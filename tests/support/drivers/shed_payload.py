"""Shed rows with a large payload: ``python shed_payload.py TYPE SIDES``; prints how far the process's peak grew."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

import ivjoin
from ivjoin.shj.store.disk.process_memory import give_back

TYPES = {
    "binary": pa.binary(), "fixed": pa.binary(200), "list": pa.list_(pa.binary()),
    "struct": pa.struct([("a", pa.binary())]),
}  # fmt: skip
_N, _WIDTH, _BATCHES = 4096, 200, 130
_BAND = "l.t BETWEEN r.t - 2000000 AND r.t + 2000000"


def status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise ValueError(name)


def batch(i: int, schema: pa.Schema, rng: np.random.Generator) -> pa.RecordBatch:
    offsets = pa.py_buffer(np.arange(_N + 1, dtype=np.int32) * _WIDTH)
    payload: pa.Array = pa.Array.from_buffers(pa.binary(), _N, [None, offsets, pa.py_buffer(rng.bytes(_N * _WIDTH))])
    t = schema.field("b").type
    if pa.types.is_list(t):
        payload = pa.ListArray.from_arrays(pa.array(range(_N + 1), pa.int32()), payload)
    elif pa.types.is_struct(t):
        payload = pa.StructArray.from_arrays([payload], ["a"])
    keys = pa.array(rng.integers(0, 200_000, _N))
    return pa.record_batch([keys, pa.array(np.arange(i * _N, i * _N + _N)), payload.cast(t)], schema=schema)


def main(kind: str, sides: list[str]) -> None:
    schema, rng = pa.schema({"k": pa.int64(), "t": pa.int64(), "b": TYPES[kind]}), np.random.default_rng(1)

    def pushed(limit: str, batches: int) -> int:
        op = ivjoin.SymmetricHashJoin(
            schema, schema, on="k", condition=_BAND, left_order="t", right_order="t", memory_limit=limit,
            when_full="shed",
        )
        for i in range(batches):
            for side in sides:
                for _ in op.push(side, batch(i, schema, rng)):
                    pass
        return op.metrics.shed_left

    assert pushed("4MB", 12)
    give_back()
    start = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
    shed = pushed("100MB", _BATCHES)
    print(status("VmHWM") - start, shed)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(","))
