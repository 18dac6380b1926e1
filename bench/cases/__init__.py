"""All cases; a new family is a module with a list ``CASES`` and a line here."""

from __future__ import annotations

from fnmatch import fnmatch

from bench.case import Case
from bench.cases import scaling, seed, shapes, timeband

__all__ = ["ALL", "named", "select"]

ALL: list[Case] = [*seed.CASES, *timeband.CASES, *shapes.CASES, *scaling.CASES]


def named(name: str) -> Case:
    return next(c for c in ALL if c.name == name)


def select(profile: str, patterns: list[str]) -> list[Case]:
    """The cases of a profile, of these the ones that match a pattern; if none does, the matches among all cases."""
    inside = [c for c in ALL if profile in c.tags]
    if not patterns:
        return inside

    def matches(case: Case) -> bool:
        return any(fnmatch(case.name, p) or case.family == p for p in patterns)

    return [c for c in inside if matches(c)] or [c for c in ALL if matches(c)]
