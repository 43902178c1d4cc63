# make demo: install, then judge eleven example kernels.   make test: install, then every check and test.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
PIP_ARGS ?=
export PYTHON VENV

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
VENV36 := $(VENV)-triton36
STAMP36 := $(VENV36)/.installed
PIP := -m pip --disable-pip-version-check install --quiet $(PIP_ARGS)

.PHONY: chaos demo test check unit test-triton36 test-python312 system install offline-bundle clean

demo:
	@bash scripts/demo

test: check unit test-triton36 test-python312

install: $(STAMP)

$(STAMP): pyproject.toml constraints-cpu.txt
	@bash scripts/system-packages --check
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) -c constraints-cpu.txt -e '.[worker,serve,train,dev]'
	touch $(STAMP)

system:
	@bash scripts/system-packages

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry src

# Large libraries are read from the disk once first: else a dozen processes wait for it together, and
# one that waits cannot be killed in time.
unit: install
	$(BIN)/python -c "import numba, torch._inductor.config, transformers, triton._C.libtriton"
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# The oldest Triton that is supported, over the packages of the first environment.
$(STAMP36): $(STAMP) scripts/second-environment
	bash scripts/second-environment $(VENV36) triton==3.6.0

test-triton36: $(STAMP36)
	$(VENV36)/bin/python -m pytest -q -p no:cacheprovider tests/e2e/test_demo.py tests/e2e/test_builtin_tasks.py

# The GPU machine's Python: what needs no torch must compile and import there.
test-python312: install
	@bash scripts/check-python312

offline-bundle:
	@bash scripts/offline-bundle

chaos: install
	@bash scripts/chaos

clean:
	rm -rf $(VENV) $(VENV36) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache dist build
