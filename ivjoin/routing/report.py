"""The input and output of each worker, and its distance from the best possible load."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["BETA", "LoadReport"]

# The cost of an output row, in input rows. Measured with the operator on one core: 0.2 to 0.4.
BETA = 0.3
_MOST_LINES = 16


@dataclass(frozen=True, eq=False)
class LoadReport:
    """The load of each worker: rows in + beta x rows out.

    No plan has a load below ``lower_bound``: the load of all rows, each counted once, divided by the workers, or the
    heaviest indivisible piece.
    """

    rows_in: np.ndarray  # int64[workers]: copies received
    rows_out: np.ndarray  # int64[workers]: output rows at the worker of their owned copy
    skew_degree: float  # the greatest load over the average load
    replication: float  # rows received over input rows
    load: float  # the greatest one
    lower_bound: float
    beta: float = BETA

    @classmethod
    def of(cls, rows_in: np.ndarray, rows_out: np.ndarray, rows: float, heaviest: float, beta: float) -> LoadReport:
        """Return the report. ``rows``: all input rows; ``heaviest``: the load of the heaviest indivisible piece."""
        loads = rows_in + beta * rows_out
        mean = float(loads.mean())
        return cls(
            rows_in, rows_out, float(loads.max()) / mean if mean else 1.0,
            float(rows_in.sum()) / rows if rows else 1.0, float(loads.max()),
            max((rows + beta * float(rows_out.sum())) / len(rows_in), heaviest), beta,
        )

    @property
    def over_bound(self) -> float:
        """Return the load over the lower bound; 1 is the best possible value."""
        return self.load / self.lower_bound if self.lower_bound else 1.0

    def __str__(self) -> str:
        loads = self.rows_in + self.beta * self.rows_out
        order = np.argsort(-loads, kind="stable")
        lines = [f"{'worker':>8} {'rows in':>14} {'rows out':>14} {'load':>14}"]
        for w in order[:_MOST_LINES]:
            lines.append(f"{w:>8} {self.rows_in[w]:>14,} {self.rows_out[w]:>14,} {loads[w]:>14,.0f}")
        rest = order[_MOST_LINES:]
        if len(rest):
            more, received, emitted = f"+{len(rest)} more", self.rows_in[rest].sum(), self.rows_out[rest].sum()
            lines.append(f"{more:>8} {received:>14,} {emitted:>14,} {loads[rest[-1]]:>6,.0f} or more")
        lines.append(
            f"greatest load {self.load:,.0f}, {self.over_bound:.3g} times the lower bound of {self.lower_bound:,.0f}; "
            f"skew degree {self.skew_degree:.3g}, replication {self.replication:.3g}"
        )
        return "\n".join(lines)
