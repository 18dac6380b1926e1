"""The paths of ``python -m bench.limit``: what rows are, in which ways they come, and what is asked of them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["CASES", "ROWS", "WAYS", "Case"]

ROWS, WINDOW, KEYS = 10_000_000, 500_000, 1_000_000
_WORDS = 1000
_SIDES = ("left", "right")


@dataclass(frozen=True)
class Case:
    """What rows are and how they come.

    Attributes
    ----------
    way : str
        A key of ``WAYS``.
    payload : {"fixed", "text", "struct", "list", "dictionary"}
        Some 80 to 100 bytes of each row.
    key : {"number", "text", "few", "none"}
        A thousandth as many, and a second band, where they are few.
    full : {"spill", "raise", "shed"}
    residual : bool
        Whether something is left to be decided pair by pair.
    how : str
    batch : int
        Rows of a batch.
    """

    way: str
    payload: str = "fixed"
    key: str = "number"
    full: str = "spill"
    residual: bool = False
    how: str = "inner"
    batch: int = 8192


CASES: dict[str, Case] = {
    "push; dictionary": Case("push", "dictionary"),
    "push; struct": Case("push", "struct"),
    "push; no key": Case("push", key="none"),
    "one push": Case("one push"),
    "one push; list": Case("one push", "list"),
    "three inputs, pushed": Case("many pushed"),
    "three inputs": Case("many"),
    "threads, streams": Case("threads"),
    "threads, tables": Case("threads, tables"),
    "tables out of order": Case("out of order"),
    "tables": Case("tables", "text"),
    "files": Case("files", "text"),
    "files out of order": Case("files out of order", "text"),
    "command line": Case("command line", "text"),
    "push; 80 bytes": Case("push"),
    "push; text": Case("push", "text"),
    "push; list": Case("push", "list"),
    "push; text keys": Case("push", key="text"),
    "push; few keys": Case("push", key="few"),
    "push; residual": Case("push", residual=True),
    "push; full": Case("push", "text", how="full"),
    "push; 256 rows": Case("push", batch=256),
    "streams": Case("pull", "text"),
    "streams; list": Case("pull", "list"),
    "as-of, tables out of order": Case("as-of", "text"),
    "as-of, files out of order": Case("as-of, files", "text"),
    "as-of, pushed": Case("as-of, pushed", "text"),
    "push; raise": Case("push", "text", full="raise"),
    "push; shed": Case("push", "text", full="shed"),
    "push; shed, list": Case("push", "list", full="shed"),
}


# -- rows ----------------------------------------------------------------------------------------------------------


def _payload(kind: str, rng: np.random.Generator, n: int) -> pa.Array:
    if kind == "fixed":
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(80), n, [None, pa.py_buffer(rng.random(10 * n))])
    if kind == "list":
        return pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32) * 10, pa.array(rng.random(10 * n)))
    words, which = _words(), pa.array(rng.integers(0, _WORDS, n), pa.int32())
    if kind == "dictionary":
        return pa.DictionaryArray.from_arrays(which, words)
    text = words.take(which)
    return text if kind == "text" else pa.StructArray.from_arrays([pa.array(rng.random(n)), text], ["a", "b"])


def _words() -> pa.Array:
    return pa.array([f"{x:08d}" * 12 for x in range(_WORDS)])


def _batch(case: Case, share: float, i: int, side: int, n: int) -> pa.RecordBatch:
    """The i-th n rows of a side."""
    rng = np.random.default_rng((i, side))
    keys = max(2, int(KEYS * share / (1000 if case.key == "few" else 1)))
    k = pa.array(rng.integers(0, keys, n))
    if case.key == "text":
        k = pa.compute.binary_join_element_wise(k.cast(pa.string()), "a key of text", " ")
    t = np.arange(i * n, i * n + n)
    return pa.record_batch({"k": k, "t": t, "u": rng.random(n), "p": _payload(case.payload, rng, n)})


def _batches(case: Case, share: float, rows: int, side: int) -> Iterator[pa.RecordBatch]:
    for i in range(max(1, rows // case.batch)):
        yield _batch(case, share, i, side, case.batch)


def _whole(case: Case, share: float, rows: int, side: int, shuffled: bool) -> pa.Table:
    out = pa.Table.from_batches(_batches(case, share, rows, side))
    return out.take(pa.array(np.random.default_rng(side).permutation(len(out)))) if shuffled else out


def _question(case: Case, share: float, ordered: bool = True) -> dict[str, Any]:
    window = max(10, int(WINDOW * share))
    condition = f"abs(l.t - r.t) <= {window}"
    if case.key == "none":
        condition += f" AND abs(l.u - r.u) < {0.3 / window}"
    elif case.key == "few":
        condition += " AND abs(l.u - r.u) < 0.002"
    if case.residual:
        condition += " AND (l.u < r.u OR l.p <> r.p)"
    asked: dict[str, Any] = {"condition": condition, "how": case.how}
    if case.key != "none":
        asked["on"] = "k"
    return asked | ({"left_order": "t", "right_order": "t"} if ordered else {})


# -- ways ----------------------------------------------------------------------------------------------------------

Join = Callable[..., tuple[Any, Iterable[int]]]  # of a limit: what has the metrics, and the rows of each output batch


def _pushed(case: Case, share: float, rows: int, _: Path) -> Join:
    from ivjoin import SymmetricHashJoin

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        schema = _batch(case, share, 0, 0, 1).schema
        op = SymmetricHashJoin(schema, schema, **_question(case, share), **limit)

        def out() -> Iterator[int]:
            for both in zip(*(_batches(case, share, rows // 2, s) for s in (0, 1)), strict=True):
                for side, batch in zip(_SIDES, both, strict=True):
                    for found in op.push(side, batch):
                        yield found.num_rows
            for found in op.finish():
                yield found.num_rows

        return op, out()

    return join


def _at_once(case: Case, share: float, rows: int, _: Path) -> Join:
    from ivjoin import SymmetricHashJoin

    sides = [_whole(case, share, rows // 2, s, False).combine_chunks().to_batches()[0] for s in (0, 1)]

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        schema = sides[0].schema
        op = SymmetricHashJoin(schema, schema, **_question(case, share), **limit)
        return op, (out.num_rows for side, batch in zip(_SIDES, sides, strict=True) for out in op.push(side, batch))

    return join


def _pulled(case: Case, share: float, rows: int, _: Path, threads: int = 1) -> Join:
    from ivjoin import band_join

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        schema = _batch(case, share, 0, 0, 1).schema
        left, right = (pa.RecordBatchReader.from_batches(schema, _batches(case, share, rows // 2, s)) for s in (0, 1))
        stream = band_join(left, right, **_question(case, share), threads=threads, **limit)
        return stream, (out.num_rows for out in stream)

    return join


def _of_tables(case: Case, share: float, rows: int, _: Path, ordered: bool = True, threads: int = 1) -> Join:
    from ivjoin import band_join

    left, right = (_whole(case, share, rows // 2, s, not ordered) for s in (0, 1))

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        stream = band_join(left, right, **_question(case, share, ordered), threads=threads, **limit)
        return stream, (out.num_rows for out in stream)

    return join


def _written(case: Case, share: float, rows: int, folder: Path, ordered: bool) -> list[Path]:
    paths = []
    for s, side in enumerate(_SIDES):
        path = folder / f"{side} {rows} {ordered} {case.payload}.parquet"
        if not path.exists():
            pq.write_table(_whole(case, share, rows // 2, s, not ordered), path, row_group_size=1 << 17)
        paths.append(path)
    return paths


def _of_files(case: Case, share: float, rows: int, folder: Path, ordered: bool = True) -> Join:
    from ivjoin import band_join

    left, right = map(str, _written(case, share, rows, folder, ordered))

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        stream = band_join(left, right, **_question(case, share, ordered), **limit)
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
    said, asked = folder / "metrics.json", _question(case, share)

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        words = ["join", *map(str, paths), "--on", "k", "--condition", asked["condition"], "-q"]
        words += ["--left-order", "t", "--right-order", "t", "--metrics-json", str(said)]
        words += ["-o", str(folder / "out.arrow")]
        words += [w for name, value in limit.items() for w in ("--" + name.replace("_", "-"), str(value))]

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
    schema = _batch(case, share, 0, 0, 1).schema

    def sides() -> list[Iterator[pa.RecordBatch]]:
        return [_batches(case, share, rows // 3, s) for s in range(3)]

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
        left, right = (_whole(case, share, rows // 2, s, True) for s in (0, 1))

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        stream = asof_join(left, right, on="t", by="k", **limit)
        return stream, (out.num_rows for out in stream)

    return join


def _asof_pushed(case: Case, share: float, rows: int, _: Path) -> Join:
    """The right side comes a window after the left one."""
    from ivjoin import Pick, SymmetricHashJoin

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        schema = _batch(case, share, 0, 0, 1).schema
        op = SymmetricHashJoin(
            schema, schema, on="k", condition="r.t <= l.t", how="left", left_order="t", right_order="t",
            pick=Pick("t", "last"), **limit,
        )
        left, right = (_batches(case, share, rows // 2, s) for s in (0, 1))
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
}
