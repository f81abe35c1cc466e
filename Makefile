# Everything a fresh machine needs: `make demo` and `make test` set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
# Two steps: what `peekrank demo` needs, and on top of it what all other targets need.
RUNS := $(VENV)/.runs
READY := $(VENV)/.ready

# Bytecode is written even if the environment says not to: each of many processes would compile the sources again.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n auto --dist worksteal
QUICK := -m 'not slow and not browser and not ray'

.PHONY: demo test check lint types imports tests recipes site portable coverage notebooks stub typescript format bench fuzz mutants kills faults flips failover minimum dist lock clean

demo: $(RUNS)  ## set up, rank ten items from one answer per round, write peekrank-demo/report.html
	@echo 'Running $(BIN)/peekrank demo; the first time, it compiles its learners'
	@PYTHONDONTWRITEBYTECODE= $(BIN)/peekrank demo --out peekrank-demo

test: lint  ## set up, then everything that CI runs; 10 minutes on two cores
	$(MAKE) --jobs 2 --no-print-directory types imports tests site

check: lint  ## set up, then all tests but those that are slow, open a browser or start Ray; 5 minutes on two cores
	$(PYTEST) $(QUICK)

# pip would compile bytecode on one processor: the demo leaves that to the first import, the tests use all processors.
# The pins name every package, so pip does not have to look for dependencies.
$(RUNS): requirements/demo.txt pyproject.toml
	@$(PYTHON) -c 'import sys; assert (3, 11) <= sys.version_info < (3, 14), "peekrank needs Python 3.11 to 3.13: make PYTHON=python3.11 ..."'
	@echo 'Setting up $(VENV), once:'
	@echo '- creating a virtual environment'
	@$(PYTHON) -m venv --clear $(VENV)
	@echo '- installing the packages of the command line: about 40, 200 MB to download, 700 MB on disk'
	@$(PIP) --no-compile --no-deps --require-hashes -r requirements/demo.txt
	@echo '- installing peekrank'
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(READY): requirements/dev.txt $(RUNS)
	@echo 'Installing the packages of the tests and the documentation, once'
	@$(PIP) --no-compile --no-deps --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

tests: $(READY)
	$(PYTEST)

RECIPES := .venv-recipes
recipes: $(READY) $(RECIPES)/.ready  ## the clients of docs/recipes against `peekrank serve`, in an environment of their own
	PEEKRANK=$(CURDIR)/$(BIN)/peekrank $(RECIPES)/bin/python -m pytest -q -c recipes/pytest.ini recipes

$(RECIPES)/.ready: requirements/recipes.txt
	@echo 'Setting up $(RECIPES), once: 150 packages, 900 MB on disk'
	@$(PYTHON) -m venv --clear $(RECIPES)
	@$(RECIPES)/bin/pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r requirements/recipes.txt
	@touch $@

# The theme announces its successor at every build; the pins of requirements/ say what is used here. Not --quiet, which
# also hides from --strict what it counts.
site: $(READY)  ## build the documentation into site/, warnings being errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

portable: $(READY)  ## the numeric part of the tests with the instruction sets of other machines
	$(BIN)/python scripts/portable.py

# numba hides compiled lines from coverage: tests of kernels run again without the compiler.
coverage: $(READY)  ## which lines the quick tests reach
	$(BIN)/pytest -q -n auto --dist worksteal $(QUICK) --cov --cov-report=
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -q -n auto --dist worksteal -W ignore::RuntimeWarning -m 'not slow and not compiled' tests/kernels tests/learners --cov --cov-append

notebooks: $(READY)  ## execute docs/notebooks anew, and store what comes out
	$(BIN)/python scripts/notebooks.py

stub: $(READY)  ## write src/peekrank/__init__.pyi anew after a change of what is public
	$(BIN)/python scripts/stub.py

# Needs Node.
typescript: $(READY)  ## make the types of clients/typescript anew after a change of the API
	$(BIN)/python -c 'import json; from peekrank.service.api.openapi import openapi; print(json.dumps(openapi()))' > clients/typescript/openapi.json
	cd clients/typescript && npm ci --no-audit --no-fund && npm run types && npm run build

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(READY)  ## print the figures of records/benchmarks.json and other records
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.txt
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/fixed_items.py
	$(BIN)/python benchmarks/learners.py
	$(BIN)/python benchmarks/nw2.py
	$(BIN)/python benchmarks/games.py
	$(BIN)/python benchmarks/features.py
	$(BIN)/python benchmarks/ridge_loop.py
	$(BIN)/python benchmarks/letor.py
	$(BIN)/python benchmarks/sweeps.py
	$(BIN)/python benchmarks/reports.py
	$(BIN)/python benchmarks/service/load.py
	$(BIN)/python benchmarks/service/rerank.py
	$(BIN)/python benchmarks/service/dashboard.py
	$(BIN)/python benchmarks/monitoring.py
	$(BIN)/python benchmarks/peers

mutants: $(READY)  ## change the sources in small ways, in a copy, and count what tests notice: make mutants N=60 SEED=0
	$(BIN)/python scripts/mutants.py $(if $(N),--mutants $(N)) $(if $(SEED),--seed $(SEED))

fuzz: $(READY)  ## try mutants of all files that are read: make fuzz SECONDS=60, or make fuzz N=100000 TARGET=letor
	PYTHONPATH=scripts:tests $(BIN)/python -m fuzz $(if $(SECONDS),--seconds $(SECONDS)) $(if $(N),--mutants $(N)) $(if $(TARGET),--target $(TARGET))

kills: $(READY)  ## kill commands at random moments and compare what they come to: make kills N=20 for fewer than 200
	$(BIN)/python scripts/kills.py $(if $(N),--kills $(N))

failover: $(READY)  ## kill the owner of a log in PostgreSQL again and again: make failover N=20 for fewer than 100
	PYTHONPATH=tests $(BIN)/python scripts/failover.py $(if $(N),--kills $(N))

flips: $(READY)  ## flip bits in the log of a service and look for damage that nobody notices: make flips N=50 for fewer than 1,000
	$(BIN)/python scripts/flips.py $(if $(N),--flips $(N))

faults: $(READY)  ## kill a service at random moments under load and look for what is lost: make faults N=20 for fewer than 1,000
	$(BIN)/python scripts/faults.py $(if $(N),--kills $(N))

# Warnings of old packages about new ones are not ours; the tests of pages need the tools that make them.
MINIMUM := .venv-minimum
minimum:  ## the quick tests with the lowest versions that pyproject.toml promises (needs uv)
	uv venv --quiet --clear --python $(PYTHON) $(MINIMUM)
	VIRTUAL_ENV=$(MINIMUM) uv pip install --quiet --resolution lowest-direct --editable '.[postgresql]'
	VIRTUAL_ENV=$(MINIMUM) uv pip install --quiet hatchling hypothesis ir-measures openapi-spec-validator pandas pip playwright pyarrow pytest pytest-xdist pyyaml schemathesis scikit-learn
	$(MINIMUM)/bin/pytest -q -n auto --dist worksteal -o filterwarnings= $(QUICK) tests --ignore=tests/docs --ignore=tests/reports --ignore=tests/scripts

dist: $(READY)  ## build the files of a release, and try the wheel in an empty environment
	rm -rf dist $(VENV)-dist
	$(BIN)/python -m hatchling build
	$(PYTHON) -m venv $(VENV)-dist
	$(VENV)-dist/bin/pip install --quiet --disable-pip-version-check dist/*.whl
	$(VENV)-dist/bin/python -c 'from peekrank import DCG, Agent, Uniform; print(Agent(Uniform(), m=3, k=1).rank().ranking)'
	$(VENV)-dist/bin/pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[cli]"
	$(VENV)-dist/bin/peekrank advise dcg --m 10 --k 1 --horizon 10000

COMPILE := uv pip compile --universal --no-strip-extras --generate-hashes --no-header --no-annotate --python-version 3.11
lock:  ## renew the pins after a change of dependencies (needs uv)
	$(COMPILE) --extra postgresql --group dev pyproject.toml -o requirements/dev.txt
	$(COMPILE) --extra cli --group build -c requirements/dev.txt pyproject.toml -o requirements/demo.txt
	$(COMPILE) --group recipes -o requirements/recipes.txt
	$(COMPILE) --extra postgresql --group bench -c requirements/dev.txt pyproject.toml -o requirements/bench.txt

clean:
	rm -rf $(VENV) $(VENV)-dist $(MINIMUM) $(RECIPES) dist peekrank-demo site .mypy_cache .ruff_cache .pytest_cache .hypothesis
