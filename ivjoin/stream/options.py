"""The options of ``ivjoin.band_join`` that few calls need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from datetime import timedelta

    from ivjoin.plan.question import DeclaredBounds, KeepOrder, Validate

__all__ = ["DEFAULTS", "JoinOptions"]


class JoinOptions(TypedDict, total=False):
    """Further options of :func:`ivjoin.band_join`, given by name; its documentation describes each of them."""

    left_bounds: DeclaredBounds | None
    right_bounds: DeclaredBounds | None
    batch_size: int
    allow_cross: bool
    maintain_order: KeepOrder | None
    indicator: bool | str
    validate: Validate | None
    idle_timeout: str | float | timedelta | None
    idle: Literal["wait", "advance"]


DEFAULTS = JoinOptions(
    left_bounds=None, right_bounds=None, batch_size=65536, allow_cross=False, maintain_order=None, indicator=False,
    validate=None, idle_timeout=None, idle="wait",
)  # fmt: skip
