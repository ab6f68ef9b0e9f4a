# On a fresh clone: `make serve` answers, `make train` installs what training needs, `make test` tests.
PYTHON ?= python3
BIN := .venv/bin
AUDIT := .venv/audit/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
PORT ?= 8000
WEB ?= web
# Processes of the tests: one more than there are cores, because some tests wait; at most four.
WORKERS ?= $(shell n=$$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN); echo $$((n < 3 ? n + 1 : 4)))
ALSO := $(patsubst checkpoints/%,--also %,$(wildcard checkpoints/calculator-*))

.PHONY: serve web train course test check pytest lint types docs dist audit sbom lock soak fuzz mutants results openapi tables constraints clean

serve: .venv/serve.stamp
	$(BIN)/calcgpt serve --port $(PORT)

# The page without a service, for any static host: `make web WEB=FOLDER`.
web: .venv/serve.stamp
	$(BIN)/calcgpt export calculator $(WEB) --to web --force $(ALSO)

# What `calcgpt train` and what else runs torch needs, beside the calculator.
train: .venv/train.stamp

# The notebooks of docs/course, in a browser.
course: .venv/course.stamp
	$(BIN)/jupyter lab docs/course

# Lint and tests in parallel, because mypy uses one core for most of a minute on a fresh clone.
test: .venv/dev.stamp
	@$(MAKE) --no-print-directory --jobs 2 lint pytest

pytest: .venv/dev.stamp
	$(BIN)/pytest -q -n $(WORKERS) -m "not slow"  # tests/conftest.py shares the files out

# What takes longer, before a release and at night: the tests that `make test` leaves out, attacks on
# the service, and the service under load.
check: test .venv/clients.stamp
	$(BIN)/pytest -q -n $(WORKERS) -m slow
	$(BIN)/python -m tools.attacks
	$(MAKE) soak SOAK="--minutes 5"

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive api benchmarks calcgpt calcgpt_lab datagen tools

# The types of the page's JavaScript, which stand in JSDoc comments. Needs npm, which nothing else does.
types:
	npm ci --ignore-scripts --no-audit --no-fund --silent
	npm run --silent types

# The documentation, as a site in site/. A broken link is an error.
docs: .venv/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# Builds the wheel and the source archive in dist/, and checks that an index would accept them.
dist: .venv/audit.stamp
	rm -rf dist
	$(AUDIT)/uv build --quiet
	$(AUDIT)/twine check --strict dist/*.whl dist/*.tar.gz

# The service under mixed traffic for half an hour, while workers are killed and checkpoints replaced:
# ends with an error if an answer is lost or something grows. `make soak SOAK="--minutes 10"`. Before
# that, 20,000 requests, valid and invalid, that the OpenAPI document describes, and 20,000
# expressions that Python and the page read alike.
soak: .venv/dev.stamp
	CONTRACT_EXAMPLES=3000 CONTRACT_REPORT=docs/results/contract.json \
		$(BIN)/pytest -q --timeout 7200 -o faulthandler_timeout=0 tests/e2e/test_contract.py -k responses_match
	EXPRESSIONS=20000 $(BIN)/pytest -q --timeout 7200 -o faulthandler_timeout=0 tests/unit/page/test_expressions.py
	$(BIN)/python -m tools.soak --json docs/results/soak.json $(SOAK)

# Hostile input for everything that reads what people write: expressions, lines, worked steps,
# checkpoints, recipes. `make fuzz FUZZ="expression --minutes 60"`. `make test` replays what it found.
fuzz: .venv/fuzz.stamp
	$(BIN)/python -m tools.fuzz --json docs/results/fuzz.json $(FUZZ)

# Known vulnerabilities of the versions in deploy/requirements.lock (Python Packaging Advisory Database).
audit: .venv/audit.stamp
	$(AUDIT)/pip-audit --require-hashes --disable-pip --requirement deploy/requirements.lock \
		--requirement deploy/build.lock

# What is installed here, as CycloneDX: packages, versions, licences.
sbom: .venv/serve.stamp .venv/audit.stamp
	$(AUDIT)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file sbom.json $(BIN)/python

# What the image installs, with hashes: all that answering needs, and what builds the wheel.
lock: .venv/audit.stamp
	$(AUDIT)/uv pip compile pyproject.toml --constraint constraints.txt --generate-hashes --universal \
		--python-version 3.11 --no-header --no-annotate --quiet --output-file deploy/requirements.lock
	echo hatchling | $(AUDIT)/uv pip compile - --constraint constraints.txt --generate-hashes --universal \
		--python-version 3.11 --no-header --no-annotate --quiet --output-file deploy/build.lock

# Measures the tests: the share of small changes to the code that they catch. Takes about an hour of
# one core; `make mutants MUTANTS=--resume` continues after an interruption.
mutants: .venv/mutants.stamp
	$(BIN)/python -m tools.mutants --json docs/results/mutants.json $(MUTANTS)

# The experiments of the posts with three seeds, and their tables in research/ABLATIONS.md. Takes many hours, and
# continues after an interruption. `make results RESULTS="attention --jobs 2"` is one suite of them.
results: .venv/dev.stamp
	curl --create-dirs -o data/tinyshakespeare.txt \
		https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt
	$(BIN)/python -m research.posts $(RESULTS)

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/serve.stamp: .venv/bin/python pyproject.toml constraints.txt
	@echo "Installing the calculator into .venv, 0.2 GB. This takes a minute or more."
	$(PIP) --editable .
	touch $@

.venv/train.stamp: .venv/bin/python pyproject.toml constraints.txt
	@echo "Installing the libraries for training into .venv, 1.3 GB in all. This takes a minute or more."
	$(PIP) --editable '.[train]'
	touch $@ .venv/serve.stamp

.venv/course.stamp: .venv/bin/python pyproject.toml constraints.txt
	@echo "Installing the notebooks into .venv, 1.5 GB in all. This takes a minute or more."
	$(PIP) --editable '.[course]'
	touch $@ .venv/serve.stamp .venv/train.stamp

.venv/dev.stamp: .venv/bin/python pyproject.toml constraints.txt
	@echo "Installing what the tests need into .venv, about 3 GB. This takes some minutes."
	$(PIP) --editable '.[dev,lab]'
	touch $@ .venv/serve.stamp .venv/train.stamp

# A separate environment for these tools. With their dependencies, importing Ray takes four times as
# long, and `make sbom` would list the tools.
.venv/audit.stamp: .venv/bin/python Makefile
	$(PYTHON) -m venv .venv/audit
	$(AUDIT)/pip install --quiet --disable-pip-version-check \
		cyclonedx-bom==7.5.0 pip-audit==2.10.1 twine==7.0.0 uv==0.13.9
	touch $@

.venv/fuzz.stamp: .venv/dev.stamp
	$(PIP) --editable '.[dev,lab,fuzz]'
	touch $@

.venv/clients.stamp: .venv/dev.stamp
	$(PIP) --editable '.[dev,lab,clients]'
	touch $@

.venv/docs.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[docs]'
	touch $@

.venv/mutants.stamp: .venv/dev.stamp
	$(PIP) --editable '.[dev,lab,mutants]'
	touch $@

# The copy of the service's OpenAPI document, which a test compares with the service.
openapi: .venv/dev.stamp
	$(BIN)/python -m api.app docs/openapi.json

# What the page has in common with Python, written from it: the reader and the planner of expressions, their tables,
# and the layouts of operations. A test compares them.
tables: .venv/dev.stamp
	$(BIN)/python -m tools.javascript

# The exact versions that were tested, from a fresh environment.
constraints:
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[clients,course,dev,docs,lab]' torch==2.13.0
	$(BIN)/pip freeze --exclude-editable | sed 's/+cpu$$//' > constraints.txt

clean:
	rm -rf .venv dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis mutants
