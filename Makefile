# make demo: two small runs, measured and reported, nothing downloaded but packages
# make test: every test
# make check: lint, format and types, as the pre-commit hooks do
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
NEARSIGHT := $(BIN)/nearsight
DEMO ?= demo
DEMO_TRAIN := --data shapes --model nano --data-root $(DEMO)/data --set epochs=6 --set warmup_epochs=0.5

.PHONY: demo test check setup clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,dev]'
	touch $@

demo: setup
	@$(NEARSIGHT) train baseline $(DEMO_TRAIN) --out $(DEMO)/baseline-0 > /dev/null
	@$(NEARSIGHT) train baseline+cutmix $(DEMO_TRAIN) --out $(DEMO)/baseline+cutmix-0 > /dev/null
	@$(NEARSIGHT) measure $(DEMO)/baseline-0 --data-root $(DEMO)/data > /dev/null
	@$(NEARSIGHT) measure $(DEMO)/baseline+cutmix-0 --data-root $(DEMO)/data > /dev/null
	@$(NEARSIGHT) report $(DEMO)/baseline-0 $(DEMO)/baseline+cutmix-0 --out $(DEMO)/report.html

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(DEMO)
