# Two commands do everything on a fresh machine: `make study` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
SEEDS ?= 3
OUT ?= runs/bcwd

.PHONY: study test test-slow lint format docs benchmark clean
.DEFAULT_GOAL := test

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gradline needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	@echo "Setting up .venv with everything that is used here: a few minutes, once."
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

study: .venv/installed  ## The paper's study on the breast-cancer data (SEEDS=10 for all of it), its summary and its report
	$(BIN)/gradline run bcwd --seeds $(SEEDS) --out $(OUT)
	$(BIN)/gradline results $(OUT)
	$(BIN)/gradline report $(OUT) --out $(OUT)/report.html

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
	$(BIN)/python benchmarks/lockstep.py

clean:
	rm -rf .venv site docs/pictures .mypy_cache .ruff_cache .pytest_cache .hypothesis
