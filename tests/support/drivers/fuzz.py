"""Play random joins for some time: ``python tests/support/drivers/fuzz.py --seconds 60 --seed 1 [--leg NAME]``.

Exits with status 1 at the first failure and prints the smallest failing case as Python text that can be run. For a leg
of ``SEEDED``, it prints the seed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from drivers import lookups_in_duckdb, random_funnels, random_sql, restored
from drivers.taken_over import after_another
from drivers.threaded import check as by_threads
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.strategies import SearchStrategy, just
from join.cases import Case, check, compared, run_pull, run_push
from join.indexes import runs_at_once
from join.plain_cases import plain_cases
from join.strategies import cases
from join.variants import mirrored, snapshots_everywhere
from memory.small_files import small_files
from stream.unordered import at_once, bare, no_room, run_tables

from ivjoin import MemoryLimitError, Spill
from ivjoin.operator.pruning import prune_bounds as bounds

PHASES = (Phase.generate, Phase.shrink)
ROUND = 200  # joins of one seed


def as_tables(case: Case, turn: int) -> None:
    """Through ``band_join``, as tables; one or both have no declared order."""
    kept = (("left", "right"), ("right",), ("left",))[turn % 3]
    with at_once(turn):
        check(bare(case, *kept), run_tables)


def sorted_outside(case: Case, turn: int) -> None:
    """As tables that are sorted by runs in files."""
    kept = (("left", "right"), ("right",), ("left",))[turn % 3]
    case = bare(case, *kept)
    with at_once(turn), no_room(turn):
        compared(case, partial(run_tables, memory_limit="64MB"), case.expected())


def in_files(case: Case, number: int) -> None:
    """With less memory than a step needs, or hardly more; the rest in files of small pieces."""
    limit = (12_000, 20_000, 40_000)[number % 3]
    script = tuple(e for e in case.script if e[0] != "snapshot")  # to be restored without a limit
    with small_files() as folder:
        options = {**case.options, "memory_limit": limit, "when_full": Spill(folder)}
        try:
            check(replace(case, script=script, options=options), run_pull if number % 2 else run_push)
        except MemoryLimitError:
            if limit >= 40_000:
                raise


# Ways to play a case, the number of which is given.
LEGS: dict[str, Callable[[Case, int], object]] = {
    "push": lambda case, number: check(case), "pull": lambda case, number: check(case, run_pull), "tables": as_tables,
    "tables outside memory": sorted_outside, "in files": in_files, "threads": by_threads,
    "exchanged": lambda case, number: check(mirrored(case)),
    "snapshots": lambda case, number: check(snapshots_everywhere(case)),
    "plain": lambda case, number: check(case),
    "plain pulled": lambda case, number: check(case, run_pull),
    "taken over": after_another,
    "plain taken over": after_another,
}

# Drivers that draw everything from a seed.
SEEDED: dict[str, Callable[[int], object]] = {
    **{kind: partial(lookups_in_duckdb.compare, kind) for kind in lookups_in_duckdb.KINDS},
    "sql": random_sql.compare, "funnels": random_funnels.compare, "restored": restored.check,
}  # fmt: skip


class Failed(AssertionError):
    """A join whose rows differ from those of the nested loop."""

    def __init__(self, case: Case, why: Exception, seed: int, number: int) -> None:
        told = [line[:1000] for line in (str(why).splitlines() or [""])[:2]]
        super().__init__("\n".join((f"# seed {seed}, case {number}: {type(why).__name__}", *told, repr(case))))


def play(
    leg: str, first: int, is_over: Callable[[int], bool], rows: int = 14, how: str | None = None
) -> tuple[Counter[str], int]:
    """Play random joins, rounds of them from a first seed on, until ``is_over(joins so far)``.

    Returns how many of each join type, and the last seed.

    Raises
    ------
    Failed
    """
    strategy: SearchStrategy[Case] = (plain_cases if leg.startswith("plain") else cases)(max_rows=rows)
    done: Counter[str] = Counter()
    failed: list[tuple[Case, Exception]] = []
    round_, was = first, bounds._CONTRACT_EVERY
    try:
        while not is_over(sum(done.values())):
            # Every other round contracts the residual at every row, which a real run does after some hundreds.
            bounds._CONTRACT_EVERY = 1 if round_ % 2 else was

            # Two rounds in four over sorted runs, which a real run turns to after millions of steps.
            by_runs = round_ % 4 > 1
            index = partial(runs_at_once, round_) if by_runs else nullcontext
            way = LEGS[leg]
            if way is after_another and by_runs:
                way = partial(after_another, peaks=False)

            @seed(round_)
            @settings(
                max_examples=ROUND, deadline=None, database=None, phases=PHASES, derandomize=False,
                verbosity=Verbosity.quiet, suppress_health_check=list(HealthCheck), report_multiple_bugs=False,
            )
            @given(strategy, just((way, index)))
            def one_round(case: Case, played: tuple[Any, Any]) -> None:
                way, index = played
                if (is_over(sum(done.values())) and not failed) or how not in (None, case.how):
                    return
                done[case.how] += 1
                try:
                    with index():
                        way(case, done[case.how])
                except Exception as e:
                    failed.append((case, e))
                    raise

            try:
                one_round()
            except Exception:
                case, failure = failed[-1]
                raise Failed(case, failure, round_, sum(done.values())) from failure
            round_ += 1
    finally:
        bounds._CONTRACT_EVERY = was
    return done, round_ - 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--joins", type=int, default=sys.maxsize, help="at most")
    parser.add_argument("--seed", type=int, default=0, help=f"the first; each round of {ROUND} joins takes the next")
    parser.add_argument("--rows", type=int, default=14, help="most rows of an input")
    parser.add_argument("--how", help="this join type alone")
    parser.add_argument("--leg", choices=[*LEGS, *SEEDED], default="push", help="how joins are played")
    args = parser.parse_args()
    end = time.monotonic() + args.seconds
    if args.leg in SEEDED:
        seed = args.seed
        while seed - args.seed < args.joins and time.monotonic() < end:
            try:
                SEEDED[args.leg](seed)
            except Exception as e:
                print(f"seed {seed}: {type(e).__name__}: {e}")
                return 1
            seed += 1
        print(f"{seed - args.seed} joins, {args.leg}, all rows are as expected")
        return 0
    try:
        done, last = play(args.leg, args.seed, lambda n: n >= args.joins or time.monotonic() > end, args.rows, args.how)
    except Failed as e:
        print(e)
        return 1
    seeds = f"seeds {args.seed} to {last}"
    print(f"{sum(done.values())} joins, {args.leg}, {seeds}, all rows are those of the nested loop: {dict(done)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
