"""Time against one size at a time: the window, the number of live keys, the rows."""

from __future__ import annotations

from functools import partial

from bench.case import Band, Case
from bench.cases.shapes import numbered

__all__ = ["CASES"]

_PEERS = ("ivjoin", "DataFusion SHJ", "DuckDB, buckets by hand")


def _make(rows: int, keys: int) -> tuple:
    return numbered(rows, keys, 1), numbered(rows, keys, 2)


def _case(name: str, source: str, rows: int, keys: int, reach: int, *tags: str) -> Case:
    return Case(
        name, source, partial(_make, rows, keys), f"l.s BETWEEN r.s - {reach} AND r.s + {reach}",
        Band("s", -reach, reach), ("k",), tags=frozenset(tags), peers=_PEERS,
    )  # fmt: skip


def _window(reach: int, rows: int, *tags: str) -> Case:
    """As many keys as the window has rows: one or two matches a row, whatever the window."""
    return _case(
        f"window/{reach} rows/{rows} rows", "keys grow with the window, so that a row meets two others", rows, reach,
        reach, *tags,
    )  # fmt: skip


def _live(keys: int, rows: int, *tags: str) -> Case:
    reach = 1 if keys == 1 else 1000
    return _case(
        f"live-keys/{keys} keys/{rows} rows", "a window of 1,000 rows either way (1 row with the one key)", rows, keys,
        reach, *tags,
    )  # fmt: skip


def _length(rows: int, *tags: str) -> Case:
    return _case(f"length/{rows} rows", "1,000 keys, a window of 1,000 rows either way", rows, 1000, 1000, *tags)


CASES = [
    _window(10, 4000, "smoke"),
    *(_window(10**e, 10**6, "quick", "full") for e in (1, 2, 3, 4, 5, 6)),
    _window(10**6, 4 * 10**6, "full"),
    _live(1, 4000, "smoke"),
    *(_live(keys, 10**6, "quick", "full") for keys in (1, 10**3, 10**4, 10**5, 10**6)),
    *(_length(rows, "quick", "full") for rows in (10**5, 3 * 10**5, 10**6, 3 * 10**6)),
    _length(10**7, "full"),
]
