# Every target works from a fresh clone: it creates the virtual environment when
# it is missing, and updates it when pyproject.toml or the lock changes.

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP   := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input

# Wheels only, except for PySpark, which is published as source. It is built with the
# locked setuptools, which therefore has to be there before.
FROM_LOCK := --require-hashes --only-binary :all: --no-binary pyspark --no-build-isolation

# `make lock` keeps the locked versions that still fit; to raise them all:
# make lock LOCK_FLAGS=--upgrade
LOCK_VENV  := .venv-lock
LOCK_TOOL  := uv==0.13.7
LOCK_FLAGS ?=

# The versions of PySpark besides the locked one; each has the newest of its patches in
# SPARK_LOCK.
SPARK_VERSIONS := 4.0 4.1 4.2
SPARK_LOCK     := scripts/spark-versions.lock

# PYTHON=… chooses the interpreter for the virtual environment; otherwise the
# first of these that is new enough.
PYTHON     ?=
CANDIDATES := python3 python3.13 python3.12 python3.11
SUITABLE   := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))

define find_python
found=; \
for candidate in $(or $(PYTHON),$(CANDIDATES)); do \
	if "$$candidate" -c '$(SUITABLE)' >/dev/null 2>&1; then found=$$candidate; break; fi; \
done; \
if [ -z "$$found" ]; then \
	echo "setup: wirelake needs Python 3.11 or newer with venv (on Debian: python3-venv); tried: $(or $(PYTHON),$(CANDIDATES))" >&2; \
	exit 1; \
fi
endef

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test matrix check bench docs soak lock clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | while IFS='	' read -r name text; do printf '  make %-6s %s\n' "$$name" "$$text"; done

setup: $(STAMP) ## create .venv from the lock; install Java, and tshark, tcpdump, Chromium and servers for the tests, where possible
	@scripts/setup-system

$(STAMP): pyproject.toml requirements.lock
	@$(find_python); \
	if ! $(BIN)/python -c '$(SUITABLE)' >/dev/null 2>&1; then \
		echo "setup: making $(VENV) with $$("$$found" --version)"; \
		"$$found" -m venv --clear $(VENV); \
	fi
	@echo "setup: installing the locked packages (Spark is large, 450 MB: a minute or two the first time)"
	@awk '/^[a-z0-9]/ { wanted = /^setuptools==/ } wanted' requirements.lock >$(VENV)/build.lock
	@$(PIP) install --only-binary :all: --require-hashes -r $(VENV)/build.lock
	@$(PIP) install $(FROM_LOCK) -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@
	@echo "setup: $(VENV) is ready"

demo: $(STAMP) ## run the demonstration
	@scripts/setup-system java
	@$(BIN)/wirelake demo

test: setup ## run the tests, those with Spark in parallel with the others
	@scripts/run-tests $(BIN)/python

matrix: setup ## run the tests of formats, functions, streams and ingest with every PySpark that wirelake works with
	@$(BIN)/python -m pytest -m every_spark tests/spark
	@WIRELAKE_MAVEN=1 scripts/spark-versions $(BIN)/python

check: $(STAMP) ## check lint, formatting, types and generated documents
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python scripts/generate_docs.py --check

bench: setup ## run the benchmarks: decoders, Spark formats, ingest, hub, report (some minutes, some GB of disk)
	@$(BIN)/python -m benchmarks
	@$(BIN)/python -m benchmarks.worst
	@$(BIN)/python -m benchmarks.start
	@$(BIN)/python -m benchmarks.spark
	@$(BIN)/python -m benchmarks.ingest
	@$(BIN)/python -m benchmarks.live
	@$(BIN)/python -m benchmarks.queues
	@$(BIN)/python -m benchmarks.dsa_crowd
	@$(BIN)/python -m benchmarks.report
	@$(BIN)/python -m benchmarks.streaming

docs: $(STAMP) ## build the documentation site, in site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

soak: setup ## run tests that take minutes
	@$(BIN)/python -m benchmarks.soak
	@$(BIN)/python -m benchmarks.floods
	@$(BIN)/python -m benchmarks.crowd
	@$(BIN)/python -m benchmarks.given_back
	@$(BIN)/python -m benchmarks.metamorphic
	@$(BIN)/python -m benchmarks.lives
	@$(BIN)/python -m benchmarks.months
	@$(BIN)/python -m benchmarks.queue_soak
	@$(BIN)/python -m benchmarks.streaming --part live --part cuts --seconds 1800
	@WIRELAKE_KILLS=25 $(BIN)/python -m pytest tests/spark/test_kill.py
	@WIRELAKE_STREAM_KILLS=100 $(BIN)/python -m pytest tests/cli/test_stream.py tests/spark/test_stream_kill.py
	@WIRELAKE_KILLS=200 $(BIN)/python -m pytest tests/live/casual/test_kills.py

# The lock is universal (every platform, Python 3.11 and newer), has hashes, and
# names no index, no host and no local path.
# Those of the other versions of PySpark have the same form.
COMPILE := env -u PIP_FIND_LINKS -u UV_FIND_LINKS UV_PYTHON_DOWNLOADS=never \
	$(LOCK_VENV)/bin/uv pip compile --quiet --python $(LOCK_VENV)/bin/python \
	--universal --generate-hashes --python-version 3.11 \
	--no-header --no-emit-index-url --no-emit-find-links

lock: ## renew requirements.lock from pyproject.toml, and the lock of the other versions of PySpark
	@$(find_python); \
	[ -x $(LOCK_VENV)/bin/python ] || "$$found" -m venv $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python -m pip --quiet --disable-pip-version-check install '$(LOCK_TOOL)'
	@$(COMPILE) \
		--extra columnar --extra delta --extra net --extra postgres --extra report --extra s3 --extra spark --group dev $(LOCK_FLAGS) \
		pyproject.toml --output-file requirements.lock
	@for version in $(SPARK_VERSIONS); do \
		echo "pyspark==$$version.*" | $(COMPILE) --no-annotate $(LOCK_FLAGS) - || exit 1; \
	done | awk '/^py4j==/ { again = seen[$$0]++ } /^pyspark==/ { again = 0 } !again' >$(SPARK_LOCK)
	@if grep -nE '://|^-' requirements.lock $(SPARK_LOCK); then echo "lock: the lines above must not be in a lock" >&2; exit 1; fi
	@echo "lock: $$(grep -c '^[a-z0-9].*==' requirements.lock) packages in requirements.lock"

clean: ## remove the virtual environments, caches and build output
	@rm -rf $(VENV) $(LOCK_VENV) .venv-spark build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
	@find . -name .git -prune -o -name __pycache__ -type d -exec rm -rf {} +
