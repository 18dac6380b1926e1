"""Errors carry the fields that a program needs, and derive from Python's matching classes."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

import ivjoin
from ivjoin import errors

LEFT = pa.table({"k": [1, 2], "t": [5, 3]})


@pytest.mark.parametrize("options, column, side, columns", [
    ({"on": "zzz"}, "zzz", "left", ("k", "t")), ({"condition": "l.k = r.nix"}, "nix", "right", ("k", "t")),
    ({"condition": "k = t"}, "k", None, ("k", "t", "k", "t")),
    ({"on": "k", "columns": ["a"]}, "a", None, ("k", "t", "t_right")),
    ({"on": "k", "left_order": "l.x"}, "x", "left", ("k", "t")),
])  # fmt: skip
def test_a_column(options: dict[str, object], column: str, side: str | None, columns: tuple[str, ...]) -> None:
    with pytest.raises(errors.ColumnError) as caught:
        ivjoin.band_join(LEFT, LEFT, **options)  # type: ignore[arg-type]
    assert (caught.value.column, caught.value.side, caught.value.columns) == (column, side, columns)


def test_a_column_of_many_inputs() -> None:
    with pytest.raises(errors.ColumnError) as caught:
        ivjoin.multi_join({"a": LEFT, "b": LEFT}, "a.k = b.nix")
    assert (caught.value.column, caught.value.side) == ("nix", "b")


def test_a_missing_package_is_an_import_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="pip install polars") as caught:
        ivjoin.band_join(LEFT, LEFT, on="k").to_polars()
    assert isinstance(caught.value, errors.MissingPackageError)


def test_a_missing_file_is_an_os_error() -> None:
    with pytest.raises(OSError, match="nowhere.parquet") as caught:
        ivjoin.band_join("nowhere.parquet", LEFT, on="k")
    assert isinstance(caught.value, errors.FileError)


def test_all_errors_are_in_one_module() -> None:
    for name in ivjoin.__all__:
        value = getattr(ivjoin, name)
        if isinstance(value, type) and issubclass(value, Exception):
            assert getattr(errors, name) is value
            assert name in errors.__all__
            assert issubclass(value, errors.IvjoinError)


def test_another_text_keeps_class_and_attributes() -> None:
    error = errors.ColumnError("old").of("a", "left", ["b"])
    new = error.saying("new")
    assert (type(new), str(new), new.column, new.side, new.columns) == (errors.ColumnError, "new", "a", "left", ("b",))
