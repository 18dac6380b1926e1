"""Parquet files put together by their footers read as their rows one after the other, for Arrow and DuckDB alike."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivjoin.errors import IvjoinError
from ivjoin.files.parquet_concat import concatenate_parquet

SCHEMA = pa.schema([
    ("a", pa.int64()), ("s", pa.string()), ("f", pa.float64()), ("l", pa.list_(pa.int32())),
    ("d", pa.decimal128(38, 2)), ("t", pa.timestamp("us", "UTC")),
    ("st", pa.struct([("x", pa.int32()), ("y", pa.string())])), ("m", pa.map_(pa.string(), pa.int64())),
    ("b", pa.bool_()),
], metadata={"word": "kept"})  # fmt: skip
FORMS: list[dict[str, Any]] = [
    {}, {"compression": "zstd", "row_group_size": 300}, {"write_page_index": True, "data_page_version": "2.0"},
    {"store_schema": False, "compression": "none", "write_statistics": False, "use_dictionary": False},
]


def table(rows: int, start: int) -> pa.Table:
    n = range(start, start + rows)
    columns: list[Any] = [
        list(n), [None if i % 7 == 0 else f"x{i % 50}" for i in n], [float("nan") if i % 11 == 0 else i / 3 for i in n],
        [[i, None] if i % 3 else None for i in n], [Decimal(i) for i in n], list(n),
        [{"x": i % 9, "y": "q"} if i % 5 else None for i in n], [[("k", i)] for i in n], [i % 2 == 0 for i in n],
    ]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


@pytest.mark.one_in(11)
@pytest.mark.parametrize("form", FORMS, ids=["default", "many groups", "page index", "bare"])
@pytest.mark.parametrize("sizes", [[0], [1], [1000], [0, 0], [1000, 0, 1, 3000], [1] * 20])
def test_the_whole_is_the_parts_in_their_order(tmp_path: Path, form: dict[str, Any], sizes: list[int]) -> None:
    paths, start = [], 0
    for i, rows in enumerate(sizes):
        paths.append(str(tmp_path / f"{i}.parquet"))
        pq.write_table(table(rows, start), paths[-1], **form)
        start += rows
    whole = str(tmp_path / "whole.parquet")
    concatenate_parquet(paths, whole)
    want = pa.concat_tables([pq.read_table(p) for p in paths])
    got = pq.read_table(whole)
    assert got.schema.equals(want.schema, check_metadata=True)
    assert got.to_pylist().__repr__() == want.to_pylist().__repr__()
    footer = pq.read_metadata(whole)
    assert footer.num_rows == sum(sizes)
    assert footer.num_row_groups == sum(pq.read_metadata(p).num_row_groups for p in paths)
    asked = "SELECT count(*), sum(a), count(s), max(d), sum(st.x) FROM read_parquet(?) WHERE a >= ?"
    for least in (0, sum(sizes) // 2, sum(sizes)):  # row groups that the statistics rule out are passed over
        assert duckdb.execute(asked, [whole, least]).fetchall() == duckdb.execute(asked, [paths, least]).fetchall()


def test_what_is_not_the_same_or_not_parquet_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"b": [1]}), tmp_path / "b.parquet")
    (tmp_path / "short").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    (tmp_path / "empty").write_bytes(b"")
    for other, said in (("b.parquet", "another schema"), ("short", "no Parquet file"), ("empty", "no Parquet file")):
        with pytest.raises(IvjoinError, match=said):
            concatenate_parquet([str(tmp_path / "a.parquet"), str(tmp_path / other)], str(tmp_path / f"to {other}"))
    with pytest.raises(IvjoinError, match="no files"):
        concatenate_parquet([], str(tmp_path / "none"))


@pytest.mark.slow
def test_more_row_groups_than_their_number_can_say(tmp_path: Path) -> None:
    """A row group's ordinal is an int16 that may be left out."""
    pq.write_table(pa.table({"a": np.arange(12_000)}), tmp_path / "a.parquet", row_group_size=1)
    concatenate_parquet([str(tmp_path / "a.parquet")] * 3, str(tmp_path / "whole"))
    assert pq.read_metadata(tmp_path / "whole").num_row_groups == 36_000
    assert pq.ParquetFile(tmp_path / "whole").read_row_group(35_999).to_pydict() == {"a": [11_999]}
