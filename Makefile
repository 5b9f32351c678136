# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3.11
BIN := .venv/bin
# The folder that has a folder for each data set, for `make study`; without it only formulas are drawn.
DATA ?=
# What `make bench` compares, and where the peers' environments are made.
BENCH ?=
ENVIRONMENTS ?= build/benchmarks
# One thread for each test process: two that spin for each other are far slower than one.
ONE := OMP_NUM_THREADS=1

.PHONY: setup demo test test-deep check study bench clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not on the path; install it, or say PYTHON=..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt "torch==2.13.0"
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	@touch $@

demo: setup
	$(BIN)/onlooker run examples/digits_silos.toml

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

test: check
	$(ONE) $(BIN)/pytest -n 2 --dist loadfile -m "not deep" --doctest-modules src tests

test-deep: setup
	$(ONE) $(BIN)/pytest -n 2 --dist loadfile --doctest-modules src tests

study: setup
	$(BIN)/python studies/papers.py $(DATA)
	$(if $(DATA),$(BIN)/python studies/mnist_silos.py $(DATA))

# BENCH holds options, such as BENCH="--only mlp-50 --peers pfl,fedjax"; a whole run takes hours on a quiet machine.
bench: setup
	$(BIN)/python -m benchmarks.environments --under $(ENVIRONMENTS)
	$(BIN)/python -m benchmarks.compare --environments $(ENVIRONMENTS) $(BENCH)
	$(ONE) $(BIN)/python -m benchmarks.breakdown > docs/benchmarks/breakdown.txt

clean:
	rm -rf .venv build dist src/*.egg-info
