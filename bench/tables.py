"""Result records as Markdown tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = [
    "Cells", "ahead_table", "bound_table", "cold_table", "family_table", "geometric_mean", "losses_table",
    "machine_text", "memory_table", "net", "planning_table", "pushes_table", "seed_grid", "state_table", "weak_table",
]  # fmt: skip

Record = dict[str, Any]


class Cells:
    """The cells of all result files; of two for the same case, peer and batch the later counts."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._at = {(r["case"], r["peer"], r["batch"]): r for r in records}

    def get(self, case: str, peer: str, batch: int | None = None) -> Record | None:
        return self._at.get((case, peer, batch))

    def family(self, name: str) -> list[Record]:
        return [r for r in self._at.values() if r["family"] == name]

    def all(self) -> list[Record]:
        return list(self._at.values())

    def seed_rows(self) -> list[int]:
        return sorted({int(c["case"].split("/")[2].split()[0]) for c in self.family("seed")})


def net(r: Record, field: str = "cpu_seconds") -> float:
    """Time without the input's own, and without handing the output to Python where that was measured.

    Never below a hundredth of the whole.
    """
    whole = min(r[field], r.get(f"engine_{field}", r[field]))
    return max(whole - r.get(f"input_{field}", 0.0), whole / 100)


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join("---" for _ in head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows])


def seconds(v: float) -> str:
    return f"{v:.1f}" if v >= 10 else f"{v:.3f}" if v >= 0.01 else f"{v:.4f}"


def size(v: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if v < 1000 or unit == "GB":
            break
        v /= 1000
    return f"{v:.0f} {unit}" if v >= 10 or unit == "B" else f"{v:.1f} {unit}"


def said(r: Record | None) -> str:
    """Return a cell's time, or the reason why it is missing."""
    if r is None:
        return ""
    if r["status"] == "ok":
        return seconds(r["seconds"])
    detail = r.get("detail", "").replace("over ", "> ").replace("would hold", "needs memory for")
    return {
        "refused": detail, "slow": detail, "memory": detail,
        "cannot": "the engine raises an error", "failed": "failed", "wrong": "wrong answer",
    }[r["status"]]  # fmt: skip


def seed_grid(cells: Cells, rows: int) -> tuple[str, list[float]]:
    """Return ivjoin and DataFusion's symmetric join by cardinality and batch size, and the ratios of CPU times."""
    lines, ratios = [], []
    for card in (8, 64, 1024):
        case = f"seed/{card} keys/{rows} rows"
        for batch in (128, 512, 2048, 4096):
            a, b = cells.get(case, "ivjoin", batch), cells.get(case, "DataFusion SHJ", batch)
            if a is None or a["status"] != "ok":
                continue
            line = [str(card), str(batch), seconds(a["seconds"]), seconds(a["cpu_seconds"])]
            if b is None or b["status"] != "ok":
                lines.append([*line, said(b), "", "", ""])
                continue
            ratios.append(net(b) / net(a))
            lines.append(
                [*line, seconds(b["seconds"]), seconds(b["cpu_seconds"]), seconds(net(b)), f"{ratios[-1]:.2f}"]
            )
    head = ("keys", "batch", "ivjoin s", "CPU", "DataFusion SHJ s", "CPU", "net CPU", "net / ivjoin")
    return (table(head, lines) if lines else ""), ratios


def family_table(cells: Cells, family: str) -> str:
    """Return the seconds of all engines for the cases of a family, or the reasons why they are missing."""
    records = cells.family(family)
    if not records:
        return ""
    peers = list(dict.fromkeys(r["peer"] for r in records))
    cases = list(dict.fromkeys(r["case"] for r in records))
    lines = []
    for case in cases:
        batches = list(dict.fromkeys(r["batch"] for r in records if r["case"] == case and r["batch"] is not None))
        for i, batch in enumerate(batches or [None]):
            row = []
            for peer in peers:
                r = cells.get(case, peer, batch)
                row.append(said(r if r is not None else cells.get(case, peer, None) if i == len(batches) - 1 else None))
            rows = max((r["rows_expected"] for r in records if r["case"] == case), default=0)
            lines.append([case, str(batch or ""), f"{rows:,}", *row])
    return table(("case", "batch", "rows out", *(f"{p} s" for p in peers)), lines)


def ahead_table(cells: Cells) -> str:
    """Return the cases in which another engine is faster than ivjoin, each at its best batch size."""
    best: dict[str, dict[str, float]] = {}
    for r in cells.all():
        if r["status"] == "ok":
            peers = best.setdefault(r["case"], {})
            peers[r["peer"]] = min(r["seconds"], peers.get(r["peer"], math.inf))
    lines = []
    for case, peers in best.items():
        own = min((s for p, s in peers.items() if p.startswith("ivjoin")), default=math.inf)
        other = min((p for p in peers if not p.startswith("ivjoin")), key=peers.__getitem__, default="")
        if other and peers[other] < own < math.inf:
            lines.append([case, seconds(own), seconds(peers[other]), other])
    return table(("case", "ivjoin s", "fastest other engine s", "engine"), lines) if lines else ""


def state_table(cells: Cells) -> str:
    """Return the state and memory of ivjoin and the peak memory of the others, for cases of 10^6 rows and more."""
    lines = []
    for r in cells.all():
        if r["peer"] != "ivjoin" or r["status"] != "ok" or r["rows_in"] < 10**6:
            continue
        others = [
            (o["memory_added"], o["peer"]) for o in cells.all()
            if o["case"] == r["case"] and o["status"] == "ok" and not o["peer"].startswith("ivjoin")
        ]  # fmt: skip
        least = min(others, default=None)
        held = r["peak_state_rows"]
        lines.append([
            r["case"], str(r["batch"]), f"{held:,}", size(r["peak_state_bytes"]),
            f"{r['peak_state_bytes'] / max(held, 1):.0f}", size(r["peak_memory"]), size(r["memory_added"]),
            f"{size(least[0])} ({least[1]})" if least else "",
        ])  # fmt: skip
    head = (
        "case", "batch", "peak state rows", "peak state", "bytes per row", "process peak", "added",
        "least added by others",
    )  # fmt: skip
    return table(head, lines) if lines else ""


def memory_table(records: list[Record]) -> str:
    """Return the bytes of state for each byte of payload."""
    lines = [
        [
            r["rows"], f"{r['window']:,}", f"{r['state_rows']:,}",
            *(f"{r[k]:.{d}f}" for k, d in (("payload_bytes", 1), ("state_bytes", 1), ("ratio", 2))),
        ]
        for r in records if r["kind"] == "memory"
    ]  # fmt: skip
    head = ("rows", "window, rows per side", "state rows", "payload, bytes per row", "state, bytes per row", "ratio")
    return table(head, lines) if lines else ""


def bound_table(cells: Cells) -> str:
    """Return ivjoin's time and the time for copying its input and output."""
    lines = [
        [
            r["case"], str(r["batch"]), seconds(r["cpu_seconds"]), size(r["bytes_moved"]), seconds(r["copy_seconds"]),
            f"{r['cpu_seconds'] / r['copy_seconds']:.0f}",
        ]
        for r in cells.all()
        if r["peer"] == "ivjoin" and r["status"] == "ok" and r["rows_in"] >= 10**6
    ]  # fmt: skip
    head = ("case", "batch", "CPU s", "bytes in and out", "numpy copy of them, s", "ratio")
    return table(head, lines) if lines else ""


def pushes_table(records: list[Record]) -> str:
    lines = [
        [r["case"], str(r["batch"]), f"{r['pushes']:,}", *(f"{r[k]:.1f}" for k in ("cpu_us", "median_us", "p99_us"))]
        for r in records if r["kind"] == "push"
    ]  # fmt: skip
    head = ("case", "rows per push", "pushes", "CPU microseconds per push", "median", "99th percentile")
    return table(head, lines) if lines else ""


def planning_table(records: list[Record]) -> str:
    lines = [
        [r["name"], f"{r['value']:.3g} {r['unit']}".replace(" us", " microseconds")]
        for r in records if r["kind"] == "planning"
    ]  # fmt: skip
    return table(("step", "time"), lines) if lines else ""


def cold_table(records: list[Record]) -> str:
    lines = [
        [r["what"], seconds(r["seconds"]), seconds(r["fastest"]), seconds(r["slowest"])]
        for r in records if r["kind"] == "cold"
    ]  # fmt: skip
    head = ("from the start of a process to the last row of a small join", "seconds", "least", "most")
    return table(head, lines) if lines else ""


def losses_table(records: list[Record]) -> str:
    lines = []
    for r in records:
        if r["kind"] == "lost":
            row = [r["family"], "`" + r["condition"].replace("|", "\\|") + "`"]
            for system in ("datafusion", "ivjoin"):
                s = r[system]
                row.append("the engine raises an error" if "error" in s else f"{s['lost']} of {s['expected']}")
            lines.append(row)
    return table(("family", "condition", "lost by DataFusion SHJ", "lost by ivjoin"), lines) if lines else ""


def weak_table(records: list[Record]) -> str:
    lines = []
    for r in records:
        if r["kind"] == "weak":
            other = r["datafusion"]
            grows = other.get("quarter") and other["state_bytes"] > 2 * other["quarter"]
            said_ = size(other["state_bytes"]) if "state_bytes" in other else other["why"]
            said_ += ", grows with the rows" if grows else ""
            lines.append([
                "`" + r["condition"].replace("|", "\\|") + "`", str(r["window"]), f"{r['peak_state_rows']:,}",
                size(r["peak_state_bytes"]), size(r["end_state_bytes"]), said_,
            ])  # fmt: skip
    head = (
        "condition", "window, rows", "ivjoin: peak rows", "peak state", "state before the end",
        "DataFusion: state at its end",
    )  # fmt: skip
    return table(head, lines) if lines else ""


def machine_text(machines: list[Record]) -> str:
    if not machines:
        return "unknown"
    m = machines[-1]
    versions = ", ".join(f"{k} {v}" for k, v in m["versions"].items())
    runs = "\n".join(f"- `{x['command']}`, {x['started']}, load {x['load']:.1f} at its start" for x in machines)
    return f"{m['cpu']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']}; {versions}.\n\n{runs}"
