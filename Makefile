# From a fresh clone, with nothing but Python >= 3.11:
#   make demo    installs into .venv and joins a year of flights with the weather and with themselves, once on Spark
#   make test    installs into .venv and runs the tests
# PYTHON=/path/to/python picks the interpreter; DEMO_ARGS, PYTEST_ARGS and BENCH_ARGS are passed on.

VENV := .venv
BIN := $(VENV)/bin
# Without bytecode of modules that nothing may import: installing takes a third less time. pip reads "no" as --no-compile.
PIP_INSTALL := PIP_NO_COMPILE=no $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Modules are compiled once, as they are imported, and not by each of the hundreds of processes that tests start.
unexport PYTHONDONTWRITEBYTECODE
DEMO_ARGS ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo docs test test-all test-rest test-slow test-spark test-nojit test-bounds test-spark-versions check soak soak-spark mutants bench bench-full bench-smoke clean

help:
	@echo "make demo   run the main job on real data (creates $(VENV) first)"
	@echo "make test   run the tests that answer in minutes (creates $(VENV) first)"
	@echo "make test-all    those and the rest: slow tests, all of Spark (needs Java 17), kernels uncompiled and with checks"
	@echo "make test-rest   the rest alone; test-slow, test-spark, test-nojit and test-bounds are its parts"
	@echo "make test-spark-versions  the short tests of Spark with PySpark 4.0, 4.1, 4.2 and 4.3"
	@echo "make check  ruff, mypy and the import-direction test"
	@echo "make soak   the long random tests; soak-spark, the long tests of Spark (drivers that are killed)"
	@echo "make mutants  faults put into a copy of the tree, each of which a test must find"
	@echo "make docs   the documentation site, into build/site"
	@echo "make bench  the benchmarks against other engines (minutes); bench-full (an hour), bench-smoke (under a minute)"
	@echo "make clean  remove $(VENV) and what the tools left behind"

demo: $(VENV)/.demo-installed
	$(BIN)/ivjoin demo $(DEMO_ARGS)

# The first tier: every test without the mark `slow`, and ten tests of Spark (skipped without Java 17).
test: $(VENV)/.dev-installed
	$(BIN)/python -m pytest $(TWO) $(PYTEST_ARGS)$(NONE_CHOSEN)
	$(BIN)/python -m pytest -m "spark_short" $(or $(PYTEST_ARGS),$(OF_SPARK))$(NONE_CHOSEN)

test-all: test test-rest

# The second tier: what is slow, random tests with more examples, all of Spark, and the kernels in two other forms.
test-rest: test-slow test-spark
	$(MAKE) --no-print-directory -j2 test-nojit test-bounds

test-slow: $(VENV)/.dev-installed
	IVJOIN_HYPOTHESIS=ci $(BIN)/python -m pytest $(TWO) -m "(slow or hypothesis) and not spark and not soak" \
	    $(PYTEST_ARGS)$(NONE_CHOSEN)

test-spark: $(VENV)/.dev-installed
	$(BIN)/python -m pytest $(TWO) -m "spark and not spark_short and not soak" \
	    $(or $(PYTEST_ARGS),$(OF_SPARK))$(NONE_CHOSEN)

# Compiled code as users run it hides reads out of bounds. One run takes the kernels as plain Python, where every index
# is checked. The other compiles them with checks of the bounds of arrays (not of bare pointers).
test-nojit: $(VENV)/.dev-installed
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -m "nojit and not soak" $(or $(PYTEST_ARGS),$(OF_KERNELS))$(NONE_CHOSEN)

test-bounds: $(VENV)/.dev-installed
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -q -m "nojit and not soak" $(or $(PYTEST_ARGS),$(OF_KERNELS))$(NONE_CHOSEN)

# The short tests of Spark with each minor version of PySpark, in environments of their own (some GB, tens of minutes).
SPARK_VERSIONS ?= 4.0.5 4.1.4 4.2.1 4.3.0
test-spark-versions: $(VENV)/.created
	@for version in $(SPARK_VERSIONS); do \
	    place=build/spark-$$version; \
	    [ -x $$place/bin/python ] || $(BIN)/python -m venv $$place || exit 1; \
	    $$place/bin/python -m pip install --quiet --editable '.[dev]' "pyspark[connect]==$$version" || exit 1; \
	    $$place/bin/python -m pytest -m spark_short $(or $(PYTEST_ARGS),$(OF_SPARK)) || exit 1; \
	done

TWO := -n 2 --dist worksteal
# Where tests with the marks `spark` and `nojit` are: the others need not be collected. tests/test_layers.py checks it.
OF_SPARK := tests/spark tests/expr/test_evaluate_spark.py
OF_KERNELS := tests/join tests/operator tests/shj
# PYTEST_ARGS may choose tests of which a run has none (pytest's exit status 5); without it, none is a failure.
NONE_CHOSEN = $(if $(strip $(PYTEST_ARGS)), || test $$? -eq 5)

check: $(VENV)/.dev-installed
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

mutants: $(VENV)/.dev-installed
	$(BIN)/python tests/support/mutants.py

soak: $(VENV)/.dev-installed
	IVJOIN_HYPOTHESIS=soak $(BIN)/python -m pytest -m "(soak or hypothesis) and not spark" $(PYTEST_ARGS)

soak-spark: $(VENV)/.dev-installed
	$(BIN)/python -m pytest $(TWO) -m "spark and soak" $(or $(PYTEST_ARGS),$(OF_SPARK))$(NONE_CHOSEN)

# Results go to bench/results, the page to docs/benchmarks.md. BENCH_ARGS chooses cases and peers.
bench: $(VENV)/.bench-installed
	$(BIN)/python -m bench $(BENCH_ARGS)
	$(BIN)/python -m bench.pushes
	$(BIN)/python -m bench.cold
	$(BIN)/python -m bench.memory
	$(BIN)/python -m bench.report

bench-full: $(VENV)/.bench-installed
	$(BIN)/python -m bench --profile full $(BENCH_ARGS)
	$(BIN)/python -m bench.pushes
	$(BIN)/python -m bench.cold
	$(BIN)/python -m bench.memory
	$(BIN)/python -m bench.lost_rows
	$(BIN)/python -m bench.weak_pruning
	$(BIN)/python -m bench.planning
	$(BIN)/python -m bench.tightness
	$(BIN)/python -m bench.routing
	$(BIN)/python -m bench.multiway
	$(BIN)/python -m bench.multiway_views
	$(BIN)/python -m bench.multiway_state
	$(BIN)/python -m bench.papers
	$(BIN)/python -m bench.report

# Every case and every engine once, small: whether each still runs and answers right. Leaves bench/results alone.
bench-smoke: $(VENV)/.dev-installed
	$(BIN)/python -m bench --profile smoke --out build/bench/smoke.jsonl $(BENCH_ARGS)
	$(BIN)/python -m bench.lost_rows --out build/bench/lost_rows.jsonl
	$(BIN)/python -m bench.weak_pruning --rows 2000 --only-ivjoin --out build/bench/weak_pruning.jsonl
	$(BIN)/python -m bench.pushes --pushes 200 --runs 1 --out build/bench/pushes.jsonl
	$(BIN)/python -m bench.memory --rows 1000 --out build/bench/memory.jsonl
	$(BIN)/python -m bench.routing --rows 5000 --out build/bench/routing.jsonl --page build/bench/routing.md
	$(BIN)/python -m bench.multiway --rows 20000 --runs 1 --out build/bench/multiway.jsonl --page build/bench/multiway.md
	$(BIN)/python -m bench.papers --quick 2 3

# A venv of its own would do as well: it needs the sources, and no more than the extra.
docs: $(VENV)/.docs-installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find ivjoin tests -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per extra: a changed pyproject.toml installs again, an unchanged one costs nothing.
$(VENV)/.%-installed: pyproject.toml | $(VENV)/.created
	@echo "installing ivjoin[$*] into $(VENV) (the first time takes two or three minutes)"
	@$(PIP_INSTALL) --editable '.[$*]'
	@touch $@

# Takes the first interpreter that runs and is new enough: version shims can be on PATH and still refuse to start.
$(VENV)/.created:
	@for python in $(PYTHON) python3 python3.13 python3.12 python3.11 python; do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "creating $(VENV) with $$("$$python" --version)"; \
	        "$$python" -m venv $(VENV) || { \
	            echo "make: '$$python -m venv' failed; on Debian and Ubuntu, run 'apt install python3-venv'" >&2; \
	            exit 1; }; \
	        touch $@; exit 0; \
	    fi; \
	done; \
	echo "make: ivjoin needs Python 3.11 or newer and found $$(python3 --version 2>/dev/null || echo none);" \
	     "name one with 'make ... PYTHON=/path/to/python3'" >&2; \
	exit 1
