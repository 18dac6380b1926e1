"""How large rings are: little by little larger, and made to fit again where that costs little."""

from __future__ import annotations

import numpy as np

from ivjoin.errors import CapacityError
from ivjoin.shj.kernels.index_kernels import FIRST_AXIS

__all__ = ["TIGHT", "extend", "fitting", "is_wide", "larger", "row_records"]

TIGHT = 32  # part of what is there for which there is room ahead, where memory is short
# Rows that a ring may have room for, beyond twice what it needs, without being asked whether it does.
_SPARE = 1024
_LARGE = 1 << 17
_MOST_ROWS = 2**31 - 1024  # places are int32


def fitting(n: int) -> int:
    """The capacity of a ring for n rows."""
    return max(64, -(-n // 16) * 16)


def larger(cap: int, need: int) -> int:
    """The next capacity of a ring that must hold ``need`` rows.

    By a sixteenth at a time: as a window fills, rows are carried over as they lie, and little room stands empty then.

    Raises
    ------
    CapacityError
    """
    if need > _MOST_ROWS:
        raise CapacityError(
            f"{need:,} rows of one side at once, expected {_MOST_ROWS:,} at most: narrow the window, or divide them"
        )
    return min(fitting(max(need, cap + cap // (16 if cap < _LARGE else 8))), _MOST_ROWS)


def is_wide(cap: int, need: int, rows: int) -> bool:
    """Whether a ring has too much room, ``rows`` after it was last made to fit; as ``upkeep_kernels._is_wide`` asks."""
    if cap > 2 * need + _SPARE:
        return True
    return cap > need + need // 16 + 256 and rows > 4 * cap


def row_records(cap: int, n_axes: int) -> tuple[np.ndarray, np.ndarray]:
    """Row records as words, int64[cap, ...], and the same memory as links, int32."""
    rows = np.empty((cap, FIRST_AXIS + n_axes), dtype=np.int64)
    return rows, rows.view(np.int32)


def extend(extents: np.ndarray, axes: np.ndarray, empty: bool) -> None:
    """Let extents, int64[a, 2], hold further rows : int64[a, n]; those alone where no row is stored yet."""
    least, most = axes.min(axis=1), axes.max(axis=1)
    if not empty:
        least, most = np.minimum(least, extents[:, 0]), np.maximum(most, extents[:, 1])
    extents[:, 0], extents[:, 1] = least, most
