"""Benchmarks: cases and peers as plug-ins behind one interface (`python -m bench`), and a report (`python -m bench.report`)."""
