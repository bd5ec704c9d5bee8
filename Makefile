# Each target does the set-up that it needs. `make help` lists them.
# the first of these that is there and is a 3.11, 3.12 or 3.13
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3 python; do \
    $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$python && break; \
    done)
NO_PYTHON = no Python 3.11, 3.12 or 3.13 here: install one, or name it with make PYTHON=/path/to/python3
EXTRAS ?=
ARGS ?=
BUDGET ?= smoke
TABLE ?= all
DRY_RUN ?= 0
MINUTES ?= 20
RUN_PYTHON := .venv/bin/python

# Idle OpenMP threads sleep instead of spinning, so that two runs on one machine do not slow each other down.
export OMP_WAIT_POLICY ?= PASSIVE

.DEFAULT_GOAL := help
.PHONY: help setup run auto reproduce-tables gpu-campaign test test-all mutants attack lint docs bench lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-16s %s\n", $$1, $$2}' Makefile

setup:  ## virtual environment, pinned packages and offline encoder weights (EXTRAS=gpu: CUDA torch and GPU faiss)
	@$(or $(PYTHON),$(error $(NO_PYTHON))) scripts/environment.py $(EXTRAS) \
		$(if $(filter command,$(origin PYTHON)),--this-python)

# half of MiniLM's blocks: minutes sooner than all of them, and the same validation macro-F1 (78.7 against 78.3)
run: setup  ## train and report on the built-in data set (ARGS="key=value ..." is passed on)
	$(RUN_PYTHON) run.py method=sharprecl dataset=docstrings encoder=minilm \
		encoder.train=top_layers encoder.num_top_layers=3 trainer.max_epochs=5 $(ARGS)

auto: data-is-named setup  ## which method for your texts, how good, and the model (DATA=my.csv MINUTES=20)
	$(RUN_PYTHON) run.py task=auto "input=$(DATA)" minutes=$(MINUTES) $(ARGS)

.PHONY: data-is-named
data-is-named:  # before minutes of set-up
	$(if $(DATA),,$(error make auto: no file; type make auto DATA=my.csv MINUTES=20))

reproduce-tables: setup  ## the papers' tables by own runs (BUDGET=smoke|cpu|frozen|images|paper TABLE=NAME DRY_RUN=1)
	$(RUN_PYTHON) -m papers.reproduce budget=$(BUDGET) table=$(TABLE) dry_run=$(DRY_RUN) $(ARGS)

# a dry run takes whatever environment is there
gpu-campaign: EXTRAS := $(if $(filter 0 false,$(DRY_RUN)),gpu --with-device)
gpu-campaign: setup  ## GPU tests, then tuning and fresh seeds of the central comparison (DRY_RUN=1 ARGS="minutes=40 jobs=4")
	$(RUN_PYTHON) -m papers.campaign dry_run=$(DRY_RUN) $(ARGS)

# compiled modules are kept: otherwise each of the many processes that tests start compiles all of them
test test-all: export PYTHONDONTWRITEBYTECODE =
test: setup  ## the fast tests, on two processes (ARGS="-k name" is passed on to pytest)
	$(RUN_PYTHON) -m pytest --numprocesses 2 --dist worksteal $(ARGS)

test-all: test  ## the fast tests, then those end to end, on several processes and of kills
	$(RUN_PYTHON) -m pytest -m slow --numprocesses 2 --dist worksteal $(ARGS)

mutants: setup  ## seed known faults one by one and show which test catches each (ARGS="NAME ..." for some)
	$(RUN_PYTHON) scripts/mutants.py $(ARGS)

attack: setup  ## bad settings, bad files and kills; figures of what came of them (ARGS="inputs=1000 kills=60 seed=1")
	$(RUN_PYTHON) -m attack $(ARGS)

lint: setup  ## ruff on everything, mypy where types help
	$(RUN_PYTHON) -m ruff check .
	$(RUN_PYTHON) -m mypy

docs: setup  ## the documentation site, into site/; any dead link or wrong docstring fails (ARGS is passed on)
	NO_MKDOCS_2_WARNING=1 $(RUN_PYTHON) -m mkdocs build --strict $(ARGS)

bench: setup  ## every race in benchmarks/ against its peer; after one that fails the others go on
	@failed=; for race in $(basename $(notdir $(wildcard benchmarks/[a-z]*.py))); do \
		$(RUN_PYTHON) -m benchmarks.$$race || failed="$$failed $$race"; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

lock:  ## resolve pyproject.toml into the two lock files (ARGS=--upgrade: newest versions)
	@$(or $(PYTHON),$(error $(NO_PYTHON))) scripts/lock.py $(ARGS)

clean:  ## remove the environment and caches; runs, data and cache stay
	rm -rf .venv .venv.lock build dist site .pytest_cache .ruff_cache .mypy_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
