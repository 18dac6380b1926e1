"""A lower bound for the load of any plan, and the expected loads of a plan from samples."""

from __future__ import annotations

import numpy as np

from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.routing.counting import count
from ivjoin.routing.grids.grid_sizes import LEFT, RIGHT, TWOFOLD
from ivjoin.routing.plan import RoutingPlan
from ivjoin.routing.report import LoadReport
from ivjoin.routing.rows.reach import Reach
from ivjoin.routing.sampling import Sample
from ivjoin.shj.plain import rows_at

__all__ = ["by_worker", "heaviest_piece", "indivisible", "measured"]

_MOST_COUNTED = 1 << 22  # copies in a report of samples


def measured(plan: RoutingPlan, sample: Sample, beta: float, mode: str | None) -> LoadReport:
    """Return the expected load of each worker, from the samples."""
    batches, scale = sample.batches, sample.scale
    # Estimate the copies, and count only every step-th row if there are more than a few million.
    most = max(1, sum(b.num_rows for b in batches))
    copies = sum(len(plan.cells(SIDES[s], b.slice(0, 4096))[0]) / min(4096, b.num_rows) * b.num_rows
                 for s, b in enumerate(batches))
    step = max(1, int(copies // max(_MOST_COUNTED, most)))
    if step > 1:
        a, b = (rows_at(batch, np.arange(0, batch.num_rows, step)) for batch in batches)
        batches, scale = (a, b), (sample.rows[0] / a.num_rows, sample.rows[1] / b.num_rows)
    met = count(plan, *batches, exact=False)
    rows_in = sum((by_worker(plan, met.rows_in[s]) * scale[s] for s in (0, 1)), np.zeros(plan.workers))
    out = by_worker(plan, met.rows_out)
    expected = float(sample.keys.out.sum()) + _alone(sample)
    if out.sum():
        out = out * (expected / out.sum())
    return LoadReport.of(
        np.rint(rows_in).astype(np.int64), np.rint(out).astype(np.int64), float(sum(sample.rows)),
        heaviest_piece(sample.keys.rows, sample.keys.out, beta, mode, plan.workers), beta,
    )


def _alone(sample: Sample) -> float:
    """Return the rows that cannot match and are emitted for that reason."""
    how = sample.how
    return sum(
        float(np.count_nonzero(lone)) * sample.scale[s]
        for s, lone in enumerate(sample.lone)
        if lone is not None and how.owes(s)
    )


def by_worker(plan: RoutingPlan, cells: np.ndarray) -> np.ndarray:
    return np.bincount(plan.worker_of, weights=cells, minlength=plan.workers)


def indivisible(plan: JoinPlan, reach: Reach) -> str | None:
    """Return the grids if only grids divide a key, for any scheme; None if a key can be divided freely."""
    preserved = plan.how.preserved
    if not any(preserved) or any(not preserved[1 - a.divided] or a.home is not None for a in reach.axes):
        return None
    return TWOFOLD if all(preserved) else LEFT if preserved[0] else RIGHT


def heaviest_piece(
    rows: tuple[np.ndarray, np.ndarray], out: np.ndarray, beta: float, mode: str | None, workers: int
) -> float:
    """Return the load of the heaviest indivisible piece. ``mode`` limits grids; None: any piece can be divided."""
    if mode is None or len(out) == 0:
        return 0.0
    left, right = rows
    whole = left + right + beta * out
    if mode == LEFT:
        piece = right + (left + beta * out) / workers
    elif mode == RIGHT:
        piece = left + (right + beta * out) / workers
    else:
        piece = np.maximum(right + (left + beta * out) / workers, left + right / workers)
    return float(np.minimum(whole, piece).max())
