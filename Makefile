# Two commands are enough: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
# Test workers are as many as cores, so that each leaves the others theirs.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# One worker more where deployments of Flower, which mostly wait, hold one of them.
ONE_MORE = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Tests start many processes: none of them should compile again what another one has compiled.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help demo test test-everything check test-torch test-browser test-servers test-spark test-oldest lint repin format docs docs-check linkcheck bench bench-quick coverage house clean
help:
	@echo "make demo    train a private classifier on an embedded table, as in the README"
	@echo "make test    all that needs Python alone    make lint  formatting, rules, types"
	@echo "make test-everything  the groups below too, where this machine has what they need"
	@echo "make check   the daily round      make repin  after a proof sheet was read again"
	@echo "make test-torch, test-browser, test-servers, test-spark  one group, with what it needs"
	@echo "make docs    build the pages      make bench  run the benchmarks"
	@echo "make docs-check  look at the pages in a browser    make linkcheck  links to other sites"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Sfumato needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

# One stamp per extra: installing happens once, and again when pyproject.toml changes.
$(STAMPS)/%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/core: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@mkdir -p $(STAMPS) && touch $@

# All that .ci/run needs, in one go.
$(STAMPS)/everything: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[test,federated,lint]"
	@mkdir -p $(STAMPS) && touch $(STAMPS)/test $(STAMPS)/federated $(STAMPS)/lint $@

demo: $(STAMPS)/core
	sed -n '/^```python/,/^```$$/p' README.md | grep -v '^```' | $(BIN)/python -

# All that needs Python alone; what is skipped is counted at the end.
test: $(STAMPS)/test
	$(ONE_THREAD) $(BIN)/python -m pytest -n auto --dist loadgroup \
	  -m "not torch and not browser and not servers and not spark"

# Every group at once, as before a change lands; what this machine lacks is skipped.
test-everything: $(STAMPS)/test $(STAMPS)/federated
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(ONE_MORE) --dist loadgroup --durations=40

# The daily round: formatting, rules, types, and the tests that take no time.
check: lint $(STAMPS)/test
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n auto --dist loadgroup tests \
	  -m "not slow and not torch and not browser and not servers and not spark"

# One group each, with what it needs; here a skipped test is a failure.
test-torch: $(STAMPS)/test $(STAMPS)/test-torch
	SFUMATO_REQUIRE=torch $(ONE_THREAD) $(BIN)/python -m pytest -m torch tests

test-browser: $(STAMPS)/test $(STAMPS)/browser
	SFUMATO_REQUIRE=browser $(ONE_THREAD) $(BIN)/python -m pytest -m browser tests

test-servers: $(STAMPS)/test $(STAMPS)/federated
	SFUMATO_REQUIRE=servers SFUMATO_NODES=5 $(ONE_THREAD) $(BIN)/python -m pytest -m servers tests

# Needs Java 17 or newer (apt-get install openjdk-17-jre-headless).
test-spark: $(STAMPS)/test
	$(BIN)/python -m pip install --quiet --editable ".[spark]"
	SFUMATO_REQUIRE=spark $(ONE_THREAD) $(BIN)/python -m pytest -m spark tests

# A browser of this machine, or one that is fetched.
$(STAMPS)/browser: | $(STAMPS)/test
	command -v chromium >/dev/null || command -v google-chrome >/dev/null \
	  || $(BIN)/python -m playwright install chromium
	@touch $@

# Needs Python 3.11 or 3.12: the oldest NumPy has no build for newer ones.
test-oldest:
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --editable ".[test]" --constraint tests/oldest.txt
	$(ONE_THREAD) $(VENV)-oldest/bin/python -m pytest -n auto --dist loadgroup

lint: $(STAMPS)/lint $(STAMPS)/test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/check_docs.py

# After the proof sheets of changed functions were read again; says which have changed.
repin: $(STAMPS)/test
	$(BIN)/python tools/check_docs.py --repin

format: $(STAMPS)/lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Gallery and all; needs no network, and neither do the pages.
docs: $(STAMPS)/docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# The pages on a phone and on a desk in headless Chromium, and every link inside the site.
docs-check: docs $(STAMPS)/test $(STAMPS)/browser
	SFUMATO_SITE=docs/_build/html $(BIN)/python -m pytest -q tests/test_site.py

# Links to other sites; needs the network, so it is no part of `make test`.
linkcheck: $(STAMPS)/docs
	$(BIN)/python -m sphinx -D plot_gallery=0 -b linkcheck docs docs/_build/linkcheck

bench: $(STAMPS)/test
	$(BIN)/python -m benchmarks

# Whether every benchmark still runs: a minute each, within the hour; keeps no numbers.
bench-quick: $(STAMPS)/test
	$(BIN)/python -m benchmarks --quick

# Fails below the floor of pyproject.toml.
coverage: $(STAMPS)/test $(STAMPS)/coverage
	$(ONE_THREAD) $(BIN)/python -m pytest -n auto --dist loadgroup --cov \
	  -m "not torch and not browser and not servers"

# How large the house is, and how far a fit walks through it, next to what is allowed.
house: $(STAMPS)/core
	$(BIN)/python tools/house.py

clean:
	rm -rf $(VENV) docs/_build build dist
