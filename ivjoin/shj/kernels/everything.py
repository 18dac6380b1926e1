"""``python -m ivjoin.shj.kernels.everything``: compile every kernel that is not on disk, as an installation does."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Thread

from ivjoin.shj.kernels import apart, compiling, objects

__all__ = ["begin", "missing"]

_GREATEST = f"{__package__}.push.push_kernels"  # it takes as long as all others


def modules() -> list[str]:
    """Return the modules with kernels, the one that takes longest first."""
    files = objects.sources(Path(__file__).parent)
    names = (f"{__package__}.{file.removesuffix('.py').replace('/', '.')}" for file in files)
    return sorted((name for name in names if compiling.kernels_of(name)), key=lambda name: (name != _GREATEST, name))


def missing() -> list[str]:
    return [name for name in modules() if not compiling.is_on_disk(name)] if compiling.COMPILES else []


def begin() -> Thread | None:
    return apart.begin(*missing())


def main() -> int:
    """Compile in two processes, and print the key in the names of the files; return 1 if a kernel has no file."""
    names = missing()
    for process in [apart.start(*part) for part in (names[:1], names[1:]) if part]:
        if process is not None:
            process.wait()
    left = missing()
    if left:
        print(f"these modules have no object files and compile at their first call: {', '.join(left)}", file=sys.stderr)
    print(compiling.key())
    return bool(left)


if __name__ == "__main__":
    sys.exit(main())
