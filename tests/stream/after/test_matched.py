"""``maintain_order=``, ``indicator=`` and ``validate=`` of joins."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin
from ivjoin.stream.after import matched


def tables(seed: int, n: int = 40) -> tuple[pa.Table, pa.Table]:
    r = random.Random(seed)
    return (
        pa.table({"k": [r.choice((None, 1, 2, 3)) for _ in range(n)], "a": [r.randrange(20) for _ in range(n)]}),
        pa.table({"k": [r.choice((1, 2, 4)) for _ in range(n)], "b": [r.randrange(20) for _ in range(n)]}),
    )


def forms(table: pa.Table, tmp_path: Path, name: str) -> list[Any]:
    path = tmp_path / f"{name}.parquet"
    pq.write_table(table, path, row_group_size=7)
    return [table, path, iter(table.to_batches(max_chunksize=5))]


@pytest.mark.parametrize("order", ["left", "right", "left_right", "right_left"])
@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_rows_in_the_order_of_an_input_as_polars_gives_them(order: Any, how: Any, tmp_path: Path) -> None:
    left, right = tables(hash(how) % 7)
    theirs = pl.from_arrow(left).with_row_index("i").join(  # type: ignore[union-attr]
        pl.from_arrow(right).with_row_index("j"), on="k", how=how, maintain_order=order, coalesce=True,  # type: ignore
    ).to_arrow()
    by = {"left": ["i"], "right": ["j"], "left_right": ["i", "j"], "right_left": ["j", "i"]}[order]
    i, j = (t.append_column(n, pa.array(range(len(t)))) for t, n in ((left, "i"), (right, "j")))
    for a, b in zip(forms(i, tmp_path, "a"), forms(j, tmp_path, "b"), strict=True):
        ours = ivjoin.band_join(a, b, on="k", how=how, maintain_order=order, batch_size=16).read_all()
        assert ours.num_rows == theirs.num_rows > 40
        for n in by[:1]:
            assert [x for x in ours[n].to_pylist() if x is not None] == [
                x for x in theirs[n].to_pylist() if x is not None
            ]
            assert None not in ours[n].to_pylist()[: len(ours) - ours[n].null_count]
        if len(by) == 2 and how == "inner":
            assert ours.select(by).to_pylist() == theirs.select(by).to_pylist()


def test_an_order_of_many_small_batches_reads_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow takes rows of many chunks in time that grows with the chunks: once 28 seconds for these rows."""
    chunks: list[int] = []

    def noted(rows: Any, index: Any) -> Any:
        chunks.extend(getattr(column, "num_chunks", 1) for column in rows.columns)
        return taken(rows, index)

    taken = matched.taken
    monkeypatch.setattr(matched, "taken", noted)
    rows = pa.table({"t": range(600), "s": [str(i) for i in range(600)]})
    out = ivjoin.band_join(rows, rows, condition="l.t = r.t", maintain_order="left", batch_size=1).read_all()
    assert out["t"].to_pylist() == rows["t"].to_pylist()
    assert len(chunks) >= 600 and set(chunks) == {1}


def test_the_order_of_a_band_and_of_an_asof_join() -> None:
    left, right = tables(3, 500)
    left = left.append_column("i", pa.array(range(500)))
    band = ivjoin.band_join(left, right, condition="l.a BETWEEN r.b AND r.b + 1", maintain_order="left")
    rows = band.read_all()["i"].to_pylist()
    assert rows == sorted(rows)
    assert len(rows) > 500
    asof = ivjoin.asof_join(left, right, on=("a", "b"), memory_limit="64KB", when_full="spill", maintain_order="left")
    assert asof.read_all()["i"].to_pylist() == list(range(500))


def test_columns_and_types_are_those_of_the_plain_join() -> None:
    words = pa.array(["x", "y", "x"]).dictionary_encode()
    left = pa.table({"k": words, "v": pa.array(["a", "b", "c"], pa.string_view())})
    plain = ivjoin.band_join(left, left, on="k", columns=["v", "k"]).schema
    stream = ivjoin.band_join(left, left, on="k", columns=["v", "k"], maintain_order="left", validate="m:m")
    assert stream.schema == plain
    table = stream.read_all()
    assert pa.types.is_dictionary(table.schema.field("k").type)
    assert table["v"].to_pylist() == ["a", "a", "b", "c", "c"]


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_an_indicator_as_pandas_gives_it(how: Any) -> None:
    left, right = tables(5)
    left = left.filter(pa.compute.field("k").is_valid())
    theirs = left.to_pandas().merge(right.to_pandas(), on="k", how=how, indicator=True)
    stream = ivjoin.band_join(left, right, on="k", how=how, indicator=True)
    assert stream.schema.names == list(theirs.columns)
    ours = stream.to_pandas()
    assert ours["_merge"].dtype == "category"
    assert ours["_merge"].astype(str).value_counts().to_dict() == {
        k: n for k, n in theirs["_merge"].astype(str).value_counts().to_dict().items() if n
    }
    assert ivjoin.band_join(left, right, on="k", indicator="where").schema.names[-1] == "where"


@pytest.mark.parametrize("validate, left, right, fails", [
    ("1:1", [1, 2], [1, 2], None), ("1:1", [1, 1], [1], "right"), ("1:1", [1], [1, 1], "left"),
    ("1:m", [1, 2], [1, 1, 2], None), ("1:m", [2, 1, 1], [1], "right"), ("m:1", [1, 1], [1, 2], None),
    ("m:1", [2, 1], [1, 2, 1], "left"), ("m:m", [1, 1], [1, 1], None), ("one_to_one", [1], [1, 1], "left"),
])  # fmt: skip
def test_validate_as_pandas_does(validate: Any, left: list[int], right: list[int], fails: str | None) -> None:
    a, b = pa.table({"k": left}), pa.table({"k": right})
    stream = ivjoin.band_join(a, b, on="k", how="left", validate=validate)
    if fails is None:
        a.to_pandas().merge(b.to_pandas(), on="k", how="left", validate=validate)
        assert stream.read_all().num_rows >= 1
        return
    with pytest.raises(pd.errors.MergeError):
        a.to_pandas().merge(b.to_pandas(), on="k", how="left", validate=validate)
    with pytest.raises(ivjoin.errors.CardinalityError, match=f"of the {fails} input .* more than one") as caught:
        stream.read_all()
    assert caught.value.side == fails
    assert caught.value.row == (left if fails == "left" else right).index(1)


def test_validate_sees_matches_in_different_batches() -> None:
    left = iter([pa.record_batch({"t": [1]}), pa.record_batch({"t": [2]})])
    right = iter([pa.record_batch({"u": [1]}), pa.record_batch({"u": [2]})])
    stream = ivjoin.band_join(left, right, condition="abs(l.t - r.u) <= 1", validate="m:1", batch_size=1)
    with pytest.raises(ivjoin.errors.CardinalityError, match="row [01] of the left input"):
        stream.read_all()


@pytest.mark.parametrize("options, said", [
    ({"maintain_order": "up"}, "maintain_order is 'up'; expected 'left', 'right'"),
    ({"indicator": 3}, "indicator is 3"), ({"validate": "1:2"}, "validate is '1:2'; expected '1:1'"),
    ({"maintain_order": "right", "how": "left_semi"}, "whose rows this join does not emit"),
    ({"indicator": True, "how": "left_anti"}, "indicator= needs a join that emits rows of both inputs"),
    ({"validate": "m:1", "how": "left_semi"}, "validate= needs a join"),
    ({"indicator": "a"}, "has a column 'a' already"),
])  # fmt: skip
def test_bad_options(options: dict[str, Any], said: str) -> None:
    left, right = tables(1)
    with pytest.raises(ivjoin.OptionError, match=said):
        ivjoin.band_join(left, right, on="k", **options)


def test_an_error_does_not_name_the_columns_with_numbers() -> None:
    left, right = tables(1)
    with pytest.raises(ivjoin.ColumnError, match=r"is not in left: k, a$"):
        ivjoin.band_join(left, right, on="zzz", indicator=True)
    with pytest.raises(ivjoin.ColumnError, match="the output does not have: k, a, b$"):
        ivjoin.band_join(left, right, on="k", indicator=True, columns=["nix"])
