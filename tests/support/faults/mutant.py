"""What a fault is."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One fault: what is written how in which file, and what must fail."""

    what: str
    file: str
    old: str
    new: str
    tests: str
