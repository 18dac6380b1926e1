"""Many random cases in one test: collection stays fast, and a failure names its case."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def each(cases: Iterable[Any], play: Callable[[Any], Any]) -> None:
    """Play every case; the error of the first that fails carries its name."""
    for case in cases:
        try:
            play(case)
        except BaseException as e:
            e.add_note(f"case {case!r}")
            raise
