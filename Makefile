# make demo: four small runs at once, measured and reported, nothing downloaded but packages
# make test: every test
# make quick: the tests that train nothing and start no other program, in under a minute
# make page: the tools of the explorer's front end, its types checked and its bundle built (needs Node)
# make check: lint, format and types, as the pre-commit hooks do
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
NEARSIGHT := $(BIN)/nearsight
DEMO ?= demo
DEMO_TRAIN := --data shapes --data-root $(DEMO)/data --set epochs=4 --set measure_every=1 --threads 1
QUICK := not (training or browser or cluster or processes or slow)
DEMO_RUNS := baseline cutmix locat convit

.PHONY: demo test quick page check setup clean $(DEMO_RUNS:%=demo-%)

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt $(wildcard nearsight/native/*.[ch])
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,dev]'
	touch $@

demo: setup
	@$(MAKE) --no-print-directory --jobs=$(words $(DEMO_RUNS)) $(DEMO_RUNS:%=demo-%)
	@$(NEARSIGHT) report $(DEMO_RUNS:%=$(DEMO)/%-0) --out $(DEMO)/report.html

demo-baseline: WHAT := baseline --model nano
demo-cutmix: WHAT := baseline+cutmix --model nano
demo-locat: WHAT := baseline --model nano_locat
demo-convit: WHAT := baseline --model nano_convit
$(DEMO_RUNS:%=demo-%): demo-%: setup
	@TERM=dumb $(NEARSIGHT) train $(WHAT) $(DEMO_TRAIN) --out $(DEMO)/$*-0 > /dev/null
	@OMP_NUM_THREADS=1 $(NEARSIGHT) measure $(DEMO)/$*-0 --data-root $(DEMO)/data > /dev/null

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

quick: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m '$(QUICK)'

page: nearsight/explore/page/node_modules/.package-lock.json
	cd nearsight/explore/page && npm run --silent check && npm run --silent build

nearsight/explore/page/node_modules/.package-lock.json: nearsight/explore/page/package-lock.json
	cd nearsight/explore/page && npm ci --silent --no-audit --no-fund
	touch $@

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(DEMO)
