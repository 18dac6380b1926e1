"""Joins of tables by number of threads, beside DuckDB and Polars: ``python -m bench.cores``."""
