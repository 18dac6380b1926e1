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


PARTITIONS = "spark.sql.shuffle.partitions"


@contextmanager
def store_for(spark: Any, backend: str, partitions: int = 1) -> Iterator[None]:
    """The session with what a backend needs; the test is skipped where that is not installed.

    In each micro-batch, the second backend starts two processes for each partition of a join: one is the default.
    """
    if backend == BACKENDS[0]:
        yield
        return
    if not has_protobuf():
        pytest.skip("the package protobuf is not installed")
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PROVIDER, ROCKSDB)
    spark.conf.set(PARTITIONS, partitions)
    try:
        yield
    finally:
        spark.conf.unset(PROVIDER)
        spark.conf.set(PARTITIONS, before)
