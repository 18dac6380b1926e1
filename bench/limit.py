"""Measure the peak memory of a process that joins 10^7 rows with half of the memory that the join needs.

    python -m bench.limit                            # all cases, about an hour; prints a table
    python -m bench.limit --cases "push; *" --rows 1000000
    python -m bench.limit --page docs/benchmarks-memory.md  # write the results so far into the page and a chart

Each case runs in a separate process. It first joins a few rows, so that all modules are loaded. It then waits until the
parent has recorded its resident size and reset its peak. The parent reads the peak after the join, before the process
ends. The first run has no memory limit, and shows how much memory the join needs and how many rows it emits. The second
run has half of this memory. Results are appended to ``bench/results/limit.jsonl``. For each case and number of rows,
the last result counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from bench import charts
from bench.cell import memory
from bench.limit_cases import CASES, ROWS, Case
from bench.limit_paths import WAYS
from bench.runner import RESULTS, append
from bench.tables import table

__all__ = ["BEYOND", "CASES", "Case", "main", "measured", "run", "status"]

BEYOND = 64_000_000  # bytes that a process may take beside its limit
_FEW = 20_000  # rows that are joined before the first look
_SMALL_LIMIT = 600_000
_NEVER_REACHED = 1 << 40  # bytes; without any limit, tables are joined where they lie


# -- a process, and who looks at it ----------------------------------------------------------------------------------


def _child(asked: dict[str, Any]) -> None:
    """Join a few rows, say so, wait for a word, join all, tell what came, and wait to be looked at."""
    from ivjoin import MemoryLimitError, Spill
    from ivjoin.shj.store.disk.process_memory import give_back

    case, share, folder = Case(**asked["case"]), asked["share"], Path(asked["folder"])
    few = asked["case"] | {"batch": min(case.batch, 1024)}
    within = {"when_full": Spill(asked["folder"]) if case.full == "spill" else case.full}
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


def status(name: str, process: int | str = "self") -> int:
    """Return a figure of a process in bytes, such as VmRSS.

    Raises
    ------
    ValueError
        If the system does not report it.
    """
    found = memory(name, process)
    if not found:
        raise ValueError(f"the system does not tell {name}")
    return found


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
            start = status("VmRSS", process.pid)
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # the peak begins anew
            process.stdin.write("go\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line.startswith("{"):
                raise RuntimeError(f"{case} has failed")
            said: dict[str, Any] = json.loads(line)
            return said | {"over": status("VmHWM", process.pid) - start, "limit": limit}
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
    free = measured(case, rows, _NEVER_REACHED if "tables" in name or "out of order" in name else 0, folder, share)
    half = measured(case, rows, free["need"] // 2, folder, share)
    said = f"{name}: {half['found']:,} rows came, of {free['found']:,}"
    if half["refused"]:
        said += "; refused: keys and the index of rows stay in memory (--share 0.1: a tenth of the keys)"
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
    head = ["path", "rows", "needed", "peak without a limit", "limit", "peak", "above the limit", "CPU factor"]
    return table(head, lines)


def _so_far(path: Path) -> list[dict[str, Any]]:
    """The last record of each case with the most rows, in the order of the cases."""
    last: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        r = json.loads(line)
        if r["kind"] == "limit" and r["rows"] >= last.get(r["case"], r)["rows"]:
            last[r["case"]] = r
    return [last[name] for name in CASES if name in last]


def _chart(records: Sequence[dict[str, Any]], folder: Path) -> str:
    """Draw the peaks of each path with its limit and without; return the name of the file."""
    plt = charts.pyplot()
    figure, axis = plt.subplots(figsize=(7, 0.22 * len(records) + 1))
    for y, r in enumerate(reversed(records)):
        axis.plot([r["limit"] / 1e6, (r["limit"] + BEYOND) / 1e6], [y, y], color="#cccccc", linewidth=6, zorder=1)
        axis.plot(r["free"] / 1e6, y, "o", markerfacecolor="none", color="#0b5394", zorder=2)
        axis.plot(r["over"] / 1e6, y, "o", color="#c1272d", zorder=3)
    axis.plot([], [], color="#cccccc", linewidth=6, label="from the limit to 64 MB above it")
    axis.plot([], [], "o", color="#c1272d", label="peak with the limit")
    axis.plot([], [], "o", markerfacecolor="none", color="#0b5394", label="peak without a limit")
    axis.set(xscale="log", xlabel="MB above the size at the start")
    axis.set_yticks(range(len(records)), [f"{r['case']}, {r['rows']:,} rows" for r in reversed(records)])
    axis.legend(loc="upper center", bbox_to_anchor=(0.3, -0.08 - 0.3 / len(records)), ncols=3, frameon=False)
    return charts.save(figure, folder / "benchmarks-limit.svg")


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
        found = _so_far(options.out)
        _into(options.page, _lines(found))
        _chart(found, options.page.parent)
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
