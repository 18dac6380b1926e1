"""Types of columns of CSV and JSON lines: no number loses a digit, no time its zone, and no column fails others."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

import ivjoin
from ivjoin.files.atomic import FileError
from ivjoin.files.datasets import open_files
from ivjoin.files.formats import Sink
from ivjoin.files.text.inference import inexact, number_type
from ivjoin.files.text.jsons import JsonText

MANY = 60_000  # rows whose lines fill more than the first block
LARGEST, NEXT = 18446744073709551615, 18446744073709551614


def csv(path: Path, name: str, *values: object) -> str:
    """A file of a column, and of another one that fills the first block."""
    path.write_text(f"{name},filler\n" + "".join(f"{'' if v is None else v},{'x' * 20}\n" for v in values))
    return str(path)


def jsonl(path: Path, name: str, *values: str) -> str:
    path.write_text("".join(f'{{"{name}": {v}, "filler": "{"x" * 20}"}}\n' for v in values))
    return str(path)


def types_of(path: str) -> dict[str, pa.DataType]:
    return {f.name: f.type for f in open_files(path).schema}


def column(path: str, name: str) -> pa.ChunkedArray:
    return open_files(path).table([name]).column(0)


# -- whole numbers beyond int64 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("write, ending", [(csv, "csv"), (jsonl, "jsonl")])
@pytest.mark.parametrize(("ours", "theirs"), [
    ([LARGEST], [NEXT]), ([9007199254740993, LARGEST], [9007199254740992]), ([LARGEST], [-(2**63) - 1, 2**64]),
    ([10**30 + 1], [10**30]), ([-(2**63) - 1], [-(2**63)]), ([2**63], [2**63 - 1]),
])  # fmt: skip
def test_numbers_beyond_int64_do_not_match_others(
    tmp_path: Path, write: Callable[..., str], ending: str, ours: list[int], theirs: list[int]
) -> None:
    left, right = write(tmp_path / f"l.{ending}", "id", *ours), write(tmp_path / f"r.{ending}", "id", *theirs)
    assert ivjoin.band_join(left, right, on="id", columns=["id"]).read_all().num_rows == 0
    both = ivjoin.band_join(left, left, on="id", columns=["id"]).read_all()["id"].to_pylist()
    assert sorted(map(int, both)) == sorted(ours)


@pytest.mark.parametrize("t, values", [
    (pa.uint64(), [0, 5, 2**64 - 1, None, 2**63]),
    (pa.decimal128(38, 0), [Decimal(10**37), Decimal(-5), None]),
    (pa.decimal128(38, 10), [Decimal("1234567890123456789012345678.0123456789"), Decimal("0.0000000001")]),
    (pa.decimal128(18, 2), [Decimal("9007199254740.93"), Decimal("9007199254740993.01")]),
    (pa.float64(), [0.1, 1e300, -0.0, 2.0**64, 2.0**53 + 2, None, float("inf"), 5e-324, 0.1 + 0.2]),
    (pa.int64(), [2**63 - 1, -(2**63), None]),
])  # fmt: skip
def test_what_was_written_as_csv_reads_back(tmp_path: Path, t: pa.DataType, values: list[Any]) -> None:
    table = pa.table({"v": pa.array(values, t), "w": [0] * len(values)})
    sink = Sink(str(tmp_path / "t.csv"), table.schema)
    for batch in table.to_batches():
        sink.write(batch)
    sink.commit()
    got = column(str(tmp_path / "t.csv"), "v")
    assert got.to_pylist() == values
    if t == pa.uint64():
        assert got.type == t


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_numbers_in_nested_fields_and_numbers_within_doubles(tmp_path: Path, ending: str) -> None:
    if ending == "jsonl":
        (tmp_path / "t.jsonl").write_text(f'{{"a": {{"id": [{LARGEST}, 1]}}, "b": 1e30, "c": 9007199254740994.0}}\n')
        t = types_of(str(tmp_path / "t.jsonl"))
        assert t["a"] == pa.struct([("id", pa.list_(pa.uint64()))])
        assert column(str(tmp_path / "t.jsonl"), "a").to_pylist() == [{"id": [LARGEST, 1]}]
    else:
        (tmp_path / "t.csv").write_text("b,c\n1e30,9007199254740994.0\n1E+5,NaN\n")
        t = types_of(str(tmp_path / "t.csv"))
    assert (t["b"], t["c"]) == (pa.float64(), pa.float64())


@pytest.mark.one_in(5)
@pytest.mark.parametrize("write, ending", [(csv, "csv"), (jsonl, "jsonl")])
@pytest.mark.parametrize("first", ["1", "1.5"])
def test_large_numbers_in_later_rows_are_refused_by_name(
    tmp_path: Path, write: Callable[..., str], ending: str, first: str
) -> None:
    path = write(tmp_path / f"t.{ending}", "id", *[first] * MANY, str(LARGEST))
    with pytest.raises(FileError, match=rf"t\.{ending}' as \w+: \w+ 'id' .*18446744073709551615"):
        column(path, "id")
    assert len(column(path, "filler")) == MANY + 1, "a column that is not read stops nothing"
    double = write(tmp_path / f"d.{ending}", "id", *["1.5"] * MANY, "1e30", "9007199254740994")
    assert column(double, "id").to_pylist()[-2:] == [1e30, 2.0**53 + 2]


def test_inexact_is_that_another_text_of_as_many_decimals_is_the_same_double() -> None:
    draw = random.Random(3)
    for _ in range(3000):
        decimals = draw.choice([0, 0, 1, 2, 5])
        n = draw.randrange(10 ** draw.randrange(1, 21))
        text = f"{Decimal(n).scaleb(-decimals):.{decimals}f}"
        others = [f"{Decimal(n + d).scaleb(-decimals):.{decimals}f}" for d in (-1, 1) if n + d > 0]
        if any(float(o) == float(text) for o in others):
            assert sum(not inexact(o) for o in {text, *others} if float(o) == float(text)) <= 1, text
        elif len(str(n)) <= 15:
            assert not inexact(text), text
    for value in (draw.random() * 10.0 ** draw.randrange(-20, 20) for _ in range(3000)):
        assert not inexact(repr(value))
        assert not inexact(f"{value:.20f}")
        assert not inexact(f"{value:.17g}")


@pytest.mark.parametrize(("texts", "t"), [
    (["1.5", "2"], pa.float64()), (["-1", str(2**64 - 1)], pa.decimal128(20, 0)), (["9" * 39], None),
    (["0.5", "9007199254740993"], pa.decimal128(17, 1)), (["nan", "9007199254740993"], None), ([], pa.float64()),
    (["1e5", "9007199254740993.5"], pa.decimal128(17, 1)), (["1e50", "9007199254740993.5"], None),
    (["9" * 39 + ".5"], None),
])  # fmt: skip
def test_types_of_numbers(texts: list[str], t: pa.DataType | None) -> None:
    assert number_type(texts) == t


# -- times -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "t", "value"), [
    ("2024-01-01T12:00:00Z", pa.timestamp("us", "UTC"), datetime(2024, 1, 1, 12, tzinfo=UTC)),
    ("2024-01-01T12:00:00+02:00", pa.timestamp("us", "UTC"), datetime(2024, 1, 1, 10, tzinfo=UTC)),
    ("2024-01-01T12:00:00.5Z", pa.timestamp("us", "UTC"), datetime(2024, 1, 1, 12, 0, 0, 500000, tzinfo=UTC)),
    ("2024-01-01T12:00:00", pa.timestamp("us"), datetime(2024, 1, 1, 12)),
    ("9999-12-31 12:00:00.5", pa.timestamp("us"), datetime(9999, 12, 31, 12, 0, 0, 500000)),
    ("2024-01-01", pa.date32(), date(2024, 1, 1)),
    ("2024-01-01 12:00:00.123456000", pa.timestamp("ns"), None),
])  # fmt: skip
def test_times_are_the_same_in_csv_and_json(tmp_path: Path, text: str, t: pa.DataType, value: object) -> None:
    left, right = csv(tmp_path / "l.csv", "t", text), jsonl(tmp_path / "r.jsonl", "t", f'"{text}"')
    assert types_of(left)["t"] == types_of(right)["t"] == t
    if value is not None:
        assert column(left, "t").to_pylist() == column(right, "t").to_pylist() == [value]
    for zone in ("UTC", "Europe/Berlin"):
        got = ivjoin.band_join(left, right, condition="l.t = r.t", timezone=zone)
        assert got.read_all().num_rows == 1


@pytest.mark.parametrize(("first", "later"), [
    ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00.5Z"), ("2024-01-01 00:00:00", "2024-01-01 00:00:00.123456"),
])  # fmt: skip
def test_a_fraction_may_appear_after_the_first_block(tmp_path: Path, first: str, later: str) -> None:
    left = csv(tmp_path / "l.csv", "t", *[first] * MANY, later)
    right = jsonl(tmp_path / "r.jsonl", "t", *[f'"{first}"'] * MANY, f'"{later}"')
    assert column(left, "t")[-1].as_py().microsecond > 0
    assert column(left, "t").equals(column(right, "t"))


def test_times_of_day_and_texts_that_are_no_times(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    mixed = ("2024-01-01 10:00:00Z", "2024-01-01 10:00:00")
    path.write_text(f"a,b,c,d\n12:00:00,12:00:00.5,{mixed[0]},2024\n13:00,12:00:00,{mixed[1]},x\n")
    t = types_of(str(path))
    assert (t["a"], t["b"], t["c"], t["d"]) == (pa.time64("us"), pa.time64("us"), pa.string(), pa.string())
    assert column(str(path), "b").to_pylist() == [time(12, 0, 0, 500000), time(12)]
    later = csv(tmp_path / "l.csv", "t", *["2024-01-01 00:00:00"] * MANY, "2024-01-01 00:00:00Z")
    with pytest.raises(FileError, match=r"column 't' has '2024-01-01 00:00:00Z', which is not timestamp\[us\]"):
        column(later, "t")
    zoned = jsonl(tmp_path / "l.jsonl", "t", *['"2024-01-01T00:00:00Z"'] * MANY, '"2024-01-01T00:00:00"')
    with pytest.raises(FileError, match=r"l\.jsonl.*expected a zone offset"):
        column(zoned, "t")


# -- columns without a value in the first rows ------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(("value", "t"), [
    ("hello", pa.string()), ("7", pa.int64()), ("2024-01-01 00:00:00", pa.timestamp("us")),
])  # fmt: skip
def test_a_column_without_a_value_in_the_first_block(
    tmp_path: Path, value: str, t: pa.DataType, compressed: bool
) -> None:
    path = csv(tmp_path / "l.csv", "note", *[None] * MANY, value)
    if compressed:
        Path(path + ".gz").write_bytes(gzip.compress(Path(path).read_bytes(), 1))
        path += ".gz"
    assert types_of(path)["note"] == t
    assert column(path, "note")[-1].as_py() == pa.array([value]).cast(t)[0].as_py()
    right = pa.table({"filler": ["x" * 20], "w": [1]})
    got = ivjoin.band_join(path, right, on="filler", columns=["w"]).read_all()
    assert got.num_rows == MANY + 1


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("value", "t"), [
    ('"hello"', pa.string()), ("7", pa.int64()), ('{"a": [1]}', pa.struct([("a", pa.list_(pa.int64()))])),
])  # fmt: skip
def test_a_field_without_a_value_in_the_first_block(tmp_path: Path, value: str, t: pa.DataType) -> None:
    path = jsonl(tmp_path / "l.jsonl", "note", *["null"] * MANY, value)
    assert types_of(path)["note"] == t
    assert column(path, "note")[-1].is_valid
    assert column(path, "note").null_count == MANY


def test_a_column_that_is_not_read_stops_nothing(tmp_path: Path) -> None:
    path = csv(tmp_path / "l.csv", "v", *[1] * MANY, "text")
    right = pa.table({"filler": ["x" * 20], "w": [1]})
    assert ivjoin.band_join(path, right, on="filler", columns=["w"]).read_all().num_rows == MANY + 1
    with pytest.raises(FileError, match=r"l\.csv' as csv: column 'v' has 'text', which is not int64.*'string'"):
        ivjoin.band_join(path, right, on="filler").read_all()
    lines = jsonl(tmp_path / "l.jsonl", "v", *["1"] * MANY, '"text"')
    assert ivjoin.band_join(lines, right, on="filler", columns=["w"]).read_all().num_rows == MANY + 1
    with pytest.raises(FileError, match=r"l\.jsonl' as json: .*Column\(/v\) changed from number to string"):
        ivjoin.band_join(lines, right, on="filler").read_all()
    # no column at all: the rows count
    for one in (path, lines):
        assert sum(b.num_rows for b in open_files(one).batches([])) == MANY + 1


@pytest.mark.parametrize("text, values", [
    ('{"a": [{"d": null}, null]}\n', [[{"d": None}, None]]),
    ('{"a": [{"d": null, "t": "2024-01-02"}, null]}\n', [[{"d": None, "t": date(2024, 1, 2)}, None]]),
    ('{"a": null}\n{"a": {"d": null, "b": [null]}}\n', [None, {"d": None, "b": [None]}]),
    ('{"a": [[null, {"d": null}], [null]]}\n{"a": null}\n', [[[None, {"d": None}], [None]], None]),
    ('{"a": {"b": [null, {"d": null, "x": 1.5}]}}\n', [{"b": [None, {"d": None, "x": 1.5}]}]),
    ('{"a": null}\n{"a": {"b": [null, null]}}', [None, {"b": [None, None]}]),
    ('{"a": null, "z": {"b": {"d": null}}}\n{"a": {"d": null, "b": [null, null]}, "z": {"b": {"d": 8}}}',
     [None, {"d": None, "b": [None, None]}]),
])  # fmt: skip
def test_fields_inside_objects_may_be_null_throughout(text: str, values: list[Any]) -> None:
    read = JsonText("a text", lambda: io.BytesIO(text.encode()), False)
    batches = list(read.batches(read.schema))
    for batch in batches:
        batch.validate(full=True)
    assert [row["a"] for batch in batches for row in batch.to_pylist()] == values
