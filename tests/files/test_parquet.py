"""The row groups that a predicate keeps: statistics of every type, absent statistics, and untrustworthy ones."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sympy

import ivjoin
from ivjoin import prune_row_groups
from ivjoin.conditions.read.fluent import column
from ivjoin.expr import build
from ivjoin.expr.types import FLOAT64, INT64
from ivjoin.files.statistics import ColumnRanges

NAN = float("nan")


def file_of(groups: Sequence[pa.Table], **options: Any) -> io.BytesIO:
    """A Parquet file with these row groups."""
    file = io.BytesIO()
    with pq.ParquetWriter(file, groups[0].schema, **options) as writer:
        for table in groups:
            writer.write_table(table)
    assert pq.ParquetFile(file).num_row_groups == len(groups)
    return file


def column_of(type: pa.DataType, *groups: Sequence[Any], **options: Any) -> io.BytesIO:
    """A Parquet file of one column ``x``."""
    return file_of([pa.table({"x": pa.array(values, type)}) for values in groups], **options)


# Three ascending row groups of each type; a predicate on the middle value keeps the middle one alone.
TYPES = [
    pytest.param(pa.int8(), [[-128, -5], [-4, 3], [4, 127]], -1, id="int8"),
    pytest.param(pa.int64(), [[-(2**63), -(2**53) - 1], [-(2**53), 2**53], [2**53 + 1, 2**63 - 1]], 0, id="int64"),
    pytest.param(pa.uint8(), [[0, 100], [101, 200], [201, 255]], 150, id="uint8"),
    pytest.param(pa.uint32(), [[0, 2**31 - 1], [2**31, 2**31 + 5], [2**31 + 6, 2**32 - 1]], 2**31, id="uint32"),
    pytest.param(pa.uint64(), [[0, 5], [2**63, 2**63 + 9], [2**64 - 2, 2**64 - 1]], Decimal(2**63 + 1), id="uint64"),
    pytest.param(pa.bool_(), [[False, False], [True, True], [False, False]], True, id="bool"),
    pytest.param(pa.float64(), [[-1e300, -1.0], [-0.5, 0.5], [1.0, 1e300]], 0.25, id="float64"),
    pytest.param(pa.float32(), [[-3.0, -1.0], [-0.5, 0.5], [1.0, 3e38]], 0.25, id="float32"),
    pytest.param(pa.float16(), [np.float16([-3, -1]), np.float16([0, 1]), np.float16([2, 9])], 0.5, id="float16"),
    pytest.param(
        pa.decimal128(5, 2), [[Decimal("-9.5")], [Decimal("-0.25"), Decimal("0.25")], [Decimal("0.26")]],
        Decimal("0.25"), id="decimal5",
    ),
    pytest.param(
        pa.decimal128(38, 10), [[Decimal(-(10**20))], [Decimal("-1"), Decimal(10**19)], [Decimal(10**20)]],
        Decimal("12345678901234.5"), id="decimal38",
    ),
    pytest.param(pa.string(), [["", "Zz"], ["a", "b"], ["é", "\U0001f600"]], "az", id="string"),
    pytest.param(pa.large_string(), [["A"], ["ba", "bz"], ["c"]], "bb", id="large_string"),
    pytest.param(pa.string_view(), [["A"], ["ba", "bz"], ["c"]], "bb", id="string_view"),
    pytest.param(pa.binary(), [[b"", b"\x7f"], [b"\x80", b"\x90"], [b"\x91", b"\xff\xff"]], b"\x85", id="binary"),
    pytest.param(pa.binary(2), [[b"aa"], [b"ba", b"bz"], [b"\xff\xff"]], b"bb", id="fixed_size_binary"),
    pytest.param(
        pa.date32(), [[date(1, 1, 1)], [date(1969, 12, 31), date(1970, 1, 2)], [date(9999, 12, 31)]],
        date(1970, 1, 1), id="date32",
    ),
    pytest.param(pa.date64(), [[date(1969, 1, 1)], [date(1970, 1, 1)], [date(1971, 1, 1)]],
                 date(1970, 1, 1), id="date64"),
    *[
        pytest.param(
            pa.timestamp(unit),
            [[datetime(1901, 1, 1)], [datetime(1969, 12, 31, 23), datetime(1970, 1, 1, 1)], [datetime(2100, 1, 1)]],
            datetime(1970, 1, 1), id=f"timestamp_{unit}",
        )
        for unit in ("s", "ms", "us", "ns")
    ],
    pytest.param(
        pa.timestamp("us", "America/New_York"),
        [[datetime(2024, 1, 1, tzinfo=UTC)], [datetime(2024, 1, 2, tzinfo=UTC), datetime(2024, 1, 4, tzinfo=UTC)],
         [datetime(2024, 1, 5, tzinfo=UTC)]],
        datetime(2024, 1, 3, tzinfo=UTC), id="timestamp_zone",
    ),
    pytest.param(pa.time32("s"), [[time(1)], [time(2), time(4)], [time(23, 59, 59)]], time(3), id="time32"),
    pytest.param(pa.time64("ns"), [[time(1)], [time(2), time(4)], [time(23, 59, 59)]], time(3), id="time64"),
    pytest.param(
        pa.duration("ms"), [[timedelta(days=-2)], [timedelta(0), timedelta(1)], [timedelta(2)]],
        timedelta(hours=1), id="duration",
    ),
    pytest.param(pa.dictionary(pa.int8(), pa.string()), [["a"], ["b", "d"], ["e"]], "c", id="dictionary"),
]  # fmt: skip


@pytest.mark.parametrize("type, groups, value", TYPES)
def test_a_value_is_looked_for_where_it_can_be(type: pa.DataType, groups: list[list[Any]], value: Any) -> None:
    file = column_of(type, *groups)
    x = column("x")
    assert prune_row_groups(file, x == value) == [1]
    assert prune_row_groups(file, x.eq_null_safe(value)) == [1]
    assert prune_row_groups(file, (x <= value) & (x >= value)) == [1]
    assert prune_row_groups(file, x.is_null()) == []
    assert prune_row_groups(file, x.is_not_null()) == [0, 1, 2]


@pytest.mark.parametrize("type, groups, value", TYPES)
def test_every_stored_value_is_found_again(type: pa.DataType, groups: list[list[Any]], value: Any) -> None:
    file = column_of(type, *groups)
    scope = pq.ParquetFile(file)
    for i in range(3):
        for held in scope.read_row_group(i).column("x").to_pylist():
            if isinstance(held, int) and held >= 2**63:
                held = Decimal(held)
            if isinstance(held, np.float16):
                held = float(held)
            assert i in prune_row_groups(file, column("x") == held), held


def test_null_is_in_no_statistics() -> None:
    file = column_of(pa.int64(), [1, 2, 3], [1, None, 3], [None, None], [7, 8])
    assert prune_row_groups(file, "x > 5") == [3]
    assert prune_row_groups(file, "x IS NULL") == [1, 2]
    assert prune_row_groups(file, "x IS NULL OR x > 5") == [1, 2, 3]
    assert prune_row_groups(file, "x IS NOT NULL") == [0, 1, 3]
    assert prune_row_groups(file, "NOT (x > 5)") == [0, 1]
    assert prune_row_groups(file, "x <=> NULL") == [1, 2]
    assert prune_row_groups(file, "coalesce(x, 100) > 50") == [1, 2]


def test_nan_is_not_in_statistics_and_above_everything() -> None:
    file = column_of(pa.float64(), [1.0, 3.0], [1.0, NAN], [NAN, NAN], [None, None])
    kept = prune_row_groups(file, "x > 5")
    assert {1, 2} <= set(kept)
    assert 3 not in kept
    assert {1, 2} <= set(prune_row_groups(file, "isnan(x)"))
    assert 2 in prune_row_groups(file, "x = CAST('NaN' AS DOUBLE)")
    # below, NaN is no obstacle; the all-NaN group has no statistics
    assert prune_row_groups(file, "x < 0.5") == [2]
    assert prune_row_groups(file, "x = 2") == [0, 2]
    assert prune_row_groups(file, "x BETWEEN 4 AND 5") == [2]


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("type", [pa.float64(), pa.float32()])
def test_signed_zeros_are_equal(zero: float, type: pa.DataType) -> None:
    file = column_of(type, [zero], [1.0], [-1.0, -0.5])
    for predicate in ("x = 0.0", "x = -0.0", "x >= 0.0 AND x < 0.5", "x <= -0.0 AND x > -0.25"):
        assert prune_row_groups(file, predicate) == [0], predicate


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_zero_stands_for_both(zero: float) -> None:
    # pyarrow writes -0.0 and 0.0 as the ends, other writers the zero that comes first
    stored = struct.pack("<d", zero)
    file = patched(column_of(pa.float64(), [0.0, -0.0]), (struct.pack("<d", -zero), stored))
    found = pq.ParquetFile(file).metadata.row_group(0).column(0).statistics
    assert str(found.min) == str(found.max) == str(zero)
    read = pq.ParquetFile(file)
    ranges = ColumnRanges(read.schema_arrow, read.metadata, "left")
    (dom,) = ranges.of_group(0, [build.column("left", "x", FLOAT64)]).values()
    assert (str(dom.lo), str(dom.hi)) == ("-0.0", "0.0")


def test_infinities_are_values() -> None:
    inf = float("inf")
    file = column_of(pa.float64(), [-inf], [0.0], [inf])
    assert prune_row_groups(file, "x < -1e308") == [0]
    assert 2 in prune_row_groups(file, "x > 1e308")
    assert prune_row_groups(file, column("x") == inf) == [2]


def test_row_group_without_statistics_is_read() -> None:
    table = pa.table({"x": [1, 2], "y": [5, 6]})
    file = file_of([table, table], write_statistics=["y"])
    assert prune_row_groups(file, "x > 100") == [0, 1]
    assert prune_row_groups(file, "x > 100 AND y > 100") == []
    assert prune_row_groups(file, "x IS NULL") == [0, 1]


def test_int96_has_no_order() -> None:
    file = column_of(pa.timestamp("ns"), [datetime(2020, 1, 1)], use_deprecated_int96_timestamps=True)
    assert prune_row_groups(file, "x > TIMESTAMP '2100-01-01 00:00:00'") == [0]


def test_required_columns_have_no_null() -> None:
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    table = pa.table({"x": [1]}, schema=schema)
    assert prune_row_groups(file_of([table], write_statistics=False), "x IS NULL") == []


def test_units_meet() -> None:
    early, late = datetime(1969, 12, 31, 23, 59, 59, 999_000), datetime(1970, 1, 1)
    for unit in ("ms", "us", "ns"):
        file = column_of(pa.timestamp(unit), [early], [late])
        assert prune_row_groups(file, "x < TIMESTAMP '1970-01-01 00:00:00'") == [0]
        assert prune_row_groups(file, "x >= TIMESTAMP '1969-12-31 23:59:59.999001'") == [1]
        assert prune_row_groups(file, "CAST(x AS DATE) = DATE '1969-12-31'") == [0]
    # seconds times 10^9 would not fit
    file = column_of(pa.timestamp("ms"), [datetime(9999, 1, 1)], [datetime(2000, 1, 1)])
    assert prune_row_groups(file, column("x") > column("x").cast(pa.timestamp("us")) - timedelta(1)) == [0, 1]


@pytest.mark.parametrize("whole", [False, True])
def test_decimals_stored_as_integers(whole: bool) -> None:
    file = column_of(pa.decimal128(9, 2), [Decimal("-1.25")], [Decimal("1.25")], store_decimal_as_integer=whole)
    assert prune_row_groups(file, "x < 0") == [0]
    assert prune_row_groups(file, "x >= 1.25") == [1]
    assert prune_row_groups(file, "x > 1.25") == []


def test_casts_that_keep_no_order() -> None:
    file = column_of(pa.string(), ["1", "100", "2"], ["7", "9"])
    assert 0 in prune_row_groups(file, "CAST(x AS INT) = 100")
    assert prune_row_groups(file, "CAST(x AS INT) = 100 AND x < '3'") == [0]
    file = column_of(pa.int64(), [-1, 0], [0])
    assert 0 in prune_row_groups(file, "CAST(x AS BOOLEAN)")


def test_text_functions_keep_no_order() -> None:
    file = column_of(pa.string(), ["", "a"], ["B", "C"])
    assert 0 in prune_row_groups(file, "concat(x, 'z') > 'y'")
    assert 1 in prune_row_groups(file, "lower(x) = 'b'")


# -- the shape of the file --------------------------------------------------------------------------------------------


def test_path_does_not_prove_a_column() -> None:
    nested = pa.array([{"b": 1}, {"b": 2}])
    flat = pa.array([100, 200])
    for names in (["a", "a.b"], ["a.b", "a"]):
        arrays = {"a": nested, "a.b": flat}
        file = file_of([pa.table({n: arrays[n] for n in names})])
        assert prune_row_groups(file, "`a.b` = 150") == [0]
        assert prune_row_groups(file, "`a.b` = 1") == []


def test_nested_columns_tell_nothing() -> None:
    table = pa.table({
        "xs": pa.array([[1, 2], None, [3]]),
        "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "s": pa.array([{"p": 1, "q": [1]}, None, {"p": None, "q": None}]),
        "f": pa.array([[1, 2], [3, 4], None], pa.list_(pa.int8(), 2)),
        "x": pa.array([10, 20, 30]),
    })  # fmt: skip
    file = file_of([table, table.slice(2)])
    for name in ("xs", "m", "s", "f"):
        assert prune_row_groups(file, f"{name} IS NULL") == [0, 1]
        assert prune_row_groups(file, f"{name} IS NOT NULL") == [0, 1]
    assert prune_row_groups(file, "x < 25") == [0]


def test_types_without_order_are_not_pruned() -> None:
    table = pa.table({"big": pa.array([Decimal(1)], pa.decimal256(50, 2)), "n": pa.nulls(1), "x": pa.array([1])})
    file = file_of([table])
    assert prune_row_groups(file, "big IS NOT NULL") == [0]
    assert prune_row_groups(file, "n IS NULL AND x = 1") == [0]
    assert prune_row_groups(file, "x = 2") == []


def test_row_groups_without_rows_hold_nothing() -> None:
    empty = pa.table({"x": pa.array([], pa.int64())})
    assert prune_row_groups(file_of([empty, pa.table({"x": [1]}), empty]), None) == [1]
    assert prune_row_groups(file_of([empty]), "x IS NULL OR x IS NOT NULL") == []


def test_constants() -> None:
    file = column_of(pa.int64(), [1], [2])
    assert prune_row_groups(file, None) == [0, 1]
    assert prune_row_groups(file, "TRUE") == [0, 1]
    assert prune_row_groups(file, "FALSE") == []
    assert prune_row_groups(file, "NULL") == []
    assert prune_row_groups(file, "x = 1 AND NULL") == []


# -- statistics that are not to be trusted ----------------------------------------------------------------------------


def patched(file: io.BytesIO, *edits: tuple[bytes, bytes]) -> io.BytesIO:
    """The file with its footer edited; lengths may change, for Thrift's compact form holds no offsets into itself."""
    whole = file.getvalue()
    length = int.from_bytes(whole[-8:-4], "little")
    body, footer = whole[: -8 - length], whole[-8 - length : -8]
    for old, new in edits:
        assert old in footer, old
        footer = footer.replace(old, new)
    return io.BytesIO(body + footer + struct.pack("<I", len(footer)) + b"PAR1")


def text(value: bytes) -> bytes:
    """A binary value in Thrift's compact form."""
    assert len(value) < 128
    return bytes([len(value)]) + value


WRITER = pq.ParquetFile(column_of(pa.int64(), [1])).metadata.created_by.encode()


def written_by(name: str) -> tuple[bytes, bytes]:
    return text(WRITER), text(name.encode())


def test_a_cut_maximum_is_widened() -> None:
    file = column_of(pa.string(), ["aa", "abcz"], ["b", "c"])
    cut = patched(file, written_by("some writer"), (text(b"abcz"), text(b"abc")))
    assert pq.ParquetFile(cut).metadata.row_group(0).column(0).statistics.max == "abc"
    assert 0 in prune_row_groups(cut, "x = 'abcz'")
    assert 0 in prune_row_groups(cut, "x > 'abcy'")
    assert prune_row_groups(cut, "x > 'abe'") == [1]
    assert prune_row_groups(file, "x > 'abczz' AND x < 'az'") == []


def test_strict_comparisons_exclude_the_ends() -> None:
    for type, low, high in ((pa.string(), "b", "c"), (pa.binary(), b"b", b"c"), (pa.int64(), 1, 2)):
        file = column_of(type, [low, high])
        assert prune_row_groups(file, column("x") > high) == []
        assert prune_row_groups(file, column("x") < low) == []
        assert prune_row_groups(file, column("x") >= high) == prune_row_groups(file, column("x") <= low) == [0]


@pytest.mark.parametrize("values, stump, probe", [
    pytest.param(["a", "aéz"], b"a\xc3", "aéz", id="within a character"),
    pytest.param(["a", "\ud7ffz"], "\ud7ff".encode(), "\ud7ffz", id="before the surrogates"),
    pytest.param(["a", "\U0010ffffz"], "\U0010ffff".encode(), "\U0010ffffz", id="the last character"),
    pytest.param(["a", "ab"], b"", "ab", id="nothing left"),
])  # fmt: skip
def test_a_maximum_cut_anywhere(values: list[str], stump: bytes, probe: str) -> None:
    file = patched(
        column_of(pa.string(), values), written_by("some writer"), (text(values[1].encode()), text(stump))
    )  # fmt: skip
    assert prune_row_groups(file, column("x") == probe) == [0]
    assert prune_row_groups(file, column("x") >= probe) == [0]


@pytest.mark.parametrize("stump", [b"\xff", b"a\xff", b"a"])
def test_cut_binary_maxima(stump: bytes) -> None:
    value = stump + b"zz"
    file = patched(column_of(pa.binary(), [b"A", value]), written_by("some writer"), (text(value), text(stump)))
    assert prune_row_groups(file, column("x") == value) == [0]


def test_old_writers_are_not_believed() -> None:
    # parquet-mr before 1.8 compared text as signed bytes
    file = patched(column_of(pa.string(), ["a", "b"]), written_by("parquet-mr version 1.7.0 (build x)"))
    assert prune_row_groups(file, "x = 'é'") == [0]


@pytest.mark.parametrize("end", [1.5, 2.5])
def test_nan_as_an_end(end: float) -> None:
    file = patched(column_of(pa.float64(), [1.5, 2.5]), (struct.pack("<d", end), struct.pack("<d", NAN)))
    assert prune_row_groups(file, "x < -100") == [0]
    assert prune_row_groups(file, "x = 100") == [0]


def test_ends_the_wrong_way_round() -> None:
    file = column_of(pa.float64(), [1.5, 2.5])
    wrong = patched(file, (struct.pack("<d", 1.5), struct.pack("<d", 7.5)))
    assert prune_row_groups(wrong, "x = 100") == [0]
    assert prune_row_groups(file, "x = 100") == []
    file = patched(column_of(pa.string(), ["ab", "cd"]), (text(b"ab"), text(b"xy")))
    assert prune_row_groups(file, "x = 'q'") == [0]


def test_ends_outside_the_type() -> None:
    file = column_of(pa.int8(), [1, 7])
    low, high = struct.pack("<i", 1), struct.pack("<i", 7)
    assert prune_row_groups(patched(file, (high, struct.pack("<i", 1000))), "x = 100") == [0]
    assert prune_row_groups(patched(file, (low, struct.pack("<i", -1000))), "x = 100") == [0]


# -- the ways in ------------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.parquet"
    path.write_bytes(column_of(pa.int64(), [1, 2], [3, 4], [5, 6]).getvalue())
    return path


def test_every_form_of_file(stored: Path) -> None:
    with open(stored, "rb") as file, pq.ParquetFile(stored) as opened:
        for form in (stored, str(stored), file, io.BytesIO(stored.read_bytes()), opened, pa.memory_map(str(stored))):
            assert prune_row_groups(form, "x = 3") == [1]
        assert not file.closed
        assert opened.read_row_group(1).num_rows == 2


def test_every_form_of_predicate(stored: Path) -> None:
    x = sympy.Symbol("x")
    forms = (
        "x >= 4 AND x < 5", "l.x = 4", sympy.And(x >= 4, x < 5), ivjoin.left("x") == 4, column("x").isin(4),
        build.eq(build.column("left", "x", INT64), build.literal(4, INT64)),
    )  # fmt: skip
    for form in forms:
        assert prune_row_groups(stored, form) == [1], form


def test_the_zone_decides_the_day() -> None:
    file = column_of(pa.timestamp("us", "UTC"), [datetime(2024, 1, 1, 23, 30, tzinfo=UTC)])
    assert prune_row_groups(file, "CAST(x AS DATE) = DATE '2024-01-02'") == []
    assert prune_row_groups(file, "CAST(x AS DATE) = DATE '2024-01-02'", timezone="Europe/Berlin") == [0]


def test_mistakes_are_named(stored: Path, tmp_path: Path) -> None:
    with pytest.raises(ivjoin.ColumnError, match="'y' is not in left: left has x"):
        prune_row_groups(stored, "y > 1")
    with pytest.raises(ivjoin.ColumnError):
        prune_row_groups(stored, "r.x > 1")
    with pytest.raises(ivjoin.ConditionError, match="true or false"):
        prune_row_groups(stored, "x + 1")
    with pytest.raises(ivjoin.ConditionError):
        prune_row_groups(stored, "x >")
    with pytest.raises(FileNotFoundError):
        prune_row_groups(tmp_path / "nowhere.parquet", "x > 1")
    (tmp_path / "text.parquet").write_text("x\n1\n" * 10)
    with pytest.raises(ivjoin.IvjoinError, match="cannot read .*text.parquet' as parquet"):
        prune_row_groups(tmp_path / "text.parquet", "x > 1")
    with pytest.raises(ivjoin.IvjoinError, match="cannot be made of a int; expected a path"):
        prune_row_groups(7, "x > 1")


def test_pruning_may_hide_an_error() -> None:
    file = column_of(pa.int64(), [0], [1])
    assert prune_row_groups(file, "1 div x = 5") == []
    assert prune_row_groups(file, "10 div x = 10") == [1]
