"""Joins of tables by number of threads, compared with DuckDB and Polars: ``python -m bench.cores``."""
