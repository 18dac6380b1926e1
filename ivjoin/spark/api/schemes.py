"""The ways to spread rows that ``band_join`` can be asked for."""

from __future__ import annotations

__all__ = ["SCHEMES"]

SCHEMES = ("auto", "hash", "slices", "grid")
