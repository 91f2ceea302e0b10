# Every target sets up what it needs in .venv; a machine with Python 3.11+ and pip is enough.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
BENCH  := $(VENV)/.ready-bench

.PHONY: help demo test lint types site unit docs browser bench mutants fuzz faults clean
.DEFAULT_GOAL := help

help:  ## List the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

demo: $(READY)  ## Train on the embedded data set and show the result
	$(BIN)/gbgnn fit --out runs/demo --force

test: lint types site unit  ## Every check: lint, types, documentation, tests, doctests, examples, coverage

lint: $(READY)  ## Style, and which module may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(READY)  ## Static types
	$(BIN)/mypy

SITE := OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -j auto -c docs

# A warning is an error. The gallery's scripts are run by the tests, each in a process of its own.
site: $(READY)
	$(SITE) -D plot_gallery=0 . build/site-unplotted

# One torch thread per worker: two workers with two threads each would fight over the cores.
unit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --cov --cov-report=term-missing:skip-covered
	$(BIN)/python tests/coverage_floor.py

docs: $(READY)  ## The documentation site, with the gallery run, into build/site
	$(SITE) . build/site
	@echo "open build/site/docs/index.html"

browser: $(READY) site  ## Find or fetch a Chromium, and look at every page of the site and of gbgnn report in it
	$(BIN)/playwright install chromium || command -v chromium || command -v chromium-browser || command -v google-chrome
	$(BIN)/python -m pytest -q --no-cov tests/report/test_browser.py tests/test_site.py
	$(BIN)/python docs/site/check_pages.py build/site-unplotted

fuzz: $(READY)  ## 20,000 hostile inputs for every reader and command, results into benchmarks/results
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fuzz.py

bench: $(BENCH)  ## Every benchmark, results into benchmarks/results
	$(BIN)/python benchmarks/run_all.py

mutants: $(READY)  ## Small wrong changes to the theory and the rules: does a fast test notice each
	$(BIN)/python benchmarks/mutants.py

faults: $(READY)  ## Break 200 runs on purpose and go on with them; the page into benchmarks/results
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/faults.py

clean:  ## Remove everything that make built
	rm -rf $(VENV) runs dist build docs/gallery .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

$(BENCH): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[lab]"
	touch $@
