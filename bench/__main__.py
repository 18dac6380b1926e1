"""``python -m bench``: run benchmarks into a result file."""

from bench.runner import main

raise SystemExit(main())
