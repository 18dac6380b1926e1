"""``python -m ivjoin.cli``."""

from ivjoin.cli import main

raise SystemExit(main())
