# Every target sets up .venv by itself; a second call is quick because the stamp
# is newer than pyproject.toml.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
INTEGRATION := $(VENV)/.installed-integration
BENCH := $(VENV)/.installed-bench
STUDIES := $(VENV)/.installed-studies
DOCS := $(VENV)/.installed-docs
RELEASE := $(VENV)/.installed-release
GPU := $(VENV)/.installed-gpu
LOWEST := .venv-lowest

# Tests start many processes, each of which would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test types units test-integration test-gpu bench fuzz studies docs docs-quick release test-lowest clean
demo: $(STAMP)
	$(BIN)/bayesmdp demo

# Side by side, because kernels compile while mypy runs. A file's tests stay in one
# process (loadfile), which holds what they share.
test: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) --jobs 2 types units

types: $(STAMP)
	$(BIN)/mypy

units: $(STAMP)
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --ignore tests/integration --ignore tests/gpu

test-integration: $(INTEGRATION)
	$(BIN)/pytest -rs -m "integration and not timed" -n 2 --dist loadfile tests/integration
	$(BIN)/pytest -rs -m "integration and timed" tests/integration

bench: $(BENCH)
	$(BIN)/python -m benchmarks all

# On a machine with a GPU; elsewhere it says why it was skipped, and that is all.
test-gpu: $(GPU)
	$(BIN)/pytest -rs tests/gpu || test $$? -eq 5

# The site in docs/_build/html, and as one file for reading without a network. Examples
# run where their script or the package changed; warnings are errors.
docs: $(DOCS)
	$(BIN)/sphinx-build -W --keep-going -b html -d docs/_build/doctrees docs docs/_build/html
	cd docs/_build && ../../$(BIN)/python -m zipfile -c bayesmdp-docs.zip html

# The same without running examples: what ran before is shown, the rest as code.
docs-quick: $(DOCS)
	$(BIN)/sphinx-build -W --keep-going -q -D plot_gallery=0 -b html -d docs/_build/doctrees-quick docs docs/_build/quick

# What PyPI would get, in dist/, checked; then installed into a clean environment, where
# the site's first example runs and a strict user of mypy finds the types.
release: $(RELEASE)
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*
	BAYESMDP_DIST=dist $(BIN)/pytest -m integration tests/integration/test_package.py

# With the oldest versions that pyproject.toml allows, in an environment of its own.
# Their own deprecation warnings are not ours.
test-lowest:
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
		--editable ".[plots,clinical,gym,minari,arviz]" --group tests
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps icu-sepsis==2.0.1
	$(LOWEST)/bin/pytest -n 2 --dist loadfile -W default tests --ignore tests/integration --ignore tests/gpu

# Hours; a run that was stopped goes on.
studies: $(STUDIES)
	$(BIN)/python -m studies all --jobs 2 --resume

# 10,000 generated inputs; FUZZ="--first 10000" takes others, and
# `.venv/bin/python -m fuzz TARGET SEED` repeats one.
fuzz: $(STAMP)
	$(BIN)/python -m fuzz $(FUZZ)

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps icu-sepsis==2.0.1
	touch $@

$(INTEGRATION): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dask,mpi]" --group integration
	touch $@

$(GPU): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[cuda]"
	touch $@

$(BENCH): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group bench
	touch $@

$(STUDIES): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group studies
	touch $@

$(DOCS): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	touch $@

$(RELEASE): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group release
	touch $@

clean:
	rm -rf docs/_build docs/api docs/gallery
	rm -rf $(VENV) $(LOWEST) dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
