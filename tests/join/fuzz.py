"""Random joins for as long as you like: ``python tests/join/fuzz.py --seconds 60 --seed 1``.

Ends with status 1 and the smallest failing case it found, as Python text that can be run by itself.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.strategies import just
from join.cases import Case, check, run_pull
from join.indexes import runs_at_once
from join.strategies import cases
from stream.unordered import at_once, bare, run_tables

from ivjoin.operator import operator as _  # noqa: F401 (compiled blocks are tried out by it)
from ivjoin.operator import prune_bounds as bounds

PHASES = (Phase.generate, Phase.shrink)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0, help="the first seed; each round of 200 cases takes the next")
    parser.add_argument("--rows", type=int, default=14, help="most rows of an input")
    parser.add_argument("--how", help="this join type alone")
    parser.add_argument("--pull", action="store_true", help="through band_join, not SymmetricHashJoin")
    parser.add_argument("--tables", action="store_true", help="through band_join, as tables without a declared order")
    args = parser.parse_args()
    end = time.monotonic() + args.seconds
    done: Counter[str] = Counter()
    failed: list[tuple[Case, Exception]] = []
    round_, was = args.seed, bounds._CONTRACT_EVERY
    while time.monotonic() < end:
        # Every other round contracts the residual at every row, which a real run does after some hundreds.
        bounds._CONTRACT_EVERY = 1 if round_ % 2 else was

        # Two rounds in four over sorted runs, which a real run turns to after millions of steps.
        index = partial(runs_at_once, round_) if round_ % 4 > 1 else nullcontext

        @seed(round_)
        @settings(
            max_examples=200,
            deadline=None,
            database=None,
            phases=PHASES,
            derandomize=False,
            verbosity=Verbosity.quiet,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        )
        @given(cases(max_rows=args.rows), just(index))
        def play(case: Case, index: Any) -> None:
            if (time.monotonic() > end and not failed) or args.how not in (None, case.how):
                return
            done[case.how] += 1
            try:
                with index():
                    if args.tables:
                        kept = (("left", "right"), ("right",), ("left",))[done[case.how] % 3]
                        with at_once(done[case.how]):
                            check(bare(case, *kept), run_tables)
                    else:
                        check(case, run_pull) if args.pull else check(case)
            except Exception as e:
                failed.append((case, e))
                raise

        try:
            play()
        except Exception:
            case, failure = failed[-1]
            told = str(failure).splitlines() or [""]
            print(f"# seed {round_}, case {sum(done.values())}: {type(failure).__name__}")
            print("\n".join(f"# {line[:1000]}" for line in told[:2]))
            print(case)
            return 1
        round_ += 1
    print(f"{sum(done.values())} joins, seeds {args.seed} to {round_ - 1}, all as the nested loop has it: {dict(done)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
