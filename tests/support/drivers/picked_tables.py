"""Random joins of tables that pick one right row, slice by slice, compared with every pair of rows."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import asof_join
from ivjoin.stream.tables import table_lookup, table_pick, table_window

ENDS = [-(2**63), -(2**63) + 1, -(2**53) - 1, -1, 0, 1, 2**31, 2**53 + 1, 2**62, 2**63 - 2, 2**63 - 1]


@contextmanager
def in_small_slices(rows: int, out: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_pick, "_SLICE_ROWS", rows)
        patch.setattr(table_lookup, "OUT_ROWS", out)
        patch.setattr(table_pick, "OUT_ROWS", out)
        patch.setattr(table_window, "_SLICE_ROWS", rows)
        patch.setattr(table_window, "_BANDS", 0)
        patch.setattr(table_window, "OUT_ROWS", out)
        yield


def times(rng: np.random.Generator, draw: random.Random, n: int, kind: str) -> pa.Array:
    span = draw.choice([1, 5, 100, 2000])
    if kind == "ends":
        values = np.array([draw.choice(ENDS) for _ in range(n)], dtype=np.int64)
    else:
        values = rng.integers(-span, span, n)
    if draw.random() < 0.5:
        values = np.sort(values)
    holes = rng.random(n) < draw.choice([0, 0, 0.1])
    if kind == "floats":
        found = values / 4
        found[rng.random(n) < 0.1] = -0.0
        return pa.array(found, mask=holes)
    return pa.array(values, pa.timestamp("us") if kind == "stamps" else pa.int64(), mask=holes)


def keys(rng: np.random.Generator, draw: random.Random, n: int, kind: str) -> pa.Array:
    values = rng.integers(0, draw.choice([1, 4, 50]), n)
    holes = rng.random(n) < draw.choice([0, 0, 0.1])
    if kind == "text":
        return pa.array([f"k{v}" for v in values], mask=holes)
    return pa.array(values * (10**15 if kind == "far" else 1), mask=holes)


def split(draw: random.Random, rows: pa.Table, sizes: Sequence[int] = (0, 1, 7, 50)) -> pa.Table:
    """The same rows in batches of other lengths, some of them empty."""
    batches: list[pa.RecordBatch] = []
    at = 0
    while at < rows.num_rows:
        n = draw.choice(sizes)
        batches += rows.slice(at, n).to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
        at += n
    return pa.Table.from_batches(batches, rows.schema)


def wanted(
    left: list[dict[str, Any]], right: list[dict[str, Any]], direction: str, tolerance: int | None, exact: bool,
    keyed: bool, ties: bool,
) -> list[set[int | None]]:
    """Which right rows each left row may take, by number; None for no row. All numbers are whole."""
    out: list[set[int | None]] = []
    for a in left:
        fit = []
        for b in right:
            if a["w"] is None or b["w"] is None or (keyed and (a["k"] is None or a["k"] != b["k"])):
                continue
            away = b["w"] - a["w"]
            good = away <= 0 if direction == "backward" else away >= 0 if direction == "forward" else True
            if good and (exact or away) and (tolerance is None or abs(away) <= tolerance):
                fit.append((abs(away), away, b))
        best = min(fit, key=lambda f: f[:2], default=None)
        same = [b for d, way, b in fit if best is not None and (d, way) == best[:2]]
        if ties and same:
            last = direction == "backward"
            same = [max(same, key=lambda b: b["u"]) if last else min(same, key=lambda b: b["u"])]
        out.append({b["x"] for b in same} or {None})
    return out


class Given(Protocol):
    """Other inputs in place of two tables; ``declares`` that both rise by ``t``."""

    declares: bool

    def tables(self, left: pa.Table, right: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The rows in the order of the inputs."""
        ...

    def inputs(self, left: pa.Table, right: pa.Table, options: dict[str, Any]) -> tuple[Any, Any]:
        """Inputs with these rows; may add options."""
        ...


def answered(
    seed: int, draw: random.Random, call: Callable[..., Any], tables: Sequence[pa.Table], given: Given | None,
    options: dict[str, Any], compare: Callable[[list[dict[str, Any]]], None],
) -> str:
    """Compare the output rows of one to sixteen threads, one for each left row; the name of the code path."""
    first: list[dict[str, Any]] | None = None
    with in_small_slices(draw.choice([1, 2, 7, 40, 1 << 17]), draw.choice([1, 9, 1 << 16])):
        for threads in (1, draw.choice([2, 3, 16])):
            inputs = tables if given is None else given.inputs(tables[0], tables[1], options)
            stream = call(*inputs, threads=threads, **options)
            out = list(stream)
            for batch in out:
                batch.validate(full=True)
                assert 0 < batch.num_rows <= options["batch_size"]
            got = [row for batch in out for row in batch.to_pylist()]
            got = got if given is None else sorted(got, key=lambda row: row["id"])
            compare(got)
            assert first is None or got == first or given, f"{seed}: other rows with {threads} threads"
            first, m = got, stream.metrics
            # row groups that cannot match are not read
            came = [t.num_rows for t in tables] if given is None else [m.left_rows_in, m.right_rows_in]
            assert (m.left_rows_in, m.right_rows_in, m.rows_out, m.state_rows) == (*came, len(got), 0), (seed, m)
            assert (m.left_rows_retired, m.right_rows_retired) == (m.left_rows_in, m.right_rows_in), (seed, m)
    return type(stream._operator).__name__


def check(seed: int, given: Given | None = None) -> str:
    """One random as-of join by one to sixteen threads; the name of what joined it.

    With ``given``, rows may come in any order.
    """
    rng, draw = np.random.default_rng(seed), random.Random(seed)
    kind, names = draw.choice(["near", "stamps", "floats", "ends"]), draw.choice(["near", "far", "text", "none"])
    sizes = [draw.choice([0, 1, 5, 60, 150]), draw.choice([0, 1, 5, 60, 150])]
    tables = []
    for n, number in zip(sizes, ("id", "x"), strict=True):
        made = {"k": keys(rng, draw, n, names), "t": times(rng, draw, n, kind), number: np.arange(n)}
        made["u"] = rng.permutation(n)
        tables.append(split(draw, pa.table(made)))
    if given is not None:
        tables = list(given.tables(*tables))
    options: dict[str, Any] = {
        "direction": draw.choice(["backward", "forward", "nearest"]), "how": draw.choice(["left", "inner"]),
        "batch_size": draw.choice([1, 7, 65536]),
    }  # fmt: skip
    if names != "none":
        options["by"] = "k"
    if options["direction"] != "nearest" and draw.random() < 0.3:
        options["allow_exact_matches"] = False
    tolerance = draw.choice([None, None, 1, 30]) if kind != "stamps" else None
    if kind == "floats":
        tolerance = None  # sums of doubles are the residual's
    if tolerance is not None:
        options["tolerance"] = tolerance
    if draw.random() < 0.3:
        options["ties"] = "u"
    rows = []
    for table in tables:
        found = table.to_pylist()
        for row, value in zip(found, _whole(table["t"].combine_chunks()), strict=True):
            row["w"] = value
        rows.append(found)
    exact = options.get("allow_exact_matches", True)
    want = wanted(rows[0], rows[1], options["direction"], tolerance, exact, names != "none", "ties" in options)

    def compare(got: list[dict[str, Any]]) -> None:
        have = {row["id"]: row["x"] for row in got}
        kept = [i for i in range(sizes[0]) if options["how"] == "left" or want[i] != {None}]
        assert [row["id"] for row in got] == kept, f"{seed} {options}: rows lost, invented or moved"
        wrong = {i: (have[i], want[i]) for i in kept if have[i] not in want[i]}
        assert not wrong, f"{seed} {options} {kind} {names}: {wrong}"

    return answered(seed, draw, partial(asof_join, on="t"), tables, given, options, compare)


def _whole(values: pa.Array) -> list[int | None]:
    """Times as whole numbers; floats are quarters."""
    if pa.types.is_floating(values.type):
        return [None if v is None or math.isnan(v) else int(v * 4) for v in values.to_pylist()]
    return values.cast(pa.int64()).to_pylist()
