"""Choose another axis to search a store by if the first axis admits too many rows."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.shj.store.rows.bands import BandTable
from ivjoin.shj.store.rows.side import SideStore

__all__ = ["most_selective"]

_PROBES, _STORED = 64, 1024  # sampled rows
_GAIN = 4.0  # how many times fewer rows another axis must admit
_MOST_AXES = 8  # axes tried


def most_selective(axes: np.ndarray, bands: BandTable, store: SideStore) -> tuple[int, int | None]:
    """Return the axis whose band terms admit the fewest stored rows, or 0 unless another axis is much better.

    The second result is a second axis, or None. A band such as ``l.x BETWEEN r.x - r.w AND r.x + r.w`` bounds two axes
    of the right rows, each at one end. A search among rows sorted by ``r.x - r.w`` goes down from their bound. It stops
    when no remaining row can reach the required ``r.x + r.w``. ``axes`` : int64[a, n] are the axes of the probe rows.
    """
    ids = store.live_ids()
    if not len(ids) or not axes.shape[1]:
        return 0, None
    ids = ids[:: max(1, len(ids) // _STORED)]
    probes = axes[:, :: max(1, axes.shape[1] // _PROBES)].astype(np.float64)
    inside: dict[int, np.ndarray] = {}
    below, above = set(), set()  # axes bounded from below and from above
    for probe_axis, axis, low, high in bands.terms.tolist():
        values = store.axis_values(axis, ids).astype(np.float64)[None, :]
        p = probes[probe_axis][:, None]
        good = (values >= p + float(low)) & (values <= p + float(high))
        inside[axis] = inside[axis] & good if axis in inside else good
        below |= {axis} if low != I64_MIN else set()
        above |= {axis} if high != I64_MAX else set()
    shares: dict[tuple[int, int | None], float] = {(a, None): float(x.mean()) for a, x in inside.items()}
    best = min(shares, key=lambda a: (shares[a], a[0]))
    for a, b in permutations(sorted(inside)[:_MOST_AXES], 2):
        if a and a in above and b in below:  # the lists already search by the first axis
            shares[a, b] = float((inside[a] & inside[b]).mean())
            if shares[a, b] * _GAIN < shares[best]:
                best = a, b
    return best if best[0] and shares[best] * _GAIN < shares.get((0, None), 1.0) else (0, None)
