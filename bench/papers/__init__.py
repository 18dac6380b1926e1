"""The experiments of the five papers that ivjoin builds on: ``python -m bench.papers``."""
