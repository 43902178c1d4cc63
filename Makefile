# make demo: install and judge eight example kernels.   make test: install, then every check and test.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2

.PHONY: demo test check unit system install bench clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints-cpu.txt
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON): install Python 3.11 or newer, or run 'make system'"; exit 2; }
	@command -v gcc >/dev/null || { echo "no gcc: Triton builds its launchers with it; run 'make system' (as root)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints-cpu.txt -e '.[worker,dev]'
	touch $(STAMP)

system:
	@bash scripts/install-system-packages

demo:
	@bash scripts/demo

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry src

unit: install
	$(BIN)/pytest -n $(WORKERS) --dist loadfile

test: check unit

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache dist build
