"""List the values of ``routing`` in ``band_join``: the schemes that divide rows over tasks."""

from __future__ import annotations

__all__ = ["SCHEMES"]

SCHEMES = ("auto", "hash", "slices", "grid")
