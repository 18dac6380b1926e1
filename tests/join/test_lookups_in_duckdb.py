"""Picks, aggregates and as-of joins are DuckDB's, of tables, files and streams, in slices of a few rows."""

from __future__ import annotations

from collections import Counter

import pytest
from drivers.lookup_inputs import INPUTS
from drivers.lookups_in_duckdb import KINDS, compare

# What must join some of the inputs; picks of pairs have a join of tables of their own.
TABLES = {"pick": "BestOfTables", "window": "TableWindow", "asof": "TablePick", "previous": "SymmetricHashJoin"}
ENGINES = {"files": "LookupParts", "sorted files": "LookupParts", "mixed": "SymmetricHashJoin"}


def engine_of(kind: str, given: str) -> str:
    streams = "SymmetricHashJoin" if kind == "previous" or given == "falling" else "SlicedStream"
    return TABLES[kind] if given == "tables" else ENGINES.get(given, streams)


def engines(kind: str, given: str, seeds: range) -> tuple[int, Counter[str]]:
    done = [compare(kind, seed, given) for seed in seeds]
    return sum(rows for rows, _ in done), Counter(engine for _, engine in done)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", INPUTS)
def test_rows_are_those_of_duckdb(kind: str, given: str) -> None:
    rows, engine = engines(kind, given, range(10))
    assert rows > 10
    assert engine[engine_of(kind, given)] >= 1, engine


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("first", range(1000, 1200, 40))
def test_more_rows_are_those_of_duckdb(kind: str, given: str, first: int) -> None:
    rows, engine = engines(kind, given, range(first, first + 40))
    assert rows > 50
    assert engine[engine_of(kind, given)] >= 3, engine
