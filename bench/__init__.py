"""Benchmarks: cases and peers as plug-ins (`python -m bench`) and a page of results (`python -m bench.report`)."""
