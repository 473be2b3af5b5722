# make demo: see it work. make test: what CI runs. Both set up .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One marker per set of extras; reinstalled when the pins or the package definition change.
DEMO := $(VENV)/.demo
FLOWER := $(VENV)/.flower
DEV := $(VENV)/.dev

.PHONY: demo demo-flower test test-all lint format soak bench clean

demo: $(DEMO)
	$(BIN)/feda3i demo

# Superlink and four supernodes as real processes on loopback, compared with the local run.
demo-flower: $(FLOWER)
	$(BIN)/feda3i deploy demo

test: $(DEV) lint
	$(BIN)/python -m pytest -n 2 -q

test-all: $(DEV) lint
	$(BIN)/python -m pytest -q -m ''

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs src

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Kill it wherever it hurts, on full disks and beside itself; ten minutes, counts at the end.
soak: $(DEV)
	$(BIN)/python tests/soak/soak.py

bench: $(DEV)
	for b in benchmarks/bench_*.py; do $(BIN)/python $$b; done

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(DEMO): $(VENV)/bin/python constraints.txt pyproject.toml
	$(BIN)/python -m pip install -q -c constraints.txt -e .
	touch $@

$(FLOWER): $(VENV)/bin/python constraints.txt pyproject.toml
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[flower]'
	touch $@ $(DEMO)

$(DEV): $(VENV)/bin/python constraints.txt pyproject.toml
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	touch $@ $(DEMO) $(FLOWER)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
