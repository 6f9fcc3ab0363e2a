# Everything a reader, a teacher or a contributor runs. `make help` lists it. Needs Python 3.11+, nothing else.
# Browser tests also want Chromium and Node, sandbox tests root and `unshare`; they skip with a reason without them.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
PY := $(BIN)/python
PORT ?= 8000
export MLSYSIM_STATIC := 1
# Hundreds of processes import the library: each of them would compile it anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup book pdf epub print slides scorm serve test check validate mutations nightly notebooks exercises lab bench format clean

help: ## list the commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(BIN)/.ready ## make .venv with everything pinned by constraints.txt

$(BIN)/.ready: pyproject.toml constraints.txt scripts/setup.sh
	PYTHON="$(PYTHON)" bash scripts/setup.sh
	@touch $@

book: setup ## build the site into _site (Quarto when it is on the PATH, else the preview build); SERVE=1 serves it
	$(PY) scripts/build_book.py
	@if [ -n "$(SERVE)" ]; then $(MAKE) --no-print-directory serve; fi

pdf: setup ## set the whole book as _print/mlsysim-book.pdf (pandoc and typst from .venv, with Quarto and without)
	$(PY) scripts/build_print.py pdf --parts

epub: setup ## the whole book as _print/mlsysim-book.epub
	$(PY) scripts/build_print.py epub --parts

print: setup ## both, from one reading of the book
	$(PY) scripts/build_print.py both --parts

slides: setup ## slides of every chapter into _slides (pandoc from .venv; the same files render with Quarto); make book links them
	$(PY) scripts/slides --parts

scorm: setup ## the questions of every chapter as SCORM packages for a course system into _scorm (needs npm and Node)
	$(PY) scripts/make_scorm.py

serve: ## serve _site on http://localhost:8000 (PORT=...)
	$(PY) -m http.server --directory _site --bind 127.0.0.1 $(PORT)

# Without nbval, which loads Jupyter into every process; the tests start it where they need it. The types are checked beside it.
PYTEST := $(PY) -m pytest -p no:nbval
BESIDE_TYPES = mkdir -p .cache; $(BIN)/mypy > .cache/mypy.txt 2>&1 & types=$$!; $(1); code=$$?; \
  wait $$types || code=1; cat .cache/mypy.txt; exit $$code
# A few hundred long tests, handed out one by one to all processors, the longest first.
LONG := slow or browser or sandbox or colab
LONG_TESTS = $(PYTEST) -n logical --dist worksteal --durations=20 -m "$(LONG)" \
  $$(grep -lrE 'mark\.($(subst $() or $(),|,$(LONG)))' tests --include='test_*.py')
# Thousands of short ones, and examples of docstrings: two plain sessions beside each other, since handing out each test would
# cost as much as running it.
FIRST := mlsysim $(addprefix tests/,house catalog hlo network physics field serving)
SECOND := $(filter-out $(FIRST),$(patsubst %/,%,$(filter-out %__pycache__/,$(wildcard tests/*/))))
SHORT := $(PYTEST) --doctest-modules -q -m "not ($(LONG))"
SHORT_TESTS = (mkdir -p .cache; $(SHORT) $(FIRST) > .cache/first.txt 2>&1 & first=$$!; $(SHORT) $(SECOND); code=$$?; \
  wait $$first || code=1; cat .cache/first.txt; exit $$code)

test: setup ## all tests: library, book, notebooks, exercises, browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(call BESIDE_TYPES,($(LONG_TESTS); long=$$?; $(SHORT_TESTS) && exit $$long))

check: setup ## the fast subset, for between two edits: about a minute
	$(BIN)/ruff check .
	@$(call BESIDE_TYPES,$(SHORT_TESTS))

validate: setup ## published figures beside our predictions, by class and group
	$(PY) -m mlsysim.cli validate

scoreboard: setup ## predict the blind rows again and write the scoreboard's tables (some minutes; peers: scripts/maintain/peers)
	$(BIN)/python scripts/maintain/predict_blind.py && $(BIN)/python scripts/book_scoreboard.py --write

mutations: setup ## plant every mistake of tests/mutations.toml (make test plants as many as twenty seconds allow)
	MLSYSIM_NIGHTLY=1 $(PYTEST) -q -m nightly tests/house/test_mutations.py

nightly: mutations ## and all that make test samples, in full
	MLSYSIM_NIGHTLY=1 $(PYTEST) -n logical --dist worksteal --doctest-modules --durations=20 mlsysim tests --ignore tests/house/test_mutations.py

notebooks: setup ## re-execute every notebook and write it back in canonical form
	$(PY) scripts/run_notebooks.py

exercises: setup ## make instructor masters and student notebooks from the exercise definitions
	$(PY) scripts/make_exercises.py

lab: setup ## build the in-browser lab into _lab (OFFLINE=1: with Pyodide inside, no CDN)
	$(PY) scripts/build_lab.py $(if $(OFFLINE),--offline)

bench: setup ## measure import, scalar call, sweep, plan search, explain, book, notebooks; JSON in .benchmarks/
	$(PY) -m pytest benchmarks -q --benchmark-only --benchmark-json=.benchmarks/latest.json

format: setup ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what was built (not .venv)
	rm -rf _site _lab _print _slides _scorm build dist .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
