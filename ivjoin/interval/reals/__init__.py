"""Intervals of real numbers by IEEE 1788-2015; ``CONFORMANCE.md`` in this directory lists its clauses."""
