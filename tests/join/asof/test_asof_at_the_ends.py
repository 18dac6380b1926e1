"""As-of joins at the ends of types: two units, two zones, tolerances, and keys that meet in a wider type."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import inf, nan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from taken import one_of

from ivjoin import ConditionError, EvaluationError, Order, asof_join, band_join
from ivjoin.operator.lookup.rows import Rows

LOW, HIGH = -(2**63), 2**63 - 1
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def stamps(values: list[int], unit: str, zone: str | None) -> pa.Array:
    return pa.array(values, pa.int64()).view(pa.timestamp(unit, zone))


def test_a_row_past_the_end_replaces_no_nearer_one() -> None:
    """In nanoseconds both later rows are the greatest value, as is the left row, but one of them lies far away."""
    left = pa.table({"i": range(4), "t": stamps([LOW, LOW + 2, 0, HIGH], "ns", None)})
    right = pa.table({"j": range(4), "t": stamps([-9223372036, -1, 9223372035, HIGH - 2], "s", None)})
    found = asof_join(
        iter(left.to_batches(1)), iter(right.to_batches(1)), on="t", direction="nearest", left_order="t",
        right_order="t",
    )
    assert found.read_all().sort_by("i")["j"].to_pylist() == [0, 0, 1, 2]


@pytest.mark.one_in(13)
@pytest.mark.parametrize(("a", "b"), [
    ("UTC", "UTC"), ("+05:30", "UTC"), ("UTC", "+05:30"), ("UTC", "Europe/Berlin"), ("Europe/Berlin", "Asia/Tokyo"),
    ("UTC", None), (None, "UTC"), (None, None),
])  # fmt: skip
@pytest.mark.parametrize(("u", "v"), [("ms", "us"), ("s", "ns"), ("us", "ms"), ("ns", "s"), ("us", "us")])
def test_the_nearest_of_two_units_and_zones(a: str | None, b: str | None, u: str, v: str) -> None:
    rng = random.Random(f"{a} {b} {u} {v}")
    finer = max(PER_SECOND[u], PER_SECOND[v])
    ends = [LOW, LOW + 1, LOW + 2, -1, 0, 1, HIGH - 2, HIGH - 1, HIGH]
    for _ in range(3):
        lefts = rng.sample(ends, 4)
        near = [x * PER_SECOND[v] // PER_SECOND[u] + rng.randrange(-2, 3) for x in lefts]
        rights = sorted({*rng.sample(ends, 3), *(x for x in near if LOW <= x <= HIGH)})
        left = pa.table({"i": range(4), "t": stamps(lefts, u, a)})
        right = pa.table({"j": range(len(rights)), "t": stamps(rights, v, b)})
        options: dict[str, Any] = {"timezone": "UTC"} if bool(a) != bool(b) else {}
        exact = [Fraction(x * finer, PER_SECOND[v]) for x in rights]
        want = []
        for x in (Fraction(x * finer, PER_SECOND[u]) for x in lefts):
            want.append(min(range(len(exact)), key=lambda j: (abs(exact[j] - x), exact[j])))
        for found in (
            asof_join(left, right, on="t", direction="nearest", **options),
            band_join(left, right, condition="true", how="left",
                      pick=one_of(left.schema, right.schema, "nearest", "t"), on_late="join", **options),
            *(asof_join(
                *(iter(x.sort_by([("t", way)]).to_batches(1)) for x in (left, right)), on="t", direction="nearest",
                left_order=Order("t", descending=way == "descending"),
                right_order=Order("t", descending=way == "descending"), **options,
            ) for way in ("ascending", "descending")),
        ):  # fmt: skip
            assert found.read_all().sort_by("i")["j"].to_pylist() == want, (lefts, rights)


KEYS = {
    "none": None, "ints": (pa.int64(), pa.int64()), "signed and not": (pa.int64(), pa.uint64()),
    "wide decimals": (pa.decimal128(19, 0), pa.decimal128(25, 3)), "int and double": (pa.int64(), pa.float64()),
    "decimal and double": (pa.decimal128(10, 2), pa.float64()), "texts": (pa.string(), pa.string()),
    "text and int": (pa.string(), pa.int64()), "decimal256": (pa.decimal256(50, 0), pa.int64()),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), pa.string()),
    "double and float": (pa.float64(), pa.float32()),
}  # fmt: skip


def keys(n: int, t: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(t):
        return pa.array(["1"] * n).dictionary_encode()
    return pa.array([Decimal(1) if pa.types.is_decimal(t) else 1.0 if pa.types.is_floating(t) else 1] * n, t) if (
        not pa.types.is_string(t)
    ) else pa.array(["1"] * n)


@pytest.mark.one_in(11)
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_a_tolerance_never_overflows_where_units_are_the_same(key: str, direction: Any) -> None:
    kinds = [(pa.timestamp("s"), "1 hours", 3600), (pa.timestamp("ns", "UTC"), "1 seconds", 10**9),
             (pa.duration("ns"), "1 seconds", 10**9), (pa.int64(), 5, 5)]  # fmt: skip
    values = [LOW, LOW + 1, LOW + 4000, -1, 0, 2, HIGH - 4000, HIGH - 1, HIGH]
    for kind, tolerance, limit in kinds:
        lefts, rights = values, values[1::2]
        left = pa.table({"t": pa.array(lefts, pa.int64()).view(kind)})
        right = pa.table({"u": pa.array(rights, pa.int64()).view(kind), "j": range(len(rights))})
        by = None
        if KEYS[key] is not None:
            by = "k"
            left, right = (x.append_column("k", keys(len(x), t)) for x, t in zip((left, right), KEYS[key], strict=True))
        want = []
        for x in lefts:
            low, high = x - (direction != "forward") * limit, x + (direction != "backward") * limit
            good = [j for j, y in enumerate(rights) if low <= y <= high]
            want.append(min(good, key=lambda j: (abs(rights[j] - x), rights[j]), default=None))
        for batches in product((left, left.to_batches(2)), (right, right.to_batches(1))):
            found = asof_join(*batches, on=("t", "u"), by=by, direction=direction, tolerance=tolerance)
            assert found.read_all()["j"].to_pylist() == want


@pytest.mark.parametrize(("kind", "values"), [
    (pa.float64(), [-inf, -1.5, 0.0, 5.0, inf, nan]), (pa.float32(), [-1.5, 2.0, inf, nan]),
    (pa.int8(), [-128, 0, 127]), (pa.int32(), [-(2**31), 3, 2**31 - 1]), (pa.uint8(), [0, 8, 10, 255]),
    (pa.uint32(), [0, 5, 2**32 - 1]), (pa.uint64(), [0, 7, 2**63, 2**64 - 1]),
], ids=str)  # fmt: skip
def test_the_nearest_row_is_the_same_for_every_kind_of_join(kind: pa.DataType, values: list[float]) -> None:
    for given in (values, values[:1], values[-1:], values[1:], values[:-1]):
        left = pa.table({"t": pa.array(values, kind), "i": range(len(values))})
        right = pa.table({"t": pa.array(given, kind), "j": range(len(given))})

        found = nearest_pairs(left, right)
        assert len(found) == len(values)
        assert nearest_pairs(left, right, how="full") == nearest_pairs(left, right, how="right") == found
        assert found <= nearest_pairs(left, right, ties="all")


def nearest_pairs(left: pa.Table, right: pa.Table, **options: Any) -> set[tuple[int, int]]:
    rows = asof_join(left, right, on="t", direction="nearest", **options).read_all().to_pylist()
    return {(row["i"], row["j"]) for row in rows if row["i"] is not None and row["j"] is not None}


def test_row_at_the_end_of_the_frontier_is_inside() -> None:
    seq = np.arange(4)
    rows = Rows([], seq, np.zeros(4, dtype=np.int64), [np.array([-1, 0, 5, 6])], {})
    assert rows.outside([(0, 5)]).tolist() == [True, False, False, True]
    assert rows.outside(None).all()


@pytest.mark.parametrize("how", ["left", "full", "right"])
def test_distances_of_doubles_are_not_rounded(how: Any) -> None:
    left = pa.table({"i": [0, 1], "t": [1.0, 1e300]})
    right = pa.table({"j": range(4), "t": [-1e17, 1e17, 1e300 - 2e284, -1e300]})
    got = asof_join(left, right, on="t", direction="nearest", how=how).read_all().to_pylist()
    assert [(row["i"], row["j"]) for row in got if row["i"] is not None] == [(0, 1), (1, 2)]
    ties = asof_join(left, right, on="t", direction="nearest", ties="all").read_all()
    assert ties["j"].to_pylist() == [1, 2]
    same = pa.table({"j": range(4), "t": [inf, -inf, nan, inf]})
    assert asof_join(left, same, on="t", direction="nearest", ties="all").read_all()["j"].to_pylist() == [0, 1, 3] * 2


@pytest.mark.parametrize("options", [{"how": "full"}, {"how": "right"}, {"ties": "all"}])
def test_a_distance_beyond_the_type_names_the_way_out(options: Any) -> None:
    left = pa.table({"i": [0], "t": pa.array([HIGH], pa.int64()).view(pa.duration("ns"))})
    right = pa.table({"j": [0], "t": pa.array([LOW + 1], pa.int64()).view(pa.duration("ns"))})
    with pytest.raises(EvaluationError, match=r"overflow.*with how='left' or 'inner', without ties='all', takes any"):
        asof_join(left, right, on="t", direction="nearest", **options).read_all()
    assert asof_join(left, right, on="t", direction="nearest").read_all()["j"].to_pylist() == [0]


@pytest.mark.parametrize("options", [
    {"direction": "nearest", "how": "full"}, {"direction": "nearest", "ties": "all"}, {"tolerance": "5 seconds"},
])  # fmt: skip
@pytest.mark.parametrize("kind", [pa.time32("s"), pa.time64("us")])
def test_times_of_day_have_no_differences(kind: pa.DataType, options: Any) -> None:
    table = pa.table({"t": pa.array([1], pa.int32() if kind == pa.time32("s") else pa.int64()).cast(kind)})
    with pytest.raises(ConditionError, match=r"times of day, which have no differences.*column.cast\('int64'\)"):
        asof_join(table, table, on="t", **options)
    assert asof_join(table, table, on="t", direction="nearest").read_all().num_rows == 1
