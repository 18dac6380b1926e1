"""Options that a function on Spark has not are told by name, with the nearest, before anything is looked at."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

import ivjoin.spark
from ivjoin import OptionError

FRAME: Any = None  # is not looked at


@pytest.mark.parametrize(
    ("name", "wrong", "says"),
    [
        ("band_join", "left_ordr", "did you mean 'left_order'"), ("band_join", "threads", "it has aggregate, "),
        ("asof_join", "tolerence", "did you mean 'tolerance'"), ("explain", "bucket", "did you mean 'buckets'"),
        ("multi_join", "skew", "did you mean 'skewed'"),
        ("write_stream", "chekpoint", "did you mean 'checkpoint_location'"),
    ],
)  # fmt: skip
def test_an_option_of_no_name_is_told_by_whom_it_was_given_to(name: str, wrong: str, says: str) -> None:
    with pytest.raises(OptionError, match=rf"^{name}\(\) has no option '{wrong}'; {says}"):
        getattr(ivjoin.spark, name)(FRAME, FRAME, **{wrong: 2})
