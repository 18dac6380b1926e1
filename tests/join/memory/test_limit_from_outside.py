"""The limit measured from outside: a process stays within it plus 64 MB, for all rows and all paths."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from drivers import shed_payload
from resident import needs_resident

from bench.limit import BEYOND, CASES, run

pytestmark = needs_resident

soak = pytest.mark.soak


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows", "share"),
    [("push; struct", 400_000, 0.28), ("as-of, pushed", 400_000, 0.28), ("windows", 1_000_000, 1.0),
     ("push; text", 400_000, 0.28), ("push; raise", 400_000, 0.28),
     pytest.param("push; 80 bytes", 10_000_000, 1.0, marks=soak),
     pytest.param("one push; list", 400_000, 0.38, marks=soak),
     pytest.param("as-of, pushed", 3_000_000, 1.0, marks=soak),
     pytest.param("as-of, tables out of order", 3_000_000, 1.0, marks=soak),
     pytest.param("as-of, files out of order", 3_000_000, 1.0, marks=soak),
     pytest.param("as-of, tables out of order", 10_000_000, 1.0, marks=soak),  # 10^6 keys, each replaced often
     pytest.param("push; struct", 1_600_000, 1.2, marks=soak),
     pytest.param("streams; list", 1_600_000, 1.2, marks=soak),
     pytest.param("push; dictionary", 400_000, 0.28, marks=soak),
     pytest.param("push; no key", 600_000, 0.5, marks=soak),
     pytest.param("tables out of order", 6_000_000, 1.0, marks=soak),
     pytest.param("files out of order", 2_000_000, 0.5, marks=soak),
     pytest.param("push; raise", 2_000_000, 1.0, marks=soak),
     pytest.param("push; shed", 2_000_000, 1.0, marks=soak)],
)  # fmt: skip
def test_the_process_stays_within(name: str, rows: int, share: float, tmp_path: Path) -> None:
    """At half of what the join needs, with the rows of the join in memory; ``run`` compares the output."""
    found = run(name, rows, tmp_path, share)
    assert found["found"] > 0
    assert found["over"] <= found["limit"] + BEYOND
    if CASES[name].full == "spill" and "out of order" not in name:  # which may hold little once they are sorted
        assert found["spilled"] > 0
    assert not [p for p in tmp_path.iterdir() if p.suffix != ".parquet"]


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("sides", ["left", "left,right"])
@pytest.mark.parametrize("kind", shed_payload.TYPES)
def test_a_shed_of_large_payload(kind: str, sides: str) -> None:
    """A shed copies the payload piece by piece, so that few rows exist twice."""
    command = [sys.executable, shed_payload.__file__, kind, sides]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    over, shed = map(int, done.stdout.split())
    assert shed
    assert over <= 100_000_000 + BEYOND
