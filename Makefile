# Needs make and a python3 (3.11 or newer) with venv; PYTHON=python3.12 chooses another.
PYTHON ?= python3
VENV := .venv
BENCH := .venv-bench
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help install demo test test-thorough test-all check format bench versus clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## create .venv with adaqn and the tools of the checks

demo: $(VENV)/.installed ## watch one small run tune itself
	$(BIN)/python -m adaqn.demo

test: $(VENV)/.installed ## all tests but the slow and the thorough ones
	$(BIN)/pytest -n 2

test-thorough: $(VENV)/.installed ## the tests that take many processes or programs
	$(BIN)/pytest -n 2 -m thorough

test-all: $(VENV)/.installed ## all tests, learning to a threshold included
	$(BIN)/pytest -n 2 -m ""

# One recipe, not prerequisites: in a fixed order also under make -j, and the quick checks first.
check: $(VENV)/.installed ## what CI runs: format, lint, types, layers, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(MAKE) test

format: $(VENV)/.installed ## format and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(BENCH)/.installed ## steps per second, latency and memory beside SB3 and SBX (TASK=pong: only there)
	$(BENCH)/bin/python -m benchmarks.throughput $(if $(TASK),--task $(TASK))

versus: $(BENCH)/.installed ## learning curves beside SB3's (TASK=pendulum-td3: of TD3), or with TASK=hopper SBX's (minutes to an hour)
	$(BENCH)/bin/python -m benchmarks.versus $(if $(TASK),--task $(TASK))

clean: ## remove caches and build products (the environments stay)
	rm -rf build dist src/*.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

TOO_OLD = import sys; sys.exit(sys.version_info < (3, 11) and "adaqn needs Python 3.11 or newer; try: make PYTHON=python3.11")

# The stamp is written last, so an interrupted installation is taken up again.
$(VENV)/.installed: requirements/dev.txt requirements/base.txt pyproject.toml
	@$(PYTHON) -c '$(TOO_OLD)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -r requirements/dev.txt
	$(BIN)/python -m pip install --no-deps --no-build-isolation -e .
	touch $@

$(BENCH)/.installed: requirements/bench.txt requirements/dev.txt requirements/base.txt pyproject.toml
	@$(PYTHON) -c '$(TOO_OLD)'
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install -r requirements/bench.txt
	$(BENCH)/bin/python -m pip install --no-deps --no-build-isolation -e .
	touch $@
