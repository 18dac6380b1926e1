"""State rows over the micro-batches of ``bench/spark_streams.py --case numeric``, as a chart.

    python bench/spark_streams.py --case numeric --results bench/results/spark-streams.jsonl
    python bench/spark_state.py bench/results/spark-streams.jsonl   # writes docs/spark-state.svg
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.append(str(Path(__file__).resolve().parent.parent))

from bench.charts import pyplot, save

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
    # The last result of each engine counts.
    records = map(json.loads, args.results.read_text().splitlines())
    found = {r["engine"]: r for r in records if r.get("case") == "numeric"}
    figure, axis = pyplot().subplots(figsize=(6, 3))
    for engine, label in _LABELS.items():
        if engine in found:
            state = found[engine]["state"]
            axis.semilogy(range(1, len(state) + 1), [max(n, 1) for n in state], label=label, **_STYLES[engine])
    rows = next(iter(found.values()))
    each = f"{rows['rows'] // rows['batches']:,}"
    axis.set(xlabel=f"micro-batch ({each} rows a side each)", ylabel="state rows", ylim=(0.8, None))
    axis.set_title("l.x BETWEEN r.x - 5 AND r.x + 5", fontsize=9, family="monospace")
    axis.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 0.52))
    save(figure, args.out)
    print(f"wrote {args.out}: " + ", ".join(f"{e} ends at {r['state'][-1]}" for e, r in found.items()))


if __name__ == "__main__":
    main()
