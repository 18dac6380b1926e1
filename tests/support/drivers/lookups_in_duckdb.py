"""Compare random picks, aggregates and as-of joins of tables, files and streams with DuckDB."""

from __future__ import annotations

import math
import random
import re
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from drivers.lookup_inputs import INPUTS, Inputs, in_ticks, small_slices
from drivers.lookup_questions import KINDS, TIMES
from drivers.lookup_rows import KEYS, WORDS, Drawn, side

import ivjoin
from ivjoin import MemoryLimitError
from ivjoin.stream.tables.table_lookup import TableLookup

__all__ = ["KINDS", "compare"]

_ROUNDED = re.compile("stddev|var_pop|variance|median|quantile|avg.r.[cf]")

def _in_ticks(rows: pa.Table, aggregates: dict[str, str] = {}) -> pa.Table:  # noqa: B006
    """Times of both sides as numbers."""
    for i, name in enumerate(rows.column_names):
        if name in ("t", "u") or name.startswith("u_") or aggregates.get(name) in ("first(r.u)", "last(r.u)"):
            rows = rows.set_column(i, name, in_ticks(rows[name]))
    return rows


def _alike(a: Any, b: Any, rounded: bool, scale: float = 0.0) -> bool:
    """Equal; the doubles of some functions but for rounding, those between two values of a scale by its last bits."""
    if isinstance(a, float) and isinstance(b, float):
        near = max(1e-9, scale * 2.0**-50)
        return a == b or (a != a and b != b) or (rounded and math.isclose(a, b, rel_tol=1e-9, abs_tol=near))
    return bool(a == b)


def _rows_alike(ours: tuple[Any, ...], theirs: tuple[Any, ...], rounded: bool, options: dict[str, Any]) -> bool:
    """The same for two rows; to those of DuckDB, aggregates add the greatest size of a value of v."""
    functions = options.get("aggregate", {})
    scales = [theirs[-1] or 0.0 if "quantile(r.v" in functions.get(c, "") else 0.0 for c in options["columns"]]
    return all(_alike(a, b, rounded, scale) for a, b, scale in zip(ours, theirs, scales))


def _joined(
    stream: ivjoin.JoinStream, size: int, came: tuple[int, int] | None, options: dict[str, Any]
) -> list[tuple[Any, ...]]:
    """The output rows in their order, after checks of the batches and of what is counted."""
    batches = list(stream)
    for batch in batches:
        batch.validate(full=True)
        assert 0 < batch.num_rows <= size
    m, keeps = stream.metrics, options.get("maintain_order")
    table = pa.Table.from_batches(batches, stream.schema)
    rows = _in_ticks(table, options.get("aggregate", {})).to_pylist()
    assert (m.rows_out, m.state_rows) == (len(rows), 0)
    assert (m.left_rows_retired, m.right_rows_retired) == (m.left_rows_in, m.right_rows_in)
    assert came is None or (m.left_rows_in, m.right_rows_in) == came
    if keeps is None and isinstance(stream._run.operator, TableLookup):
        numbers = [row["id"] for row in rows if row["id"] is not None]
        assert numbers == sorted(numbers), "left rows have moved"
    if keeps is not None:
        names, end = ("rid", "id") if keeps.startswith("right") else ("id", "rid"), len(rows) + 1 << 40
        keys = [tuple(end if row[n] is None else row[n] for n in names[: 1 + ("_" in keeps)]) for row in rows]
        assert keys == sorted(keys), f"another order than {keeps}"
    return [tuple(row.values()) for row in rows]


def compare(kind: str, seed: int, given: str = "") -> tuple[int, str]:
    """Join random inputs both ways; return the rows and what joined them; fail where rows differ.

    ``given`` is one of ``INPUTS``, at random by default.
    """
    r = random.Random(f"{kind} {seed} {given}")
    times, names = r.choice(TIMES[kind]), r.choice(KEYS)
    if kind == "previous" and names == "decimal":  # two scales are compared as a residual, which it refuses
        names = "near"
    many = 0 if r.random() > 0.1 else 2500 if kind == "asof" else 700
    drawn = Drawn(times, names, r.random() < 0.6, many, r.choice(WORDS))
    cut = nullcontext() if drawn.many else small_slices(r)
    with tempfile.TemporaryDirectory() as folder, cut, duckdb.connect(config={"threads": 1}) as db:
        inputs = Inputs(given or r.choice(INPUTS), r, Path(folder))
        left = inputs.arranged(side(r, "id", "t", drawn), "id", "t")
        right = inputs.arranged(side(r, "rid", "u", drawn), "rid", "u")
        join, options, query = KINDS[kind](r, drawn, inputs)
        for name, rows, time in (("l", left, "t"), ("r", right, "u")):
            wide = f" REPLACE ({time}::HUGEINT AS {time})" if times in ("ends", "uint64", "int16") else ""
            db.register(f"{name}_rows", _in_ticks(rows))
            db.execute(f"CREATE TABLE {name} AS SELECT *{wide} FROM {name}_rows")
        wanted = sorted(db.sql(query).fetchall(), key=str)  # no two rows with doubles have one id
        rounded, first = _ROUNDED.search(query) is not None, None
        for threads in (1, r.choice((2, 3, 16))) if inputs.kind == "tables" else (r.choice((1, 2, 3, 16)),):
            sides, more = inputs.opened(left, right)
            more["threads"] = 1 if "memory_limit" in more else threads
            stream = join(*sides, **options, **more)
            came = (left.num_rows, right.num_rows) if inputs.kind in ("tables", "streams") else None
            try:
                found = _joined(stream, more["batch_size"], came, options)
            except MemoryLimitError:
                if more["memory_limit"] == "1MB" and "offsets" not in options:  # each lookup has a part of the limit
                    raise
                return 0, "refused"
            got = sorted(found, key=str)
            differ = [(a, b) for a, b in zip(got, wanted) if not _rows_alike(a, b, rounded, options)]
            what = (kind, seed, inputs.kind, threads, query, options)
            assert len(got) == len(wanted) and not differ, (*what, len(got), len(wanted), differ[:3])
            if "memory_limit" not in more:
                assert first is None or str(found) == first, (*what, "another order")
                first = str(found)
    return len(got), type(stream._run.operator).__name__
