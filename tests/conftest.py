"""One Spark session for all tests with the mark ``spark``, or a reason to skip them; the profiles of random tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pace
import pytest
import tiers
from hypothesis import HealthCheck, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example]
for name, count in (("quick", 50), ("ci", 100), ("soak", 5000)):
    settings.register_profile(
        name, max_examples=count, deadline=None, derandomize=name != "soak", suppress_health_check=_QUIET,
        report_multiple_bugs=False, **({} if name == "soak" else {"database": None}),
    )  # fmt: skip
settings.load_profile(os.environ.get("IVJOIN_HYPOTHESIS", "quick"))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(pace)
    config.pluginmanager.register(tiers)
    # Test sessions are over before the JVM's second compiler has paid for itself.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def missing() -> str | None:
    """Why Spark cannot run here."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed (pip install 'ivjoin[spark]')"
    from ivjoin.spark.runtime.environment import SparkSetupError, check_java

    try:
        check_java()
    except SparkSetupError as e:
        return str(e)
    return None


@pytest.hookimpl(trylast=True)  # of the tests that run: asking for Java's version starts Java
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


@pytest.fixture(scope="session")
def object_store() -> Iterator[Any]:
    """An :class:`object_store.ObjectStore` on loopback."""
    from object_store import ObjectStore

    store = ObjectStore()
    store.start()
    yield store
    store.stop()


@pytest.fixture
def store(object_store: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The object store with an empty bucket, which the clients of this process find."""
    from object_store import clients_find

    clients_find(object_store, monkeypatch)
    return object_store
