# Needs make and Python only. `make` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
USER_STAMP := $(VENV)/.user-stamp
DOCS_STAMP := $(VENV)/.docs-stamp
SITE := build/site
OPENFEATURE := tests/service/openfeature
NODE_STAMP := $(OPENFEATURE)/node_modules/.package-lock.json
OLDEST_VENV := .venv-oldest

.DEFAULT_GOAL := help
PAPER ?=
FULL ?=
MUTANTS ?=
DRAFT ?=
# Each worker takes its tests in order, so that what those of one file need is made once; an idle one takes from another.
PARALLEL := -n auto --dist worksteal

.PHONY: help venv paper test test-python test-oldest test-service test-docs mutants lint check format bench docs pictures \
	lock lock-check locks dist release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

venv: $(STAMP) ## make .venv with the locked tools and this package (PYTHON=python3.12 picks another Python)

# The pip that comes with Python may be silent while it unpacks. The one of requirements-pip.lock shows how far it is.
PIP_INSTALL := -m pip install --no-compile --require-hashes -r
define MAKE_VENV
	"$(PYTHON)" -m venv --without-pip $(1)
	$(1)/bin/python -m ensurepip # says what it does; venv would be silent
	$(1)/bin/python $(PIP_INSTALL) requirements-pip.lock
endef

$(USER_STAMP): requirements.lock requirements-pip.lock
	@command -v "$(PYTHON)" >/dev/null || { echo "posse needs Python 3.11 or later: no $(PYTHON) found (set PYTHON=...)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.version_info >= (3, 11) or sys.exit("posse needs Python 3.11 or later: $(PYTHON) is %d.%d (set PYTHON=...)" % sys.version_info[:2])'
	$(call MAKE_VENV,$(VENV))
	@echo "installing what posse paper needs, with the versions and hashes of requirements.lock ..."
	$(BIN)/python $(PIP_INSTALL) requirements.lock
	@$(BIN)/python -m pip uninstall -qq --yes setuptools # 10 MB that nothing needs, and that only Python 3.11 puts there
	@touch $@

$(STAMP): $(USER_STAMP) pyproject.toml requirements-dev.lock
	@echo "installing the tools of developers, with the versions and hashes of requirements-dev.lock ..."
	$(BIN)/python $(PIP_INSTALL) requirements-dev.lock
	$(BIN)/python -m pip install --no-deps --no-build-isolation -e .
	@touch $(USER_STAMP) $@

$(DOCS_STAMP): requirements-docs.lock | $(USER_STAMP)
	@echo "installing what the site is built with, with the versions and hashes of requirements-docs.lock ..."
	$(BIN)/python $(PIP_INSTALL) requirements-docs.lock
	@touch $@

paper: $(USER_STAMP) ## reproduce the paper's whole evaluation into results/paper (PAPER="--quick" for a small one)
	PYTHONPATH=src $(BIN)/python -m posse paper $(PAPER)
	@echo "For a study of your own: $(BIN)/python -m pip install '.[experiments]', then $(BIN)/posse init"

# The last one compiles a policy when it is imported, and has no doctest.
NOT_TESTED := tests/service tests/site src/posse/service/process/warm_up.py

test: $(STAMP) ## run the tests and the doctests (FULL=1: with more cases); the service has a target of its own
	POSSE_FULL=$(FULL) $(BIN)/python -m pytest $(PARALLEL) -p no:schemathesis $(addprefix --ignore=,$(NOT_TESTED))
	@echo "The service's tests, which start servers, PostgreSQL and a browser: make test-service"

test-python: $(STAMP) ## run the small tests of the kernels as plain Python, without compiling
	NUMBA_DISABLE_JIT=1 POSSE_SMALL=1 $(BIN)/python -m pytest $(PARALLEL) tests/test_agreement.py tests/test_streams.py

test-oldest: $(OLDEST_VENV)/.stamp ## run the core's tests with the oldest numpy and numba that are supported
	POSSE_SMALL=1 PYTHONPATH=src $(OLDEST_VENV)/bin/python -m pytest $(PARALLEL) -W ignore::DeprecationWarning $(OLDEST_TESTS)

OLDEST_TESTS := $(addprefix tests/test_,compile.py compile_errors.py compile_cache.py compile_pipeline.py compile_lowering.py propensity.py simulate.py simulate_input.py streams.py normal.py rewards.py source_digest.py)

$(OLDEST_VENV)/.stamp: requirements-oldest.lock requirements-pip.lock
	$(call MAKE_VENV,$(OLDEST_VENV))
	$(OLDEST_VENV)/bin/python $(PIP_INSTALL) requirements-oldest.lock
	@touch $@

test-service: $(STAMP) $(if $(shell command -v npm 2>/dev/null),$(NODE_STAMP)) ## run the service's tests with PostgreSQL, Chromium and nginx, installed by apt-get if missing (FULL=1: all of it, 40 minutes)
	@tests/service/provide.sh
	$(BIN)/posse warm-up --for learner # compiled once, before tests whose clients wait only so long
	POSSE_FULL=$(FULL) $(BIN)/python tests/service/cluster.py $(BIN)/python -m pytest $(if $(FULL),-p no:xdist -s,-n 2 --dist loadfile) tests/service

$(NODE_STAMP): $(OPENFEATURE)/package-lock.json
	npm ci --prefix $(OPENFEATURE) --no-audit --no-fund
	@touch $@

# Quiet, because sphinx-gallery puts what a script writes to standard error into its page.
docs: $(DOCS_STAMP) ## build the site into build/site (DRAFT=1: quickly, without running the gallery's scripts)
	PYTHONPATH=src POSSE_QUIET=1 DRAFT=$(DRAFT) $(BIN)/python -m sphinx --fail-on-warning --keep-going -j auto docs $(SITE)
	@echo "The site: $(SITE)/index.html"

test-docs: docs $(STAMP) ## build the site, and check it: everything is documented, links lead somewhere, pages work in Chromium
	$(BIN)/python -m pytest $(PARALLEL) tests/site

pictures: $(STAMP) ## make every picture of docs/images anew, with a browser (FILES=docs/pictures/plan.py: only these)
	@for file in $(or $(FILES),$(sort $(wildcard docs/pictures/*.py))); do echo "$$file ..."; POSSE_QUIET=1 $(BIN)/python $$file || exit 1; done

mutants: $(STAMP) ## break the code in small ways, one at a time, and list what no test notices (MUTANTS="--most 60 policies/ind_ts.py")
	$(BIN)/python tests/mutate.py $(MUTANTS)

lint: $(STAMP) ## check format, style, types and the layers of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy # silent, half a minute the first time
	$(BIN)/lint-imports

check: lint test test-python ## run everything: lint, test, test-python

format: $(STAMP) ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## run the benchmark, other libraries' learners beside ours
	$(BIN)/python $(PIP_INSTALL) requirements-rivals.lock
	$(BIN)/posse bench

LOCKS := .
UPGRADE :=
# Standard output is the lock once more; standard error says how far uv is.
COMPILE = $(BIN)/uv pip compile $(2) $(UPGRADE) --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header --no-annotate --output-file $(LOCKS)/requirements$(1).lock >/dev/null
EVERYWHERE := pyproject.toml --universal --fork-strategy fewest
AS_DEV = $(EVERYWHERE) --constraint $(LOCKS)/requirements-dev.lock

lock: $(STAMP) ## write all locks anew from the extras in pyproject.toml, with the latest versions (-oldest: the oldest)
	$(MAKE) locks UPGRADE=--upgrade

lock-check: $(STAMP) ## check that the locks still follow from pyproject.toml
	rm -rf build/locks && mkdir -p build/locks && cp requirements*.lock build/locks
	$(MAKE) locks LOCKS=build/locks
	@for lock in requirements*.lock; do \
		diff "$$lock" "build/locks/$$lock" || { echo "$$lock is out of date: make lock" >&2; exit 1; }; \
	done

locks:
	$(call COMPILE,-pip,--group set-up --universal)
	$(call COMPILE,-dev,$(EVERYWHERE) --extra dev)
	$(call COMPILE,,$(AS_DEV) --extra experiments)
	$(call COMPILE,-docs,$(AS_DEV) --extra docs)
	$(call COMPILE,-service,$(AS_DEV) --extra service)
	$(call COMPILE,-rivals,$(AS_DEV) --extra rivals)
	$(call COMPILE,-oldest,pyproject.toml --resolution lowest-direct --extra test)

dist: $(STAMP) ## build sdist and wheel into dist/, and once more from the sdist: they must have the same bytes
	rm -rf dist build/sdist && mkdir -p build/sdist
	$(BIN)/python -m hatchling build -d dist
	tar -xzf dist/*.tar.gz -C build/sdist --strip-components 1
	cd build/sdist && "$(CURDIR)/$(BIN)/python" -m hatchling build -d again
	cmp dist/*.tar.gz build/sdist/again/*.tar.gz
	cmp dist/*.whl build/sdist/again/*.whl

release: ## check everything that a release needs and build it; it uploads nothing
	@test -z "$$(git status --porcelain)" || { echo "there are changes that are not committed: git status" >&2; exit 1; }
	.ci/run
	@$(MAKE) --no-print-directory dist
	@grep -q "^## $$($(BIN)/python -m posse --version | cut -d ' ' -f 2)" CHANGELOG.md || \
		{ echo "CHANGELOG.md has no part about $$($(BIN)/python -m posse --version)" >&2; exit 1; }
	@sha256sum dist/* 2>/dev/null || shasum -a 256 dist/*
	@echo "Nothing is uploaded. CONTRIBUTING.md, \"Release\", says how to go on."

clean: ## remove what the other targets made
	rm -rf docs/gallery docs/reference/api $(VENV) $(OLDEST_VENV) $(OPENFEATURE)/node_modules build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
