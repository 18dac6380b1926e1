"""Joins on conditions of bits, tried operations, patterns, hashes, months and nested values, by every join type."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import oracle
import pyarrow as pa
import pytest
from join.months import months
from join.tables import ids
from seeds import each, in_blocks

import ivjoin

STRUCT = pa.struct([("q", pa.int64()), ("n", pa.string())])
SCHEMA = pa.schema(
    [("id", pa.int64()), ("a", pa.int64()), ("s", pa.string()), ("p", pa.string()), ("st", STRUCT),
     ("xs", pa.list_(pa.int64())), ("t", pa.timestamp("us")), ("md", pa.month_day_nano_interval())]
)  # fmt: skip
EPOCH = dt.datetime(1970, 1, 1)
TOP = (1 << 63) - 1
Row = dict[str, Any]


def some_rows(count: int, seed: int) -> list[Row]:
    rng = random.Random(seed)
    out, a = [], -20
    for i in range(count):
        a += rng.randrange(3)
        out.append({
            "id": i, "a": a, "s": rng.choice(["", "ab", "abc", "b", None]),
            "p": rng.choice(["a%", "_b", "%", "abc", None]),
            "st": rng.choice([None, {"q": 1, "n": "x"}, {"q": 1, "n": None}, {"q": None, "n": None}]),
            "xs": rng.choice([None, [], [1, None], [2, 3], [a]]), "t": EPOCH + dt.timedelta(days=a * 9, minutes=i),
            "md": rng.choice([None, (0, 0, 0), (1, 0, 5)]),
        })  # fmt: skip
    return out


def null(f: Callable[..., bool], *values: Any) -> bool | None:
    return None if any(v is None for v in values) else f(*values)


def like(text: str, pattern: str) -> bool:
    parts = {"%": ".*", "_": "."}
    return re.fullmatch("".join(parts.get(c, re.escape(c)) for c in pattern), text) is not None


def near(s: str, t: str) -> bool:
    return s == t or {s, t} in ({"ab", "abc"}, {"b", ""}, {"ab", "b"})


def member(xs: list[int | None] | None, v: int) -> bool | None:
    if xs is None:
        return None
    return True if v in xs else None if None in xs else False


CASES: list[Any] = [
    pytest.param("shiftright(l.a, 2) = shiftright(r.a, 2)", lambda a, b: a["a"] >> 2 == b["a"] >> 2, id="shift"),
    pytest.param("~l.a >= r.a AND l.a >= ~r.a - 5", lambda a, b: ~a["a"] >= b["a"] and a["a"] >= ~b["a"] - 5, id="not"),
    pytest.param("(l.a & 7) = (r.a & 7) AND l.a - r.a BETWEEN -9 AND 9",
                 lambda a, b: a["a"] & 7 == b["a"] & 7 and abs(a["a"] - b["a"]) <= 9, id="and"),
    pytest.param("(l.a | r.a) < 6", lambda a, b: (a["a"] | b["a"]) < 6, id="or"),
    pytest.param("(l.a ^ r.a) <= 1", lambda a, b: (a["a"] ^ b["a"]) <= 1, id="xor"),
    pytest.param("try_divide(r.a, l.a) >= 1",
                 lambda a, b: None if a["a"] == 0 else b["a"] / a["a"] >= 1, id="try divide"),
    pytest.param(f"coalesce(try_add(l.a, {TOP}L), {TOP}L) - {TOP}L >= r.a",
                 lambda a, b: min(a["a"], 0) >= b["a"], id="try add"),
    pytest.param("TRY_CAST(l.s AS INT) IS NULL AND l.a = r.a", lambda a, b: a["a"] == b["a"], id="try cast"),
    pytest.param("l.s LIKE r.p", lambda a, b: null(like, a["s"], b["p"]), id="like"),
    pytest.param("l.s NOT LIKE r.p AND l.a < r.a",
                 lambda a, b: null(lambda s, p: not like(s, p), a["s"], b["p"]) and a["a"] < b["a"], id="not like"),
    pytest.param("levenshtein(l.s, r.s) <= 1 AND l.a <= r.a",
                 lambda a, b: null(near, a["s"], b["s"]) and a["a"] <= b["a"], id="levenshtein"),
    pytest.param("hash(l.a) = hash(r.a)", lambda a, b: a["a"] == b["a"], id="hash"),
    pytest.param("md5(l.s) = md5(r.s)", lambda a, b: null(lambda s, t: s == t, a["s"], b["s"]), id="md5"),
    pytest.param("timestampdiff(MONTH, l.t, r.t) = 1", lambda a, b: months(a["t"], b["t"]) == 1, id="months"),
    pytest.param("timestampdiff(DAY, l.t, r.t) BETWEEN 0 AND 20",
                 lambda a, b: -1 < (b["t"] - a["t"]) / dt.timedelta(days=1) < 21, id="days"),
    pytest.param("l.st = r.st", lambda a, b: null(lambda s, t: s == t, a["st"], b["st"]), id="struct key"),
    pytest.param("l.st <=> r.st", lambda a, b: a["st"] == b["st"], id="null-safe struct key"),
    pytest.param("l.st <> r.st", lambda a, b: null(lambda s, t: s != t, a["st"], b["st"]), id="structs apart"),
    pytest.param("l.xs = r.xs AND l.a >= r.a - 3",
                 lambda a, b: null(lambda s, t: s == t, a["xs"], b["xs"]) and a["a"] >= b["a"] - 3, id="array key"),
    pytest.param("l.md = r.md", lambda a, b: null(lambda s, t: s == t, a["md"], b["md"]), id="interval key"),
    pytest.param("l.st.q = r.a", lambda a, b: a["st"] and null(lambda q: q == b["a"], a["st"]["q"]), id="field"),
    pytest.param("array_contains(l.xs, r.a)", lambda a, b: member(a["xs"], b["a"]), id="member"),
    pytest.param("size(l.xs) > size(r.xs)", lambda a, b: null(lambda s, t: len(s) > len(t), a["xs"], b["xs"]),
                 id="size"),
]  # fmt: skip


def batches(rows: list[Row], size: int) -> list[pa.RecordBatch]:
    return pa.Table.from_pylist(rows, schema=SCHEMA).to_batches(max_chunksize=size)


@pytest.mark.parametrize("cases", in_blocks(((*c.values, how) for c in CASES for how in oracle.HOWS), 19))
def test_rows_are_those_of_a_nested_loop(cases: list[Any]) -> None:
    each(cases, compare)


def compare(text: str, condition: Callable[[Row, Row], Any], how: str) -> None:
    left, right = some_rows(40, 1), some_rows(45, 2)
    want = Counter(oracle.pairs(left, right, how, (), lambda a, b: bool(condition(a, b))))
    size = {"inner": 1, "full": 7}.get(how, 16)
    stream = ivjoin.band_join(
        pa.RecordBatchReader.from_batches(SCHEMA, batches(left, size)),
        pa.RecordBatchReader.from_batches(SCHEMA, batches(right, size + 1)),
        condition=text, how=how, left_order="a", right_order="a",
    )  # fmt: skip
    assert ids(stream, how) == want


@pytest.mark.one_in(3)
@pytest.mark.parametrize("text", [
    "shiftright(l.a, 4) = shiftright(r.a, 4)", "~l.a <= ~r.a + 20 AND ~r.a <= ~l.a + 20",
    "timestampdiff(MINUTE, l.t, r.t) BETWEEN -20 AND 20", "try_add(l.a, 20) >= r.a AND try_add(r.a, 20) >= l.a",
    "next_day(l.d, 'MO') = next_day(r.d, 'MO')", "months_between(l.d, r.d) BETWEEN -1 AND 1",
])  # fmt: skip
def test_what_is_past_leaves_the_state(text: str) -> None:
    schema = pa.schema([("a", pa.int64()), ("t", pa.timestamp("us")), ("d", pa.date32())])
    orders = ["a", "t", "d"]
    op = ivjoin.SymmetricHashJoin(schema, schema, condition=text, left_order=orders, right_order=orders)
    most = 0
    for i in range(0, 4000, 50):
        ticks = range(i, i + 50)
        batch = pa.record_batch([pa.array(ticks), pa.array([t * 60_000_000 for t in ticks], type=pa.timestamp("us")),
                                 pa.array(ticks, type=pa.date32())], schema=schema)  # fmt: skip
        for side in ("left", "right"):
            list(op.push(side, batch))
        most = max(most, op.metrics.state_rows)
    assert most <= 400, most
