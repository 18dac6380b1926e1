"""Choose sizes of rings. Rings grow in small steps, and shrink when that is cheap."""

from __future__ import annotations

import numpy as np

from ivjoin.errors import CapacityError
from ivjoin.shj.kernels.push.index_kernels import FIRST_AXIS

__all__ = ["TIGHT", "extend", "fitting", "is_wide", "larger", "row_records"]

TIGHT = 32  # when memory is short, the slack is this fraction of the size
_SPARE = 1024  # a ring may always exceed twice its need by this number of rows
_LARGE = 1 << 17
_MOST_ROWS = 2**31 - 1024  # places are int32


def fitting(n: int) -> int:
    """Return the capacity of a ring for n rows."""
    return max(64, -(-n // 16) * 16)


def larger(cap: int, need: int) -> int:
    """Return the next capacity of a ring that must store ``need`` rows. More than 2,147,482,624 raise a CapacityError.

    It grows by a sixteenth below 131,072 rows, then by an eighth. At most that much capacity stays unused.
    """
    if need > _MOST_ROWS:
        raise CapacityError(
            f"the state needs {need:,} rows of one side at once; expected at most {_MOST_ROWS:,}. Narrow the window, "
            "or divide the rows"
        )
    return min(fitting(max(need, cap + cap // (16 if cap < _LARGE else 8))), _MOST_ROWS)


def is_wide(cap: int, need: int, rows: int) -> bool:
    """Return whether a ring is too large, ``rows`` rows after its size was last fitted. See ``upkeep_kernels``."""
    if cap > 2 * need + _SPARE:
        return True
    return cap > need + need // 16 + 256 and rows > 4 * cap


def row_records(cap: int, n_axes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return row records as words : int64[cap, ...], and the same memory as links : int32."""
    rows = np.empty((cap, FIRST_AXIS + n_axes), dtype=np.int64)
    return rows, rows.view(np.int32)


def extend(extents: np.ndarray, axes: np.ndarray, empty: bool) -> None:
    """Extend extents : int64[a, 2] to cover further rows : int64[a, n]. If ``empty``, they cover only these rows."""
    least, most = axes.min(axis=1), axes.max(axis=1)
    if not empty:
        least, most = np.minimum(least, extents[:, 0]), np.maximum(most, extents[:, 1])
    extents[:, 0], extents[:, 1] = least, most
