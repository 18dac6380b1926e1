"""Random files and random predicates: a row group with a matching row is never left out, and most of the others are.

The answer comes from reading everything and evaluating the predicate on each row.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evaluating import answers

from ivjoin import conditions, expr, prune_row_groups
from ivjoin.conditions.read.fluent import Expr, column, function, lit, when
from ivjoin.errors import ColumnError, ConditionError

INF, NAN = float("inf"), float("nan")
NUMBERS = [-3, -1, 0, 1, 2, 5, 7, 100]
FLOATS = [0.0, -0.0, 0.1, 1.0, -1.5, 2.5, 1e16, 5e-324, 3.5, 100.0]
MOMENTS = [datetime(1900, 2, 28, 23, 59, 59), datetime(1969, 12, 31, 23, 59, 59, 999_000), datetime(1970, 1, 1),
           datetime(2024, 2, 29, 12), datetime(2024, 3, 31, 1, 30), datetime(2200, 1, 1)]  # fmt: skip
TEXTS = ["", "a", "ab", "abz", "b", "Z", "10", "9", "é", "\ud7ff", "\ue000", "\U0010ffff", "a\x00"]

# name -> (type, values a cell may have, values a predicate may compare it with)
COLUMNS: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "i8": (pa.int8(), [*NUMBERS, -128, 127], [*NUMBERS, 127, 128, 3.5]),
    "i32": (pa.int32(), [*NUMBERS, -(2**31), 2**31 - 1], [*NUMBERS, 2**31, Decimal("2.5")]),
    "i64": (pa.int64(), [*NUMBERS, -(2**63), 2**63 - 1, 2**53 + 1], [*NUMBERS, 2**53, 2**63 - 1, 2.0**53]),
    "u32": (pa.uint32(), [0, 1, 5, 2**31, 2**32 - 1], [*NUMBERS, 2**31]),
    "u64": (pa.uint64(), [0, 1, 5, 2**63, 2**64 - 1], [*NUMBERS, Decimal(2**63), Decimal(2**64 - 1)]),
    "f32": (pa.float32(), [*FLOATS, NAN, INF, -INF], [*FLOATS, INF, 2]),
    "f64": (pa.float64(), [*FLOATS, NAN, INF, -INF], [*FLOATS, NAN, -INF, Decimal("0.1")]),
    "b": (pa.bool_(), [True, False], [True, False]),
    "d9": (pa.decimal128(9, 2), [Decimal(n) / 4 for n in NUMBERS], [Decimal("0.25"), Decimal("0.255"), 1, 0.25]),
    "d38": (pa.decimal128(38, 4), [Decimal(n) * 10**30 for n in NUMBERS], [Decimal(10) ** 30, 1, 5]),
    "s": (pa.string(), TEXTS, TEXTS),
    "c": (pa.dictionary(pa.int32(), pa.string()), TEXTS, TEXTS),
    "bin": (pa.binary(), [t.encode("utf-8") for t in TEXTS] + [b"\xff"], [b"", b"a", b"\xff", b"ab"]),
    "day": (pa.date32(), [m.date() for m in MOMENTS], [date(1970, 1, 1), date(2024, 2, 29), MOMENTS[1]]),
    "ms": (pa.timestamp("ms"), MOMENTS, [*MOMENTS, date(1970, 1, 1)]),
    "us": (pa.timestamp("us"), MOMENTS, [*MOMENTS, MOMENTS[1] + timedelta(microseconds=999)]),
    "ns": (pa.timestamp("ns"), MOMENTS, MOMENTS),
    "at": (pa.timestamp("us", "Europe/Berlin"), [m.replace(tzinfo=UTC) for m in MOMENTS],
           [m.replace(tzinfo=UTC) for m in MOMENTS]),
    "t": (pa.time64("us"), [time(), time(1, 2, 3), time(23, 59, 59, 999_999)], [time(), time(12)]),
    "dur": (pa.duration("us"), [timedelta(n) for n in NUMBERS], [timedelta(n) for n in NUMBERS]),
}  # fmt: skip
NUMERIC = ["i8", "i32", "i64", "u32", "u64", "f32", "f64", "d9", "d38"]
TIMES = ["day", "ms", "us", "ns", "at"]


def random_table(draw: random.Random, rows: int) -> pa.Table:
    """Every column, some of them clustered so that row groups differ, some with nulls, some constant for long."""
    columns = {}
    for name, (type, values, _) in COLUMNS.items():
        pool = draw.sample(values, draw.randint(1, len(values)))
        cells: list[Any] = [draw.choice(pool) for _ in range(rows)]
        if draw.random() < 0.6:
            cells.sort(key=lambda v: (v != v, v), reverse=draw.random() < 0.3)
        nulls = draw.choice([0, 0, 0.1, 0.7])
        if draw.random() < 0.2:  # in one stretch, so that some row groups hold nothing else
            start = draw.randrange(rows)
            cells[start : start + rows // 3] = [None] * len(cells[start : start + rows // 3])
        columns[name] = pa.array([None if draw.random() < nulls else v for v in cells], type)
    return pa.table(columns)


def atom(draw: random.Random) -> Expr:
    """A condition on one or two columns."""
    name = draw.choice(list(COLUMNS))
    x, known = column(name), COLUMNS[name][2]
    compare: list[Callable[[Any, Any], Expr]] = [
        lambda a, b: a == b, lambda a, b: a != b, lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b,
        lambda a, b: a >= b, lambda a, b: a.eq_null_safe(b),
    ]  # fmt: skip
    kind = draw.randrange(10)
    if kind == 0:
        return x.is_null() if draw.random() < 0.5 else x.is_not_null()
    if kind == 1:
        return x.isin(*draw.choices(known, k=2))
    if kind == 2:
        return x.between(*draw.choices(known, k=2))
    if kind == 3:
        a, b = draw.choices(known, k=2)
        return draw.choice(compare)(function("coalesce", x, a), b)
    if kind == 4:
        return draw.choice(compare)(when(x == draw.choice(known), x).otherwise(draw.choice(known)), draw.choice(known))
    if kind in (5, 6) and (name in NUMERIC or name in TIMES):
        return special(draw, draw.choice(compare))
    return draw.choice(compare)(x, draw.choice(known))


def special(draw: random.Random, compare: Callable[[Any, Any], Expr]) -> Expr:
    """Arithmetic, casts and functions of times."""
    x, y = (column(draw.choice(NUMERIC)) for _ in range(2))
    when_, n, moment = column(draw.choice(TIMES)), draw.choice(NUMBERS), draw.choice(MOMENTS)
    cells: list[Callable[[], Expr]] = [
        lambda: compare(x + lit(n), y), lambda: compare(x - y, lit(n)), lambda: compare(abs(x - lit(n)), lit(3)),
        lambda: compare(x * x, lit(n)), lambda: compare(x * lit(-2), lit(n)), lambda: compare(x // lit(3), lit(n)),
        lambda: compare(x % lit(3), lit(n)), lambda: compare(lit(1.0) / x, lit(0.5)), lambda: compare(-x, lit(n)),
        lambda: compare(x.cast("bigint"), lit(n)), lambda: compare(x.cast("double"), lit(2.0**53)),
        lambda: compare(x.cast("float"), lit(n)), lambda: compare(x.cast("boolean"), lit(True)),
        lambda: compare(column("s").cast("int"), lit(n)), lambda: compare(function("least", x, y), lit(n)),
        lambda: compare(function("greatest", x, lit(n)), y), lambda: compare(function("floor", x), lit(n)),
        lambda: function("isnan", column("f64")) | compare(x, y),
        lambda: compare(when_.cast("date"), lit(moment.date())),
        lambda: compare(when_.cast("timestamp"), column("us")),
        lambda: compare(when_ + timedelta(days=1), lit(moment)),
        lambda: compare(function("add_months", column("day"), lit(1)), lit(moment.date())),
        lambda: compare(function("date_trunc", "month", when_.cast(pa.timestamp("us"))), lit(moment)),
        lambda: compare(function("unix_seconds", column("at")), lit(0)),
        lambda: compare(column("us") - column("ns"), lit(timedelta(1))),
        lambda: function("startswith", column("s"), lit(draw.choice(TEXTS))),
        lambda: compare(function("upper", column("s")), lit(draw.choice(TEXTS))),
    ]
    return draw.choice(cells)()


def predicate(draw: random.Random, depth: int = 2) -> Expr:
    if depth == 0 or draw.random() < 0.4:
        return atom(draw)
    if draw.random() < 0.2:
        return ~predicate(draw, depth - 1)
    a, b = predicate(draw, depth - 1), predicate(draw, depth - 1)
    return a & b if draw.random() < 0.6 else a | b


def groups_of_matches(file: pq.ParquetFile, question: Expr) -> set[int] | None:
    """The row groups with a matching row, by reading everything; None where the predicate does not type."""
    scope = expr.Scope(file.schema_arrow, pa.schema([]))
    try:
        node = conditions.condition(question, scope)
    except ConditionError:
        return None
    assert node is not None
    found = set()
    for group in range(file.num_row_groups):
        table = file.read_row_group(group).combine_chunks()
        arrays = {name: table.column(name).combine_chunks() for name in table.column_names}
        if any(value is True for value in answers(node, arrays, table.num_rows)):
            found.add(group)
    return found


def written(table: pa.Table, rows: int, **options: Any) -> pq.ParquetFile:
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=rows, **options)
    return pq.ParquetFile(file)


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(8))
def test_no_matching_row_is_lost(seed: int) -> None:
    draw = random.Random(seed)
    skippable = skipped = asked = 0
    for _ in range(3):
        rows = draw.choice([1, 2, 3, 5])
        file = written(random_table(draw, rows * 6), rows, store_decimal_as_integer=draw.random() < 0.5)
        for _ in range(60):
            question = predicate(draw)
            needed = groups_of_matches(file, question)
            if needed is None:
                continue
            kept = set(prune_row_groups(file, question))
            assert needed <= kept, f"{question!r} lost row groups {sorted(needed - kept)}"
            asked += 1
            skippable += file.num_row_groups - len(needed)
            skipped += file.num_row_groups - len(kept)
    assert asked > 100
    # the seeds skip 0.85 to 0.95 of what could be skipped in hindsight
    assert skipped > 0.75 * skippable > 100


def by_polars(table: pa.Table, rows: int) -> pq.ParquetFile:
    file = io.BytesIO()
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(file, row_group_size=rows, statistics="full")
    return pq.ParquetFile(file)


def by_duckdb(table: pa.Table, rows: int, folder: Path) -> pq.ParquetFile:
    path = folder / "duck.parquet"
    with duckdb.connect() as connection:
        connection.register("cells", table)
        connection.execute(f"COPY (FROM cells) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {rows})")
    return pq.ParquetFile(path)


@pytest.mark.slow
@pytest.mark.parametrize("writer", ["polars", "duckdb"])
def test_other_writers(writer: str, tmp_path: Path) -> None:
    draw = random.Random(7)
    rows = 2048 if writer == "duckdb" else 3  # DuckDB's least
    skippable = skipped = 0
    for _ in range(3):
        table = random_table(draw, rows * 4).drop_columns(["c", "ns", "dur"])
        file = by_polars(table, rows) if writer == "polars" else by_duckdb(table, rows, tmp_path)
        types = {name: file.schema_arrow.field(name).type for name in table.column_names}
        assert file.num_row_groups >= 4 and types["u64"] == pa.uint64()
        for _ in range(40):
            question = predicate(draw)
            try:
                needed = groups_of_matches(file, question)
            except ColumnError:  # one of those dropped
                continue
            if needed is None:
                continue
            kept = set(prune_row_groups(file, question))
            assert needed <= kept, f"{question!r} lost row groups {sorted(needed - kept)}"
            skippable += file.num_row_groups - len(needed)
            skipped += file.num_row_groups - len(kept)
    assert skipped > 0.5 * skippable > 50


def test_long_text_that_writers_cut() -> None:
    texts = ["x" * 100 + last for last in "abc"] + ["\U0010ffff" * 30, "é" * 70]
    for text in texts:
        file = by_polars(pa.table({"s": [text, "a"]}), 2)
        assert prune_row_groups(file, column("s") == text) == [0]
        assert prune_row_groups(file, column("s") >= text) == [0]
        assert prune_row_groups(file, column("s") < "a") == []
