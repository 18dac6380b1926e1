"""As-of joins and windows of files and streams, in slices of a few rows, against every pair of rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers.looked_up import CHECKS, KINDS, engines


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", CHECKS)
def test_random_joins(what: str, kind: str, tmp_path: Path) -> None:
    found = engines(what, kind, range(6), tmp_path)
    assert found["LookupParts"] + found["SlicedJoin"] >= 1, found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", CHECKS)
def test_many_random_joins(what: str, kind: str, tmp_path: Path) -> None:
    found = engines(what, kind, range(100, 160), tmp_path)
    assert found["LookupParts" if kind == "files" else "SlicedJoin"] >= 3, found
