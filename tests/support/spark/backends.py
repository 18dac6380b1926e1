"""The two backends of streaming joins, and the state store that each needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

BACKENDS = ("applyInPandasWithState", "transformWithState")
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def has_protobuf() -> bool:
    try:
        return find_spec("google.protobuf") is not None
    except ModuleNotFoundError:
        return False


@contextmanager
def store_for(spark: Any, backend: str) -> Iterator[None]:
    """The session with what a backend needs; the test is skipped where that is not installed."""
    if backend == BACKENDS[0]:
        yield
        return
    if not has_protobuf():
        pytest.skip("the package protobuf is not installed")
    spark.conf.set(PROVIDER, ROCKSDB)
    try:
        yield
    finally:
        spark.conf.unset(PROVIDER)
