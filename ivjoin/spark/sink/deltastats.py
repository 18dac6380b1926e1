"""Compute a file's statistics for Delta's log from its footer: counts, least values and greatest values."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

__all__ = ["delta_stats"]

# Bounds of longer texts would cost more space in the log than they save.
_LONGEST_TEXT = 64


def delta_stats(footer: Any) -> str:
    """Return ``numRecords``, ``nullCount``, ``minValues`` and ``maxValues`` of a file as JSON, from its Parquet footer.

    Integers, dates, times and short text get bounds, if the footer has statistics for all of their values. Floats get
    no bounds, because the bounds in a footer leave out NaN. Spark treats NaN as the greatest value, so a query would
    skip files that contain it.
    """
    nulls: dict[str, int] = {}
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    for c in range(footer.num_columns):
        column = footer.schema.column(c)
        name = column.path
        if column.max_definition_level > 1 or column.max_repetition_level > 0 or "." in name:
            continue  # lies within a list, a struct or a map
        stats = [footer.row_group(g).column(c).statistics for g in range(footer.num_row_groups)]
        if any(s is None or not s.has_null_count for s in stats):
            continue
        nulls[name] = sum(s.null_count for s in stats)
        if any(not s.has_min_max and s.num_values for s in stats):
            continue
        lows: list[Any] = [_said(s.min) for s in stats if s.num_values]
        highs: list[Any] = [_said(s.max) for s in stats if s.num_values]
        if lows and None not in lows and None not in highs:
            least[name], most[name] = min(lows), max(highs)
    known = {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}
    return json.dumps(known, separators=(",", ":"))


def _said(value: Any) -> int | str | None:
    """Return a value in the form of Delta's log that sorts like the value; None if it has no such form."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    if isinstance(value, datetime):
        zone = "Z" if value.tzinfo is not None else ""
        plain = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value
        return f"{plain.isoformat(timespec='microseconds')}{zone}" if plain.year >= 1000 else None
    return value.isoformat() if isinstance(value, date) and value.year >= 1000 else None
