"""Decide whether the kernels build output batches; otherwise Arrow builds the same rows."""

from __future__ import annotations

import os

__all__ = ["VARIABLE", "wanted"]

VARIABLE = "IVJOIN_COMPILED_BLOCKS"


def wanted() -> bool:
    """Return whether the environment variable allows the kernels to build output batches."""
    return os.environ.get(VARIABLE, "1") != "0"
