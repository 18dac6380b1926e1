"""Shapes of a join: no key, text and two-column keys, wide rows, residuals, disorder, skewed rates, a hot key."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from bench.case import Band, Case, Columns

__all__ = ["CASES", "numbered"]


def numbered(rows: int, keys: int, seed: int, step: int = 1, jitter: int = 0) -> pa.Table:
    """``s`` rises by ``step`` a row, out of place by at most ``jitter``; ``v`` numbers the rows; ``x`` is random."""
    rng = np.random.default_rng(seed)
    s = np.arange(rows) * step
    if jitter:
        s = s - rng.integers(0, jitter + 1, rows)
    return pa.table({
        "k": pa.array(rng.integers(0, keys, rows)), "s": pa.array(s), "v": pa.array(np.arange(rows)),
        "x": pa.array(rng.integers(0, 100, rows)),
    })  # fmt: skip


def _plain(rows: int, keys: int, jitter: int = 0) -> tuple[pa.Table, pa.Table]:
    return numbered(rows, keys, 1, jitter=jitter), numbered(rows, keys, 2, jitter=jitter)


def _skewed(rows: int, keys: int) -> tuple[pa.Table, pa.Table]:
    return numbered(rows, keys, 1), numbered(rows // 10, keys, 2, step=10)


def _named(rows: int, keys: int, two: bool) -> tuple[pa.Table, pa.Table]:
    """Keys as words of 12 to 18 bytes; with ``two`` the key is such a word and a number."""
    sides = []
    for table in _plain(rows, keys):
        k = table.column("k").to_numpy()
        words = pa.array([f"customer-{i * 7919 % 1_000_003}" for i in range(keys)])
        part = k % max(1, keys // 16) if two else k
        columns = {"w": words.take(pa.array(part)), **({"n": pa.array(k % 16)} if two else {})}
        sides.append(pa.table({**columns, "s": table.column("s"), "v": table.column("v")}))
    return sides[0], sides[1]


def _two_numbers(rows: int, keys: int) -> tuple[pa.Table, pa.Table]:
    """The key as two int64 columns of about 32 values each."""
    root = int(keys**0.5)
    sides = []
    for table in _plain(rows, keys):
        k = table.column("k").to_numpy()
        sides.append(pa.table({"a": pa.array(k // root), "b": pa.array(k % root), "s": table["s"], "v": table["v"]}))
    return sides[0], sides[1]


def _with_nulls(rows: int, keys: int) -> tuple[pa.Table, pa.Table]:
    """A tenth of the keys, and a tenth of the ordered values, are null."""
    sides = []
    for seed, table in enumerate(_plain(rows, keys)):
        rng = np.random.default_rng(seed + 20)
        k, s = (
            pa.array(table.column(name).to_numpy(), mask=rng.random(rows) < 0.1) for name in ("k", "s")
        )
        sides.append(pa.table({"k": k, "s": s, "v": table.column("v")}))
    return sides[0], sides[1]


def _wide(rows: int, keys: int) -> tuple[pa.Table, pa.Table]:
    """20 columns beside the key and the ordered one: 8 integers, 6 doubles, 6 texts of 5 to 30 bytes."""
    sides = []
    for seed, table in enumerate(_plain(rows, keys)):
        rng = np.random.default_rng(seed + 10)
        columns = {name: table.column(name) for name in ("k", "s")}
        columns |= {f"i{n}": pa.array(rng.integers(0, 10**9, rows)) for n in range(8)}
        columns |= {f"f{n}": pa.array(rng.random(rows)) for n in range(6)}
        words = pa.array([("lorem ipsum dolor sit amet " + str(i))[i % 20 :] for i in range(5000)])
        columns |= {f"t{n}": words.take(pa.array(rng.integers(0, 5000, rows))) for n in range(6)}
        sides.append(pa.table(columns))
    return sides[0], sides[1]


def _near(p: Columns, q: Columns, most: int) -> np.ndarray:
    return np.abs(p["s"] - q["s"]) < most


def _either(p: Columns, q: Columns) -> np.ndarray:
    d = p["s"] - q["s"]
    return ((d >= -500) & (d <= -100)) | ((d >= 0) & (d <= 400))


def _by_case(p: Columns, q: Columns) -> np.ndarray:
    d = p["s"] - q["s"]
    return (d >= -500) & (d <= 500) & np.where(p["x"] > q["x"], p["x"] != 3, q["x"] > 50)


BETWEEN = "l.s BETWEEN r.s - {0} AND r.s + {0}"
RESIDUALS: dict[str, tuple[str, Band, Callable[[Columns, Columns], np.ndarray] | None]] = {
    "abs": ("abs(l.s - r.s) < 500", Band("s", -499, 499), partial(_near, most=500)),
    "or": (
        "(l.s BETWEEN r.s - 500 AND r.s - 100 OR l.s BETWEEN r.s AND r.s + 400)", Band("s", -500, 400), _either,
    ),
    "case": (
        "l.s BETWEEN r.s - 500 AND r.s + 500 AND CASE WHEN l.x > r.x THEN l.x <> 3 ELSE r.x > 50 END",
        Band("s", -500, 500), _by_case,
    ),
    "product": (
        "(l.s - r.s) * (l.s - r.s) < 250000", Band("s", -499, 499), partial(_near, most=500),
    ),
}  # fmt: skip
DRAWN = "int64 keys uniform, s by row number, PCG64 seeds 1 and 2"


def _cases(rows: int, *tags: str) -> list[Case]:
    small = rows < 10**5
    some = frozenset(tags)
    keys = 20 if small else 1000
    n = f"{rows} rows"
    cases = [
        Case(f"no-key/{n}", DRAWN + "; every row meets 11", partial(_plain, rows, keys), BETWEEN.format(5),
             Band("s", -5, 5), tags=some),
        Case(f"keys/text/{n}", DRAWN + "; keys as words", partial(_named, rows, keys, False), BETWEEN.format(500),
             Band("s", -500, 500), ("w",), tags=some),
        Case(f"keys/text and number/{n}", DRAWN + "; keys as a word and a number", partial(_named, rows, keys, True),
             BETWEEN.format(500), Band("s", -500, 500), ("w", "n"), tags=some),
        Case(f"wide/{n}", DRAWN + "; 20 payload columns a side, 6 of them text", partial(_wide, rows // 2, keys),
             BETWEEN.format(500), Band("s", -500, 500), ("k",), tags=some),
        Case(f"rates/10 to 1/{n}", DRAWN + "; ten left rows for a right one", partial(_skewed, rows, keys),
             BETWEEN.format(500), Band("s", -500, 500), ("k",), batches=(512, 4096), tags=some),
        Case(f"hot-key/{n}", DRAWN + "; one key, every row meets 201", partial(_plain, rows // 10, 1),
             BETWEEN.format(100), Band("s", -100, 100), ("k",), tags=some),
    ]  # fmt: skip
    cases += [
        Case(f"residual/{name}/{n}", DRAWN, partial(_plain, rows, keys), text, band, ("k",), holds=holds, tags=some)
        for name, (text, band, holds) in RESIDUALS.items()
    ]
    cases += [
        Case(f"slack/{slack}/{n}", DRAWN + "; rows out of place by up to the slack",
             partial(_plain, rows, keys, slack), BETWEEN.format(500), Band("s", -500, 500), ("k",), slack=slack,
             batches=(512, 4096), tags=some)
        for slack in (0, 10, 1000)
    ]  # fmt: skip
    cases += [
        Case(f"keys/one int64/{n}", DRAWN, partial(_plain, rows, keys), BETWEEN.format(500), Band("s", -500, 500),
             ("k",), tags=some),
        Case(f"keys/two int64/{n}", DRAWN + "; the key as two columns", partial(_two_numbers, rows, keys),
             BETWEEN.format(500), Band("s", -500, 500), ("a", "b"), tags=some),
        Case(f"nulls/{n}", DRAWN + "; a tenth of keys and of ordered values null", partial(_with_nulls, rows, keys),
             BETWEEN.format(500), Band("s", -500, 500), ("k",), tags=some, peers=_NOT_ALL),
    ]
    cases += [
        Case(f"alone/{how}/{n}", DRAWN + "; left rows come out alone", partial(_plain, rows, keys),
             BETWEEN.format(500), Band("s", -500, 500), ("k",), how, tags=some, peers=_NOT_ALL)
        for how in ("left_semi", "left_anti")
    ]  # fmt: skip
    return cases


_NOT_ALL = ("ivjoin", "ivjoin band_join", "DataFusion SHJ", "DuckDB", "DataFusion hash join")
CASES = [*_cases(4000, "smoke"), *_cases(10**6, "quick", "full")]
