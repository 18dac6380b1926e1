"""Shedding: choose which rows to store if a window does not fit, and compute the best possible result for comparison.

The model is from Das, Gehrke and Riedewald, *Approximate Join Processing Over Data Streams* (SIGMOD 2003). At each step
i, one row of each side arrives. Left row i matches right row j if their keys are equal and ``|i - j| < window``. The
two new rows are joined with the stored rows and with each other. Then rows are dropped until the others fit into
memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ivjoin.shedding.offline import Optimum, optimal_offline
    from ivjoin.shedding.replaying import exact_matches, replay
    from ivjoin.shedding.truncated import k_truncated

__all__ = ["Optimum", "exact_matches", "k_truncated", "optimal_offline", "replay"]

_LAZY = {
    "Optimum": "offline", "exact_matches": "replaying", "k_truncated": "truncated", "optimal_offline": "offline",
    "replay": "replaying",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'ivjoin.shedding' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"ivjoin.shedding.{_LAZY[name]}"), name)
