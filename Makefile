# Two commands do everything on a fresh machine: `make study` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: study test test-slow lint format docs benchmark clean
.DEFAULT_GOAL := test

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gradline needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

study: .venv/installed  ## Train on the breast-cancer data without a learning rate, and show what came out
	$(BIN)/python examples/bcwd.py

test: lint  ## Lint, type-check and test
	$(BIN)/python -m pytest -n 2

test-slow: .venv/installed  ## The longer checks
	$(BIN)/python -m pytest -m slow

lint: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: .venv/installed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: .venv/installed  ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

benchmark: .venv/installed  ## Cost of a step against torch's optimizers
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/prls.py

clean:
	rm -rf .venv site docs/pictures .mypy_cache .ruff_cache .pytest_cache .hypothesis
