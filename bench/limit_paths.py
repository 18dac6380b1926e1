"""The paths by which the rows of ``python -m bench.limit`` reach a join."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.limit_cases import WINDOW, Case, batch_of, batches_of, question_of, whole_of

__all__ = ["WAYS"]

_SIDES = ("left", "right")
Join = Callable[..., tuple[Any, Iterable[int]]]  # of a limit: what has the metrics, and the rows of each output batch


def _pushed(case: Case, share: float, rows: int, _: Path) -> Join:
    from ivjoin import SymmetricHashJoin

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        schema = batch_of(case, share, 0, 0, 1).schema
        op = SymmetricHashJoin(schema, schema, **question_of(case, share), **limit)

        def out() -> Iterator[int]:
            for both in zip(*(batches_of(case, share, rows // 2, s) for s in (0, 1)), strict=True):
                for side, batch in zip(_SIDES, both, strict=True):
                    for found in op.push(side, batch):
                        yield found.num_rows
            for found in op.finish():
                yield found.num_rows

        return op, out()

    return join


def _at_once(case: Case, share: float, rows: int, _: Path) -> Join:
    from ivjoin import SymmetricHashJoin

    sides = [whole_of(case, share, rows // 2, s, False).combine_chunks().to_batches()[0] for s in (0, 1)]

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        schema = sides[0].schema
        op = SymmetricHashJoin(schema, schema, **question_of(case, share), **limit)
        return op, (out.num_rows for side, batch in zip(_SIDES, sides, strict=True) for out in op.push(side, batch))

    return join


def _pulled(case: Case, share: float, rows: int, _: Path, threads: int = 1) -> Join:
    from ivjoin import band_join

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        schema = batch_of(case, share, 0, 0, 1).schema
        left, right = (pa.RecordBatchReader.from_batches(schema, batches_of(case, share, rows // 2, s)) for s in (0, 1))
        stream = band_join(left, right, **question_of(case, share), threads=threads, **limit)
        return stream, (out.num_rows for out in stream)

    return join


def _of_tables(case: Case, share: float, rows: int, _: Path, ordered: bool = True, threads: int = 1) -> Join:
    from ivjoin import band_join

    left, right = (whole_of(case, share, rows // 2, s, not ordered) for s in (0, 1))

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        stream = band_join(left, right, **question_of(case, share, ordered), threads=threads, **limit)
        return stream, (out.num_rows for out in stream)

    return join


def _written(case: Case, share: float, rows: int, folder: Path, ordered: bool) -> list[Path]:
    paths = []
    for s, side in enumerate(_SIDES):
        path = folder / f"{side} {rows} {ordered} {case.payload}.parquet"
        if not path.exists():
            pq.write_table(whole_of(case, share, rows // 2, s, not ordered), path, row_group_size=1 << 17)
        paths.append(path)
    return paths


def _of_files(case: Case, share: float, rows: int, folder: Path, ordered: bool = True) -> Join:
    from ivjoin import band_join

    left, right = map(str, _written(case, share, rows, folder, ordered))

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        stream = band_join(left, right, **question_of(case, share, ordered), **limit)
        return stream, (out.num_rows for out in stream)

    return join


class _Said:
    """Metrics that a command has written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def metrics(self) -> Any:
        return argparse.Namespace(**json.loads(self._path.read_text()))


def _commanded(case: Case, share: float, rows: int, folder: Path) -> Join:
    from ivjoin.cli import main as command

    paths = _written(case, share, rows, folder, True)
    said, asked = folder / "metrics.json", question_of(case, share)

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        words = ["join", *map(str, paths), "--on", "k", "--condition", asked["condition"], "-q"]
        words += ["--left-order", "t", "--right-order", "t", "--metrics-json", str(said)]
        words += ["-o", str(folder / "out.arrow")]
        if "memory_limit" in limit:
            words += ["--memory-limit", str(limit["memory_limit"])]
            words += ["--when-full", "spill", "--spill-dir", limit["when_full"].dir]

        def out() -> Iterator[int]:
            if command(words):
                raise RuntimeError("the command has failed")
            yield int(_Said(said).metrics.rows_out)

        return _Said(said), out()

    return join


_ALIASES = ("a", "b", "c")


def _many(case: Case, share: float, rows: int, _: Path, pushed: bool) -> Join:
    from ivjoin import MultiJoin, multi_join

    window = max(10, int(WINDOW * share))
    condition = f"a.k = b.k AND b.k = c.k AND abs(a.t - b.t) <= {window} AND abs(b.t - c.t) <= {window}"
    orders = dict.fromkeys(_ALIASES, "t")
    schema = batch_of(case, share, 0, 0, 1).schema

    def sides() -> list[Iterator[pa.RecordBatch]]:
        return [batches_of(case, share, rows // 3, s) for s in range(3)]

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        if not pushed:
            readers = {a: pa.RecordBatchReader.from_batches(schema, s) for a, s in zip(_ALIASES, sides(), strict=True)}
            stream = multi_join(readers, condition, orders=orders, **limit)
            return stream, (out.num_rows for out in stream)
        op = MultiJoin(dict.fromkeys(_ALIASES, schema), condition, orders=orders, **limit)

        def out() -> Iterator[int]:
            for three in zip(*sides(), strict=True):
                for alias, batch in zip(_ALIASES, three, strict=True):
                    for found in op.push(alias, batch):
                        yield found.num_rows

        return op, out()

    return join


def _asof(case: Case, share: float, rows: int, folder: Path, in_files: bool = False) -> Join:
    from ivjoin import asof_join

    if in_files:
        left, right = map(str, _written(case, share, rows, folder, False))
    else:
        left, right = (whole_of(case, share, rows // 2, s, True) for s in (0, 1))

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        stream = asof_join(left, right, on="t", by="k", **limit)
        return stream, (out.num_rows for out in stream)

    return join


def _asof_pushed(case: Case, share: float, rows: int, _: Path) -> Join:
    """The right side comes a window after the left one."""
    from ivjoin import Pick, SymmetricHashJoin

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        schema = batch_of(case, share, 0, 0, 1).schema
        op = SymmetricHashJoin(
            schema, schema, on="k", condition="r.t <= l.t", how="left", left_order="t", right_order="t",
            pick=Pick("t", "last"), **limit,
        )
        left, right = (batches_of(case, share, rows // 2, s) for s in (0, 1))
        behind = max(10, int(WINDOW * share)) // case.batch

        def out() -> Iterator[int]:
            for i, batch in enumerate(left):
                for found in op.push("left", batch):
                    yield found.num_rows
                for found in op.push("right", next(right)) if i >= behind else ():
                    yield found.num_rows
            for batch in right:
                for found in op.push("right", batch):
                    yield found.num_rows
            for found in op.finish():
                yield found.num_rows

        return op, out()

    return join


def _windows(case: Case, share: float, rows: int, _: Path) -> Join:
    """All left rows wait for a later window; what they take of it is text."""
    from ivjoin import window_join

    window = max(10, int(WINDOW * share))

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        schema = batch_of(case, share, 0, 0, 1).schema
        left, right = (pa.RecordBatchReader.from_batches(schema, batches_of(case, share, rows // 2, s)) for s in (0, 1))
        stream = window_join(
            left, right, condition=f"r.t BETWEEN l.t - {window} AND l.t + {window}", left_order="t", right_order="t",
            aggregate={"first": "first(r.p)", "last": "last(r.p)", "total": "sum(r.u)"}, **limit,
        )
        return stream, (out.num_rows for out in stream)

    return join


WAYS: dict[str, Callable[[Case, float, int, Path], Join]] = {
    "push": _pushed,
    "one push": _at_once,
    "pull": _pulled,
    "threads": partial(_pulled, threads=2),
    "tables": _of_tables,
    "out of order": partial(_of_tables, ordered=False),
    "threads, tables": partial(_of_tables, threads=2),
    "files": _of_files,
    "files out of order": partial(_of_files, ordered=False),
    "command line": _commanded,
    "many pushed": partial(_many, pushed=True),
    "many": partial(_many, pushed=False),
    "as-of": _asof,
    "as-of, files": partial(_asof, in_files=True),
    "as-of, pushed": _asof_pushed,
    "windows": _windows,
}
