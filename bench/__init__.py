"""Benchmarks: cases and peers as plug-ins (`python -m bench`), and a page made of their results (`python -m bench.report`)."""
