"""Row groups that a join may skip: none with a row of the result, and all that no row can match."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracle import HOWS, rows_of

import ivjoin
from ivjoin.cli import main
from ivjoin.files.statistics import ColumnRanges
from ivjoin.plan.cache import planned
from ivjoin.plan.derived import row_groups as reach
from ivjoin.stream.pruning import opened

NAN = float("nan")
PRESERVED = {"left": (0,), "right": (1,), "full": (0, 1), "left_anti": (0,), "right_anti": (1,)}


def store(path: Path, table: pa.Table, rows: int) -> str:
    pq.write_table(table, path, row_group_size=rows)
    return str(path)


def reachable_row_groups(left: Any, right: Any, **question: Any) -> tuple[list[int], list[int]]:
    with opened(left) as left_file, opened(right) as right_file:
        both = ((left_file, "left"), (right_file, "right"))
        left_ranges, right_ranges = (ColumnRanges(f.schema_arrow, f.metadata, side) for f, side in both)
        ranges = (left_ranges, right_ranges)
        return reach.meeting_groups(planned(ranges[0].schema, ranges[1].schema, **question), ranges)


def numbers(start: int, stop: int) -> pa.Table:
    return pa.table({"t": list(range(start, stop)), "v": [n % 3 for n in range(start, stop)]})


BAND = "l.t BETWEEN r.t - 5 AND r.t + 5"


@pytest.mark.parametrize("pairs", [0, 4096])
@pytest.mark.parametrize("how", HOWS)
def test_preserved_sides_are_read_whole(tmp_path: Path, how: str, pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "_PAIRS", pairs)
    left = store(tmp_path / "l.parquet", numbers(0, 100), 10)
    right = store(tmp_path / "r.parquet", numbers(72, 200), 10)
    kept = reachable_row_groups(left, right, condition=BAND, how=how)
    # left rows from 67 on, right rows up to 104
    reached = ([6, 7, 8, 9], [0, 1, 2, 3])
    for s in (0, 1):
        assert kept[s] == (list(range((10, 13)[s])) if s in PRESERVED.get(how, ()) else reached[s])


@pytest.mark.parametrize("how", HOWS)
def test_error_of_a_constant_is_raised_for_all_inputs(tmp_path: Path, how: str) -> None:
    """Its error is no reason to leave rows out: the first pair that gets to it raises."""
    path = store(tmp_path / "l.parquet", numbers(0, 30), 10)
    for condition in ("1/0 > 1", "l.t >= 0 AND 2147483647 + 1 < 0"):
        assert reachable_row_groups(path, path, on="v", condition=condition, how=how) == ([0, 1, 2], [0, 1, 2])
        with pytest.raises(ivjoin.EvaluationError):
            ivjoin.band_join(path, path, on="v", condition=condition, how=how).read_all()
        assert main(["join", path, path, "--on", "v", "--condition", condition, "--how", how.replace("_", "-"),
                     "-o", str(tmp_path / "out.parquet")]) == 2  # fmt: skip


def test_row_groups_skipped_on_one_side_let_the_other_side_skip(tmp_path: Path) -> None:
    left = store(tmp_path / "l.parquet", pa.table({"a": [1, 50, 90], "b": [1, 500, 900]}), 1)
    right = store(tmp_path / "r.parquet", pa.table({"a": [1, 40, 80], "b": [2, 3, 4]}), 1)
    kept = reachable_row_groups(left, right, condition="l.a <= r.a + 10 AND l.a >= r.a - 10 AND l.b < r.b")
    assert kept == ([0], [0])


def test_gaps_of_a_file_are_seen(tmp_path: Path) -> None:
    left = store(tmp_path / "l.parquet", numbers(0, 1000), 10)
    right = store(tmp_path / "r.parquet", pa.table({"t": [3, 7, 995, 998]}), 2)
    assert reachable_row_groups(left, right, on="t") == ([0, 99], [0, 1])


def test_unordered_row_groups_before_the_last_match(tmp_path: Path) -> None:
    left = store(tmp_path / "l.parquet", pa.table({"t": [5, 1, 9]}), 1)
    right = store(tmp_path / "r.parquet", pa.table({"t": [1, 5, 3]}), 1)
    assert reachable_row_groups(left, right, condition="l.t = r.t") == ([0, 1], [0, 1])


def test_keys_prune_and_null_keys_too(tmp_path: Path) -> None:
    left = store(tmp_path / "l.parquet", pa.table({"k": ["a", "b", "m", "n", None, None]}), 2)
    right = store(tmp_path / "r.parquet", pa.table({"k": ["c", "z", None, "zz"]}), 1)
    # m to n lies between c and z: within the file's range, but in no row group's
    assert reachable_row_groups(left, right, on="k") == ([], [])
    assert reachable_row_groups(left, right, condition="l.k <=> r.k")[0] == [2]
    assert reachable_row_groups(left, right, condition="l.k <=> r.k")[1] == [2]


def test_nothing_opposite(tmp_path: Path) -> None:
    left = store(tmp_path / "l.parquet", numbers(0, 20), 10)
    right = store(tmp_path / "r.parquet", numbers(0, 0), 10)
    assert reachable_row_groups(left, right, condition=BAND) == ([], [])
    assert reachable_row_groups(left, right, condition=BAND, how="left") == ([0, 1], [])
    assert reachable_row_groups(left, right) == ([], [])


def test_late_rows_that_are_dropped_keep_their_side_whole(tmp_path: Path) -> None:
    left = store(tmp_path / "l.parquet", numbers(0, 100), 10)
    right = store(tmp_path / "r.parquet", numbers(72, 200), 10)
    question: dict[str, Any] = {"condition": BAND, "left_order": "t"}
    assert len(reachable_row_groups(left, right, **question)[0]) == 4
    for on_late in ("drop", "join"):
        kept = reachable_row_groups(left, right, **question, on_late=on_late)
        assert (len(kept[0]), len(kept[1])) == (10, 4)
    bounded = reachable_row_groups(left, right, condition=BAND, right_bounds={"t": (0, 150)}, on_late="drop")
    assert (len(bounded[0]), len(bounded[1])) == (4, 13)


def test_mistakes_are_those_of_the_join(tmp_path: Path) -> None:
    left = store(tmp_path / "l.parquet", numbers(0, 10), 10)
    with pytest.raises(ivjoin.ColumnError, match="'w' is not in right"):
        reachable_row_groups(left, left, condition="l.t = r.w")
    with pytest.raises(ivjoin.ConditionError, match="inner"):
        reachable_row_groups(left, left, condition=BAND, how="iner")


# -- the command line -------------------------------------------------------------------------------------------------


def joined(tmp_path: Path, left: str, right: str, *arguments: str) -> tuple[pa.Table, dict[str, Any]]:
    out, report = tmp_path / "out.parquet", tmp_path / "report.json"
    assert main(["join", left, right, *arguments, "-q", "-o", str(out), "--metrics-json", str(report)]) == 0
    return pq.read_table(out), json.loads(report.read_text())


@pytest.mark.parametrize("how", HOWS)
def test_the_command_skips_and_loses_nothing(tmp_path: Path, how: str) -> None:
    left = store(tmp_path / "l.parquet", numbers(0, 100), 10)
    right = store(tmp_path / "r.parquet", numbers(72, 200), 10)
    question: dict[str, Any] = {"condition": BAND, "how": how}
    got, figures = joined(tmp_path, left, right, "--condition", BAND, "--how", how)
    assert rows_of(got) == rows_of(ivjoin.band_join(pq.read_table(left), pq.read_table(right), **question).read_all())
    keeps = PRESERVED.get(how, ())
    assert figures["left_row_groups_skipped"] == (0 if 0 in keeps else 6)
    assert figures["right_row_groups_skipped"] == (0 if 1 in keeps else 9)
    assert (figures["left_rows_in"], figures["right_rows_in"]) == (100 if 0 in keeps else 40, 128 if 1 in keeps else 40)


def test_the_summary_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = store(tmp_path / "l.parquet", numbers(0, 100), 10)
    right = store(tmp_path / "r.parquet", numbers(100, 110), 10)
    assert main(["join", left, right, "--on", "t", "-o", str(tmp_path / "o.parquet")]) == 0
    assert "; 11 row groups skipped" in capsys.readouterr().err
    assert main(["join", left, left, "--on", "t", "-o", str(tmp_path / "o.parquet")]) == 0
    assert "skipped" not in capsys.readouterr().err


def test_a_suffix_for_names_that_collide(tmp_path: Path) -> None:
    left = store(tmp_path / "l.parquet", pa.table({"t": [1], "t_right": [2]}), 1)
    right = store(tmp_path / "r.parquet", pa.table({"t": [1, 5]}), 1)
    got, figures = joined(tmp_path, left, right, "--condition", "l.t = r.t", "--suffix", "_other")
    assert got.to_pylist() == [{"t": 1, "t_right": 2, "t_other": 1}]
    assert figures["right_row_groups_skipped"] == 1


def test_only_parquet_has_row_groups(tmp_path: Path) -> None:
    left = store(tmp_path / "l.parquet", numbers(0, 100), 10)
    (tmp_path / "r.csv").write_text("t\n5\n")
    got, figures = joined(tmp_path, left, str(tmp_path / "r.csv"), "--on", "t")
    assert got.num_rows == 1
    assert figures["left_rows_in"] == 100
    assert "left_row_groups_skipped" not in figures


# -- random files -----------------------------------------------------------------------------------------------------


def random_side(draw: random.Random, rows: int) -> pa.Table:
    def cells(values: list[Any]) -> list[Any]:
        pool = draw.sample(values, draw.randint(1, len(values)))
        drawn = [draw.choice(pool) for _ in range(rows)]
        if draw.random() < 0.7:
            drawn.sort(key=lambda v: (v != v, v))
        nulls = draw.choice([0, 0.1, 0.5])
        return [None if draw.random() < nulls else v for v in drawn]

    return pa.table({
        "k": pa.array(cells(["a", "ab", "b", "é", ""])),
        "i": pa.array(cells([*range(-20, 20), 2**31 - 1, -(2**31)]), pa.int32()),
        "f": pa.array(cells([0.0, -0.0, 0.1, 1.1, -2.5, 7.0, NAN, float("inf"), 1e16]), pa.float64()),
        "ts": pa.array(cells([datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=h) for h in range(-9, 40, 3)]),
                       pa.timestamp(draw.choice(["ms", "us", "ns"]), "UTC")),
        "w": pa.array(cells([0, 1, 3]), pa.int32()),
    })  # fmt: skip


CONDITIONS = [
    "l.k = r.k AND l.i > 3",
    "l.k <=> r.k AND l.i < r.i",
    "l.f + 1.0 >= r.f AND l.f <= r.f AND NOT isnan(r.f)",  # any row group may hold NaN, which equals itself
    "l.f = r.f",
    "l.f > r.f AND l.i = r.w",
    "l.ts BETWEEN r.ts - INTERVAL 2 HOURS AND r.ts + INTERVAL 4 HOURS",
    "CAST(l.ts AS DATE) = CAST(r.ts AS DATE) AND l.k < r.k",
    "CAST(l.i AS BIGINT) BETWEEN CAST(r.i AS BIGINT) - r.w AND CAST(r.i AS BIGINT) + r.w",
    "abs(CAST(l.i AS BIGINT) - r.i) < 3 OR l.f < -1", "l.i IS NULL AND r.i < 0", "l.i IN (1, 2, 3) AND r.f <> l.f",
]


@pytest.mark.one_in(7)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_random_joins(tmp_path: Path, condition: str) -> None:
    draw = random.Random(condition)
    skipped = 0
    for _ in range(8):
        how, rows = draw.choice(HOWS), draw.choice([1, 2, 4])
        left = store(tmp_path / "l.parquet", random_side(draw, draw.choice([8, 24])), rows)
        right = store(tmp_path / "r.parquet", random_side(draw, draw.choice([4, 16])), rows)
        kept = reachable_row_groups(left, right, condition=condition, how=how)
        files = pq.ParquetFile(left), pq.ParquetFile(right)
        whole = [f.read() for f in files]
        part = [f.read_row_groups(k) for f, k in zip(files, kept, strict=True)]
        results = [ivjoin.band_join(*pair, condition=condition, how=how).read_all() for pair in (whole, part)]
        assert rows_of(results[1]) == rows_of(results[0]), how
        skipped += sum(f.num_row_groups - len(k) for f, k in zip(files, kept, strict=True))
    assert skipped > 0
