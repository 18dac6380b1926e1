"""One Spark session for all tests that are marked ``spark``, or a reason to skip them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest


def missing() -> str | None:
    """Why Spark cannot run here."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed (pip install 'ivjoin[spark]')"
    from ivjoin.spark.environment import SparkSetupError, check_java

    try:
        check_java()
    except SparkSetupError as e:
        return str(e)
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("spark")]
    reason = missing() if marked else None
    for item in marked if reason else []:
        item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from ivjoin.spark import session

    folder = tmp_path_factory.mktemp("warehouse")
    s = session(
        "local[2]", "ivjoin tests", spark__ui__enabled="false", spark__sql__shuffle__partitions=2,
        spark__sql__session__timeZone="UTC", spark__sql__warehouse__dir=str(folder), spark__driver__memory="1g",
        spark__ui__showConsoleProgress="false", spark__sql__streaming__metricsEnabled="false",
        spark__sql__adaptive__enabled="true",
    )
    s.sparkContext.setLogLevel("OFF")
    yield s
    s.stop()
