"""Checks of plain arguments, with the same error text for the same mistake."""

from __future__ import annotations

import difflib
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ivjoin.errors import IvjoinError, OptionError, came

__all__ = [
    "MOST_ROWS", "is_unicode", "known_options", "near", "number", "one_of", "text", "warn_caller", "whole_number",
    "worker_count",
]  # fmt: skip

MOST_ROWS = 2**31 - 1  # of a batch
_MOST_WORKERS = 100_000

# Options of pandas, polars and duckdb: the option that replaces each, and how to write it.
_ELSEWHERE = {
    **dict.fromkeys(("left_on", "right_on"), ("on", "write on=('left name', 'right name')")),
    **dict.fromkeys(("left_by", "right_by", "by_left", "by_right"), ("by", "write by=[('left name', 'right name')]")),
    **dict.fromkeys(
        ("left_index", "right_index"), ("on", "an index is left out: pass df.reset_index() and name its column in on=")
    ),
    "strategy": ("direction", "write direction='backward', 'forward' or 'nearest'"),
    "suffixes": ("suffix", "write suffix='_right', which right columns get"),
    **dict.fromkeys(("where", "predicate", "filter", "expr"), ("condition", "write condition='l.a <= r.b'")),
    **dict.fromkeys(("join_type", "kind"), ("how", "write how='left'")),
    "spill_dir": ("when_full", "write when_full=ivjoin.Spill(dir=...)"),
    **dict.fromkeys(("shed", "shed_shared"), ("when_full", "write when_full=ivjoin.Shed(policy=..., shared=...)")),
    "pick_by": ("pick", "write pick=ivjoin.Pick(by='ts', keep='last')"),
    "aggregate": ("pick", "use window_join(..., aggregate={'n': 'count(*)'})"),
    "how": ("hows", "write hows={'alias': 'left'} for the inputs that do not join as inner"),
}  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")


def known_options(name: str, also: Iterable[str] = ()) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a public function name itself, and the nearest option, if it is called with an unknown option.

    ``name`` is the public name. ``also`` are options in addition to those in the signature.
    """

    def checking(function: Callable[P, R]) -> Callable[P, R]:
        named = [n for n, p in inspect.signature(function).parameters.items() if p.kind is not p.VAR_KEYWORD]
        known = {*named, *also} - {"self"}
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = inspect.signature(function).parameters.values()
        placed = [p.name for p in parameters if p.kind in kinds]
        listed = ", ".join(n for n in placed if n != "self")
        most = sys.maxsize if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(placed)

        @functools.wraps(function)
        def checked(*args: P.args, **options: P.kwargs) -> R:
            if len(args) > most:
                raise OptionError(
                    f"{name}() got {came(args[most])} without a name; only {listed} can be given like this: write "
                    "the others as name=value"
                )
            for option in options:
                if option in placed[: len(args)]:
                    raise OptionError(
                        f"{name}() got {option!r} twice: by its name, and as {came(args[placed.index(option)])} "
                        f"without a name; the arguments without a name are {listed}"
                    )
                if option not in known:
                    if (known_by := _ELSEWHERE.get(option)) is not None and known_by[0] in known:
                        raise OptionError(f"{name}() has no option {came(option)}; {known_by[1]}")
                    near = difflib.get_close_matches(option, sorted(known), n=1)
                    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(sorted(known))}"
                    raise OptionError(f"{name}() has no option {came(option)}; {hint}")
            return function(*args, **options)

        return checked

    return checking


def warn_caller(warning: Warning) -> None:
    """Issue a warning that refers to the line outside this package that called into it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "ivjoin":
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)


def whole_number(name: str, value: Any, least: int, most: int, what: str = "a whole number") -> int:
    """Return a whole number within limits, or raise OptionError; a bool is refused."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        raise OptionError(f"{name} is {came(value)}; expected {what} from {least} to {most}")
    return int(value)


def worker_count(value: Any) -> int:
    return whole_number("workers", value, 1, _MOST_WORKERS)


def number(name: str, value: Any, what: str) -> float:
    """Return a finite number of at least 0 as a float; OptionError states ``what`` was expected."""
    plain = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not plain or not 0 <= value < float("inf"):
        raise OptionError(f"{name} is {came(value)}; expected {what}, 0 or more")
    return float(value)


def text(name: str, value: Any, example: str) -> str:
    """Return text that can be encoded as UTF-8, or raise OptionError."""
    if not isinstance(value, str):
        raise OptionError(f"{name} is {came(value)}; expected text such as {example!r}")
    if not is_unicode(value):
        raise OptionError(
            f"{name} is {came(value)}, which contains an unpaired surrogate; expected text such as "
            f"{example!r}"
        )
    return value


def one_of(
    name: str, value: Any, known: tuple[str, ...], error: type[IvjoinError] = OptionError, hint: bool = False
) -> str:
    """Return the value if it is one of a few words; otherwise raise ``error``, with the nearest one as a ``hint``."""
    if not isinstance(value, str) or value not in known:
        words = ", ".join(map(repr, known[:-1]))
        meant = near(value, known) if hint else ""
        raise error(f"{name} is {came(value)}; expected {words} or {known[-1]!r}{meant}")
    return value


def near(value: Any, known: Iterable[str], cutoff: float = 0.5) -> str:
    """Return the nearest known name as the end of a message; empty if no name is near."""
    found = difflib.get_close_matches(str(value)[:80], list(known), n=1, cutoff=cutoff)
    return f"; did you mean {found[0]!r}?" if found else ""


def is_unicode(value: str) -> bool:
    """Return whether a text can be encoded as UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
