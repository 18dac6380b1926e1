"""Joins and columns of every kind whose memory is measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin import Order

KINDS: dict[str, Any] = {
    "words": (pa.int64(), lambda i: i), "narrow": (pa.int16(), lambda i: i % 100),
    "wide": (pa.binary(20), lambda i: b"%020d" % i), "bools": (pa.bool_(), lambda i: i % 3 == 0),
    "text": (pa.string(), lambda i: "x" * (i % 50)),
    "lists": (pa.list_(pa.int32()), lambda i: [i] * (i % 4)),
    "structs": (pa.struct({"a": pa.int32(), "b": pa.string()}), lambda i: {"a": i, "b": str(i)}),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), lambda i: str(i % 9)),
}

QUESTIONS: dict[str, dict[str, Any]] = {
    "a band": {"on": "k", "condition": "l.t BETWEEN r.t - 40 AND r.t + 40", "left_order": "t", "right_order": "t"},
    "full": {"on": "k", "condition": "abs(l.t - r.t) <= 9", "how": "full", "left_order": "t", "right_order": "t"},
    "no key": {"condition": "l.t BETWEEN r.t - 3 AND r.t", "left_order": "t", "right_order": "t"},
    "no order": {"on": "k", "condition": "l.t <= r.t - 900"},
    "semi": {"on": "k", "condition": "l.t < r.t", "how": "left_semi", "right_order": "t"},
    "a residual": {
        "on": "k", "condition": "l.t BETWEEN r.t - 30 AND r.t AND (l.t + r.t) % 7 < 3", "how": "left",
        "left_order": Order("t", slack=20), "right_order": Order("t", slack=20),
    },
    "slow order": {
        "on": "k", "condition": "l.t BETWEEN r.t - 500 AND r.t + 500",
        "left_order": Order("t", slack=400), "right_order": Order("t", slack=400),
    },
    "small batches": {
        "on": "k", "condition": "l.t BETWEEN r.t - 60 AND r.t", "left_order": "t", "right_order": "t", "batch_size": 16,
    },
}  # fmt: skip


def schema_of(kind: str, key: pa.DataType) -> pa.Schema:
    return pa.schema({"k": key, "t": pa.int64(), "v": KINDS[kind][0]})


def piece(kind: str, key: pa.DataType, rng: np.random.Generator, t: int, n: int, question: str) -> pa.RecordBatch:
    rough = rng.integers(0, 15 if question == "a residual" else 390, n) if "slack" in repr(QUESTIONS[question]) else 0
    times = np.sort(rng.integers(0, 20, n)) + t - rough
    numbers = rng.integers(0, 10**6, n)
    values = [None if rng.random() < 0.05 and t % 3 == 0 else KINDS[kind][1](int(i)) for i in numbers]
    keys = pa.array(rng.integers(0, 12, n)).cast(key)
    return pa.record_batch([keys, pa.array(times), pa.array(values, KINDS[kind][0])], schema=schema_of(kind, key))
