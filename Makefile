# make demo: a first picture within 30 seconds after set-up, then a model that trains, then a report
# make test: every test
# make quick: the tests that train nothing and start no other program, in under a minute
# make page: the tools of the explorer's front end, its types checked and its bundle built (needs Node)
# make docs: the documentation as a web site in site/; a broken link or a warning is an error
# make attack: bad inputs and kills, as many as ATTACK_N and KILLS say (docs/reliability.md)
# make check: lint, format and types, as the pre-commit hooks do
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
NEARSIGHT := $(BIN)/nearsight
DEMO ?= demo
QUICK := not (training or browser or cluster or processes or slow)

.PHONY: demo test quick page docs check attack setup clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt $(wildcard nearsight/native/*.[ch])
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,dev,docs]'
	touch $@

demo: setup
	@$(NEARSIGHT) demo --out $(DEMO)

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

quick: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m '$(QUICK)'

page: nearsight/explore/page/node_modules/.package-lock.json
	cd nearsight/explore/page && npm run --silent check && npm run --silent build

nearsight/explore/page/node_modules/.package-lock.json: nearsight/explore/page/package-lock.json
	cd nearsight/explore/page && npm ci --silent --no-audit --no-fund
	touch $@

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

attack: setup
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m attack

clean:
	rm -rf $(DEMO) site
