# make demo: the whole workflow on bundled data.   make test: all tests.   make check: static checks.
# make site: the site, in docs/_build/html, without a network.   make schemas: its JSON schemas.
# make fuzz: 10,000 damaged files for every parser (FEDATLAS_FUZZ_CASES says another number), and
#   1,000 examples for property tests.
# make slurm-test: experiments and faults on a SLURM of one node, as root (docs/cluster.md).
# make kill-test: 100 kills of training, at random times (FEDATLAS_KILLS says another number).
# make crash-test: every kind of job killed, or failing, at every call that changes a file
#   (CRASH_OPTIONS="--some 8": at so many).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORES ?= 2
# Python compiles what it imports by itself: compiling everything takes a minute.
INSTALL := -m pip install --quiet --no-compile --constraint constraints.txt

# Hundreds of processes start: Python keeps what it compiles, whatever the machine's default is.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test site schemas words fuzz kill-test crash-test test-cluster test-crates slurm-test check bench peers clean environment

# Rebuilt when the requirements change; the marker is written last, so a broken install is redone.
$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "fedatlas needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) torch==2.13.0
	$(BIN)/python $(INSTALL) --editable '.[test,docs]'
	touch $@

environment: $(VENV)/.installed

demo: environment
	$(BIN)/fedatlas run 'demo-*' --cores $(CORES) --report results/report.zip
	@echo
	@$(BIN)/fedatlas summary

# Results are synced to the disk, thousands of times in tests: in memory nothing waits for that.
MEMORY = $(shell [ -w /dev/shm ] && [ $$(df --output=avail /dev/shm | tail -1) -gt 2000000 ] && echo /dev/shm)

test: environment
	place=$$(mktemp -d $(if $(MEMORY),$(MEMORY)/fedatlas-tests-XXXXXX)) && trap 'rm -rf "$$place"' EXIT && \
		trap 'exit 1' HUP INT TERM && \
		TMPDIR=$$place $(BIN)/python -m pytest -n $(CORES) --dist loadfile --no-loadscope-reorder --durations=20

# A copy with the plugins for clusters: Snakemake loads every plugin that it finds at each start.
CLUSTER := .venv-cluster
$(CLUSTER)/.installed: $(VENV)/.installed
	rm -rf $(CLUSTER) && cp -al $(VENV) $(CLUSTER) && rm $(CLUSTER)/.installed  # links, no copies
	$(CLUSTER)/bin/python $(INSTALL) --editable '.[cluster-test]'
	touch $@

test-cluster: $(CLUSTER)/.installed  # submission by profiles, without a cluster
	$(CLUSTER)/bin/python -m pytest tests/test_submission.py

# It needs another version of rich than fedatlas.
CRATES := .venv-crates
$(CRATES)/.installed:
	rm -rf $(CRATES) && $(PYTHON) -m venv $(CRATES)
	$(CRATES)/bin/python -m pip install --quiet roc-validator==0.13.0
	touch $@

test-crates: $(VENV)/.installed $(CRATES)/.installed  # published folders are Provenance Run Crates
	$(CRATES)/bin/python tests/crates/validate.py \
		$$($(BIN)/python -c 'import rocrate; print(rocrate.__path__[0])')/data/ro-crate.jsonld \
		$$(dirname published/*/Snakefile)

SLURM_OPTIONS ?=
slurm-test: $(CLUSTER)/.installed  # on a SLURM of one node, as root: see docs/cluster.md
	$(CLUSTER)/bin/python tests/slurm/check_slurm.py $(SLURM_OPTIONS)

fuzz: environment
	FEDATLAS_FUZZ_CASES=$${FEDATLAS_FUZZ_CASES:-10000} $(BIN)/python -m pytest -s tests/test_fuzz_parsers.py
	$(BIN)/python -m pytest -n $(CORES) -m hypothesis --hypothesis-profile thorough

kill-test: environment
	FEDATLAS_KILLS=$${FEDATLAS_KILLS:-100} $(BIN)/python -m pytest -s tests/test_interruption.py

CRASH_OPTIONS ?=
crash-test: environment  # needs Linux and a compiler of C
	$(if $(MEMORY),TMPDIR=$(MEMORY)) $(BIN)/python tests/crash/check_crashes.py --cores $(CORES) $(CRASH_OPTIONS)

check: environment
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules workflow/Snakefile
	$(BIN)/mypy
	$(BIN)/snakemake --lint

site: environment  # a warning, such as of a link that leads nowhere, fails it
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html
	@echo docs/_build/html/index.html

schemas: environment  # after a change of what people write in config/
	cd docs && ../$(BIN)/python -m making.schemas

words: environment  # after a change of what words of papers claim
	cd docs && ../$(BIN)/python -m making.words

bench: demo  # of which it says where the time went
	$(BIN)/python benchmarks/rounds.py
	$(BIN)/python benchmarks/parties.py
	$(BIN)/python benchmarks/networks.py
	$(BIN)/python benchmarks/clocks.py
	$(BIN)/python benchmarks/steps.py
	$(BIN)/python benchmarks/clipping.py
	$(BIN)/python benchmarks/tracking.py
	$(BIN)/python benchmarks/tiers.py
	$(BIN)/python benchmarks/atlas.py
	$(BIN)/python benchmarks/explorer.py
	$(BIN)/python benchmarks/workflow.py
	$(BIN)/python benchmarks/jobs.py
	$(BIN)/python benchmarks/jobs.py --one-round
	$(BIN)/python benchmarks/shares.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/peers/run.py

# Other projects that `make bench` compares with, each in an environment of its own; they are
# skipped where they are not installed. `make -k peers` goes on after one that cannot be.
PEERS := flower pfl fedjax libauc duckdb
peers: $(PEERS:%=.venv-peers/%/.installed)

.venv-peers/%/.installed: benchmarks/peers/environments/%.txt
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --requirement $<
	if [ -e $(<:.txt=.no-deps.txt) ]; then \
		$(@D)/bin/python -m pip install --quiet --no-deps --requirement $(<:.txt=.no-deps.txt); fi
	touch $@

clean:  # keeps what was downloaded
	find results -mindepth 1 -maxdepth 1 ! -name raw ! -name archives -exec rm -rf {} + 2>/dev/null || true
	rm -rf logs .snakemake docs/_build docs/_extra docs/gallery docs/papers docs/reference
