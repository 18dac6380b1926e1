"""The command line: ``ivjoin join | explain | demo``."""

from ivjoin.cli.commands import main

__all__ = ["main"]
