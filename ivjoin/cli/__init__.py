"""The command line: ``ivjoin join | asof | explain | demo``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from ivjoin.cli.stopping import stopping

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors are told in one line on standard error.

    Returns
    -------
    int
        0 if all went well, 1 if the demo's results differ from DuckDB's, 2 after an error.
    """
    if sys.stderr is None:  # closed by whoever started this: nobody is to be told, and no file is to get its number
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    on_stop: list[Callable[[], None]] = []
    with stopping(on_stop):  # what a command needs takes a while to load
        from ivjoin.cli import commands

        return commands.main(arguments, on_stop)
