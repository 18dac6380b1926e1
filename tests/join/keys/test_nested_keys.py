"""Structs, lists and intervals as keys and in comparisons, against a nested loop in Spark's order."""

from __future__ import annotations

import math
import operator
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import oracle
import pyarrow as pa
import pytest

from ivjoin import ConditionError, SymmetricHashJoin, UnsupportedError, band_join

I64, NAN = 1 << 63, math.nan
INTS = [0, 1, -1, 255, 256, -256, (1 << 53) + 1, I64 - 1, -I64, None]
FLOATS = [0.0, -0.0, 1.5, -1.5, 5e-324, 1e308, math.inf, -math.inf, NAN, None]
TEXTS = ["", "a", "a\0", "a\0b", "ab", "\0", "\x01", "ß", "\U0001f600", "\uffff", None]
DECIMALS = [Decimal(0), Decimal("1.50"), Decimal("-1.50"), Decimal("1.49"), Decimal(10**7), None]
WIDE = [*DECIMALS, Decimal(10**60), -Decimal(10**60), Decimal(10**60 + 1), -Decimal(2) ** 64]
POINT = pa.struct([("i", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
PLAIN = pa.struct([("i", pa.int32()), ("x", pa.float32()), ("s", pa.large_string())])
DEEP = pa.struct([("at", pa.list_(pa.struct([("k", pa.bool_()), ("d", pa.date32())]))), ("z", pa.binary())])


def point(rng: random.Random) -> Any:
    return {"i": rng.choice(INTS), "x": rng.choice(FLOATS), "s": rng.choice(TEXTS)}


def small_point(rng: random.Random) -> Any:
    return {"i": rng.choice([0, 1, -1, 255, None]), "x": rng.choice([0.0, -1.5, math.inf, NAN]), "s": rng.choice(TEXTS)}


def deep(rng: random.Random) -> Any:
    inner = [rng.choice([None, {"k": rng.choice([True, False, None]), "d": rng.choice([0, -1, 1, None])}])
             for _ in range(rng.randrange(3))]  # fmt: skip
    return {"at": rng.choice([inner, None]), "z": rng.choice([b"", b"\0", b"\0\xff", b"\xff", None])}


def several(pool: list[Any], least: int = 0, most: int = 3) -> Any:
    return lambda rng: [rng.choice(pool) for _ in range(rng.randint(least, most))]


# A kind of column: its Arrow type and a draw of values, on the left and on the right.
KINDS: dict[str, Any] = {
    "structs": (POINT, point, POINT, point),
    "structs of two widths": (POINT, point, PLAIN, small_point),
    "structs of arrays": (DEEP, deep, DEEP, deep),
    "lists": (pa.list_(pa.int64()), several(INTS), pa.list_(pa.int64()), several(INTS)),
    "lists of texts": (pa.list_(pa.string()), several(TEXTS), pa.large_list(pa.string()), several(TEXTS)),
    "lists of fixed size": (pa.list_(pa.float64(), 2), several(FLOATS, 2, 2), pa.list_(pa.float64(), 2),
                            several(FLOATS, 2, 2)),
    "a fixed size and none": (pa.list_(pa.int32(), 2), several([0, 1, None], 2, 2), pa.list_(pa.uint64()),
                              several([0, 1, I64 - 1, I64, 2 * I64 - 1, None])),
    "decimals of two scales": (pa.list_(pa.decimal128(20, 2)), several(DECIMALS, 1, 1),
                               pa.list_(pa.decimal256(70, 5)), several(WIDE, 1, 1)),
    "wide decimals": (pa.decimal256(70, 2), lambda rng: rng.choice(WIDE), pa.decimal256(66, 4),
                      lambda rng: rng.choice(WIDE)),
    "intervals": (pa.month_day_nano_interval(), lambda rng: tuple(rng.choice([0, 1, -1, 30]) for _ in "mdn"),
                  pa.month_day_nano_interval(), lambda rng: tuple(rng.choice([0, 1, -1, 30]) for _ in "mdn")),
}  # fmt: skip
OPS = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def rank(v: Any) -> Any:
    """What orders a value as Spark does: NULL inside is least, NaN the greatest number, texts by their bytes."""
    if v is None:
        return (0,)
    if isinstance(v, float):
        return (1, v != v, 0.0 if v != v else v + 0.0)
    if isinstance(v, str):
        return (1, v.encode())
    if isinstance(v, dict):
        return (1, *map(rank, v.values()))
    if isinstance(v, list | tuple):
        return (1, tuple(map(rank, v)))
    return (1, v)


def columns(kind: str, n: int, seed: int) -> tuple[pa.Table, pa.Table, list[Any], list[Any]]:
    rng = random.Random(seed)
    out = []
    for t, draw in (KINDS[kind][:2], KINDS[kind][2:]):
        array = pa.array([None if rng.random() < 0.1 else draw(rng) for _ in range(n)], type=t)
        table = pa.table({"id": pa.array(range(n)), "v": array})
        out.append((table, [None if v is None else rank(v) for v in array.to_pylist()]))
    (a, x), (b, y) = out
    return a, b.rename_columns(["jd", "v"]), x, y


def split(table: pa.Table, size: int) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=size))


def ids(stream: Any) -> Counter[Any]:
    return Counter((row.get("id"), row.get("jd")) for b in stream for row in b.to_pylist())


@pytest.mark.one_in(11)
@pytest.mark.parametrize("kind", KINDS)
def test_comparisons(kind: str) -> None:
    left, right, x, y = columns(kind, 60, 3)
    for op, f in OPS.items():
        met = oracle.pairs(x, y, "inner", (), lambda a, b: a is not None and b is not None and f(a, b))  # noqa: B023
        assert met
        assert ids(band_join(split(left, 17), split(right, 60), condition=f"l.v {op} r.v")) == Counter(met), op
        assert ids(band_join(left, right, condition=f"NOT (l.v {op} r.v) OR r.v {op} l.v")) == Counter(
            oracle.pairs(x, y, "inner", (), lambda a, b: None not in (a, b) and (not f(a, b) or f(b, a)))  # noqa: B023
        )
    met = oracle.pairs(x, y, "inner", [(lambda v: v, lambda v: v, True)])
    assert ids(band_join(left, right, condition="l.v <=> r.v")) == Counter(met)
    assert ids(band_join(left, right, condition="l.v IN (r.v, NULL)")) == ids(
        band_join(left, right, condition="l.v = r.v")
    )


@pytest.mark.one_in(17)
@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_as_a_key(kind: str, how: str) -> None:
    left, right, x, y = columns(kind, 50, 5)
    want = Counter(oracle.pairs(x, y, how, [(lambda v: v, lambda v: v, False)]))
    for size in (1, 7, 50):
        found: Counter[Any] = Counter()
        for batch in band_join(split(left, size), split(right, 51 - size), on="v", how=how):
            for row in batch.to_pylist():
                found[row.get("id"), row.get("jd")] += 1
                at = (x[row["id"]] if row.get("id") is not None else y[row["jd"]]) if not how.endswith("i") else None
                assert how.endswith("i") or (None if row["v"] is None else rank(row["v"])) == at
        assert found == want


def test_key_is_emitted_in_the_common_type() -> None:
    def common(a: pa.DataType, b: pa.DataType) -> pa.DataType:
        left, right = (pa.schema([("v", t)]).empty_table() for t in (a, b))
        out = band_join(left, right, on="v", how="full").schema
        return out.field("v").type

    assert common(POINT, PLAIN) == pa.struct([("i", pa.int64()), ("x", pa.float64()), ("s", pa.large_string())])
    assert common(pa.list_(pa.int32()), pa.large_list(pa.int64())) == pa.large_list(pa.int64())
    assert common(pa.list_(pa.int32(), 3), pa.list_(pa.int64(), 3)) == pa.list_(pa.int64(), 3)
    assert common(pa.list_(pa.int32(), 3), pa.list_(pa.int32(), 2)) == pa.list_(pa.int32())
    assert common(pa.list_(pa.null()), pa.list_(pa.int8())) == pa.list_(pa.int8())


def test_with_another_key_a_band_and_snapshots() -> None:
    schema = pa.schema([("v", POINT), ("k", pa.string()), ("t", pa.int64())])
    rows = [{"v": {"i": n % 5, "x": -0.0 if n % 2 else 0.0, "s": None}, "k": str(n % 3), "t": n} for n in range(90)]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    other = pa.RecordBatch.from_pylist([r | {"t": r["t"] + 1} for r in rows], schema=schema)
    op = SymmetricHashJoin(
        schema, schema, on=["v", "k"], condition="r.t - l.t BETWEEN 0 AND 16", left_order="t", right_order="t"
    )
    found = 0
    for i in range(0, 90, 9):
        for side, part in (("left", batch), ("right", other)):
            found += sum(b.num_rows for b in op.push(side, part.slice(i, 9)))
            op = SymmetricHashJoin.restore(op.snapshot())
    found += sum(b.num_rows for b in op.finish())
    assert op.metrics.state_rows < 60
    assert found == sum(
        a["t"] % 15 == (b["t"] - 1) % 15 and 0 <= b["t"] - a["t"] <= 16 for a in rows for b in other.to_pylist()
    )


@pytest.mark.parametrize("left, right, error", [
    (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int64()), UnsupportedError),
    (pa.list_(pa.int64()), pa.list_(pa.string()), UnsupportedError),
    (pa.struct([("a", pa.int64())]), pa.struct([("b", pa.int64())]), UnsupportedError),
    (pa.list_(pa.int64()), pa.int64(), ConditionError),
])  # fmt: skip
def test_what_is_not_alike_is_refused(left: pa.DataType, right: pa.DataType, error: type[Exception]) -> None:
    a, b = pa.schema([("v", left)]), pa.schema([("v", right)])
    with pytest.raises(error, match=r"key columns left.v and right.v cannot be compared: = cannot take"):
        SymmetricHashJoin(a, b, on="v")
    with pytest.raises(error, match="< cannot take"):
        SymmetricHashJoin(a, b, condition="l.v < r.v")


@pytest.mark.parametrize("text", ["coalesce(l.v, r.v) = r.v", "CASE WHEN l.id > 1 THEN l.v ELSE r.v END = r.v",
                                  "nullif(l.v, r.v) IS NULL", "greatest(l.v, r.v) = r.v"])  # fmt: skip
def test_no_other_nested_value_is_made(text: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", POINT)])
    with pytest.raises(UnsupportedError, match="of a nested column there are its fields"):
        SymmetricHashJoin(schema, schema, condition=text)


@pytest.mark.parametrize("kind", [POINT, pa.list_(pa.int64()), pa.month_day_nano_interval(), pa.list_(pa.int8(), 2)])
def test_key_of_nulls_matches_nothing(kind: pa.DataType) -> None:
    nothing = pa.table({"k": pa.nulls(2), "a": [1, 2]})
    some = pa.table({"k": pa.array([None, None, None], kind), "b": [1, 2, 3]})
    for how, rows in (("inner", 0), ("full", 5), ("left_anti", 2), ("right_anti", 3)):
        got = band_join(nothing, some, on="k", how=how).read_all()
        assert got.num_rows == rows
    assert band_join(some, nothing, on="k", how="full").read_all().schema.field("k").type == kind
