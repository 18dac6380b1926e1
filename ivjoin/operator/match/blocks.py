"""Decide whether compiled code builds output batches on this platform.

Compiled code builds them in raw memory of a 64-bit little-endian machine, which C's malloc allocates and the Arrow C
data interface hands over. On any other platform Arrow builds the same rows.
"""

from __future__ import annotations

import os
from functools import cache

import pyarrow as pa

__all__ = ["VARIABLE", "wanted"]

VARIABLE = "IVJOIN_COMPILED_BLOCKS"


def wanted() -> bool:
    """Return whether the environment variable allows compiled blocks and the platform supports them."""
    return os.environ.get(VARIABLE, "1") != "0" and _possible()


@cache
def _possible() -> bool:
    from ivjoin.shj.kernels.memory import is_for_this_machine

    calls = (pa.RecordBatch, "_export_to_c"), (pa.RecordBatch, "_import_from_c")
    return is_for_this_machine() and all(hasattr(owner, name) for owner, name in calls)
