"""Every fault of ``tests/support/mutants.py`` still applies; one that does not would hide a gap in the tests."""

from __future__ import annotations

import pytest
from mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.what)
def test_the_faulty_line_and_the_tests_exist(mutant: Mutant) -> None:
    assert mutant.old in (ROOT / mutant.file).read_text(encoding="utf-8")
    assert mutant.new != mutant.old
    assert all((ROOT / path.split("::")[0]).exists() for path in mutant.tests.split())
