# make run    train and evaluate on the embedded dataset        make test   the tests
# make check  lint, types, import directions, tests, doctests   Everything needed is installed into .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Pins what is installed and what builds it.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt

.PHONY: run test check lint clean

run: $(VENV)/installed
	$(BIN)/procrustes train

test: $(VENV)/installed-test
	$(BIN)/python -m pytest

check: $(VENV)/installed-test lint
	$(BIN)/python -m pytest

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/pip install --quiet --editable '.[test,check]'
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
