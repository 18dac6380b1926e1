"""Ordinals preserve the order of their type, are adjacent where the values are, and convert back."""

from __future__ import annotations

import itertools
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivjoin.expr import types as ty
from ivjoin.expr.ordinal import NAN_ORDINAL, has_ordinal, ordinal_of, ordinals, value_of
from ivjoin.shj import registers

F = ty.FLOAT64
EDGES = [
    -math.inf, -1.7976931348623157e308, -1.0, -2.2250738585072014e-308, -5e-324, -0.0, 0.0, 5e-324,
    2.225073858507201e-308, 2.2250738585072014e-308, 1.0, 1.0000000000000002, 1.7976931348623157e308, math.inf,
    math.nan,
]  # fmt: skip


def halves() -> np.ndarray:
    """Every float16 as a double: both zeros, denormals, infinities and NaNs."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)


def spark_key(x: float) -> tuple[bool, float]:
    return (True, 0.0) if x != x else (False, x)


def test_every_half_keeps_its_place() -> None:
    x = halves()
    o = ordinals(x, F)
    order = np.argsort(o, kind="stable")
    keys = [spark_key(v) for v in x[order].tolist()]
    assert keys == sorted(keys)
    # Equal values have equal ordinals and only those.
    at = o[order]
    assert [a == b for a, b in itertools.pairwise(keys)] == (at[1:] == at[:-1]).tolist()


def test_one_value_and_the_array_agree() -> None:
    x = np.concatenate((halves(), np.array(EDGES)))
    assert ordinals(x, F).tolist() == [ordinal_of(v, F) for v in x.tolist()]


def test_neighbours() -> None:
    x = np.concatenate((halves(), np.array(EDGES)))
    x = x[np.isfinite(x)]
    with np.errstate(over="ignore"):
        up, down = np.nextafter(x, np.inf), np.nextafter(x, -np.inf)
    assert (ordinals(up, F) - ordinals(x, F) == 1).all()
    assert (ordinals(x, F) - ordinals(down, F) == 1).all()
    assert ordinal_of(math.inf, F) + 1 == NAN_ORDINAL


def test_every_nan_is_one() -> None:
    payloads = np.array([0x7FF0000000000001, 0x7FF8000000000000, 0x7FFFFFFFFFFFFFFF], dtype=np.int64)
    nans = np.concatenate((payloads, payloads | np.int64(-(1 << 63)))).view(np.float64)
    assert ordinals(nans, F).tolist() == [NAN_ORDINAL] * 6
    assert math.isnan(value_of(NAN_ORDINAL, F))


def test_floats_go_back_bit_for_bit_but_for_zero() -> None:
    x = np.concatenate((halves(), np.array(EDGES)))
    for v in x[x == x].tolist():
        back = value_of(ordinal_of(v, F), F)
        assert struct.pack("d", back) == struct.pack("d", v + 0.0)


@pytest.mark.parametrize("ordinal, value", [
    pytest.param(-(1 << 63), -math.inf, id="below every double"),
    pytest.param(-(0x7FF0 << 48) - 1, -math.inf, id="just below -inf"),
    pytest.param(0, 0.0, id="zero"),
    pytest.param(-1, -5e-324, id="least negative"),
])  # fmt: skip
def test_ordinals_that_no_double_has(ordinal: int, value: float) -> None:
    assert value_of(ordinal, F) == value
    assert math.isnan(value_of((1 << 63) - 1, F))


@pytest.mark.slow
@given(st.floats(), st.floats())
def test_order_of_doubles(a: float, b: float) -> None:
    x, y = ordinal_of(a, F), ordinal_of(b, F)
    assert (x < y) == (spark_key(a) < spark_key(b))
    assert (x == y) == (spark_key(a) == spark_key(b))


def test_float32_goes_through_double() -> None:
    x = np.array([1.1, -0.0, np.nan, np.inf, 1e-45], dtype=np.float32)
    assert ordinals(x, ty.FLOAT32).tolist() == ordinals(x.astype(np.float64), F).tolist()
    assert ordinals(x, ty.FLOAT32)[1] == 0


def test_strided_floats() -> None:
    x = np.arange(10.0)[::2]
    assert ordinals(x, F).tolist() == [ordinal_of(v, F) for v in x.tolist()]


INTS = [ty.INT8, ty.INT16, ty.INT32, ty.INT64, ty.UINT8, ty.UINT16, ty.UINT32, ty.UINT64]


@pytest.mark.parametrize("t", INTS, ids=str)
def test_integers_keep_order_and_go_back(t: ty.Type) -> None:
    low, high = t.limits
    v = sorted({low, low + 1, -1 if low < 0 else 0, 0, 1, high // 2, high // 2 + 1, high - 1, high})
    values = np.array(v, dtype=f"{'i' if t.signed else 'u'}{t.bits // 8}")
    o = ordinals(values, t)
    assert o.dtype == np.int64
    assert o.tolist() == [ordinal_of(x, t) for x in v]
    assert (np.diff(o.astype(object)) == np.diff(values.astype(object))).all()
    assert [value_of(x, t) for x in o.tolist()] == v


def test_int64_is_not_copied() -> None:
    v = np.arange(3)
    assert ordinals(v, ty.INT64) is v
    assert ordinals(v, ty.timestamp("us")) is v


@pytest.mark.parametrize("t", [ty.DATE, ty.MONTHS, ty.duration("s"), ty.Type("time", unit="ms"), ty.decimal(18, 3)],
    ids=str)
def test_other_discrete_types(t: ty.Type) -> None:
    dtype = np.int32 if t.kind in ("date", "months") else np.int64
    o = ordinals(np.array([-5, 0, 7], dtype=dtype), t)
    assert o.dtype == np.int64 and o.tolist() == [-5, 0, 7]
    assert value_of(ordinal_of(7, t), t) == 7


def test_truth_values() -> None:
    assert ordinals(np.array([True, False]), ty.BOOL).tolist() == [1, 0]
    assert value_of(1, ty.BOOL) is True and value_of(0, ty.BOOL) is False and ordinal_of(True, ty.BOOL) == 1


def test_which_types_have_ordinals() -> None:
    assert all(map(has_ordinal, [*INTS, ty.FLOAT32, F, ty.BOOL, ty.DATE, ty.MONTHS, ty.decimal(18, 2),
        ty.timestamp("ns")]))
    assert not any(map(has_ordinal, [ty.STRING, ty.BINARY, ty.decimal(19, 2), ty.NULL, ty.Type("opaque", text="list")]))


def test_kernels_know_nan_by_the_same_ordinal() -> None:
    """They may import nothing from here."""
    assert registers.NAN_ORDINAL == NAN_ORDINAL == int(ordinals(np.array([np.inf]), F)[0]) + 1
