# make demo, make test: on a machine with python3 (venv and pip) and make, nothing else is needed.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
BIN := $(VENV)/bin
# A file's tests stay in one process, which has the kernels that they share.
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile
comma := ,

.PHONY: help demo test test-compilers test-all lint bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    train a small network on handwritten digits with an unmodified PyTorch script"
	@echo "make test    lint, then the tests in both kinds of execution, every doctest and code block"
	@echo "make test-compilers    the tests that run the compiler of C++ or PyTorch's own"
	@echo "make test-all    all of these, every case of an operator to second order and traced, formulas in both executions"
	@echo "make bench   the benchmarks, in one table with their targets (BENCH=--quick: only see that they run)"
	@echo "make lint    ruff and mypy alone"
	@echo "make clean   remove what these commands made"

# One stamp for each set of extras: installed anew whenever pyproject.toml changes.
$(VENV)/installed-%: pyproject.toml
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[$(subst +,$(comma),$*)]'
	@touch $@

demo: $(VENV)/installed-examples
	$(BIN)/python -m torchlike run examples/digits.py

test: lint
	$(PYTEST) -m "not compilers" --doctest-modules tests torchlike

test-compilers: $(VENV)/installed-test+examples+dev
	$(PYTEST) -m compilers tests

test-all: lint
	TORCHLIKE_EVERY=1 $(PYTEST) --doctest-modules tests torchlike

lint: $(VENV)/installed-test+examples+dev
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/installed-test+examples+dev
	$(BIN)/python benchmarks/report.py $(BENCH)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis digits-out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
