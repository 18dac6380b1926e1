"""What Spark 4 answers in ANSI mode, measured: 3,100 facts in ``test_evaluate_spark.jsonl``, one expression a line.

A line holds the session zone, the expression over ``a`` and ``b``, their Spark types, Spark's result type, and rows of
argument values and the answer: ``"<error>"``, null, or a value (timestamps as microseconds, dates as days, floats and
decimals and local times as text). The test marked ``spark`` asks Spark again for a part of them.
"""

from __future__ import annotations

import json
import math
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from evaluating import ERROR, answers, same
from seeds import each, in_blocks

from ivjoin.conditions import scalar
from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr import Scope, build
from ivjoin.expr.kernels.casttext import java_double
from ivjoin.expr.types import STRING, Type, from_arrow

FACTS = [json.loads(line) for line in Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()]
WIDE = Context(prec=80)

# Where we differ on purpose: (expression, arguments) -> our answer.
DIFFERENCES: dict[tuple[str, tuple[Any, ...]], Any] = {
    # numpy's libm, not Java's StrictMath, is the truth for these (SEMANTICS, Decided 10).
    ("exp(a)", (1.0,)): "2.718281828459045",
    # A zero without its sign, which no comparison sees.
    ("greatest(a, b)", (-0.0, 0.0)): "0.0",
    ("rint(a)", (-0.5,)): "0.0",
    # The same float, printed with the fewest digits that read back, as Java does from 19 on.
    ("cast(a as float)", (9007199254740993,)): "9.007199E15",
    ("cast(a as float)", (1152921573326323713,)): "1.1529216E18",
    # Spark lets these leave the range in silence: the quotient wraps, the timestamp sticks at the greatest.
    ("a div b", ("99999999999999999999", "0.1")): ERROR,
    ("cast(a as timestamp)", (9223372036855,)): ERROR,
    # java.time's old three-letter names, which the time zone database has not.
    ("cast(a as timestamp)", ("2024-01-31 10:20:30 PST",)): ERROR,
}

ARROW = {
    "double": pa.float64(), "float": pa.float32(), "int": pa.int32(), "bigint": pa.int64(), "tinyint": pa.int8(),
    "smallint": pa.int16(), "string": pa.string(), "timestamp": pa.timestamp("us", "UTC"), "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"), "boolean": pa.bool_(),
}  # fmt: skip


def arrow_type(name: str) -> pa.DataType:
    if name.startswith("decimal"):
        precision, scale = name[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return ARROW[name]


def column(values: list[Any], name: str, zone: str) -> pa.Array:
    t = arrow_type(name)
    if name in ("double", "float"):
        return pa.array([None if v is None else float(v) for v in values], t)
    if name.startswith("decimal"):
        return pa.array([None if v is None else Decimal(v).quantize(Decimal(1).scaleb(-t.scale), context=WIDE)
            for v in values], t)
    if name in ("date", "timestamp", "timestamp_ntz"):
        # Texts are read in the session's zone; the cast is checked by facts of its own.
        node = build.make("cast", (build.column("left", "t", STRING),), (from_arrow(t), zone), from_arrow(t))
        (v,) = evaluate([node], lambda _s, _n: pa.array(values, pa.string()), len(values))
        assert v.error is None
        width = pa.int32() if name == "date" else pa.int64()
        return pa.array(v.values, mask=None if v.valid is None else ~v.valid).cast(width).cast(t)
    return pa.array(values, t)


def as_spark_shows(value: Any, t: Type) -> Any:
    if value is None or value == ERROR:
        return value
    if t.kind == "float":
        return java_double(value, str(np.float32(value)) if t.bits == 32 and math.isfinite(value) else None)
    if t.kind == "decimal":
        return format(Decimal(value).scaleb(-t.scale, WIDE), "f")
    if t.kind == "timestamp" and not t.tz:
        node = build.make("cast", (build.column("left", "t", t),), (STRING, "UTC"), STRING)
        return answers(node, {"t": pa.array([value], pa.int64()).cast(pa.timestamp(t.unit))})[0]
    return value


def interval_ticks(text: str, t: Type) -> int:
    """Microseconds, or days, of ``INTERVAL '1 02:03:04.5' DAY TO SECOND`` or ``INTERVAL '29' DAY``."""
    body = text.split("'")[1]
    if t.kind == "int":
        return int(body)
    days, _, clock = body.lstrip("-").partition(" ")
    h, m, s = clock.split(":")
    micros = (int(days) * 86_400 + int(h) * 3600 + int(m) * 60) * 1_000_000 + round(float(s) * 1_000_000)
    return -micros if body.startswith("-") else micros


@pytest.mark.parametrize("facts", in_blocks(FACTS, 5))
def test_facts(facts: list[dict[str, Any]]) -> None:
    each(facts, check)


def check(fact: dict[str, Any]) -> None:
    names, rows, zone = "ab"[: len(fact["types"])], fact["rows"], fact["zone"]
    columns = {n: column([r[i] for r in rows], t, zone) for i, (n, t) in enumerate(zip(names, fact["types"]))}
    scope = Scope(pa.schema([(n, c.type) for n, c in columns.items()]), pa.schema([]))
    node = scalar(fact["expr"], scope, timezone=zone)
    plain = answers(node, columns)
    # Neither the rows beside it nor a null among them changes an answer.
    for i, answer in enumerate(plain):
        assert same(answers(node, {n: c.slice(i, 1) for n, c in columns.items()}), [answer])
    padded = {n: pa.concat_arrays([pa.nulls(1, c.type), c]) for n, c in columns.items()}
    assert same(answers(node, padded)[1:], plain)
    got = [as_spark_shows(v, node.type) for v in plain]
    want = [DIFFERENCES.get((fact["expr"], tuple(r[:-1])), r[-1]) for r in rows]
    if fact["result"].startswith("interval"):
        want = [interval_ticks(v, node.type) for v in want]
    if node.type.kind == "decimal":  # the builder may keep more scale than Spark prints
        got, want = ([Decimal(v) if v not in (None, ERROR) else v for v in vs] for vs in (got, want))
    assert dict(enumerate(got)) == dict(enumerate(want)), rows


def test_every_difference_is_a_fact() -> None:
    keys = {(f["expr"], tuple(r[:-1])) for f in FACTS for r in f["rows"]}
    assert set(DIFFERENCES) <= keys


@pytest.mark.spark
def test_spark_still_does_this(spark: Any) -> None:
    spark = spark.newSession()  # with settings of its own

    def literal(v: Any, t: str) -> str:
        if t == "string" and v is not None:
            v = v.replace("\\", "\\\\").replace("'", "\\'")
        return f"cast(null as {t})" if v is None else f"cast('{v}' as {t})"

    spark.conf.set("spark.sql.ansi.enabled", "true")
    shapes = {"timestamp": "unix_micros(x)", "date": "unix_date(x)"}
    asked = 0
    for fact in FACTS[::40]:
        spark.conf.set("spark.sql.session.timeZone", fact["zone"])
        kind = fact["result"]
        texts = kind.startswith(("interval", "decimal", "timestamp_ntz", "double", "float"))
        for *args, want in fact["rows"]:
            values = ", ".join(f"{literal(v, t)} as {n}" for n, v, t in zip("ab", args, fact["types"]))
            shape = "cast(x as string)" if texts else shapes.get(kind, "x")
            query = f"select {shape} from (select {fact['expr']} as x from (select {values}))"
            try:
                got = spark.sql(query).collect()[0][0]
            except Exception:  # Spark's errors have no common class short of this
                got = ERROR
            assert got == want, (fact["expr"], args)
            asked += 1
    assert asked > 40
