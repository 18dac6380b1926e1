"""Define the memory options of an operator: the limit in bytes, and the action when rows do not fit."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

import numpy as np

from ivjoin.arguments import one_of, warn_caller
from ivjoin.errors import OptionError, UnsupportedError, came
from ivjoin.plan.join_plan import JoinPlan

__all__ = ["GOES_ON", "LEAST_ROWS", "NOT_RESTORED", "Budget", "Shed", "Spill", "WhenFull", "budget_of", "bytes_of"]

GOES_ON = (
    ". The batch was not taken; the operator can continue, and snapshot() can be restored with a greater limit"
)
NOT_RESTORED = ". No operator was made of the snapshot, which is intact: restore it with a greater limit"

_SIZE = re.compile(r"\s*(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(?P<unit>[kmgtp]?)(?P<two>i?)b?\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_MOST = 2**62
LEAST_ROWS = 16  # least number of rows in one piece of a batch
_MOST_OUTPUT = 4 << 20
_LEAST_OUTPUT = 64 << 10


@dataclass(frozen=True, slots=True)
class Spill:
    """At the memory limit, write rows to files. The result is exact.

    Attributes
    ----------
    dir : path, optional
        Folder of the files; by default the system's folder for temporary files. The files have no names, and the system
        deletes them when the process ends. A join raises OptionError if it cannot write a file there.

    Examples
    --------
    >>> Spill()
    Spill(dir=None)
    """

    dir: str | os.PathLike[str] | None = None


@dataclass(frozen=True, slots=True)
class Shed:
    """At the memory limit, drop rows. The result is a subset. Only for inner and semi joins on one thread.

    Attributes
    ----------
    policy : {"prob", "life", "random"}
        Which rows to drop first. "prob": the rows that are least likely to match. "life": the rows with the least
        product of that probability and their remaining time in the state. "random": any rows.
    shared : bool
        Whether both sides share the memory. If False, each side has half.

    Raises
    ------
    OptionError
        If an argument has another value.

    Examples
    --------
    >>> Shed("life", shared=True)
    Shed(policy='life', shared=True)
    """

    policy: Literal["prob", "life", "random"] = "prob"
    shared: bool = False

    def __post_init__(self) -> None:
        one_of("policy", self.policy, ("random", "prob", "life"))
        if not isinstance(self.shared, (bool, np.bool_)):
            raise OptionError(f"shared is {came(self.shared)}; expected True or False")


WhenFull: TypeAlias = Literal["raise", "spill", "shed"] | Spill | Shed


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit in bytes, and how an operator stays within it."""

    limit: int
    when_full: str = "raise"  # or "spill" or "shed"
    folder: str = ""  # for spilled rows
    policy: str = "prob"  # see `Shed`
    shared: bool = False
    whole: int = 0  # bytes that all steps of a join of many inputs may use together; 0 for two inputs

    @property
    def least_rows(self) -> int:
        """Return the number of rows to store at once before a batch shows how large rows are."""
        return max(LEAST_ROWS, min(self.limit // 4096, 1 << 16))

    def output_rows(self, row_bytes: int) -> int:
        """Return the number of rows of an output batch, so that it is small compared with the limit."""
        most = min(max(self.limit // 4, _LEAST_OUTPUT), _MOST_OUTPUT)
        return max(LEAST_ROWS, min(most // (row_bytes + 16), self.limit // 256))

    def check(self, plan: JoinPlan) -> None:
        """Raise UnsupportedError if the plan cannot shed as requested."""
        how = plan.how
        if plan.spec.pick is not None and self.when_full == "shed":
            raise UnsupportedError(
                f"when_full='shed' cannot be used with pick={plan.spec.pick.which!r}: without the picked row, the join "
                "would emit another row, which is not in the result. Use when_full='spill', which is exact"
            )
        if plan.spec.aggregates and self.when_full == "shed":
            raise UnsupportedError(
                "when_full='shed' cannot be used with aggregates: they would be of some of the rows only. Use "
                "when_full='spill', which is exact"
            )
        if self.when_full == "shed" and (how.name not in ("inner", "left_semi", "right_semi")):
            raise UnsupportedError(
                f"when_full='shed' cannot be used with how={how.name!r}: if the match of a row were dropped, the row "
                "would be emitted as unmatched, which is not in the result. Only inner and semi joins may shed; use "
                "when_full='spill', which is exact"
            )


def budget_of(memory_limit: int | str | None, when_full: WhenFull = "raise") -> Budget | None:
    """Return the budget of the caller's options, or None without a limit. A wrong option raises an OptionError."""
    if isinstance(when_full, Spill):
        way, spill, shed = "spill", when_full, Shed()
    elif isinstance(when_full, Shed):
        way, spill, shed = "shed", Spill(), when_full
    elif isinstance(when_full, str) and when_full in ("raise", "spill", "shed"):
        way, spill, shed = when_full, Spill(), Shed()
    else:
        raise OptionError(
            f"when_full is {came(when_full)}; expected 'raise', 'spill', 'shed', ivjoin.Spill(dir=...) or "
            "ivjoin.Shed(policy=...)"
        )
    folder = _folder(spill.dir) if way == "spill" else ""
    if memory_limit is None:
        if way != "raise":
            raise OptionError(f"when_full is {way!r} without a limit; add memory_limit, such as '512MB'")
        return None
    return Budget(bytes_of(memory_limit), way, folder, shed.policy, bool(shed.shared))


def bytes_of(value: int | str) -> int:
    """Parse a number of bytes, or text such as "512MB", "1.5 GiB" or "64k", up to 2**62.

    Any other value raises an OptionError. If the machine has less memory, a warning is issued.
    """
    expected = "expected bytes above zero, or text such as '512MB', '1.5GB' or '64KiB'"
    if isinstance(value, str):
        found = _SIZE.fullmatch(value)
        if found is None or (found["two"] and not found["unit"]):
            raise OptionError(f"memory_limit is {came(value)}; {expected}")
        unit = (1024 if found["two"] else 1000) ** _POWERS[found["unit"].lower()]
        number = int(Decimal(found["number"]) * unit)
    elif isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise OptionError(f"memory_limit is {came(value)}; {expected}")
    else:
        number = int(value)
    if not 0 < number <= _MOST:
        raise OptionError(f"memory_limit is {came(value)}; {expected}")
    there = _memory()
    if there is not None and number > there:
        warn_caller(UserWarning(
            f"memory_limit is {number:,} bytes, and this machine has {there:,}: the limit will not be reached before "
            "memory is"
        ))
    return number


def _memory() -> int | None:
    """Return the bytes of memory of the machine, or None if the system does not report them."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _folder(given: str | os.PathLike[str] | None) -> str:
    if given is None:
        return tempfile.gettempdir()
    try:
        folder = os.fspath(given)
    except TypeError as e:
        raise OptionError(f"the folder of Spill is {came(given)}; expected the path of a folder") from e
    if not isinstance(folder, str):
        folder = os.fsdecode(folder)
    if not os.path.isdir(folder):
        what = "is no folder" if os.path.exists(folder) else "does not exist"
        raise OptionError(f"the folder of Spill is {came(folder)}, which {what}; make it, or name another")
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
    except OSError as e:
        raise OptionError(
            f"the folder of Spill is {came(folder)}, where no file can be written ({e.strerror}); name another folder"
        ) from e
    return folder
