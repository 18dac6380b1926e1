"""``simulate``: send given rows through the planner and router, and count the load of each worker."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.arguments import known_options, number, worker_count
from ivjoin.errors import OptionError, came
from ivjoin.plan.spec import SIDES
from ivjoin.routing.counting import count, groups
from ivjoin.routing.loads import by_worker, heaviest_piece, indivisible
from ivjoin.routing.plan import RoutingPlan
from ivjoin.routing.planner import plan_join
from ivjoin.routing.report import BETA, LoadReport
from ivjoin.routing.rows.reader import as_batch
from ivjoin.shj.plain import rows_at

__all__ = ["counted_report", "simulate"]

_SAMPLE = 1 << 19  # rows of each side that the planner sees
_SAMPLE_PER_WORKER = 4096


@known_options("simulate")
def simulate(
    left: Any, right: Any, on: Any = None, condition: Any = None, how: str = "inner", workers: int = 8,
    scheme: str = "auto", *, beta: float = BETA, timezone: str | None = None, sample_rows: int | None = None,
    seed: int = 0,
) -> LoadReport:
    """Simulate a plan: route every row by it and count the output rows of each worker, without joining rows.

    Parameters
    ----------
    left, right : Table, RecordBatch, or list of RecordBatch
    on, condition, how, workers, scheme, beta, timezone
        As for :func:`plan_join`.
    sample_rows : int, optional
        Rows of each side that the planner receives; by default 524,288, or 4,096 for each worker if that is more.
    seed : int
        Seed of the sample.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> hot = pa.table({"k": np.zeros(2000, dtype=np.int64), "v": np.arange(2000)})
    >>> simulate(hot, hot, on="k", workers=4, scheme="hash").skew_degree
    4.0
    >>> simulate(hot, hot, on="k", workers=4).skew_degree < 1.1
    True
    """
    workers = worker_count(workers)
    batches = as_batch(left, "left side"), as_batch(right, "right side")
    if sample_rows is None:
        sample_rows = max(_SAMPLE, _SAMPLE_PER_WORKER * workers)
    elif isinstance(sample_rows, bool) or not isinstance(sample_rows, (int, np.integer)) or sample_rows < 1:
        raise OptionError(f"sample_rows is {came(sample_rows)}; expected a whole number of rows, 1 or more")
    number("seed", seed, "the seed of the draw")
    draw = np.random.default_rng(int(seed))
    samples = []
    for s, batch in enumerate(batches):
        n = batch.num_rows
        if n == 0:
            raise OptionError(f"the {SIDES[s]} side has no rows; expected rows on both sides")
        few = n > sample_rows
        samples.append(rows_at(batch, np.sort(draw.choice(n, int(sample_rows), replace=False))) if few else batch)
    plan = plan_join(
        samples[0], samples[1], on=on, condition=condition, how=how, workers=workers, scheme=scheme,
        left_rows=batches[0].num_rows, right_rows=batches[1].num_rows, beta=beta, timezone=timezone,
    )
    return counted_report(plan, batches[0], batches[1], beta)


def counted_report(plan: RoutingPlan, left: pa.RecordBatch, right: pa.RecordBatch, beta: float = BETA) -> LoadReport:
    met = count(plan, left, right)
    rows_in = by_worker(plan, met.rows_in[0] + met.rows_in[1]).astype(np.int64)
    rows_out = by_worker(plan, met.rows_out).astype(np.int64)
    mode = indivisible(plan.reader.plan, plan.reader.reach)
    heaviest = 0.0
    if mode is not None:
        f = [plan.reader.features(s, b, None, False) for s, b in ((0, left), (1, right))]
        ids = groups(f[0], f[1])
        n = 1 + max(int(i.max(initial=-1)) for i in ids)
        here = []
        for s in (0, 1):
            lone = f[s].lone
            here.append(np.bincount(ids[s] if lone is None else ids[s][~lone], minlength=n))
        # cells alone do not give the output of a key; without it the piece is only lighter
        heaviest = heaviest_piece((here[0], here[1]), np.zeros(n), beta, mode, plan.workers)
    return LoadReport.of(rows_in, rows_out, float(left.num_rows + right.num_rows), heaviest, beta)
