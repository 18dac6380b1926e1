"""Faults put into a copy of the tree, each of which the first tier of tests must find.

``python tests/support/mutants.py`` prints which tier finds each fault: the first one, or the rest. A fault that the
first tier misses makes the run fail, as does one whose line does not exist any more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from faults.engine import ENGINE
from faults.kernels import KERNELS
from faults.mutant import Mutant
from faults.slices import SLICES

ROOT = Path(__file__).resolve().parents[2]
TABLES = {"kernels": KERNELS, "engine": ENGINE, "slices": SLICES}
MUTANTS = [*KERNELS, *ENGINE, *SLICES]


TIERS = {"first tier": "not slow and not soak and not spark", "rest": "(slow or hypothesis) and not soak and not spark"}


def finder(mutant: Mutant, folder: Path, seconds: float) -> str:
    """Return the tier that finds a fault, or why none does."""
    path = folder / mutant.file
    text = path.read_text()
    if mutant.old not in text:
        return "its line does not exist any more"
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        for tier, marks in TIERS.items():
            found = _found(mutant, folder, marks, seconds, "quick" if tier == "first tier" else "ci")
            if found != "no":
                return tier + found
    finally:
        path.write_text(text)
    return "no test finds it"


def _found(mutant: Mutant, folder: Path, marks: str, seconds: float, profile: str) -> str:
    env = {
        **os.environ, "PYTHONPATH": str(folder), "IVJOIN_PACE": "0", "IVJOIN_HYPOTHESIS": profile,
        "PYTHONDONTWRITEBYTECODE": "1",  # or a module that is changed within a second might run as it was
    }
    command = [
        sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-m", marks,
        *mutant.tests.split(),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return " (a test that does not end)"
    if done.returncode in (0, 5):  # 5: no test has the marks
        return "no"
    if done.returncode == 1 or done.returncode < 0:
        return ""
    raise RuntimeError(f"pytest ended with {done.returncode}: {done.stdout[-2000:]}")


def _copy(folder: Path) -> Path:
    """A copy of the tree, with the kernels that are compiled already."""
    ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "results")
    shutil.copytree(ROOT, folder, ignore=ignored)
    compiled = Path("ivjoin/shj/kernels/__pycache__")  # of kernels without a fault
    (folder / compiled).mkdir()
    for file in (ROOT / compiled).glob("*.o"):
        shutil.copy(file, folder / compiled)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--of", nargs="*", choices=TABLES, default=[*TABLES], help="tables of faults; by default all")
    parser.add_argument("--only", default="", help="faults whose description contains this text")
    parser.add_argument("--seconds", type=float, default=600, help="of the tests of one, at most")
    parser.add_argument("--jobs", type=int, default=1, help="faults that are tried at the same time")
    args = parser.parse_args()
    chosen = [mutant for name in args.of for mutant in TABLES[name] if args.only in mutant.what]
    missed = 0
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(args.jobs) as pool:
        folders: SimpleQueue[Path] = SimpleQueue()
        for i in range(args.jobs):
            folders.put(_copy(Path(name) / f"tree{i}"))

        def tried(mutant: Mutant) -> tuple[str, float]:
            start, folder = time.monotonic(), folders.get()
            try:
                return finder(mutant, folder, args.seconds), time.monotonic() - start
            except RuntimeError as e:
                return f"no result: {e}", time.monotonic() - start
            finally:
                folders.put(folder)

        for mutant, (found, seconds) in zip(chosen, pool.map(tried, chosen), strict=True):
            missed += not found.startswith("first tier")
            print(f"{seconds:6.1f} s  {mutant.what}: {found}", flush=True)
    print(f"the first tier misses {missed} faults" if missed else "the first tier finds every fault")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
