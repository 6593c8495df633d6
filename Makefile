# `make demo` and `make test` do all set-up themselves; they need Python 3.11 or newer and make.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := host testing plugins/ttl plugins/clusterrole_aggregation plugins/servicecidrs \
  plugins/resourceclaim plugins/resourcequota
# The first interpreter that is new enough; asked for the version, not the name.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.DEFAULT_GOAL := help
.PHONY: help demo test test-lowest test-pythons check fuzz parity bench soak mutants cluster wheels constraints clean

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: cluster ## Run all five controllers against a real API server and show what they do
	@$(BIN)/python demo/demo.py

test: check cluster ## Lint, types, import contracts and all tests
	$(BIN)/pytest

test-lowest: $(VENV)/ready ## Tests without servers, with the lowest versions of all that is declared
	@$(BIN)/python tools/matrix.py lowest

test-pythons: $(VENV)/ready ## Tests without servers, with each Python from 3.11 to 3.14 that is found
	@$(BIN)/python tools/matrix.py pythons

check: $(VENV)/ready ## Lint, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fuzz: $(VENV)/ready ## Try EXAMPLES random inputs for each reader of foreign data (default 20000)
	@FUZZ_EXAMPLES=$(or $(EXAMPLES),20000) $(BIN)/pytest tests/fuzz -p no:randomly

parity: cluster ## Play SEEDS random workloads a controller to the reference and to us (default 20)
	@PYTHONPATH=tests $(BIN)/python -m parity --seeds $(or $(SEEDS),20)

bench: cluster ## Measure against the reference and kopf; prints ratios, never fails on a timing
	@$(BIN)/python -m bench

soak: cluster ## Change and disturb a cluster for MINUTES (default 60) and see whether the host grows
	@$(BIN)/python -m soak --minutes $(or $(MINUTES),60)

mutants: $(VENV)/ready ## Change the decision code a little and see which tests notice (PART=ttl for one part)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt mutmut
	@$(BIN)/python tools/mutants.py $(if $(PART),--part $(PART))

cluster: $(VENV)/ready ## Build the real etcd, kube-apiserver, kubectl and reference (once, about 5 minutes)
	@$(BIN)/python -m kcm_host_testing.cluster build

wheels: $(VENV)/ready ## Build all distributions into dist/, beside the pinned wheels of what they need
	@rm -rf dist
	@for package in $(PACKAGES); do $(BIN)/python -m build --no-isolation --outdir dist $$package || exit 1; done
	@$(BIN)/pip download --quiet --disable-pip-version-check -c constraints.txt -d dist dist/kcm_host*.whl

constraints: $(VENV)/ready ## Write down the versions that are installed now
	@{ head -1 constraints.txt; $(BIN)/pip freeze --exclude-editable; } > constraints.new
	@mv constraints.new constraints.txt

clean: ## Remove what make made here (the binaries' cache stays)
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

$(VENV)/ready: constraints.txt pyproject.toml $(PACKAGES:%=%/pyproject.toml)
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer found; install one, or name it: make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "setting up $(VENV) with $$($(PYTHON) --version) (about a minute the first time)"
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { .ci/system-packages && $(PYTHON) -m venv --clear $(VENV); }
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt 'pip>=25.1'  # the first that reads groups
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --group dev
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt $(PACKAGES:%=-e ./%)
	@touch $@
