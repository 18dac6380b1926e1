"""Define the options of public functions that most calls do not need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from ivjoin.expr.literals import Params
    from ivjoin.plan.picking.asof import Tolerance
    from ivjoin.plan.question import DeclaredBounds, KeepOrder, Sort, Validate

__all__ = ["ASOF_DEFAULTS", "DEFAULTS", "WINDOW_DEFAULTS", "AsofOptions", "Direction", "JoinOptions", "WindowOptions"]

Direction = Literal["backward", "forward", "nearest"]


class WindowOptions(TypedDict, total=False):
    """Further options of :func:`ivjoin.window_join`, passed by name. Its documentation describes them."""

    left_bounds: DeclaredBounds | None
    right_bounds: DeclaredBounds | None
    batch_size: int
    idle_timeout: str | float | timedelta | None
    idle: Literal["wait", "advance"]


WINDOW_DEFAULTS = WindowOptions(left_bounds=None, right_bounds=None, batch_size=65536, idle_timeout=None, idle="wait")


class JoinOptions(WindowOptions, total=False):
    """Further options of :func:`ivjoin.band_join`, passed by name. Its documentation describes them."""

    allow_cross: bool
    maintain_order: KeepOrder | None
    indicator: bool | str
    validate: Validate | None


DEFAULTS = JoinOptions(
    left_bounds=None, right_bounds=None, batch_size=65536, allow_cross=False, maintain_order=None, indicator=False,
    validate=None, idle_timeout=None, idle="wait",
)  # fmt: skip


class AsofOptions(TypedDict, total=False):
    """Further options of :func:`ivjoin.asof_join`, passed by name. Its documentation describes them."""

    interpolate: str | Sequence[str] | None
    offsets: Sequence[Tolerance] | None
    params: Params | None
    batch_size: int
    timezone: str | None
    sort: Sort
    maintain_order: KeepOrder | None
    indicator: bool | str
    idle_timeout: str | float | timedelta | None
    idle: Literal["wait", "advance"]


ASOF_DEFAULTS = AsofOptions(
    interpolate=None, offsets=None, params=None, batch_size=65536, timezone=None, sort="auto", maintain_order=None,
    indicator=False, idle_timeout=None, idle="wait",
)
