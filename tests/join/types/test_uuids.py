"""UUIDs compare with text in its canonical form, wherever the two meet."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from ivjoin import ConditionError, EvaluationError, band_join, column, multi_join, window_join

IDS = [uuid.UUID(int=2**100 + 7), uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)]


def uuids(*values: uuid.UUID | None) -> pa.Array:
    plain = pa.array([None if v is None else v.bytes for v in values], pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), plain)


def rows(left: Any, right: Any, condition: str | None = None, **options: Any) -> int:
    return band_join(left, right, condition=condition, **options).read_all().num_rows


LEFT = pa.table({"u": uuids(*IDS, None), "i": range(4)})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("write", [str, lambda u: str(u).upper(), lambda u: u.hex, lambda u: f" {{{u}}} "])
@pytest.mark.parametrize("kind", [
    pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()),
], ids=str)  # fmt: skip
def test_texts(write: Any, kind: pa.DataType) -> None:
    texts = [write(u) for u in IDS]
    made = pa.array(texts).dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else pa.array(texts, kind)
    right = pa.table({"u": made, "j": range(3)})
    assert rows(LEFT, right, on="u") == rows(LEFT, right, "l.u = r.u") == rows(right, LEFT, on="u") == 3
    assert rows(LEFT, right, on="u", how="left_anti") == 1
    assert rows(LEFT, right, "l.u <> r.u") == 6
    assert rows(LEFT, right, "l.u <= r.u AND l.i < 3") == 6
    assert rows(LEFT, right, "coalesce(l.u, r.u) = r.u") == 6
    assert rows(LEFT, right, f"l.u IN (r.u, '{IDS[0]}')") == 5
    found = band_join(LEFT, right, on="u", how="full").read_all()
    assert found.schema.field("u").type == pa.uuid()
    assert found.num_rows == 4
    assert set(found["u"].to_pylist()) == {*IDS, None}


def test_literals_and_casts() -> None:
    one = pa.table({"j": [0], "t": [str(IDS[0])]})
    assert rows(LEFT, one, f"l.u = '{IDS[0]}'") == rows(LEFT, one, f"'{str(IDS[0]).upper()}' = l.u") == 1
    assert rows(LEFT, one, f"l.u IN ('{IDS[0]}', '{IDS[1]}')") == 2
    assert rows(LEFT, one, f"l.u BETWEEN '{IDS[1]}' AND '{IDS[0]}'") == 2
    assert rows(LEFT, one, "CAST(l.u AS STRING) = r.t") == rows(LEFT, one, "upper(l.u) = upper(r.t)") == 1
    assert rows(LEFT, one, "l.u = CAST(r.t AS UUID)") == rows(LEFT, one, "l.u LIKE '00000010-0%'") == 1
    assert rows(LEFT, one, "length(l.u) = 36") == 3
    assert band_join(LEFT, one, condition=column("u") == IDS[0]).read_all().num_rows == 1
    with pytest.raises(ConditionError, match="'7' cannot be read as uuid"):
        rows(LEFT, one, "l.u = '7'")
    with pytest.raises(EvaluationError, match="cannot be cast to uuid"):
        rows(LEFT, pa.table({"u": ["none"]}), on="u")


def test_bytes_and_uuids_of_both_sides() -> None:
    raw = pa.table({"u": pa.array([u.bytes for u in IDS], pa.binary()), "j": range(3)})
    assert rows(LEFT, raw, on="u") == rows(LEFT, LEFT, on="u") == 3
    assert rows(LEFT, raw, "CAST(l.u AS BINARY) = r.u") == 3
    assert multi_join({"a": LEFT, "b": raw, "c": raw}, "a.u = b.u AND b.u = c.u").read_all().num_rows == 3
    least = window_join(raw, LEFT, on="u", how="left", aggregate={"m": ("u", "max")}).read_all()
    assert least["m"].to_pylist() == IDS


@pytest.mark.parametrize("folder", [False, True])
def test_files(tmp_path: Path, folder: bool) -> None:
    place = tmp_path / "u"
    place.mkdir()
    pq.write_table(LEFT, place / "a.parquet", store_schema=False)
    if folder:
        pq.write_table(LEFT.slice(0, 1), place / "b.parquet")
    given = place if folder else place / "a.parquet"
    texts = pa.table({"u": [str(u) for u in IDS]})
    assert rows(given, texts, on="u") == rows(given, texts, "CAST(l.u AS STRING) = r.u") == 3 + folder
    assert rows(given, texts, f"l.u = '{IDS[0]}' AND l.u = r.u") == 1 + folder
    assert ds.dataset(place / "a.parquet").schema.field("u").type == pa.binary(16)  # as Arrow reads it by itself
