"""Folders of files that are read one after another: Arrow streams, and text that datasets do not unpack."""

from __future__ import annotations

import bz2
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from ivjoin.files.atomic import FileError
from ivjoin.files.datasets import open_files

FIRST = pa.table({"k": [1, 2], "a": ["1", "2"]})
OTHERS = {
    "another order": (pa.table({"a": ["3"], "k": [3]}), {"k": 3, "a": "3"}),
    "a column less": (pa.table({"k": [4]}), {"k": 4, "a": None}),
    "a column more": (pa.table({"k": [5], "b": [1], "a": ["9"]}), {"k": 5, "a": "9", "b": 1}),
    "no rows": (FIRST.slice(0, 0), None),
}


def write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".arrows":
        with pa.ipc.new_stream(path, table.schema) as file:
            file.write_table(table)
        return
    text = pa.BufferOutputStream()
    pa.csv.write_csv(table, text)
    path.write_bytes(bz2.compress(text.getvalue().to_pybytes()))


@pytest.mark.parametrize("ending", ["arrows", "csv.bz2"])
@pytest.mark.parametrize("other", OTHERS)
def test_columns_are_those_of_all_files_by_name(tmp_path: Path, other: str, ending: str) -> None:
    table, row = OTHERS[other]
    first = FIRST.set_column(1, "a", pa.array(["x", "y"]))  # text, in CSV too
    write(tmp_path / f"1.{ending}", first)
    write(tmp_path / f"2.{ending}", table)
    files = open_files(tmp_path)
    rows = first.to_pylist() + ([row] if row else [])
    assert files.table(None).to_pylist() == [dict.fromkeys(files.schema.names) | r for r in rows]
    assert open_files(tmp_path).table(["a"])["a"].to_pylist() == ["x", "y"] + ([row["a"]] if row else [])


@pytest.mark.parametrize("ending", ["arrows", "csv.bz2"])
def test_folders_are_columns(tmp_path: Path, ending: str) -> None:
    k = pa.table({"k": [1, 2]})
    for folder in ("n=1/s=a b", "n=2/s=c%2Fd", "n=__HIVE_DEFAULT_PARTITION__/s=7"):
        write(tmp_path / folder / f"x.{ending}", k)
    files = open_files(tmp_path)
    assert files.schema == pa.schema({"k": pa.int64(), "n": pa.int32(), "s": pa.string()})
    rows = [tuple(row.values()) for row in files.table(None).to_pylist()]
    parts = [(1, "a b"), (2, "c/d"), (None, "7")]
    assert sorted(rows, key=repr) == sorted([(k, n, s) for n, s in parts for k in (1, 2)], key=repr)


def test_types_that_cannot_be_widened_are_refused_with_files_column_and_types(tmp_path: Path) -> None:
    write(tmp_path / "1.arrows", pa.table({"k": [1]}))
    write(tmp_path / "2.arrows", pa.table({"k": ["x"]}))
    with pytest.raises(FileError, match=r"'k' is int64 in '.*1\.arrows' and string in '.*2\.arrows'"):
        open_files(tmp_path)


@pytest.mark.slow
def test_a_compressed_file_is_opened_without_what_datasets_import(tmp_path: Path) -> None:
    write(tmp_path / "1.csv.bz2", pa.table({"k": [1]}))
    code = (
        "import sys; from ivjoin.files.datasets import open_files; "
        f"print(open_files({str(tmp_path / '1.csv.bz2')!r}).schema.names, 'pyarrow.dataset' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["['k']", "False"]
