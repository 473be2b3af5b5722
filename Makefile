# make demo: see it work. make test: what CI runs. Both set up .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One marker per set of extras; reinstalled when the pins or the package definition change.
DEMO := $(VENV)/.demo
FLOWER := $(VENV)/.flower
DEV := $(VENV)/.dev
DOCS := $(VENV)/.docs

.PHONY: demo demo-flower test test-all lint format soak odd docs docs-serve bench clean

demo: $(DEMO)
	$(BIN)/feda3i demo

# Superlink and four supernodes as real processes on loopback, compared with the local run.
demo-flower: $(FLOWER)
	$(BIN)/feda3i deploy demo

# The lowest instruction set that the libraries can be held to: golden numbers must not notice.
LOWEST := ONEDNN_MAX_CPU_ISA=SSE41 ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE \
	OPENBLAS_CORETYPE=Nehalem NPY_DISABLE_CPU_FEATURES=X86_V3 OPENCV_CPU_DISABLE=AVX2,AVX,FP16,FMA3

test: $(DEV) lint
	$(BIN)/python -m pytest -n 2 -q
	$(LOWEST) $(BIN)/python -m pytest -n 2 -q tests/golden -k as_expected

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

# N odd recipes, commands and files: any input ends with a result or one error of ours.
N ?= 2000
SEED ?= 0
FIRST ?= 0
odd: $(DEV)
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python tests/odd/odd.py $(N) $(SEED) $(FIRST)

# The pages that are made from the code, and the site of all pages in site/.
docs: $(DOCS)
	for page in methods keys commands architecture; do $(BIN)/python docs/make_$$page.py; done
	$(BIN)/mkdocs build -q

docs-serve: $(DOCS)
	$(BIN)/mkdocs serve

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

$(DOCS): $(DEV)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) build site dist .mypy_cache .ruff_cache .pytest_cache
