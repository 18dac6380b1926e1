"""State rows over the micro-batches of ``bench/spark_streams.py --case numeric``, as a chart.

    python bench/spark_streams.py --case numeric --results bench/results/spark-streams.jsonl
    python bench/spark_state.py bench/results/spark-streams.jsonl   # writes docs/spark-state.svg
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

_LABELS = {
    "ivjoin": "ivjoin, k and the band", "native": "Spark's own join, k and the band",
    "ivjoin-keyless": "ivjoin, the band alone",
}
_STYLES = {
    "ivjoin": {"color": "#c1272d"}, "native": {"color": "#0b5394"},
    "ivjoin-keyless": {"color": "#e69138", "linestyle": "--"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent.parent / "docs" / "spark-state.svg")
    args = parser.parse_args()
    import matplotlib

    matplotlib.use("Agg")
    # A fixed salt and no date: the same results give the same file.
    matplotlib.rcParams |= {"svg.hashsalt": "ivjoin", "font.size": 9}
    matplotlib.rcParams |= {"axes.spines.top": False, "axes.spines.right": False}
    import matplotlib.pyplot as plt

    # The last result of each engine counts.
    records = map(json.loads, args.results.read_text().splitlines())
    found = {r["engine"]: r for r in records if r.get("case") == "numeric"}
    figure, axis = plt.subplots(figsize=(6, 3))
    for engine, label in _LABELS.items():
        if engine in found:
            state = found[engine]["state"]
            axis.semilogy(range(1, len(state) + 1), [max(n, 1) for n in state], label=label, **_STYLES[engine])
    rows = next(iter(found.values()))
    each = f"{rows['rows'] // rows['batches']:,}"
    axis.set(xlabel=f"micro-batch ({each} rows a side each)", ylabel="state rows", ylim=(0.8, None))
    axis.set_title("l.x BETWEEN r.x - 5 AND r.x + 5", fontsize=9, family="monospace")
    axis.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 0.52))
    figure.savefig(args.out, metadata={"Date": None}, bbox_inches="tight")
    print(f"wrote {args.out}: " + ", ".join(f"{e} ends at {r['state'][-1]}" for e, r in found.items()))


if __name__ == "__main__":
    main()
