# make run        train and evaluate on the embedded dataset
# make test       the tests, but for the slow ones: about two minutes on two cores
# make check      lint, types, import directions, the tables and pictures, docs, all tests, and two minutes of fuzzing
# make fuzz       an hour of damaged and hostile files for whatever reads files
# make lock       requirements.lock again: every dependency with the hashes of its files (SECURITY.md)
# make audit      the lock compared with published advisories; exit code 2 where they cannot be reached
# make sbom       a bill of materials, CycloneDX, into dist/
# make docs       the pages and the API reference, into site/; a warning is an error
# make bundle     the scripts of the pages again, from web/: what comes with the package; needs Node
# make test-gpu   the tests that need a GPU, on a machine that has one
# Everything needed is installed into .venv first; test-gpu installs nothing: PYTHON has PyTorch, Triton, numpy, jaxtyping,
# safetensors, pytest, hypothesis and beartype.
PYTHON ?= python3
MINUTES ?= 60
VENV := .venv
BIN := $(VENV)/bin
# Pins what is installed and what builds it. An address, since pip takes a space for the end of a path.
NOTHING :=
SPACE := $(NOTHING) $(NOTHING)
export PIP_CONSTRAINT := file://$(subst $(SPACE),%20,$(CURDIR))/constraints.txt

.PHONY: run test slow check lint docs bundle fuzz test-gpu lock audit sbom clean

run: $(VENV)/installed
	$(BIN)/procrustes train

test: $(VENV)/installed-test
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

slow: $(VENV)/installed-check  # what `make test` leaves out, and the kernels by Triton's interpreter
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow

check: MINUTES = 2
check: lint docs test slow fuzz

fuzz: $(VENV)/installed-test
	$(BIN)/python scripts/fuzz.py --minutes $(MINUTES)

lint: $(VENV)/installed-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_results.py
	$(BIN)/python scripts/supply.py licences

docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet  # the variable: an announcement of the theme's makers
	@echo "built site/index.html"

bundle:
	cd web && npm ci --ignore-scripts && npm run build

test-gpu:
	PYTHONPATH="$(CURDIR)/src$${PYTHONPATH:+:$$PYTHONPATH}" $(PYTHON) -m pytest -m gpu -rs tests

lock: $(VENV)/installed-supply
	$(BIN)/python scripts/supply.py lock

audit: $(VENV)/installed-supply
	$(BIN)/python scripts/supply.py audit

sbom: $(VENV)/installed
	$(BIN)/python scripts/supply.py sbom

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[all]'
	touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/pip install --quiet --editable '.[test]'
	touch $@

$(VENV)/installed-check: $(VENV)/installed-test
	$(BIN)/pip install --quiet --editable '.[test,check,kernels]'
	touch $@

$(VENV)/installed-docs: $(VENV)/installed
	$(BIN)/pip install --quiet --editable '.[docs]'
	touch $@

$(VENV)/installed-supply: $(VENV)/installed
	$(BIN)/pip install --quiet --editable '.[supply]'
	touch $@

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
