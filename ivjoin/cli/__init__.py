"""The command line: ``ivjoin join | asof | window | sql | explain | demo``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from ivjoin.cli.stopping import stopping

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0 for success, 1 if the demo's results differ from DuckDB's, 2 after an error.

    An error is one line on standard error.
    """
    if sys.stderr is None:  # the parent has closed it: discard errors, and reserve its number
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    on_stop: list[Callable[[], None]] = []
    with stopping(on_stop):  # a command's imports take a while
        from ivjoin.cli import commands

        return commands.main(arguments, on_stop)
