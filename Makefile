# Two commands do everything on a fresh machine: `make study` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
SEEDS ?= 3
OUT ?= runs/bcwd

PYTEST = $(BIN)/python -m pytest
CORE = tests/searches tests/test_driver.py tests/test_protocol.py tests/test_function.py tests/test_testing.py
# What computes with floating-point numbers.
NUMERIC = tests/searches tests/torch tests/practice tests/ranks tests/sklearn tests/lab \
  tests/test_docs.py tests/test_examples.py tests/integrations
# Other processors' kernels; OMP_NUM_THREADS is the number of torch's threads in the tests.
MACHINES ?= ATEN_CPU_CAPABILITY=default,MKL_CBWR=COMPATIBLE,ONEDNN_MAX_CPU_ISA=SSE41,OMP_NUM_THREADS=1 \
  ATEN_CPU_CAPABILITY=avx2,ONEDNN_MAX_CPU_ISA=AVX2,MKL_CBWR=AVX2,OMP_NUM_THREADS=1 \
  ATEN_CPU_CAPABILITY=default,OMP_NUM_THREADS=2 \
  ONEDNN_MAX_CPU_ISA=AVX2,OMP_NUM_THREADS=2 \
  MKL_CBWR=COMPATIBLE,OMP_NUM_THREADS=1

.PHONY: study test test-fast test-slow test-machines test-dist dist style lint format docs benchmark clean
.DEFAULT_GOAL := test

# Byte code is made when a module is first imported; to make it of every module took most of the installation's time.
INSTALL = $(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gradline needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv

.venv/study: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Setting up .venv for the study: about a minute, once."
	$(INSTALL) -e '.[study]'
	touch $@

.venv/installed: .venv/study
	@echo "Setting up .venv with everything that the tests use: a few minutes, once."
	$(INSTALL) -e '.[dev]'
	-@$(BIN)/python -W ignore -m compileall -q -j 0 .venv/lib >/dev/null  # in tests, a warning of a compiler is an error
	touch $@

study: .venv/study  ## The paper's study on the breast-cancer data (SEEDS=10 for all of it), its summary and its report
	$(BIN)/gradline run bcwd --seeds $(SEEDS) --out $(OUT)
	$(BIN)/gradline results $(OUT)
	$(BIN)/gradline report $(OUT) --out $(OUT)/report.html

test: style  ## Lint, type-check (in a test, beside the others) and test: within 5 minutes on two cores
	$(PYTEST) -n 2 --dist worksteal

test-fast: .venv/installed  ## The core alone (protocol, searches, driver, conformance suite): within a minute
	$(PYTEST) -n 2 $(CORE)

test-slow: .venv/installed  ## The longer checks
	$(PYTEST) -n 2 --dist worksteal -m slow

test-machines: .venv/installed  ## The numeric tests as other processors would round, on one thread and on two
	@for machine in $(MACHINES); do \
	  echo "== $$machine"; \
	  env $$(echo $$machine | tr , ' ') $(PYTEST) -n 2 --dist worksteal $(NUMERIC) || exit 1; \
	done

dist: .venv/installed  ## The sdist, the wheel made from it, and what an index would say of them
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*

test-dist: dist  ## The core's tests as they are in the sdist, on the wheel in an environment of its own
	rm -rf build/dist && mkdir -p build/dist
	tar -xzf dist/*.tar.gz -C build/dist --strip-components 1
	$(PYTHON) -m venv build/dist/.venv
	build/dist/.venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt "$$(ls dist/*.whl)[test,study]"
	cd build/dist && .venv/bin/gradline --version && .venv/bin/python -m pytest -q $(CORE) tests/lab/cli tests/torch/test_optimizer.py

style: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check

lint: style  ## Lint and type-check alone
	$(BIN)/mypy

format: .venv/installed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: .venv/installed  ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

benchmark: .venv/installed  ## Cost of a step against torch's optimizers
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/prls.py
	$(BIN)/python benchmarks/lockstep.py

clean:
	rm -rf .venv site docs/pictures .mypy_cache .ruff_cache .pytest_cache .hypothesis
