"""Union columns: which values are null, and members that Arrow can neither take nor concatenate."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import ivjoin

WORDS = ["a", None, "b", "c", None, "d"]


def union(mode: str, words: list[str | None], encode: Any = lambda a: a) -> pa.UnionArray:
    """Words, every other one of the second type."""
    n = len(words)
    codes = pa.array([i % 2 for i in range(n)], pa.int8())
    if mode == "sparse":
        return pa.UnionArray.from_sparse(codes, [encode(pa.array(words)), encode(pa.array(words))])
    places = pa.array([i // 2 for i in range(n)], pa.int32())
    return pa.UnionArray.from_dense(codes, places, [encode(pa.array(words[::2])), encode(pa.array(words[1::2]))])


@pytest.mark.parametrize("encode", [lambda a: a, pc.run_end_encode, lambda a: a.cast(pa.string_view())])
@pytest.mark.parametrize("mode", ["sparse", "dense"])
def test_what_is_null_in_a_union_is_null(mode: str, encode: Any) -> None:
    left = pa.table({"k": [1]})
    for start in (0, 1, 3):
        words = WORDS[start:]
        right = pa.table({"k": [1] * len(words), "v": union(mode, WORDS, encode).slice(start)})
        for condition, there in (("r.v IS NULL", False), ("r.v IS NOT NULL", True)):
            got = ivjoin.band_join(left, right, on="k", condition=condition).to_arrow()["v"].to_pylist()
            assert got == [w for w in words if (w is not None) == there]
        joined = ivjoin.window_join(left, right, on="k", how="inner", aggregate={"n": "count(r.v)"})
        counted = joined.to_arrow()["n"].to_pylist()
        assert counted == [sum(w is not None for w in words)]


@pytest.mark.parametrize("options", [{}, {"memory_limit": 100_000, "when_full": "spill"}], ids=["held", "spilled"])
@pytest.mark.parametrize("mode", ["sparse", "dense"])
def test_each_batch_may_bring_other_dictionaries(mode: str, options: dict[str, Any]) -> None:
    def batch(number: int) -> pa.RecordBatch:
        words = [None if (number + i) % 5 == 3 else f"word {number + i}" for i in range(8)]
        v = union(mode, words, lambda a: a.dictionary_encode())
        return pa.record_batch({"t": pa.array(range(8 * number, 8 * number + 8)), "v": v})

    batches = [batch(i) for i in range(12)]
    ask: dict[str, Any] = {"condition": "r.t BETWEEN l.t - 9 AND l.t", "left_order": "t", "right_order": "t"}
    op = ivjoin.SymmetricHashJoin(batches[0].schema, batches[0].schema, **ask, how="full", **options)
    out = []
    for i, b in enumerate(batches):
        out += [*op.push("left", b), *op.push("right", b)]
        if i % 4 == 1:
            op = ivjoin.SymmetricHashJoin.restore(op.snapshot(), **options)
    got = pa.Table.from_batches([*out, *op.finish()], op.schema)
    got.validate(full=True)
    word = {t: w for b in batches for t, w in zip(b["t"].to_pylist(), b["v"].to_pylist(), strict=True)}
    rows = sorted(tuple(row.values()) for row in got.select(["t", "t_right"]).to_pylist())
    assert rows == [(t, u) for t in range(96) for u in range(max(0, t - 9), t + 1)]
    for name in ("", "_right"):
        assert got["v" + name].to_pylist() == [word[t] for t in got["t" + name].to_pylist()]
