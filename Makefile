# Two commands do everything on a fresh clone: `make serve` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
PORT ?= 8000
WEB ?= web

.PHONY: serve web test lint mutants openapi constraints clean

serve: .venv/serve.stamp
	$(BIN)/calcgpt serve --port $(PORT)

# The page without a service, for any static host: `make web WEB=FOLDER`.
web: .venv/serve.stamp
	$(BIN)/calcgpt export scratchpad $(WEB) --to web --force --also steps --also direct --also blog

test: lint
	$(BIN)/pytest -q -n 2 --dist worksteal  # neighbours share a worker, and so its fixtures

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Measures the tests: the share of small changes to the code that they catch. Takes about an hour of
# one core; `make mutants MUTANTS=--resume` continues after an interruption.
mutants: .venv/mutants.stamp
	$(BIN)/python -m benchmarks.mutants --json docs/results/mutants.json $(MUTANTS)

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/serve.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[native,onnx]'
	touch $@

.venv/dev.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dev,lab]'
	touch $@ .venv/serve.stamp

.venv/mutants.stamp: .venv/dev.stamp
	$(PIP) --editable '.[dev,lab,mutants]'
	touch $@

# The copy of the service's OpenAPI document, which a test holds to the service.
openapi: .venv/dev.stamp
	$(BIN)/python -m api.app docs/openapi.json

# The exact versions that were tested, from a fresh environment.
constraints:
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev,lab]' torch==2.13.0
	$(BIN)/pip freeze --exclude-editable | sed 's/+cpu$$//' > constraints.txt

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis mutants
