# make demo, make test: on a machine with python3 (venv and pip) and make, nothing else is needed.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
EXECUTION ?= immediate
NARROW ?= tests/core
# Files that test-all runs in 32-bit mode, too.
ALSO_NARROW := tests/interop/test_jax_border.py tests/nn/test_bags.py tests/nn/test_loss.py tests/nn/test_norm.py \
	tests/optim/test_optimizers.py tests/extend/test_func.py tests/extend/test_vmap.py \
	$(patsubst %,tests/ops/test_%.py,factories index_ops indexing random reduce scan_sort)
BIN := $(VENV)/bin
# A file's tests stay in one process, which has the kernels that they share.
RUN := $(BIN)/python tests/in_turns.py -n $(JOBS)
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
SUB := $(MAKE) --no-print-directory
comma := ,

.PHONY: docs help demo test test-32 test-compilers test-all sample answers lint bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    train a small network on handwritten digits with an unmodified PyTorch script"
	@echo "make test    lint, then the tests in both kinds of execution, without those that run nothing new; every doctest and code block"
	@echo "make test-32    the core tests with 32-bit numbers (JAX_ENABLE_X64=0), as on many a TPU; more with NARROW=places"
	@echo "make test-compilers    the tests that run the compiler of C++ or PyTorch's own"
	@echo "make test-all    all of these, all cases of every test, each operator's to second order and traced, in both executions"
	@echo "make sample  run everything under coverage.py and choose anew which tests make test runs: tests/sample.txt"
	@echo "make answers    run PyTorch for tests of processes and note what it gives: tests/pytorchs.json"
	@echo "make bench   the benchmarks, in one table with their targets (BENCH=--quick: only see that they run)"
	@echo "make docs    the documentation as a site, with a reference and a table of what is missing, in site/"
	@echo "make lint    ruff and mypy alone"
	@echo "make clean   remove what these commands made"

# One stamp for each set of extras: installed anew whenever pyproject.toml changes.
$(VENV)/installed-%: pyproject.toml
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[$(subst +,$(comma),$*)]'
	@touch $@

demo: $(VENV)/installed-examples
	$(BIN)/python -m torchlike run examples/digits.py

# The rest runs beside the processes that compute: mypy has use for one core only.
test: $(VENV)/installed-test+examples+dev
	$(RUN) --also '$(SUB) lint test-32 JOBS=1' \
		--options '-m "not compilers" --doctest-modules' tests torchlike

# jax warns of each 64-bit type that it narrows, and torchlike once; every warning is an error in tests.
test-32: $(VENV)/installed-test+examples+dev
	JAX_ENABLE_X64=0 TORCHLIKE_EXECUTION=$(EXECUTION) $(RUN) \
		--options '-W "ignore:Explicitly requested dtype" -W "ignore:64 bits are asked for"' $(NARROW)

test-compilers: $(VENV)/installed-test+examples+dev
	$(PYTEST) -m compilers tests

test-all: lint
	$(MAKE) test-32 EXECUTION=recorded
	$(MAKE) test-32 NARROW="$(ALSO_NARROW)"
	TORCHLIKE_EVERY=1 $(RUN) --options --doctest-modules tests torchlike

sample: $(VENV)/installed-test+examples+dev+sample
	$(BIN)/python tests/make_sample.py -n $(JOBS)

answers: $(VENV)/installed-test+examples+dev
	TORCHLIKE_ANSWERS=1 $(BIN)/python -m pytest -q -n 0 tests/distributed/test_processes.py tests/distributed/test_faults.py \
		tests/test_processes.py tests/test_run.py tests/test_example_scripts.py tests/test_warned_lines.py

# mypy also reads a user's program, tests/typed_program.py, by the stubs that docs/make_stubs.py writes.
lint: $(VENV)/installed-test+examples+dev
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/installed-docs
	$(BIN)/python docs/make_site.py
	$(BIN)/mkdocs build --quiet

bench: $(VENV)/installed-test+examples+dev
	$(BIN)/python benchmarks/report.py $(BENCH)

clean:
	rm -rf $(VENV) site docs/api docs/missing.md build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis *-out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
