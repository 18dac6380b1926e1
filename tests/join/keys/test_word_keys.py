"""Keys of several ordinals: ends of types, null-safe ones, computed ones that raise, and words with equal sums."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import SymmetricHashJoin
from ivjoin.shj import registers as at
from ivjoin.shj.store.keys import ByteKeys, WordKeys

pytestmark = pytest.mark.nojit

ODD = 0x9E37_79B9_7F4A_7C15
ENDS = [-(2**63), -1, 0, 1, 2**31, 2**53 + 1, 2**62, 2**63 - 1, ODD - 2**64, None]
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("t", pa.int64())])
BAND = "l.t BETWEEN r.t - 3 AND r.t + 3"


def rows(pairs: list[tuple[Any, Any]], first: int = 0) -> pa.RecordBatch:
    times = list(range(first, first + len(pairs)))
    columns = [*zip(*pairs, strict=True), times]
    return pa.record_batch([pa.array(c, pa.int64()) for c in columns], schema=SCHEMA)


def operator(**options: Any) -> SymmetricHashJoin:
    return SymmetricHashJoin(SCHEMA, SCHEMA, **options)


def taken(steps: Any) -> Counter[Any]:
    return Counter(tuple(row.values()) for b in steps for row in b.to_pylist())


def test_words_that_make_one_sum_are_different_keys() -> None:
    words = np.array([[0, 1, 0, 1], [ODD - 2**64, 0, ODD - 2**64, 1]])
    assert WordKeys(2).ids(words, None).tolist() == [0, 1, 0, 2]
    sums = {(a * ODD ^ b) % 2**64 for a, b in words.T.tolist()}
    assert len(sums) == 2
    op = operator(on=["a", "b"])
    list(op.push("left", rows([(0, ODD - 2**64), (1, 0), (1, 1)])))
    assert taken(op.push("right", rows([(1, 0), (2, ODD - 2**64)]))) == Counter({(1, 0, 1, 0): 1})
    assert op._engine.state.get("key_kind") == at.INTS


@pytest.mark.parametrize("safe", [(False, False), (False, True), (True, False), (True, True)])
def test_every_pair_of_ends(safe: tuple[bool, bool]) -> None:
    pairs = list(itertools.product(ENDS, repeat=2))
    equal = " AND ".join(f"l.{c} {'<=>' if s else '='} r.{c}" for c, s in zip("ab", safe, strict=True))
    op = operator(condition=equal, how="full")
    assert isinstance(op._engine.keys, WordKeys)
    want: Counter[Any] = Counter()
    for i, p in enumerate(pairs):
        if all(v is not None or s for v, s in zip(p, safe, strict=True)):
            want[(*p, i, *p, i)] += 1
        else:
            want[(*p, i, None, None, None)] += 1
            want[(None, None, None, *p, i)] += 1
    got: Counter[Any] = Counter()
    for first in range(0, len(pairs), 30):
        got += taken(op.push("left", rows(pairs[first : first + 30], first)))
        op = SymmetricHashJoin.restore(op.snapshot())
    for first in range(0, len(pairs), 7):
        got += taken(op.push("right", rows(pairs[first : first + 7], first)))
    assert got + taken(op.finish()) == want


@pytest.mark.parametrize("types", [(pa.float64(), pa.int8()), (pa.bool_(), pa.date32()), (pa.float32(), pa.uint64()),
                                   (pa.decimal128(9, 2), pa.timestamp("ms")), (pa.int32(), pa.int64(), pa.time32("s"))])
def test_words_of_every_type(types: tuple[pa.DataType, ...]) -> None:
    schema = pa.schema([(f"k{i}", t) for i, t in enumerate(types)])
    names = schema.names

    def some(numbers: list[int]) -> pa.RecordBatch:
        columns = []
        for i, t in enumerate(types):
            values: list[Any] = [n // 3**i % 3 for n in numbers]
            if t == pa.bool_():
                values = [v > 1 for v in values]
            elif pa.types.is_floating(t):
                values = [(float("nan"), -0.0, 0.0)[v] for v in values]
            kind = pa.int32() if pa.types.is_date32(t) or pa.types.is_time32(t) else t
            columns.append(pa.array(values, kind).cast(t))
        return pa.record_batch(columns, schema=schema)

    def keys(batch: pa.RecordBatch) -> list[str]:
        return [repr(tuple(row.values())).replace("-0.0", "0.0") for row in batch.to_pylist()]

    left, right = some(list(range(27))), some(list(range(0, 54, 2)))
    op = SymmetricHashJoin(schema, schema, on=names)
    assert isinstance(op._engine.keys, WordKeys)
    list(op.push("left", left))
    got = sum(b.num_rows for b in op.push("right", right))
    assert got == sum(a == b for a in keys(left) for b in keys(right)) > 0


def test_text_next_to_a_word_is_bytes() -> None:
    schema = pa.schema([("a", pa.int64()), ("s", pa.string())])
    assert isinstance(SymmetricHashJoin(schema, schema, on=["a", "s"])._engine.keys, ByteKeys)


def test_a_computed_word_that_errs_is_left_to_the_condition() -> None:
    op = operator(on="a", condition=f"100 div l.b = r.b AND {BAND}", on_late="drop")
    assert isinstance(op._engine.keys, WordKeys)
    assert taken(op.push("left", rows([(1, 20), (1, 50), (2, 20)]))) == Counter()
    assert taken(op.push("right", rows([(1, 5), (2, 2)]))) == Counter({(1, 20, 0, 5, 0): 1})
    list(op.push("left", rows([(7, 0)], 3)))  # 100 div 0: no row of key 7 is there
    assert op._engine.rekeyed
    assert taken(op.push("right", rows([(2, 5), (1, 2)], 2))) == Counter({(2, 20, 2, 5, 2): 1, (1, 50, 1, 2, 3): 1})


def test_ids_are_taken_back_and_given_again() -> None:
    op = operator(on=["a", "b"], condition=BAND, left_order="t", right_order="t")
    rng = np.random.default_rng(3)
    most, got, want, step = 0, 0, 0, 40
    for i in range(120):
        both = [[(int(a), int(b)) for a, b in rng.integers(0, 9, (step, 2)) + 9 * i] for _ in (0, 1)]
        for side, pairs in zip(("left", "right"), both, strict=True):
            got += sum(b.num_rows for b in op.push(side, rows(pairs, i * step)))
        for (x, p), (y, q) in itertools.product(enumerate(both[0]), enumerate(both[1])):
            want += p == q and abs(x - y) <= 3  # no key comes again in a later step
        most = max(most, len(op._engine.keys.slots))
    assert got == want > 0
    assert most < 4000
