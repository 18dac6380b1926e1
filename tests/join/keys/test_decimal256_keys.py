"""decimal256 as a key: equal by value across scales and with narrower numbers; computed with it is refused by name."""

from __future__ import annotations

import operator
from collections import Counter
from decimal import Context, Decimal
from typing import Any

import oracle
import pyarrow as pa
import pytest

from ivjoin import ConditionError, IvjoinError, SymmetricHashJoin, band_join

WIDE = Context(prec=200)
TOP = Decimal("9" * 60)
VALUES = [Decimal(0), Decimal(1), Decimal(-1), Decimal("1.5"), Decimal("-0.25"), Decimal(10**17), Decimal(2**63 - 1),
          Decimal(-(2**63)), Decimal(2**64), Decimal(10**30), TOP, -TOP, TOP - 1, None]  # fmt: skip
TYPES = {
    "wide": pa.decimal256(76, 5), "finer": pa.decimal256(70, 9), "coarse": pa.decimal256(76, 0),
    "narrow": pa.decimal128(38, 4), "short": pa.decimal128(10, 2), "int64": pa.int64(), "uint64": pa.uint64(),
    "int8": pa.int8(),
}  # fmt: skip


def column(t: pa.DataType) -> pa.Array:
    """Those of VALUES, and a few more, that the type holds exactly."""
    out: list[Any] = []
    for v in VALUES:
        try:
            pa.array([v], t) if v is None or pa.types.is_decimal(t) else pa.array([int(v)], t)
        except (pa.ArrowInvalid, OverflowError):
            continue
        if v is None or pa.types.is_decimal(t) or v == int(v):
            out.append(v if v is None or pa.types.is_decimal(t) else int(v))
    return pa.array([*out, out[0]], t)


def table(t: pa.DataType) -> pa.Table:
    d = column(t)
    return pa.table({"i": pa.array(range(len(d))), "d": d})


def expected(left: pa.Table, right: pa.Table, how: str, null_safe: bool = False) -> Counter[Any]:
    a, b = left["d"].to_pylist(), right["d"].to_pylist()
    met = oracle.pairs(a, b, how, [(lambda v: v, lambda v: v, null_safe)])
    if how.startswith(("left_", "right_")):
        return Counter((i if i is not None else j,) for i, j in met)
    return Counter(met)


def got(out: Any) -> Counter[Any]:
    return Counter(tuple(r[c] for c in b.schema.names if c[0] == "i") for b in out for r in _ids(b).to_pylist())


def _ids(b: pa.RecordBatch) -> pa.RecordBatch:
    return b.select([c for c in b.schema.names if c[0] == "i"])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("other", TYPES)
@pytest.mark.parametrize("mine", ["wide", "finer", "coarse"])
def test_equal_by_value(mine: str, other: str) -> None:
    left, right = table(TYPES[mine]), table(TYPES[other])
    want = expected(left, right, "inner")
    assert len(want) >= 4
    assert got(band_join(left, right, condition="l.d = r.d")) == want
    assert got(band_join(right, left, condition="l.d = r.d")) == Counter({(j, i): n for (i, j), n in want.items()})
    safe = expected(left, right, "inner", null_safe=True)
    assert got(band_join(left, right, condition="l.d <=> r.d")) == safe
    assert got(band_join(left, right, condition="l.d = r.d OR l.i < 0")) == want
    assert got(band_join(left, right, condition="NOT (l.d <> r.d) AND l.i >= 0")) == want
    assert got(band_join(left, right, on=[("d", "d")], how="left_semi")) == expected(left, right, "left_semi")


@pytest.mark.parametrize("how", oracle.HOWS)
def test_every_join_type(how: str) -> None:
    left, right = table(TYPES["wide"]), table(TYPES["wide"])
    assert got(band_join(left, right, on="d", how=how)) == expected(left, right, how)
    assert got(band_join(left, right, condition="l.d <=> r.d", how=how)) == expected(left, right, how, null_safe=True)
    right = table(TYPES["narrow"])
    assert got(band_join(left, right, condition="l.d = r.d", how=how)) == expected(left, right, how)


def test_key_is_emitted_in_the_common_type() -> None:
    left, right = table(TYPES["wide"]), table(TYPES["finer"]).rename_columns(["j", "d"])
    out = pa.Table.from_batches(list(band_join(left, right, on="d", how="full")))
    assert out.schema.field("d").type == pa.decimal256(76, 5)
    assert set(out["d"].to_pylist()) == set(left["d"].to_pylist()) | set(right["d"].to_pylist())
    narrow = pa.table({"d": pa.array([Decimal("1.5")], pa.decimal128(5, 2))})
    wide = pa.table({"d": pa.array([Decimal("1.5"), TOP], pa.decimal256(70, 3))})
    out = pa.Table.from_batches(list(band_join(narrow, wide, on="d", how="full")))
    assert out.schema.field("d").type == pa.decimal256(70, 3)
    assert sorted(out["d"].to_pylist()) == [Decimal("1.500"), TOP]


def test_with_other_keys_a_band_slices_and_a_snapshot() -> None:
    schema = pa.schema({"d": pa.decimal256(60, 3), "k": pa.string(), "t": pa.int64()})
    d = [Decimal(n % 7) * 10**40 for n in range(70)]
    batch = pa.record_batch({"d": d, "k": [str(n % 3) for n in range(70)], "t": range(70)}, schema=schema)
    op = SymmetricHashJoin(
        schema, schema, on=["d", "k"], condition="l.t BETWEEN r.t - 21 AND r.t", left_order="t", right_order="t"
    )
    out = list(op.push("left", batch.slice(0, 33)))
    op = SymmetricHashJoin.restore(op.snapshot())
    for side, part in (("right", batch.slice(0, 50)), ("left", batch.slice(33)), ("right", batch.slice(50))):
        out += op.push(side, part)
    assert sum(b.num_rows for b in [*out, *op.finish()]) == 70 + 49
    threads = band_join(pa.table(batch), pa.table(batch), on=["d", "k"], condition="l.t = r.t", threads=2)
    assert sum(b.num_rows for b in threads) == 70


@pytest.mark.parametrize("other", TYPES)
def test_compared_by_value(other: str) -> None:
    left, right = table(TYPES["wide"]), table(TYPES[other])
    for op, f in (("<", operator.lt), ("<=", operator.le), (">", operator.gt), (">=", operator.ge)):
        want = oracle.pairs(left["d"].to_pylist(), right["d"].to_pylist(), "inner", (),
                            lambda a, b: None not in (a, b) and f(a, b))  # fmt: skip  # noqa: B023
        assert want and got(band_join(left, right, condition=f"l.d {op} r.d")) == Counter(want), op
        assert got(band_join(right, left, condition=f"r.d {op} l.d")) == Counter((j, i) for i, j in want), op
    between = "l.d BETWEEN r.d AND r.d + 0" if other not in ("wide", "finer", "coarse") else "l.d BETWEEN r.d AND r.d"
    assert got(band_join(left, right, condition=between)) == expected(left, right, "inner")


def test_literals_and_null() -> None:
    left = right = table(TYPES["wide"])
    n = len(left)
    there = [v for v in left["d"].to_pylist() if v is not None]
    more, less = sum(v > 1 for v in there), sum(v <= 0 for v in there)
    for text, count in (("l.d = 1.5", n), ("1 = l.d", n), ("l.d IS NULL", n), ("l.d <> 0", n * (n - 3)),
                        ("l.d = NULL", 0), ("l.d > 1", n * more), ("0 >= l.d", n * less),
                        ("l.d IN (1, 1.5)", 2 * n), ("l.d <=> NULL", n)):  # fmt: skip
        assert sum(b.num_rows for b in band_join(left, right, condition=text)) == count, text


@pytest.mark.parametrize(
    "condition",
    ["l.d + r.d = 3", "-l.d = r.d", "abs(l.d) = 3", "l.d * 2 = 3",
     "l.d / r.d = 1", "CAST(l.d AS DOUBLE) = 1.0e0", "CAST(l.d AS STRING) = '1'", "coalesce(l.d, r.d) = 1",
     "greatest(l.d, r.d) = 1", "round(l.d) = 1", "l.d = 1.5e0", "l.d = 'x'", "l.d LIKE 'x'", "sqrt(l.d) = 1",
     "CASE WHEN l.i > 1 THEN l.d ELSE r.d END = 1", "floor(l.d) = 1", "l.d % 2 = 0", "least(l.d, 1) > r.d"],
)  # fmt: skip
def test_what_is_not_computed_names_the_type(condition: str) -> None:
    schema = table(TYPES["wide"]).schema
    with pytest.raises(ConditionError, match=r"decimal256\(76,5\)") as e:
        SymmetricHashJoin(schema, schema, condition=condition)
    assert "nested" not in str(e.value)


@pytest.mark.parametrize("options", [{"left_order": "d"}, {"left_bounds": {"d": (0, 1)}}])
def test_it_has_no_order(options: dict[str, Any]) -> None:
    schema = table(TYPES["wide"]).schema
    with pytest.raises(IvjoinError, match="decimal256"):
        SymmetricHashJoin(schema, schema, on="d", **options)
