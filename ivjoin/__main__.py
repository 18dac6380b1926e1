"""``python -m ivjoin``: the command line."""

from ivjoin.cli import main

raise SystemExit(main())
