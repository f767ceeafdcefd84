# make demo: the whole workflow on bundled data.   make test: all tests.   make check: static checks.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORES ?= 2

.PHONY: demo test check bench clean environment

# Rebuilt when the requirements change; the marker is written last, so a broken install is redone.
$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "fedatlas needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

environment: $(VENV)/.installed

demo: environment
	$(BIN)/snakemake --cores $(CORES) --quiet rules
	$(BIN)/snakemake --report results/report.zip --quiet all
	@echo
	@$(BIN)/fedatlas summary

test: environment
	$(BIN)/python -m pytest -n $(CORES)

check: environment
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/mypy
	$(BIN)/snakemake --lint

bench: environment
	$(BIN)/python benchmarks/rounds.py
	$(BIN)/python benchmarks/workflow.py

clean:
	rm -rf results logs .snakemake
