"""A process and its memory limit: 10^7 rows by every path within half of what the join needs, looked at from outside.

    python -m bench.limit                            # all cases, an hour or so; a table on standard output
    python -m bench.limit --cases "push; *" --rows 1000000
    python -m bench.limit --page docs/memory.md      # the results of all runs so far, into the page

Each case is a process that first joins a few rows, so that all is loaded, and then waits until this one has noted its
resident size and let its peak begin anew; the system's count of the peak is read when the join has ended, before the
process has. A run without a limit says what the join needs and how many rows come out; then comes one within half of
it. Results are appended to ``bench/results/limit.jsonl``, the last of each case and number of rows counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.runner import RESULTS, append
from bench.tables import table

__all__ = ["BEYOND", "CASES", "Case", "main", "measured", "run"]

BEYOND = 64_000_000  # bytes that a process may take beside its limit
ROWS, WINDOW, KEYS = 10_000_000, 500_000, 1_000_000
_WORDS = 1000
_FEW = 20_000  # rows that are joined before the first look
_SMALL_LIMIT = 600_000
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
    "push; raise": Case("push", "text", full="raise"),
    "push; shed": Case("push", "text", full="shed"),
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
        sides = (pa.RecordBatchReader.from_batches(schema, _batches(case, share, rows // 2, s)) for s in (0, 1))
        stream = band_join(*sides, **_question(case, share), threads=threads, **limit)
        return stream, (out.num_rows for out in stream)

    return join


def _of_tables(case: Case, share: float, rows: int, _: Path, ordered: bool = True, threads: int = 1) -> Join:
    from ivjoin import band_join

    sides = [_whole(case, share, rows // 2, s, not ordered) for s in (0, 1)]

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        stream = band_join(*sides, **_question(case, share, ordered), threads=threads, **limit)
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

    paths = _written(case, share, rows, folder, ordered)

    def join(**limit: Any) -> tuple[Any, Iterable[int]]:
        stream = band_join(*map(str, paths), **_question(case, share, ordered), **limit)
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
        words = ["join", *map(str, paths), "--on", "k", "--where", asked["condition"], "-q"]
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
}


# -- a process, and who looks at it ----------------------------------------------------------------------------------


def _child(asked: dict[str, Any]) -> None:
    """Join a few rows, say so, wait for a word, join all, tell what came, and wait to be looked at."""
    from ivjoin import MemoryLimitError
    from ivjoin.shj.store.backing import give_back

    case, share, folder = Case(**asked["case"]), asked["share"], Path(asked["folder"])
    few = asked["case"] | {"batch": min(case.batch, 1024)}
    within = {"when_full": case.full} | ({"spill_dir": asked["folder"]} if case.full == "spill" else {})
    small = WAYS[case.way](Case(**few), 0.01, _FEW, folder)
    for limit in ({"memory_limit": _SMALL_LIMIT, **within}, {}):
        with suppress(MemoryLimitError):
            sum(small(**limit)[1])
    join = WAYS[case.way](case, share, asked["rows"], folder)
    give_back()  # what making the inputs has left is no room to hide in
    print("ready", flush=True)
    sys.stdin.readline()
    spent, refused, found = time.process_time(), False, 0
    owner, out = join(**({"memory_limit": asked["limit"], **within} if asked["limit"] else {}))
    try:
        for n in out:
            found += n
    except MemoryLimitError:
        refused = True
    m = owner.metrics
    spilled = m.spilled_bytes + getattr(m, "reads", 0)
    said = {
        "found": found, "need": m.peak_state_bytes, "spilled": spilled, "refused": refused,
        "shed": getattr(m, "shed_left", 0) + getattr(m, "shed_right", 0), "cpu": time.process_time() - spent,
    }  # fmt: skip
    print(json.dumps(said), flush=True)
    sys.stdin.readline()


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise ValueError(f"the system does not tell {name}")


def measured(case: Case, rows: int, limit: int, folder: Path, share: float = 1.0) -> dict[str, Any]:
    """What a join in a process of its own has said, and by how many bytes its peak was ``over`` its start.

    Parameters
    ----------
    case : Case
    rows : int
        Of all inputs together.
    limit : int
        Bytes; 0 for none.
    folder : Path
        For files.
    share : float
        Of the window and the keys.

    Raises
    ------
    RuntimeError
        If the process fails.
    """
    asked = json.dumps({"case": asdict(case), "rows": rows, "limit": limit, "folder": str(folder), "share": share})
    with subprocess.Popen(
        [sys.executable, "-m", "bench.limit", "--child", asked], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, cwd=Path(__file__).parent.parent,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if process.stdout.readline().strip() != "ready":
                raise RuntimeError(f"{case} has failed before it began")
            start = _status(process.pid, "VmRSS")
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # the peak begins anew
            process.stdin.write("go\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line.startswith("{"):
                raise RuntimeError(f"{case} has failed")
            said: dict[str, Any] = json.loads(line)
            return said | {"over": _status(process.pid, "VmHWM") - start, "limit": limit}
        finally:
            process.kill()


def run(name: str, rows: int, folder: Path, share: float = 1.0) -> dict[str, Any]:
    """A record of a case: without a limit, and within half of what that needs.

    Raises
    ------
    AssertionError
        If other rows come out.
    """
    case = CASES[name]
    free = measured(case, rows, 0, folder, share)
    half = measured(case, rows, free["need"] // 2, folder, share)
    said = f"{name}: {half['found']:,} rows came, of {free['found']:,}"
    if case.full == "spill":
        assert half["found"] == free["found"], said
        assert half["need"] <= half["limit"], f"{name}: {half['need']:,} bytes held of {half['limit']:,}"
    else:
        assert half["found"] <= free["found"], said
        assert half["refused"] == (case.full == "raise"), name
    return {
        "kind": "limit", "case": name, "rows": rows, "need": free["need"], "free": free["over"], "found": free["found"],
        "free_cpu": free["cpu"], **{k: half[k] for k in ("limit", "over", "spilled", "shed", "cpu")},
    }  # fmt: skip


def _lines(records: Sequence[dict[str, Any]]) -> str:
    mb = "{:,.0f} MB".format
    lines = [
        [
            r["case"], f"{r['rows']:,}", mb(r["need"] / 1e6), mb(r["free"] / 1e6), mb(r["limit"] / 1e6),
            mb(r["over"] / 1e6), f"{(r['over'] - r['limit']) / 1e6:+,.0f} MB", f"{r['cpu'] / r['free_cpu']:.1f}",
        ]
        for r in records
    ]  # fmt: skip
    head = ["path", "rows", "needed", "peak without a limit", "limit", "peak", "beside the limit", "times the CPU"]
    return table(head, lines)


def _so_far(path: Path) -> list[dict[str, Any]]:
    """The last record of each case with the most rows, in the order of the cases."""
    last: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        r = json.loads(line)
        if r["kind"] == "limit" and r["rows"] >= last.get(r["case"], r)["rows"]:
            last[r["case"]] = r
    return [last[name] for name in CASES if name in last]


def _into(page: Path, text: str) -> None:
    """Put a table in place of the one that follows the line which names this command."""
    lines = page.read_text().splitlines()
    named = next(i for i, line in enumerate(lines) if "`python -m bench.limit`" in line)
    first = next(i for i in range(named, len(lines)) if lines[i].startswith("|"))
    last = next((i for i in range(first, len(lines)) if not lines[i].startswith("|")), len(lines))
    page.write_text("\n".join([*lines[:first], *text.splitlines(), *lines[last:]]) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cases; 1 if one of them went beyond."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cases", nargs="*", default=["*"], metavar="PATTERN")
    p.add_argument("--rows", type=int, default=ROWS)
    p.add_argument("--share", type=float, default=1.0, help="of the window and the keys")
    p.add_argument("--out", type=Path, default=RESULTS / "limit.jsonl")
    p.add_argument("--page", type=Path, help="run nothing, and put what was found so far there")
    p.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    options = p.parse_args(arguments)
    if options.child:
        _child(options.child)
        return 0
    if options.page:
        _into(options.page, _lines(_so_far(options.out)))
        return 0
    records = []
    for name in CASES:
        if any(fnmatch(name, pattern) for pattern in options.cases):
            with tempfile.TemporaryDirectory() as folder:
                records.append(run(name, options.rows, Path(folder), options.share))
            append(options.out, records[-1])
            print(_lines(records[-1:]).splitlines()[-1], flush=True)
    print(_lines(records))
    return int(any(r["over"] > r["limit"] + BEYOND for r in records))


if __name__ == "__main__":
    raise SystemExit(main())
