"""Files and frames in common use: each gives the rows of the table that it was made from."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import ivjoin
from ivjoin.stream.sort import sorting

N = 60
LEFT = pa.table({
    "k": [i % 3 for i in range(N)], "t": [(i * 37) % N for i in range(N)], "a": [f"a{i}" for i in range(N)],
})  # fmt: skip
RIGHT = pa.table({"k": [0, 1, 2, 0], "t": [5, 17, 30, 44], "b": [1.5, 2.5, None, 4.5]})
CALL: dict[str, Any] = {"on": "k", "condition": "abs(l.t - r.t) <= 6"}
WANT = sorted(
    (a["k"], a["t"], a["a"], b["t"], b["b"])
    for a in LEFT.to_pylist()
    for b in RIGHT.to_pylist()
    if a["k"] == b["k"] and abs(a["t"] - b["t"]) <= 6
)


def same(stream: ivjoin.JoinStream) -> None:
    assert stream.schema.names == ["k", "t", "a", "t_right", "b"]
    assert sorted((tuple(r.values()) for r in stream.read_all().to_pylist()), key=str) == sorted(WANT, key=str)
    assert len(WANT) > 5


def parquet(folder: Path) -> Path:
    pq.write_table(LEFT, folder / "l.parquet", row_group_size=7)
    return folder / "l.parquet"


def several(folder: Path) -> list[str]:
    for i in range(3):
        pq.write_table(LEFT.slice(i * 20, 20), folder / f"l{i}.parquet", row_group_size=6)
    return [str(folder / f"l{i}.parquet") for i in range(3)]


def pattern(folder: Path) -> str:
    several(folder)
    return str(folder / "l?.parquet")


def hive(folder: Path) -> Path:
    ds.write_dataset(
        LEFT.select(["t", "a", "k"]), folder / "hive", format="parquet",
        partitioning=ds.partitioning(pa.schema([("k", pa.int64())]), flavor="hive"),
    )  # fmt: skip
    (folder / "hive" / "_SUCCESS").touch()
    return folder / "hive"


def zipped(folder: Path) -> Path:
    plain = folder / "l.csv"
    csv.write_csv(LEFT, plain)
    (folder / "l.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    return folder / "l.csv.gz"


def zstd(folder: Path) -> Path:
    csv.write_csv(LEFT, folder / "l.csv")
    with pa.output_stream(folder / "l.csv.zst", compression="zstd") as out:
        out.write((folder / "l.csv").read_bytes())
    return folder / "l.csv.zst"


def lines(folder: Path) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in LEFT.to_pylist())
    (folder / "l.jsonl").write_text(text)
    return folder / "l.jsonl"


def zipped_lines(folder: Path) -> Path:
    (folder / "l.ndjson.gz").write_bytes(gzip.compress(lines(folder).read_bytes()))
    return folder / "l.ndjson.gz"


def arrow_stream(folder: Path) -> list[Path]:
    for i in range(2):
        with pa.OSFile(str(folder / f"{i}.arrows"), "wb") as file, pa.ipc.new_stream(file, LEFT.schema) as out:
            out.write_table(LEFT.slice(i * 30, 30))
    return [folder / "0.arrows", folder / "1.arrows"]


def frames() -> Iterator[Any]:
    import polars as pl

    yield LEFT.slice(0, 10)
    yield LEFT.slice(10, 20).combine_chunks().to_batches()[0]
    yield pl.from_arrow(LEFT.slice(30, 10)).with_columns(pl.col("a").cast(pl.String)).to_arrow().cast(LEFT.schema)
    yield LEFT.slice(40).to_pandas()


def indexed() -> Any:
    return LEFT.to_pandas().set_index(LEFT["a"].to_pandas().rename("label"))


def lazy() -> Any:
    import polars as pl

    return pl.from_arrow(LEFT).lazy().with_columns(unused=pl.lit(1)).drop("unused")


def plain_csv(folder: Path) -> Path:
    csv.write_csv(LEFT, folder / "l.csv")
    return folder / "l.csv"


def relation() -> Any:
    import duckdb

    given = LEFT  # noqa: F841
    return duckdb.connect().sql("SELECT * FROM given WHERE t >= 0")


INPUTS: dict[str, Callable[[Path], Any]] = {
    "csv": plain_csv, "a duckdb relation": lambda f: relation(), "frames in a list": lambda f: list(frames()),
    "a reader of batches": lambda f: LEFT.to_reader(), "parquet": parquet, "path as text": lambda f: str(parquet(f)),
    "a URI": lambda f: parquet(f).as_uri(), "several files": several, "a pattern": pattern,
    "a folder": lambda f: Path(several(f)[0]).parent, "a dataset": lambda f: ds.dataset(several(f)),
    "a dataset in memory": lambda f: ds.dataset(LEFT),
    "a scanner": lambda f: ds.dataset(several(f)).scanner(),
    "a Parquet file": lambda f: pq.ParquetFile(parquet(f)),
    "csv, gzip": zipped, "csv, zstd": zstd, "json lines": lines, "json lines, gzip": zipped_lines,
    "arrow streams": arrow_stream, "a generator": lambda f: frames(), "pandas with an index": lambda f: indexed(),
    "a polars LazyFrame": lambda f: lazy(),
    "tables in a list": lambda f: [LEFT.slice(0, 11), LEFT.slice(11)],
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("small", [True, False], ids=["as it is", "sorted"])
@pytest.mark.parametrize("kind", INPUTS)
def test_an_input_gives_its_rows(kind: str, small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not small:
        monkeypatch.setattr(sorting, "SMALL", -1)
    same(ivjoin.band_join(INPUTS[kind](tmp_path), RIGHT, **CALL))


def test_a_file_of_fsspec() -> None:
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://ivjoin/l.parquet", "wb") as f:
        pq.write_table(LEFT, f)
    same(ivjoin.band_join("memory://ivjoin/l.parquet", RIGHT, **CALL))


def test_a_folder_of_partitions(tmp_path: Path) -> None:
    stream = ivjoin.band_join(hive(tmp_path), RIGHT, on="k", condition="abs(l.t - r.t) <= 6")
    assert stream.schema.names == ["t", "a", "k", "t_right", "b"]
    got = sorted(((r["k"], r["t"], r["a"], r["t_right"], r["b"]) for r in stream.read_all().to_pylist()), key=str)
    assert got == sorted(WANT, key=str)


def test_relations_of_one_connection_and_other_columns_are_not_computed() -> None:
    import duckdb

    db = duckdb.connect()
    db.register("lt", LEFT)
    db.register("rt", RIGHT)
    left = db.sql("SELECT *, error('computed') AS \"not wanted\" FROM lt")
    right = db.sql("SELECT * FROM rt")
    stream = ivjoin.band_join(left, right, **CALL, columns=["a", "b", "k"])  # noqa: F841
    taken = db.sql("SELECT count(*) FROM stream").fetchall()  # while the connection is in use itself
    assert taken == [(len(WANT),)]


def test_only_columns_that_matter_are_read(tmp_path: Path) -> None:
    wide = RIGHT.append_column("t2", RIGHT["t"]).append_column("s", pa.array(["x"] * 4))
    pq.write_table(wide, tmp_path / "r.parquet")
    read: list[Any] = []
    groups = pq.ParquetFile.read_row_groups

    def noted(self: Any, *args: Any, columns: Any = None, **options: Any) -> Any:
        read.append(columns)
        return groups(self, *args, columns=columns, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pq.ParquetFile, "read_row_groups", noted)
        got = ivjoin.band_join(LEFT, tmp_path / "r.parquet", **CALL, columns=["t_right", "a"]).read_all()
        semi = ivjoin.band_join(LEFT, tmp_path / "r.parquet", **CALL, how="left_semi").read_all()
    assert got.schema.names == ["t_right", "a"]
    assert sorted(zip(*got.to_pydict().values(), strict=True)) == sorted((t, a) for _, _, a, t, _ in WANT)
    assert semi.schema.names == LEFT.schema.names
    assert set(semi["a"].to_pylist()) == {a for _, _, a, _, _ in WANT}
    assert [c for c in read if c] == [["k", "t"], ["k", "t"]]


@pytest.mark.parametrize("how", ["inner", "left", "full", "right_anti"])
def test_row_groups_of_datasets_that_cannot_matter_are_skipped(how: str, tmp_path: Path) -> None:
    for side, start in (("l", 0), ("r", 950)):
        for part in range(4):
            t = pa.table({"t": range(start + part * 250, start + part * 250 + 250)})
            pq.write_table(t, tmp_path / f"{side}{part}.parquet", row_group_size=50)
    files = [str(tmp_path / f"{side}*.parquet") for side in "lr"]
    tables = [ds.dataset([str(p) for p in sorted(tmp_path.glob(f"{side}*"))]).to_table() for side in "lr"]
    question = {"condition": "l.t BETWEEN r.t - 3 AND r.t + 3", "how": how}
    stream = ivjoin.band_join(*files, **question)
    got = stream.read_all()
    want = ivjoin.band_join(*tables, **question, sort="never").read_all()
    order = [(n, "ascending") for n in got.schema.names]
    assert got.sort_by(order).equals(want.sort_by(order))
    rows = stream.metrics
    assert rows.left_rows_in == {"inner": 100, "left": 1000, "full": 1000, "right_anti": 100}[how]
    assert rows.right_rows_in == {"inner": 100, "left": 100, "full": 1000, "right_anti": 1000}[how]


def test_partition_values_skip_files(tmp_path: Path) -> None:
    for side in "lr":
        t = pa.table({"k": [1, 1, 2, 2, 3] if side == "l" else [3, 4, 4, 5, 5], "v": range(5)})
        ds.write_dataset(
            t, tmp_path / side, format="parquet",
            partitioning=ds.partitioning(pa.schema([("k", pa.int32())]), flavor="hive"),
        )  # fmt: skip
    stream = ivjoin.band_join(tmp_path / "l", tmp_path / "r", on="k")
    assert stream.read_all().to_pylist() == [{"v": 4, "k": 3, "v_right": 0}]
    assert (stream.metrics.left_rows_in, stream.metrics.right_rows_in) == (1, 1)


@pytest.mark.parametrize(("given", "said"), [
    ("no/such.parquet", "the left input: cannot read 'no/such.parquet': there is no such file"),
    ("no/such*.parquet", "no file matches it"), ("left.txt", "does not show its format"),
    (["a.csv", "b.parquet"], "there is no such file"), ("gopher://x/y.parquet", "fsspec"), ("", "the left input"),
    ("a\0b.csv", "NUL"),
])  # fmt: skip
def test_files_that_cannot_be_read(given: Any, said: str) -> None:
    with pytest.raises(ivjoin.IvjoinError) as e:
        ivjoin.band_join(given, RIGHT, on="k")
    assert said in str(e.value)


def test_files_of_two_formats(tmp_path: Path) -> None:
    parquet(tmp_path)
    csv.write_csv(LEFT, tmp_path / "l.csv")
    with pytest.raises(ivjoin.IvjoinError, match="several formats, csv and parquet"):
        ivjoin.band_join(tmp_path, RIGHT, on="k")


@pytest.mark.parametrize("columns", ["a", ["a", "a"], [], ["nope"], [1], 3])
def test_columns_that_are_none(columns: Any) -> None:
    with pytest.raises(ivjoin.ColumnError, match="columns"):
        ivjoin.band_join(LEFT, RIGHT, **CALL, columns=columns)


@pytest.mark.slow
def test_files_are_joined_without_other_libraries_frames(tmp_path: Path) -> None:
    import subprocess
    import sys

    for side, start in (("l", 0), ("r", 7)):
        pq.write_table(pa.table({"t": [(i * 7919 + start) % 4001 for i in range(4000)]}), tmp_path / f"{side}.parquet")
    code = (
        "import sys, ivjoin; s = ivjoin.band_join('l.parquet', 'r.parquet', condition='l.t = r.t + 1 OR l.t = r.t');"
        "print(sum(b.num_rows for b in s) > 0, 'neither' in s.sorting,"
        "[m for m in ('pandas', 'polars', 'duckdb') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "True True []\n"


PERIODS = pa.Table.from_pandas(pd.DataFrame({"k": pd.period_range("2026", periods=2, freq="M")}))


@pytest.mark.parametrize("wrong, hint", [
    pytest.param({"k": [1]}, r"pa\.table\(x\) makes a table of a dict", id="dict"),
    pytest.param([{"k": 1}], r"pa\.Table\.from_pylist\(rows\) makes a table of dicts", id="dicts"),
    pytest.param(PERIODS, "cast the columns to their storage types", id="extension type"),
])  # fmt: skip
def test_errors_say_how_to_convert_an_input(wrong: Any, hint: str) -> None:
    with pytest.raises((ivjoin.SchemaError, ivjoin.UnsupportedError), match=hint):
        ivjoin.band_join(wrong, PERIODS, on="k").to_arrow()
    table = pa.table({"k": [1]})
    with pytest.raises(ivjoin.SchemaError, match=r"push the batches of pa\.table\(x\)\.to_batches\(\)"):
        list(ivjoin.SymmetricHashJoin(table.schema, table.schema, on="k").push("left", table))  # type: ignore[arg-type]
