"""Marks that follow from others.

``@pytest.mark.one_in(7)``: the first tier runs one of seven parameter sets of a test. Of the others, an eleventh are
``slow``, and the rest are also ``soak``. Where the whole test has the mark ``slow``, one of seven sets stays ``slow``
and the rest are also ``soak``. The number should be prime, so that every value of every parameter takes part in each
tier. A test that uses the fixture ``spark`` has that mark.
"""

from __future__ import annotations

from collections import Counter

import pytest


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen: Counter[str] = Counter()
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        mark = item.get_closest_marker("one_in")
        if mark is None:
            continue
        test = item.nodeid.partition("[")[0]
        place = seen[test] % mark.args[0]
        if place and (place % 11 != 1 or item.get_closest_marker("slow") is not None):
            item.add_marker(pytest.mark.soak)
        if place:
            item.add_marker(pytest.mark.slow)
        seen[test] += 1
