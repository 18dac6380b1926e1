"""Benchmarks: cases and peers as plug-ins (`python -m bench`) and a page of their results (`python -m bench.report`)."""
