"""Measure how often an interval is the exact hull, and count the IEEE 1788 vectors that pass.

    python -m bench.tightness                # print the tables and write docs/benchmarks-intervals.md; a few minutes
    python -m bench.tightness --quick        # fewer cases, on the terminal only

Every operator of the typed intervals is compared with brute force, forward and backward (see ``enumeration.py``).
"exact" is the share of cases in which the interval equals the hull. For a backward operator, this is the hull of the
arguments that can give one of the results. "lost" counts cases in which a point is missing, and must be 0.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench import halves, operators, vectors
from bench.enumeration import EDGES, Operator, Score, edge_spans, sampled, score_backward, score_forward, spans
from bench.papers.common import put
from ivjoin import interval as iv

__all__ = ["REASONS", "Row", "main", "measure", "rows", "vector_counts"]

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks-intervals.md"

# Where an interval may be wider than the hull, and why. A test checks that everything else is exact.
REASONS: dict[tuple[str, str, str], str] = {
    ("binary16", "mul", "backward"):
    "the digits of a number decide whether its product with a wide factor rounds into a narrow "
    "result; eight numbers at each end are tried",
    ("binary16", "div", "backward"):
    "the same as for mul",
    ("binary16", "rem", "forward"):
    "for more than twelve numbers, a remainder that wraps may be any number below the divisor",
    ("binary16", "rem", "backward"):
    "the digits decide which multiples of the divisor are next to a number of the format; for several "
    "divisors, or for the divisor itself, only sign and magnitude are used",
    ("binary16", "pmod", "forward"):
    "the same as for rem",
    ("binary16", "pmod", "backward"):
    "the same as for rem; in addition, the sum of remainder and divisor is rounded, and the divisor "
    "is not narrowed",
}


class Row(NamedTuple):
    """An operator of a domain with its scores; both arguments share one."""

    domain: str
    operator: str
    forward: Score
    backward: Score


def _joined(scores: Iterator[Score]) -> Score:
    out = Score()
    for s in scores:
        out.cases += s.cases
        out.exact += s.exact
        out.lost += s.lost
        out.wide += s.wide
    return out


def measure(op: Operator, n: int | None, rng: random.Random) -> tuple[Score, Score]:
    """Forward and backward scores of an enumerated operator.

    Parameters
    ----------
    op : Operator
    n : int or None
        Of so many intervals of each argument, drawn from all; None takes all, of more than 100 values those between
        chosen ones and all single ones.
    rng : random.Random
    """
    parts = [_spans(v, n, rng) for v in op.values]
    if len(parts) == 1:
        cases: list[Any] = [(a,) for a in parts[0]]
    else:
        cases = [(a, b) for a in parts[0] for b in parts[1]]
    found = np.unique(op.results[op.valid])
    if found.dtype.kind == "i":  # those that no case gives are targets too
        lo, hi = iv.domain(op.result_domain).limits
        found = np.unique(np.clip(np.concatenate([found - 1, found, found + 1]), lo, hi))
    targets = sampled([(a.item(), b.item()) for a, b in _ends(found)], n, rng)

    def mine(place: int) -> Callable[[], Any]:
        return lambda: None if rng.random() < 0.5 else rng.choice(parts[place])

    backward = (score_backward(op, k, targets, parts[-1 - k], mine(k)) for k in range(len(parts)))
    return score_forward(op, cases), _joined(backward)


def _spans(values: np.ndarray, n: int | None, rng: random.Random) -> list[tuple[int, int]]:
    if len(values) > 100:
        all_of_them = edge_spans(values, EDGES) + [(i, i) for i in range(0, len(values), 1 + len(values) // 64)]
    else:
        all_of_them = spans(len(values))
    if n is None:
        return sampled(all_of_them, 200, rng)
    # A few at random between any two values, so that not only the chosen ones are ends.
    some = [tuple(sorted((rng.randrange(len(values)), rng.randrange(len(values))))) for _ in range(n // 2)]
    return sampled(all_of_them, n - n // 2, rng) + [(a, b) for a, b in some]


def _ends(found: np.ndarray) -> list[tuple[Any, Any]]:
    some = found if len(found) <= 30 else found[np.unique(np.linspace(0, len(found) - 1, 26).astype(int))]
    singles = [(v, v) for v in found[:: 1 + len(found) // 200]]
    return singles + [(a, b) for i, a in enumerate(some) for b in some[i + 1 :]]


def rows(n: int | None, samples: int) -> Iterator[Row]:
    """All rows of the table, one by one.

    Parameters
    ----------
    n : int or None
        As in `measure`.
    samples : int
        Draws for each operator of binary16; each is one narrow interval against all 63,489 numbers.
    """
    rng = random.Random(1788)
    groups: list[tuple[str, list[Operator]]] = [
        ("int4", operators.integers("int4")), ("int8", operators.integers("int8")), ("decimal", operators.decimals()),
        ("date", operators.months()), ("casts", operators.casts()),
    ]  # fmt: skip
    for domain, ops in groups:
        for op in ops:
            names = ", ".join(str(d) for d in op.domains) if domain == "decimal" and len(op.domains) > 1 else ""
            yield Row(domain, f"{op.name} ({names})" if names else op.name, *measure(op, n, rng))
    for name in (*halves.UNARY, *halves.BINARY):
        if name in halves.UNARY:
            score = halves.score_unary(name, 8 * samples, rng)
        else:
            score = halves.score_binary(name, samples, rng)
        yield Row("binary16", name, score.forward, _joined(iter(score.backward)))


def vector_counts() -> dict[str, tuple[int, int]]:
    """Vectors passed and in all, by operation."""
    return {op: (sum(vectors.passes(op, c)[0] for c in cases), len(cases)) for op, cases in vectors.load().items()}


def _share(s: Score) -> str:
    if not s.cases:
        return "-"
    return "100 %" if s.exact == s.cases else f"{100 * s.exact / s.cases:.1f} %"


def _table(measured: list[Row]) -> list[str]:
    out = [
        "| domain | operator | forward: exact | cases | backward: exact | cases | lost |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for r in measured:
        lost = len(r.forward.lost) + len(r.backward.lost)
        out.append(
            f"| {r.domain} | {r.operator} | {_share(r.forward)} | {r.forward.cases:,} | {_share(r.backward)} | "
            f"{r.backward.cases:,} | {lost} |"
        )
    return out


def _reasons() -> list[str]:
    return ["For these operators, the interval is not always the hull:", ""] + [
        f"- {domain} `{op}`, {direction}: {why}." for (domain, op, direction), why in REASONS.items()
    ]


def _vector_table(counts: dict[str, tuple[int, int]]) -> list[str]:
    ops = sorted(counts)
    out = ["|" + " operation | passed / in all |" * 3, "|---|--:" * 3 + "|"]
    third = -(-len(ops) // 3)
    for i in range(third):
        some = ops[i::third]
        cells = [f"`{op}` | {counts[op][0]} / {counts[op][1]}" for op in some] + [" | "] * (3 - len(some))
        out.append("| " + " | ".join(cells) + " |")
    passed, total = (sum(c[k] for c in counts.values()) for k in (0, 1))
    return [*out, "", f"{passed:,} of {total:,} vectors pass."]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tightness", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer cases, and do not write the page")
    args = parser.parse_args(argv)
    measured = []
    for row in rows(*((24, 40) if args.quick else (None, 600))):
        measured.append(row)
        print(_table([row])[-1], flush=True)
    lines = [*_table(measured), "", *_reasons(), "", *_vector_table(vector_counts())]
    print("\n" + "\n".join(lines[len(measured) + 3 :]))
    if not args.quick:
        put(PAGE, "tables", ["", *lines])
    return 1 if any(r.forward.lost or r.backward.lost for r in measured) else 0


if __name__ == "__main__":
    sys.exit(main())
