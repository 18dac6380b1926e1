"""Values that are wrong for nearly every argument, and every public call with each of its arguments replaced."""

from __future__ import annotations

import datetime as dt
import io
import itertools
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ivjoin
from ivjoin import interval, propagation
from ivjoin.conditions.read.fluent import function


class Opaque:
    """An object without any description: also its ``repr`` raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


# A function each, since some are used up: name -> value.
VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None, "True": lambda: True, "3": lambda: 3, "-1": lambda: -1, "300": lambda: 300,
    "2**63": lambda: 2**63, "2**70": lambda: 2**70, "10**5000": lambda: 10**5000, "0.5": lambda: 0.5,
    "1e300": lambda: 1e300, "inf": lambda: float("inf"), "-inf": lambda: float("-inf"), "nan": lambda: float("nan"),
    "Decimal nan": lambda: Decimal("NaN"), "Decimal snan": lambda: Decimal("sNaN"),
    "Decimal inf": lambda: Decimal("Infinity"), "Decimal huge": lambda: Decimal("1e999999999999"),
    "Decimal tiny": lambda: Decimal("1e-999999999999"), "Fraction": lambda: Fraction(1, 3), "complex": lambda: 2j,
    "empty text": lambda: "", "blank text": lambda: " \t\n", "text": lambda: "nope",
    "long text": lambda: "long " * 20_000, "brackets": lambda: "(" * 3_000, "sums": lambda: "a" + " + a" * 3_000,
    "surrogate": lambda: "a\ud800b", "NUL": lambda: "a\0b", "bytes": lambda: b"\xff",
    "bytearray": lambda: bytearray(b"\xff"), "empty list": list, "nested list": lambda: [[[]]],
    "list of None": lambda: [None], "list of objects": lambda: [Opaque()],
    "tuple of text": lambda: ("nope", "nope", "nope"), "endless": lambda: itertools.repeat(3),
    "generator": lambda: (i for i in (1, 2)), "empty dict": dict, "dict": lambda: {"k": "a"},
    "dict of None": lambda: {None: None}, "dict of objects": lambda: {"a": Opaque()}, "set": lambda: {"k"},
    "frozenset": lambda: frozenset({"k"}), "object": Opaque, "type": lambda: pa.Table,
    "function": lambda: lambda *a, **k: None, "date": lambda: dt.date(2024, 1, 1),
    "datetime": lambda: dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=14))),
    "timedelta": lambda: dt.timedelta.max,
    "time": lambda: dt.time(12),
    "time of a zone": lambda: dt.time(12, tzinfo=dt.UTC),
    "numpy int": lambda: np.int64(3), "numpy float": lambda: np.float64("nan"), "numpy bool": lambda: np.bool_(True),
    "numpy array": lambda: np.array([1, 2]), "numpy NaT": lambda: np.datetime64("NaT"),
    "Arrow scalar": lambda: pa.scalar(300), "Arrow null": lambda: pa.scalar(None, pa.int64()),
    "Arrow array": lambda: pa.array([1, 2]), "Arrow chunked": lambda: pa.chunked_array([[1, 2]]),
    "Arrow type": pa.int64, "expression": lambda: ivjoin.left("zz"), "constant": lambda: ivjoin.lit(3),
    "order": lambda: ivjoin.Order("zz"), "path": lambda: Path("/nowhere/at/all.parquet"),
    "text file": lambda: io.StringIO("nope"), "bytes file": lambda: io.BytesIO(b"nope"),
}

SCHEMA = pa.schema(
    {"k": pa.int64(), "a": pa.uint8(), "f": pa.float64(), "s": pa.string(), "b": pa.bool_(), "m": pa.decimal128(9, 2),
     "t": pa.timestamp("us"), "d": pa.date32()}
)  # fmt: skip
ROW = {"k": 1, "a": 1, "f": 1.0, "s": "x", "b": True, "m": Decimal(1), "t": dt.datetime(2024, 1, 1),
       "d": dt.date(2024, 1, 1)}  # fmt: skip
DECLARED: dict[str, Any] = {"left_order": "a", "right_order": "a"}


def batch() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([ROW], schema=SCHEMA)


def table() -> pa.Table:
    return pa.Table.from_batches([batch()])


def operator() -> ivjoin.SymmetricHashJoin:
    return ivjoin.SymmetricHashJoin(SCHEMA, SCHEMA, on="k", **DECLARED)


def _same(value: Any) -> Any:
    return value


def _called(call: Callable[..., Any], argument: str, make: Callable[[Any], Any], value: Any) -> Any:
    return call(**{argument: make(value)})


def _least(t: str, value: Any) -> Any:
    return interval.interval(t, value, None)


def _greatest(t: str, value: Any) -> Any:
    return interval.interval(t, None, value)


def _file() -> io.BytesIO:
    out = io.BytesIO()
    pq.write_table(table(), out)
    return out


_QUESTION: dict[str, Any] = {
    "on": "k", "condition": "l.a <= r.a", "how": "inner", **DECLARED, "left_bounds": {"a": (0, 9)},
    "right_bounds": {"a": (0, 9)}, "suffix": "_r", "batch_size": 9, "on_late": "raise", "timezone": "UTC",
}  # fmt: skip


def _read(**arguments: Any) -> Any:
    return ivjoin.band_join(**arguments).read_all()


def _calls() -> dict[str, Callable[[Any], Any]]:
    """A call of one argument for each argument of each public function."""
    out: dict[str, Callable[[Any], Any]] = {}

    def every(name: str, call: Callable[..., Any], good: dict[str, Callable[[], Any]]) -> None:
        for argument in good:
            def one(value: Any, argument: str = argument) -> Any:
                return call(**{n: value if n == argument else make() for n, make in good.items()})

            out[f"{name} {argument}"] = one

    question: dict[str, Callable[[], Any]] = {n: partial(_same, v) for n, v in _QUESTION.items()}
    schemas = {"left_schema": lambda: SCHEMA, "right_schema": lambda: SCHEMA}
    inputs = {"left": table, "right": table}
    every("band_join", _read, {**inputs, **question, "threads": lambda: 1})
    # their other arguments are checked where those of band_join are
    condition = {"condition": lambda: "l.a <= r.a"}
    every("SymmetricHashJoin", ivjoin.SymmetricHashJoin, {**schemas, **condition})
    sides = {"left": lambda: SCHEMA, "right": lambda: SCHEMA}
    every("explain", ivjoin.explain, {**sides, **condition, "frontier": lambda: {"left": {"a": 3}}})
    every("push", lambda **a: list(operator().push(**a)), {"side": lambda: "left", "batch": batch})
    every("advance", lambda **a: list(operator().advance(**a)), {"side": lambda: "left", "values": lambda: {"a": 3}})
    every("reach", lambda **a: list(operator().reach(**a)), {"side": lambda: "left", "edges": lambda: [3]})
    every("finish", lambda **a: list(operator().finish(**a)), {"side": lambda: "left"})
    every("restore", ivjoin.SymmetricHashJoin.restore, {"blob": lambda: operator().snapshot()})
    every(
        "Order", ivjoin.Order,
        {"expr": lambda: "a", "descending": lambda: False, "slack": lambda: 3, "nulls": lambda: "last"},
    )  # fmt: skip
    every(
        "contract", propagation.contract,
        {"condition": lambda: "a <= 3", "box": lambda: {"a": ("int64", 0, 9)}, "timezone": lambda: "UTC",
         "effort": lambda: 20},
    )  # fmt: skip
    every(
        "prune_row_groups", ivjoin.prune_row_groups,
        {"parquet_file": _file, "predicate": lambda: "a = 3", "timezone": lambda: "UTC"},
    )  # fmt: skip
    every("Interval", interval.Interval, {"inf": lambda: 0, "sup": lambda: 9})
    every("DomainInterval", interval.interval, {"domain": lambda: "int8", "inf": lambda: 0, "sup": lambda: 9})
    every("domain", interval.domain, {"name": lambda: "int8"})

    def inside(name: str, call: Callable[..., Any], argument: str, **shapes: Callable[[Any], Any]) -> None:
        for shape, make in shapes.items():
            out[f"{name} {shape}"] = partial(_called, call, argument, make)

    join = ivjoin.SymmetricHashJoin

    def plan(**a: Any) -> Any:
        return join(SCHEMA, SCHEMA, **a)

    inside("join", plan, "on", on_item=lambda v: [v], on_left=lambda v: [(v, "k")], on_right=lambda v: [("k", v)])
    inside(
        "join", plan, "left_bounds",
        **{f"least_of_{n}": lambda v, n=n: {n: (v, None)} for n in SCHEMA.names},
        **{f"greatest_of_{n}": lambda v, n=n: {n: (None, v)} for n in SCHEMA.names},
        bounds_pair=lambda v: {"a": v},
    )  # fmt: skip
    inside(
        "join", plan, "left_order", order_item=lambda v: [v], order_expr=lambda v: ivjoin.Order(v),
        **{f"slack_of_{n}": lambda v, n=n: ivjoin.Order(n, slack=v) for n in SCHEMA.names},
    )  # fmt: skip
    out["join bounds_name"] = lambda v: plan(left_bounds={v: (0, 9)})
    out["left name"] = lambda v: plan(condition=ivjoin.left(v) < 3)
    out["function name"] = lambda v: plan(condition=function(v, ivjoin.left("f")) < 3)
    out["cast type"] = lambda v: plan(condition=ivjoin.left("a").cast(v) < 3)
    out["join condition constant"] = lambda v: plan(condition=ivjoin.left("a") < ivjoin.lit(v))

    def advance(values: Any) -> Any:
        return list(operator().advance("left", values))

    inside("advance", advance, "values", **{f"value_of_{n}": lambda v, n=n: {n: v} for n in SCHEMA.names})
    out["advance name"] = lambda v: advance({v: 3})
    out["reach edge"] = lambda v: list(operator().reach("left", [v]))

    def explained(frontier: Any) -> Any:
        return ivjoin.explain(SCHEMA, SCHEMA, condition="l.a <= r.a", left_order="a", frontier=frontier)

    def value_of(name: str, value: Any) -> Any:
        return explained({"left": {name: value}})

    out["explain frontier side"] = lambda v: explained({v: {"a": 3}})
    out["explain frontier values"] = lambda v: explained({"left": v})
    out["explain frontier name"] = lambda v: explained({"left": {v: 3}})
    for n in ("a", "f", "s"):
        out[f"explain frontier value_of_{n}"] = partial(value_of, n)

    def narrowed(box: Any) -> Any:
        return propagation.contract("1 < 2", box)

    def least(t: str, value: Any) -> Any:
        return narrowed({"a": (t, value, None)})

    def greatest(t: str, value: Any) -> Any:
        return narrowed({"a": (t, None, value)})

    out["contract name"] = lambda v: narrowed({v: ("int64", 0, 9)})
    out["contract entry"] = lambda v: narrowed({"a": v})
    out["contract type"] = lambda v: narrowed({"a": (v, None, None)})
    for t in ("uint8", "float32", "decimal(9,2)", "date", "timestamp[us]", "timestamp[ns, UTC]", "string", "bool",
              "duration[us]", "time64[us]", "binary"):
        out[f"contract least of {t}"] = partial(least, t)
        out[f"contract greatest of {t}"] = partial(greatest, t)
    for t in ("uint8", "float32", "decimal(9,2)", "date", "timestamp[us]", "duration[us]", "time[us]", "months"):
        out[f"DomainInterval least of {t}"] = partial(_least, t)
        out[f"DomainInterval greatest of {t}"] = partial(_greatest, t)
    return out


CALLS = _calls()
