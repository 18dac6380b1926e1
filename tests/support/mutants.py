"""Faults put into a copy of the tree, each of which some test must find: ``python tests/support/mutants.py``.

A fault is a line that is written otherwise, and the tests that are meant to catch it. A fault that no test of them
catches is printed and makes the run fail, as does one whose line is not there any more. Takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Mutant(NamedTuple):
    """One fault: what is written how in which file, and what must fail."""

    what: str
    file: str
    old: str
    new: str
    tests: str


MUTANTS = [
    Mutant(
        "an output block is never freed",
        "ivjoin/shj/kernels/spare_blocks.py",
        "mem.add(block + _COUNT, -1) == 1",
        "mem.add(block + _COUNT, -1) == -1",
        "tests/join/memory/test_output_explosion.py tests/shj/store/test_output_blocks.py "
        "tests/join/memory/test_output_memory.py",
    ),
    Mutant(
        "values of odd width are gathered from their neighbours",
        "ivjoin/shj/kernels/batch_memory.py",
        "            k = index[i] * width\n",
        "            k = index[i] * (width - 1)\n",
        "tests/shj tests/join/types/test_payload_types.py",
    ),
    Mutant(
        "a bound is shifted past the end of int64",
        "ivjoin/shj/kernels/expiry_kernels.py",
        "(d > 0 and least > I64_MAX - d) or (d < 0 and least < I64_MIN - d)",
        "d != d",
        "tests/join/pruning/test_bounds_at_the_ends.py",
    ),
    Mutant(
        "an upper bound is shifted past the end of int64",
        "ivjoin/shj/kernels/expiry_kernels.py",
        "(d > 0 and most > I64_MAX - d) or (d < 0 and most < I64_MIN - d)",
        "d != d",
        "tests/join/pruning/test_bounds_at_the_ends.py",
    ),
    Mutant(
        "a falling range in a kernel has its end, too",
        "ivjoin/shj/kernels/word_lowering.py",
        'builder.icmp_signed(">", value, stop)',
        'builder.icmp_signed(">=", value, stop)',
        "tests/shj/kernels/test_word_lowering.py",
    ),
    Mutant(
        "an exception in a kernel is lost on its way",
        "ivjoin/shj/kernels/word_lowering.py",
        "builder.ret(status.code)",
        "builder.ret(_OK)",
        "tests/shj/kernels/test_word_lowering.py",
    ),
    Mutant(
        "heaps keep the room that they once had",
        "ivjoin/shj/store/schedules.py",
        '            if d["room"] > 8 * need + SOME_ENTRIES',
        '            if d["room"] < 0',
        "tests/operator/test_upkeep.py",
    ),
    Mutant(
        "keys of many rows keep the room that they once had",
        "ivjoin/shj/kernels/key_kernels.py",
        "if op.grows == 0 or rows <= MANY_ROWS * live:",
        "if rows >= 0:",
        "tests/join/memory/test_room_as_it_comes.py",
    ),
    Mutant(
        "keys that are stirred stay where they were",
        "ivjoin/shj/kernels/upkeep_kernels.py",
        "        op.stirred = 1\n        _sweep(op)",
        "        op.stirred = 1",
        "tests/operator/test_upkeep.py",
    ),
    Mutant(
        "a table of keys is filled beyond its half",
        "ivjoin/shj/kernels/key_kernels.py",
        "return min(most_ids, size >> 1) - n_ids + n_free",
        "return most_ids - n_ids + n_free",
        "tests/join/memory/test_room_as_it_comes.py",
    ),
    Mutant(
        "bytes of state are not counted",
        "ivjoin/operator/core.py",
        "        return held if limits is None",
        "        return 0 if limits is None",
        "tests/join/memory/test_state_account.py tests/join/memory/test_state_bytes.py",
    ),
    Mutant(
        "a row at the bound leaves the heap",
        "ivjoin/shj/kernels/expiry_kernels.py",
        "if value >= bound:",
        "if value > bound:",
        "tests/join/rows/test_step_by_step.py tests/join/rows/test_random_joins.py",
    ),
    Mutant(
        "a straggler at the bound dies",
        "ivjoin/shj/kernels/expiry_kernels.py",
        "heap[0] < bound and some",
        "heap[0] <= bound and some",
        "tests/join/rows/test_step_by_step.py tests/join/rows/test_random_joins.py",
    ),
    Mutant(
        "a row at a bound that is looked at now and then dies",
        "ivjoin/shj/kernels/expiry_kernels.py",
        "if value < low or value > high",
        "if value <= low or value > high",
        "tests/join/pruning/test_tied_columns.py",
    ),
    Mutant(
        "a right row alone has the left side's key",
        "ivjoin/shj/kernels/block_kernels.py",
        "left = field.left if which != 2 else -1",
        "left = field.left",
        "tests/shj tests/join/rows/test_random_joins.py",
    ),
    Mutant(
        "nulls of a batch are not counted",
        "ivjoin/shj/kernels/block_kernels.py",
        "nulls += 1 - bit",
        "nulls += bit - bit",
        "tests/shj tests/join/rows/test_random_joins.py",
    ),
    Mutant(
        "a restored row has no match",
        "ivjoin/shj/store/side.py",
        "self.links[places[np.flatnonzero(matched)], index_kernels.FLAGS] |= index_kernels.MATCHED",
        "pass",
        "tests/join/rows/test_random_joins.py tests/join/rows/test_step_by_step.py",
    ),
    Mutant(
        "NaN is an ordinary value",
        "ivjoin/shj/kernels/batch_memory.py",
        "        return at.NAN_ORDINAL\n",
        "        return ordinal\n",
        "tests/join/rows/test_random_joins.py tests/join/types/test_edge_values.py "
        "tests/join/rows/test_step_by_step.py",
    ),
    Mutant(
        "an order's next edge is forgotten",
        "ivjoin/shj/kernels/expiry_kernels.py",
        "least = max(least, t.limit)",
        "least = max(least, t.limit + 1)",
        "tests/join/rows/test_step_by_step.py tests/join/rows/test_random_joins.py",
    ),
    Mutant(
        "a row out of order leaves its store in order",
        "ivjoin/shj/kernels/push_kernels.py",
        "            side.since = first + n_kept\n",
        "            side.since = max(side.since, side.lo)\n",
        "tests/operator/test_narrow_windows.py",
    ),
    Mutant(
        "the first row in no list never comes into one",
        "ivjoin/shj/kernels/sweep_kernels.py",
        "range(max(store.loose - 1, store.lo), store.hi)",
        "range(max(store.loose, store.lo), store.hi)",
        "tests/operator/test_narrow_windows.py",
    ),
    Mutant(
        "a row in no list is taken out of one",
        "ivjoin/shj/kernels/expiry_kernels.py",
        "            if rid < loose:",
        "            if rid <= loose:",
        "tests/operator/test_narrow_windows.py",
    ),
    Mutant(
        "a pass through both sides ends before the window does",
        "ivjoin/shj/kernels/sweep_kernels.py",
        "            if rows[place * width + FIRST_AXIS] > high:",
        "            if rows[place * width + FIRST_AXIS] >= high:",
        "tests/operator/test_narrow_windows.py",
    ),
    Mutant(
        "runs are merged past what was read",
        "ivjoin/stream/outside.py",
        "end = min(ends, default=None)",
        "end = max(ends, default=None)",
        "tests/stream/test_sorted_outside.py",
    ),
    Mutant(
        "an aggregate's range lacks its last row",
        "ivjoin/operator/windows/run.py",
        "_placed(self.whole, high, True))",
        "_placed(self.whole, high, False))",
        "tests/join/aggregates",
    ),
    Mutant(
        "of tables out of order, a row of the same time is no partner",
        "ivjoin/shj/kernels/grouped_kernels.py",
        "while at < end and values[at] <= limit:",
        "while at < end and values[at] < limit:",
        "tests/join/asof/test_asof_of_tables.py",
    ),
    Mutant(
        "row groups before the last that was met are not tried",
        "ivjoin/files/join_row_groups.py",
        "(*range(at, len(others)), *range(at))",
        "range(at, len(others))",
        "tests/files",
    ),
    Mutant(
        "a right row reaches one plan too few",
        "ivjoin/routing/along.py",
        'side="right") for x in (f.low, f.high, f.home)',
        'side="right") for x in (f.low, f.low, f.home)',
        "tests/routing",
    ),
    Mutant(
        "late rows are counted as held",
        "ivjoin/operator/waiting_core.py",
        "        m.late_rows += late\n",
        "",
        "tests/join/order/test_late_rows.py",
    ),
]


def survives(mutant: Mutant, folder: Path, seconds: float) -> str:
    """Why a mutant was not caught; "" where it was."""
    path = folder / mutant.file
    text = path.read_text()
    if text.count(mutant.old) < 1:
        return "its line is not there any more"
    path.write_text(text.replace(mutant.old, mutant.new))
    env = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "kernels")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-m",
        "not soak and not spark",
        *mutant.tests.split(),
    ]
    try:
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return ""  # a join that never ends was noticed, too
    finally:
        path.write_text(text)
    return (
        ""
        if done.returncode == 1 or done.returncode < 0
        else f"pytest ended with {done.returncode}: {done.stdout[-300:]}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="those whose words hold this text")
    parser.add_argument("--seconds", type=float, default=600, help="of the tests of one, at most")
    args = parser.parse_args()
    left = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "tree"
        shutil.copytree(
            ROOT, folder, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "results")
        )
        for mutant in MUTANTS:
            if args.only not in mutant.what:
                continue
            start = time.monotonic()
            why = survives(mutant, folder, args.seconds)
            print(
                f"{'SURVIVES' if why else 'caught  '} {time.monotonic() - start:6.1f} s  {mutant.what} {why}",
                flush=True,
            )
            left += [mutant] if why else []
    print(f"{len(left)} of the faults were not caught" if left else "every fault was caught")
    return bool(left)


if __name__ == "__main__":
    sys.exit(main())
