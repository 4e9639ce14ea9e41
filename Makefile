# Needs make and python3 (3.11 or newer) with venv; PYTHON=python3.12 selects another interpreter.
PYTHON ?= python3
VENV := .venv
BENCH := .venv-bench
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help install demo test test-thorough test-all check stubs docs wheel format bench versus clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## create .venv with adaqn and the development tools

demo: $(VENV)/.installed ## train, evaluate and plot AdaDQN on Lunar Lander
	$(BIN)/python -m adaqn.cli.demo

test: $(VENV)/.installed ## run the tests, except for slow and thorough ones
	$(BIN)/pytest -n 2

test-thorough: $(VENV)/.installed ## run the tests that start many processes or compile many programs
	$(BIN)/pytest -n 2 -m thorough

test-all: $(VENV)/.installed ## run all tests, including slow ones that train to a threshold
	$(BIN)/pytest -n 2 -m ""

# One recipe, not prerequisites: a fixed order even with make -j, quick checks first.
check: $(VENV)/.installed ## run CI's checks: format, lint, types, layers, documentation, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python .ci/stubs.py --check
	$(MAKE) docs
	$(MAKE) test

stubs: $(VENV)/.installed ## write what editors show of the public classes, src/adaqn/api.pyi
	$(BIN)/python .ci/stubs.py

docs: $(VENV)/.installed ## build the website in docs/_build/html, with warnings as errors
	JAX_PLATFORMS=cpu $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo docs/_build/html/index.html

wheel: ## build the wheel, and try it in an empty environment with its core dependencies alone
	$(PYTHON) .ci/wheel.py

format: $(VENV)/.installed ## format the code and apply ruff's automatic fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(BENCH)/.installed ## compare speed, latency and memory with SB3 and SBX (TASK=pong: only on Pong)
	$(BENCH)/bin/python -m benchmarks.throughput $(if $(TASK),--task $(TASK))

versus: $(BENCH)/.installed ## compare learning curves with SB3's DQN (TASK=pendulum-td3: SB3's TD3, TASK=hopper: SBX's SAC; up to an hour)
	$(BENCH)/bin/python -m benchmarks.versus $(if $(TASK),--task $(TASK))

clean: ## remove caches and build products, but not the virtual environments
	rm -rf build dist docs/_build src/*.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

TOO_OLD = import sys; sys.exit(sys.version_info < (3, 11) and "adaqn needs Python 3.11 or newer; try: make PYTHON=python3.11")

# The stamp is written last, so that an interrupted installation is repeated.
$(VENV)/.installed: requirements/dev.txt requirements/base.txt pyproject.toml
	@$(PYTHON) -c '$(TOO_OLD)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -r requirements/dev.txt
	$(BIN)/python -m pip install --no-deps --no-build-isolation -e .
	touch $@

$(BENCH)/.installed: requirements/bench.txt requirements/bench-environments.txt requirements/dev.txt requirements/base.txt pyproject.toml
	@$(PYTHON) -c '$(TOO_OLD)'
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install -r requirements/bench.txt
	$(BENCH)/bin/python -m pip install --no-deps -r requirements/bench-environments.txt
	$(BENCH)/bin/python -m pip install --no-deps --no-build-isolation -e .
	touch $@
