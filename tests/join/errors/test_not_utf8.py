"""Functions of texts that are not in UTF-8 raise an error of ours, in Python and on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin
from ivjoin.cli import main

BAD = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0"), pa.py_buffer(b"\xff\xfeab")]
)
ROWS = pa.table({"s": BAD, "i": [0, 1]})
FUNCTIONS = [
    "upper(l.s) = r.s", "l.s LIKE r.s", "hash(l.s) = hash(r.s)", "levenshtein(l.s, r.s) < 2", "CAST(l.s AS INT) = 1",
    "trim(l.s) = r.s", "substring(l.s, 1, 1) = 'a'", "lpad(l.s, 3, 'x') = r.s", "initcap(l.s) = r.s",
    "CAST(l.s AS DATE) = DATE '2024-01-01'", "xxhash64(l.s) = 1", "upper(l.s) = upper(r.s)",
    "l.i >= r.i AND trim(l.s) <> r.s",
]  # fmt: skip


@pytest.mark.parametrize("condition", FUNCTIONS)
def test_functions(condition: str) -> None:
    with pytest.raises(ivjoin.EvaluationError, match="not in UTF-8"):
        ivjoin.band_join(ROWS, ROWS, condition=condition).read_all()


def test_functions_without_characters() -> None:
    assert ivjoin.band_join(ROWS, ROWS, condition="l.s = r.s").read_all().num_rows == 2
    assert ivjoin.band_join(ROWS, ROWS, on="i").read_all()["s"].combine_chunks().buffers()[2] is not None


def test_other_calls() -> None:
    one = ROWS.rename_columns(["text", "i"])
    with pytest.raises(ivjoin.EvaluationError, match="not in UTF-8"):
        ivjoin.window_join(ROWS, one, on="i", how="left", aggregate={"m": ("upper(r.text)", "max")}).read_all()
    with pytest.raises(ivjoin.EvaluationError, match="not in UTF-8"):
        ivjoin.multi_join({"a": ROWS, "b": ROWS}, "upper(a.s) = b.s").read_all()


@pytest.mark.parametrize("take", [
    lambda s: s.to_pandas(), lambda s: s.to_polars(), lambda s: s.to_polars(lazy=True).collect(),
    lambda s: s.to_duckdb(),
])  # fmt: skip
@pytest.mark.parametrize("t", [
    pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.string()),
    pa.struct({"a": pa.string()}),
], ids=str)  # fmt: skip
def test_frames(take: Any, t: pa.DataType) -> None:
    if pa.types.is_dictionary(t):
        column: pa.Array = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), BAD)
    elif pa.types.is_list(t):
        column = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), BAD)
    elif pa.types.is_struct(t):
        column = pa.StructArray.from_arrays([BAD], ["a"])
    else:
        column = BAD.cast(pa.binary()).cast(t, safe=False)
    rows, keys = pa.table({"i": [0, 1], "s": column}), pa.table({"i": [0, 1]})
    assert rows["s"].type == t
    with pytest.raises(ivjoin.EvaluationError, match="column 's' has text that is not in UTF-8"):
        take(ivjoin.band_join(keys, rows, on="i"))
    assert len(take(ivjoin.band_join(keys, rows, on="i", columns=["i"]))) == 2


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "utf.parquet")
    pq.write_table(ROWS, file)
    assert main(["join", file, file, "--condition", "upper(l.s) = r.s", "-o", str(tmp_path / "o.parquet")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "not in UTF-8" in said
