"""Copy row records to a ring of another capacity."""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import I8, IN2, IN2_I4, IO2, IO2_I4, VOID, compiled, inner
from ivjoin.shj.kernels.push.index_kernels import FIRST_AXIS, FLAGS, KEY

__all__ = ["move"]


@compiled(VOID(I8, I8, I8, IN2, IN2_I4, IO2, IO2_I4, IO2_I4, I8, I8))
def move(lo, begin, end, rows, links, new_rows, new_links, slots, n_keys, side):
    """Copy the records of rows begin .. end-1 to a ring of another capacity, and translate their links.

    It also translates the links of the first ``n_keys`` slots, which must happen once. Arrays: see ``index_kernels``.
    """
    cap = rows.shape[0]
    new_cap = new_rows.shape[0]
    # The row at place q has id lo + (q - lo % cap), or cap more if that is below lo.
    first = lo % cap
    new_first = lo % new_cap
    for rid in range(begin, end):
        pos = rid % cap
        new = rid % new_cap
        for a in range(FIRST_AXIS, rows.shape[1]):
            new_rows[new, a] = rows[pos, a]
        for k in range(2):
            q = np.int64(links[pos, k])
            new_links[new, k] = -1 if q < 0 else _moved(q, first, cap, new_first, new_cap)
        new_links[new, KEY] = links[pos, KEY]
        new_links[new, FLAGS] = links[pos, FLAGS]
    for key_id in range(n_keys):
        if slots[key_id, side] >= 0:
            for k in range(side, side + 3):
                slots[key_id, k] = _moved(np.int64(slots[key_id, k]), first, cap, new_first, new_cap)


@inner
def _moved(q, first, cap, new_first, new_cap):
    age = q - first if q >= first else q - first + cap
    place = new_first + age
    return place if place < new_cap else place - new_cap
