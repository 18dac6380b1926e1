"""Stored columns through appends, growth, trims and selections, against plain lists."""

import numpy as np
import pyarrow as pa
import pytest

from ivjoin.shj.store.values import texts as text_columns
from ivjoin.shj.store.values.columns import column_for

pytestmark = pytest.mark.nojit

TYPES = {
    "string": (pa.string(), lambda rng, i: "x" * int(rng.integers(0, 40)) + str(i)),
    "binary": (pa.large_binary(), lambda rng, i: b"\x00y" * int(rng.integers(0, 30)) + bytes([i % 256])),
    "empty strings": (pa.large_string(), lambda rng, i: "" if i % 3 else "z"),
    "bool": (pa.bool_(), lambda rng, i: bool(i % 3)),
    "int32": (pa.int32(), lambda rng, i: i),
    "wide": (pa.binary(20), lambda rng, i: b"%020d" % i),
    "list": (pa.list_(pa.int8()), lambda rng, i: [i % 5] * (i % 4)),
}


# Strings: where their count of bytes begins, and from what size on an arena's starts take eight bytes.
ARENAS = [(0, 2**32), (2**32 - 700, 2**32), (2**40 + 5, 2**32), (0, 3000), (0, 0)]
WITH_ARENA = ("string", "binary", "empty strings")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("kind", "base", "narrow"),
    [(k, *a) for k in WITH_ARENA for a in ARENAS] + [(k, 0, 2**32) for k in TYPES if k not in WITH_ARENA],
)
def test_life_of_a_column(kind, base, narrow, monkeypatch):
    monkeypatch.setattr(text_columns, "_NARROW", narrow)
    t, make = TYPES[kind]
    rng = np.random.default_rng(3)
    cap = 10
    column = column_for(t, cap)
    if isinstance(column, text_columns.BytesColumn):
        column._top = column._base = base
    lo = hi = 0
    held = {}
    for step in range(200):
        n = int(rng.integers(1, 12))
        if hi - lo + n > cap:
            cap = hi - lo + n + int(rng.integers(0, 9))
            column.grow(cap, lo, hi)
        values = [None if rng.random() < 0.1 and step > 50 else make(rng, hi + i) for i in range(n)]
        column.append(pa.array(values, t), hi)
        held |= {hi + i: v for i, v in enumerate(values)}
        hi += n
        lo = min(hi, lo + int(rng.integers(0, 14)))
        held = {i: v for i, v in held.items() if i >= lo}
        column.trim(lo)
        if step % 17 == 0 and held:
            keep = np.array(sorted(i for i in held if i % 3), dtype=np.int64)
            column.select(keep, keep % cap, len(keep) + 5)
            cap = len(keep) + 5
            held = {new: held[int(old)] for new, old in enumerate(keep)}
            lo, hi = 0, len(keep)
        ids = rng.permutation(np.array(sorted(held), dtype=np.int64))
        assert column.gather(ids, ids % cap).to_pylist() == [held[int(i)] for i in ids]
