# Needs make and Python only. `make` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
LOCK_VENV := .venv-lock
OPENFEATURE := tests/service/openfeature
NODE_STAMP := $(OPENFEATURE)/node_modules/.package-lock.json
OLDEST_VENV := .venv-oldest

.DEFAULT_GOAL := help
PAPER ?=
FULL ?=
MUTANTS ?=
# Each worker takes its tests in order, so that what those of one file need is made once; an idle one takes from another.
PARALLEL := -n auto --dist worksteal

.PHONY: help venv paper test test-python test-oldest test-service mutants lint check format bench lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

venv: $(STAMP) ## make .venv with the locked tools and this package (PYTHON=python3.12 picks another Python)

$(STAMP): pyproject.toml requirements.lock
	@command -v "$(PYTHON)" >/dev/null || { echo "posse needs Python 3.11 or later: no $(PYTHON) found (set PYTHON=...)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.version_info >= (3, 11) or sys.exit("posse needs Python 3.11 or later: $(PYTHON) is %d.%d (set PYTHON=...)" % sys.version_info[:2])'
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

paper: $(STAMP) ## reproduce the paper's whole evaluation into results/paper (PAPER="--quick" for a small one)
	$(BIN)/posse paper $(PAPER)

test: $(STAMP) ## run the tests and the doctests (FULL=1: with more cases); the service has a target of its own
	POSSE_FULL=$(FULL) $(BIN)/python -m pytest $(PARALLEL) --ignore=tests/service
	@echo "The service's tests, which start servers, PostgreSQL and a browser: make test-service"

test-python: $(STAMP) ## run the small tests of the kernels as plain Python, without compiling
	NUMBA_DISABLE_JIT=1 POSSE_SMALL=1 $(BIN)/python -m pytest $(PARALLEL) tests/test_agreement.py tests/test_streams.py

test-oldest: $(OLDEST_VENV)/.stamp ## run the core's tests with the oldest numpy and numba that are supported
	POSSE_SMALL=1 PYTHONPATH=src $(OLDEST_VENV)/bin/python -m pytest $(PARALLEL) -W ignore::DeprecationWarning $(OLDEST_TESTS)

OLDEST_TESTS := $(addprefix tests/test_,compile.py compile_errors.py compile_cache.py propensity.py simulate.py streams.py normal.py rewards.py source_digest.py)

$(OLDEST_VENV)/.stamp: requirements-oldest.lock
	"$(PYTHON)" -m venv $(OLDEST_VENV)
	$(OLDEST_VENV)/bin/python -m pip install --quiet --require-hashes -r requirements-oldest.lock
	@touch $@

test-service: $(STAMP) $(if $(shell command -v npm 2>/dev/null),$(NODE_STAMP)) ## run the service's tests with PostgreSQL, Chromium and nginx, installed by apt-get if missing (FULL=1: all of it, 40 minutes)
	@tests/service/provide.sh
	$(BIN)/python -m posse.service.process.warm_up # compiled once, before tests whose clients wait only so long
	POSSE_FULL=$(FULL) $(BIN)/python tests/service/cluster.py $(BIN)/python -m pytest $(if $(FULL),-p no:xdist -s,-n 2 --dist loadfile) tests/service

$(NODE_STAMP): $(OPENFEATURE)/package-lock.json
	npm ci --prefix $(OPENFEATURE) --no-audit --no-fund
	@touch $@

mutants: $(STAMP) ## break the code in small ways, one at a time, and list what no test notices (MUTANTS="--most 60 policies/ind_ts.py")
	$(BIN)/python tests/mutate.py $(MUTANTS)

lint: $(STAMP) ## check format, style, types and the layers of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test test-python ## run everything: lint, test, test-python

format: $(STAMP) ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## run the benchmark, other libraries' learners beside ours
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-rivals.lock
	$(BIN)/posse bench

COMPILE_ONE := $(LOCK_VENV)/bin/uv pip compile pyproject.toml --upgrade --quiet --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate
COMPILE := $(COMPILE_ONE) --universal --fork-strategy fewest

lock: ## write requirements.lock and requirements-rivals.lock anew, with the latest versions, and -oldest with the oldest
	"$(PYTHON)" -m venv $(LOCK_VENV)
	$(LOCK_VENV)/bin/python -m pip install --quiet 'uv>=0.7'
	$(COMPILE) --extra dev --output-file requirements.lock
	$(COMPILE) --extra rivals --constraint requirements.lock --output-file requirements-rivals.lock
	$(COMPILE_ONE) --resolution lowest-direct --extra test --output-file requirements-oldest.lock

clean: ## remove what the other targets made
	rm -rf $(VENV) $(LOCK_VENV) $(OLDEST_VENV) $(OPENFEATURE)/node_modules build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
