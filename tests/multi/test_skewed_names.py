"""The names in a condition that may be declared as skewed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ivjoin.errors import OptionError
from ivjoin.multi.question import multi_spec
from ivjoin.multi.spec import MultiSpec
from ivjoin.multi.spread import skewed_names


@pytest.fixture
def spec() -> MultiSpec:
    schemas = {a: pa.schema({"k": t, "ts": pa.int64()}) for a, t in (("a", pa.int32()), ("b", pa.int64()))}
    return multi_spec(
        schemas, "a.k = b.k AND a.ts <= b.ts", orders=None, bounds=None, batch_size=1, timezone="UTC", on_late="join",
        allow_cross=False,
    )


def test_widened_column_retains_its_name(spec: MultiSpec) -> None:
    assert skewed_names(spec, ["a.k"]) == {("a", "k")}
    assert skewed_names(spec, [("b", "k"), "k"]) == {("b", "k"), "k"}


def test_inputs_without_an_equality(spec: MultiSpec) -> None:
    with pytest.raises(OptionError, match=r"'a\.ts', which no equality of the condition joins; it has a\.k, b\.k"):
        skewed_names(spec, ["a.ts"])
