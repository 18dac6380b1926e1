"""LIKE, string functions, and casts to text and back."""

from __future__ import annotations

import math
import random
import re
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from evaluating import ERROR, answers, col, same

from ivjoin.conditions import scalar
from ivjoin.expr import Scope, build
from ivjoin.expr import types as ty
from ivjoin.expr.kernels.casttext import java_double
from ivjoin.expr.literals import literal
from ivjoin.expr.nodes import make

S = col("s", pa.string())


def like(pattern: str, texts: list[Any], escape: str = "\\") -> list[Any]:
    return answers(make("like", (S,), (pattern, escape), ty.BOOL), {"s": pa.array(texts, pa.string())})


def matches(pattern: str, text: str, escape: str) -> bool:
    out, i = "", 0
    while i < len(pattern):
        c = pattern[i]
        if c == escape:
            i += 1
            out += re.escape(pattern[i])
        else:
            out += ".*" if c == "%" else "." if c == "_" else re.escape(c)
        i += 1
    return re.fullmatch(out, text, re.DOTALL) is not None


@pytest.mark.parametrize("seed", range(20))
def test_like_against_regular_expressions(seed: int) -> None:
    rng = random.Random(seed)
    alphabet = "ab%_\\.*[](){}^$|+?-\n\té€ \x00"
    texts = ["".join(rng.choices(alphabet, k=rng.randint(0, 6))) for _ in range(200)] + ["", "%", "a%b"]
    for _ in range(20):
        escape = rng.choice("\\#")
        parts = rng.choices(["%", "_", "a", "b", ".", "[", "$", "é", " ", "\n", "\x00", escape + "%", escape + "_",
            escape * 2],
                            k=rng.randint(0, 5))  # fmt: skip
        if escape == "#":
            parts = [p for p in parts if p != "\\"]
        pattern = "".join(parts)
        got = like(pattern, [*texts, None], escape)
        assert got == [*(matches(pattern, t, escape) for t in texts), None], pattern


FUNCTIONS: list[tuple[str, list[Any]]] = [
    ("upper(s)", ["ABC", "STRASSE", "É", "", None]), ("lower(s)", ["abc", "straße", "é", "", None]),
    ("length(s)", [3, 6, 1, 0, None]), ("octet_length(s)", [3, 7, 2, 0, None]),
    ("concat(s, '-', s)", ["aBc-aBc", "Straße-Straße", "é-é", "-", None]),
    ("substring(s, 2)", ["Bc", "traße", "", "", None]),
    ("left(s, 2)", ["aB", "St", "é", "", None]),
    ("right(s, 2)", ["Bc", "ße", "é", "", None]),
    ("replace(s, 'a', 'zz')", ["zzBc", "Strzzße", "é", "", None]),
    ("startswith(s, 'a')", [True, False, False, False, None]),
    ("reverse(s)", ["cBa", "eßartS", "é", "", None]),
    ("rpad(s, 4, '.')", ["aBc.", "Stra", "é...", "....", None]),
    ("s rlike '^a.c$'", [True, False, False, False, None]),
    ("initcap(concat(s, ' xY-z'))", ["Abc Xy-z", "Straße Xy-z", "É Xy-z", " Xy-z", None]),
    ("least(s, 'b')", ["aBc", "Straße", "b", "", "b"]),
    ("greatest(s, 'b')", ["b", "b", "é", "b", "b"]),
    ("s in ('aBc', 'é')", [True, False, True, False, None]),
    ("s in ('aBc','1','2','3','4','5','6','7','8','9')", [True, False, False, False, None]),
    ("s < 'b'", [True, True, False, True, None]),
    ("'b' < s", [False, False, True, False, None]),
    ("case when s = 'aBc' then 'one' when s = '' then s else null end", ["one", None, None, "", None]),
    ("coalesce(s, 'none')", ["aBc", "Straße", "é", "", "none"]),
]  # fmt: skip


@pytest.mark.parametrize("text, want", FUNCTIONS, ids=[t for t, _ in FUNCTIONS])
@pytest.mark.parametrize("t", [pa.string(), pa.large_string(), pa.string_view(),
    pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_functions(text: str, want: list[Any], t: pa.DataType) -> None:
    values = pa.array(["skipped", "aBc", "Straße", "é", "", None]).cast(t).slice(1)
    node = scalar(text, Scope(pa.schema([("s", t)]), pa.schema([])))
    assert answers(node, {"s": values}) == want


def test_strings_compare_by_their_bytes() -> None:
    words = ["", "a", "B", "á", "z", "\U0001f600", "\uffff", "é", "aa"]
    both = [(a, b) for a in words for b in words]
    columns = {"s": pa.array([a for a, _ in both]), "t": pa.array([b for _, b in both])}
    node = make("lt", (S, col("t", pa.string())), (), ty.BOOL)
    assert answers(node, columns) == [a.encode() < b.encode() for a, b in both]


def cast(t: pa.DataType, u: ty.Type, values: list[Any], zone: str = "UTC") -> list[Any]:
    return answers(make("cast", (col("x", t),), (u, zone), u), {"x": pa.array(values, t)})


def test_doubles_to_text_read_back() -> None:
    rng = random.Random(2)
    doubles = [struct.unpack("d", rng.randbytes(8))[0] for _ in range(3000)]
    doubles += [10.0**k for k in range(-323, 309)] + [-1.5, 0.001, 0.00099, 9999999.0, 1e7, 123456.789, 5e-324, 0.0,
        -0.0]
    texts = cast(pa.float64(), ty.STRING, doubles)
    assert same([float(t.replace("Infinity", "inf")) for t in texts], doubles)
    shape = re.compile(r"-?(\d+\.\d+|\d\.\d+E-?\d+|Infinity)|NaN")
    assert all(shape.fullmatch(t) for t in texts)
    assert all(("E" in t) == (not 1e-3 <= abs(x) < 1e7) for t, x in zip(texts, doubles) if math.isfinite(x) and x)
    # Equal values have equal texts however they were computed.
    assert same(cast(pa.string(), ty.FLOAT64, texts), doubles)


def test_floats_to_text_read_back() -> None:
    rng = np.random.default_rng(2)
    floats = rng.integers(0, 2**32, 3000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    texts = cast(pa.float32(), ty.STRING, floats.tolist())
    back = np.array([float(t.replace("Infinity", "inf")) for t in texts]).astype(np.float32)
    assert ((back == floats) | (np.isnan(back) & np.isnan(floats))).all()
    assert cast(pa.float32(), ty.STRING, [0.1, 1.0, 16777216.0]) == ["0.1", "1.0", "1.6777216E7"]


@pytest.mark.parametrize("x, text", [(100.0, "100.0"), (1e21, "1.0E21"), (-0.0, "-0.0"), (4.9e-324, "4.9E-324"),
    (2e-3, "0.002")])
def test_java_writes_doubles(x: float, text: str) -> None:
    assert java_double(x) == text


ROUND_TRIPS = [
    (pa.int64(), [0, -5, 2**63 - 1, -(2**63)]), (pa.uint64(), [0, 2**64 - 1]), (pa.int8(), [-128, 127]),
    (pa.bool_(), [True, False]), (pa.date32(), [0, -719162, 2932896, 10**7, -(10**6)]),
    (pa.decimal128(38, 10), [0, -1, 10**37, 15 * 10**9]), (pa.decimal128(5, 0), [0, -99999]),
    (pa.timestamp("us", "UTC"), [0, -1, 1706696430123456, 10**15, -62135596800000000]), (pa.timestamp("ns"),
        [1, -1, 10**18]),
    (pa.timestamp("s"), [0, -1, 10**10]), (pa.time64("us"), [0, 1, 86_399_999_999]), (pa.time32("s"), [0, 86_399]),
]  # fmt: skip


@pytest.mark.parametrize("t, physical", ROUND_TRIPS, ids=[str(t) for t, _ in ROUND_TRIPS])
@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns"])
def test_there_and_back_through_text(t: pa.DataType, physical: list[Any], zone: str) -> None:
    u = ty.from_arrow(t)
    if u.kind == "decimal":
        from decimal import Context, Decimal

        array = pa.array([Decimal(v).scaleb(-u.scale, Context(prec=60)) for v in physical], t)
    elif u.kind in ("date", "timestamp", "time"):
        array = pa.array(physical, pa.int32() if t.bit_width == 32 else pa.int64()).cast(t)
    else:
        array = pa.array(physical, t)
    to_text = make("cast", (col("x", t),), (ty.STRING, zone), ty.STRING)
    assert answers(make("cast", (to_text,), (u, zone), u), {"x": array}) == physical


def test_text_casts_do_not_err_on_nulls() -> None:
    texts = pa.array(["1", None, "x", " 2 ", None])
    node = make("cast", (S,), (ty.INT32, "UTC"), ty.INT32)
    assert answers(node, {"s": texts}) == [1, None, ERROR, 2, None]
    assert answers(node, {"s": texts.slice(1, 3)}) == [None, ERROR, 2]
    assert answers(node, {"s": pa.array([None, None], pa.string())}) == [None, None]
    assert answers(node, {"s": pa.array([], pa.string())}) == []
    assert answers(make("is_null", (node,), (), ty.BOOL), {"s": texts}) == [False, True, ERROR, False, True]


def test_text_to_unsigned() -> None:
    assert cast(pa.string(), ty.UINT64, ["18446744073709551615", "-1", "-0"]) == [2**64 - 1, ERROR, 0]


def test_bytes_and_text() -> None:
    assert cast(pa.string(), ty.BINARY, ["é", None]) == ["é".encode(), None]
    assert cast(pa.binary(), ty.STRING, [b"abc", None]) == ["abc", None]
    # Bytes that are no UTF-8 pass, and compare as bytes.
    node = make("cast", (col("x", pa.binary()),), (ty.STRING, "UTC"), ty.STRING)
    less = make("lt", (node, make("literal", (), ("a",), ty.STRING)), (), ty.BOOL)
    assert answers(less, {"x": pa.array([b"\xff", b"A"])}) == [False, True]


def test_absurd_numbers_in_text() -> None:
    texts = ["1e999999999", "1e-999999999", "9" * 5000, "0e999999999", "-1e50", "1e37"]
    assert cast(pa.string(), ty.decimal(38, 0), texts) == [ERROR, 0, ERROR, 0, ERROR, 10**37]
    assert cast(pa.string(), ty.INT64, texts) == [ERROR] * 6
    inf = math.inf
    assert cast(pa.string(), ty.FLOAT64, texts) == [inf, 0.0, inf, 0.0, -1e50, 1e37]


_NUMBERS = [ty.INT8, ty.INT64, ty.UINT64, ty.FLOAT32, ty.FLOAT64, ty.BOOL, ty.decimal(10, 2)]


@pytest.mark.parametrize("u", _NUMBERS, ids=str)
def test_a_literal_text_is_cast_as_the_text_of_a_column(u: ty.Type) -> None:
    texts = [
        "", "0", "-0", " 42 ", "128", "9223372036854775808", "1e400", "1.005", "nan", "-nan", "-inf", "1d", "TRUE",
        "\xa05", "9" * 50,
    ]  # fmt: skip
    for text, want in zip(texts, cast(pa.string(), u, texts), strict=True):
        made = build.cast(literal(text), u)
        assert (made.op == "literal") == (want is not ERROR), text
        if want is not ERROR:
            (got,) = made.params
            assert repr(got) == repr(want), text
