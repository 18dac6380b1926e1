"""What an operator may hold, and what a caller wants done where the window does not fit: options, not the question."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

import numpy as np

from ivjoin.errors import IvjoinError, UnsupportedError, came
from ivjoin.expr.arguments import one_of, warn_caller
from ivjoin.operator.sharing import Pool
from ivjoin.plan.planner import JoinPlan
from ivjoin.shj.kernels import apart

__all__ = ["LEAST_ROWS", "Budget", "Shed", "WhenFull", "budget_of", "bytes_of"]

WhenFull = Literal["raise", "spill", "shed"]
Shed = Literal["random", "prob", "life"]

_SIZE = re.compile(r"\s*(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(?P<unit>[kmgtp]?)(?P<two>i?)b?\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_MOST = 2**62
LEAST_ROWS = 16  # of a piece
_MOST_OUTPUT = 4 << 20
_LEAST_OUTPUT = 64 << 10


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit of bytes and a way to keep it.

    Attributes
    ----------
    limit : int
        Bytes that the operator may hold.
    when_full : {"raise", "spill", "shed"}
    folder : str
        Where to spill.
    policy : {"random", "prob", "life"}
        What to shed first.
    shared : bool
        Whether both sides share the memory, and not half each.
    pool : Pool or None
        Of which the limit is a part, where several operators are at work.
    whole : int
        What all steps of a join of many inputs may hold, of which the limit is one's part; 0 for an operator alone.
    """

    limit: int
    when_full: str = "raise"
    folder: str = ""
    policy: str = "prob"
    shared: bool = False
    pool: Pool | None = field(default=None, compare=False)
    whole: int = 0

    @property
    def parts(self) -> int:
        """Operators that share the limit."""
        return 1 if self.pool is None else self.pool.parts

    @property
    def least_rows(self) -> int:
        """Rows that are stored at once where no batch says how large they are."""
        return max(LEAST_ROWS, min(self.limit // 4096, 1 << 16))

    def output_rows(self, row_bytes: int) -> int:
        """Rows of an output batch, of so many bytes each, that are a small part of what is allowed."""
        most = min(max(self.limit // 4, _LEAST_OUTPUT), _MOST_OUTPUT // self.parts)
        return max(LEAST_ROWS, min(most // (row_bytes + 16), self.limit // 256))

    def check(self, plan: JoinPlan) -> None:
        """Refuse a join that may not be cut short.

        Raises
        ------
        UnsupportedError
        """
        how = plan.how
        if plan.spec.pick is not None and self.when_full == "shed":
            raise UnsupportedError(
                f"when_full='shed' with pick={plan.spec.pick.which!r}: without the row that was to be picked "
                "another one would come, which is no row of the result; use when_full='spill', which is exact"
            )
        if plan.spec.aggregates and self.when_full != "raise":
            raise UnsupportedError(
                f"when_full={self.when_full!r} with aggregate=: rows whose partners are aggregated are held in memory; "
                "leave it out, which raises MemoryLimitError where they do not fit, or narrow the band"
            )
        if self.when_full == "shed" and (how.name not in ("inner", "left_semi", "right_semi")):
            raise UnsupportedError(
                f"when_full='shed' with how={how.name!r}: a row whose match was dropped would come out as one that has "
                "none, which is no row of the result. Only inner and semi joins may shed; use when_full='spill', which "
                "is exact"
            )


def budget_of(
    memory_limit: int | str | None, when_full: str = "raise", spill_dir: str | os.PathLike[str] | None = None,
    shed: str | None = None, shed_shared: bool = False,
) -> Budget | None:
    """The budget that a caller's options describe; None for no limit.

    Raises
    ------
    IvjoinError
        What came, what was expected, and the nearest fix.
    """
    one_of("when_full", when_full, ("raise", "spill", "shed"))
    if shed is not None:
        one_of("shed", shed, ("random", "prob", "life"))
    if not isinstance(shed_shared, (bool, np.bool_)):
        raise IvjoinError(f"shed_shared is {came(shed_shared)}; expected True or False")
    for name, given, way in (
        ("spill_dir", spill_dir is not None, "spill"), ("shed", shed is not None, "shed"),
        ("shed_shared", bool(shed_shared), "shed"),
    ):
        if given and when_full != way:
            raise IvjoinError(f"{name} is given, but when_full is {when_full!r}; add when_full={way!r}")
    folder = ""
    if when_full == "spill":
        folder = _folder(spill_dir)
    if memory_limit is None:
        if when_full != "raise":
            raise IvjoinError(f"when_full is {when_full!r} without a limit; add memory_limit, such as '512MB'")
        return None
    apart.ask()
    return Budget(bytes_of(memory_limit), when_full, folder, shed or "prob", bool(shed_shared))


def bytes_of(value: int | str) -> int:
    """Bytes from a number, or from text such as "512MB", "1.5 GiB", "64k".

    Raises
    ------
    IvjoinError
    """
    expected = "expected bytes above zero, or text such as '512MB', '1.5GB' or '64KiB'"
    if isinstance(value, str):
        found = _SIZE.fullmatch(value)
        if found is None or (found["two"] and not found["unit"]):
            raise IvjoinError(f"memory_limit is {came(value)}; {expected}")
        unit = (1024 if found["two"] else 1000) ** _POWERS[found["unit"].lower()]
        number = int(Decimal(found["number"]) * unit)
    elif isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise IvjoinError(f"memory_limit is {came(value)}; {expected}")
    else:
        number = int(value)
    if not 0 < number <= _MOST:
        raise IvjoinError(f"memory_limit is {came(value)}; {expected}")
    there = _memory()
    if there is not None and number > there:
        warn_caller(UserWarning(
            f"memory_limit is {number:,} bytes, and this machine has {there:,}: the limit will not be reached before "
            "memory is"
        ))
    return number


def _memory() -> int | None:
    """Bytes of memory of the machine, where that can be known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _folder(spill_dir: str | os.PathLike[str] | None) -> str:
    if spill_dir is None:
        return tempfile.gettempdir()
    try:
        folder = os.fspath(spill_dir)
    except TypeError as e:
        raise IvjoinError(f"spill_dir is {came(spill_dir)}; expected the path of a folder") from e
    if not isinstance(folder, str):
        folder = os.fsdecode(folder)
    if not os.path.isdir(folder):
        what = "is no folder" if os.path.exists(folder) else "does not exist"
        raise IvjoinError(f"spill_dir is {came(folder)}, which {what}; make it, or name another")
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
    except OSError as e:
        raise IvjoinError(
            f"spill_dir is {came(folder)}, where no file can be written ({e.strerror}); name another folder"
        ) from e
    return folder
