"""Many cases in one test: collection stays fast, and a failure names its case."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each(cases: Iterable[Any], play: Callable[..., Any]) -> None:
    """Play every case, a tuple as arguments; the error of the first that fails carries its name."""
    for case in cases:
        try:
            play(*case) if isinstance(case, tuple) else play(case)
        except BaseException as e:
            e.add_note(f"case {case!r}"[:500])
            raise


def in_blocks(cases: Iterable[Any], one_in: int) -> list[Any]:
    """Sets of cases for ``parametrize``: one of so many alone, as ``one_in`` has it; of the others two sets together.

    These are an eleventh, ``slow``, and the rest, ``soak``.
    """
    every = list(cases)
    rest = [case for i, case in enumerate(every) if i % one_in]
    soak = (pytest.mark.slow, pytest.mark.soak, pytest.mark.one_in(1))
    return [
        *(pytest.param([case], id=str(i * one_in)) for i, case in enumerate(every[::one_in])),
        pytest.param(rest[::11], id="more", marks=pytest.mark.slow),
        pytest.param([case for i, case in enumerate(rest) if i % 11], id="rest", marks=soak),
    ]
