# make demo: two small runs, measured and reported, nothing downloaded but packages
# make test: every test
# make check: lint, format and types, as the pre-commit hooks do
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
NEARSIGHT := $(BIN)/nearsight
DEMO ?= demo
DEMO_TRAIN := --data shapes --model nano --data-root $(DEMO)/data --set epochs=6 --threads 1

.PHONY: demo test check setup clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,dev]'
	touch $@

demo: setup
	@TERM=dumb $(NEARSIGHT) train baseline $(DEMO_TRAIN) --out $(DEMO)/baseline-0 > /dev/null & \
	first=$$!; \
	TERM=dumb $(NEARSIGHT) train baseline+cutmix $(DEMO_TRAIN) --out $(DEMO)/cutmix-0 > /dev/null; \
	second=$$?; wait $$first && exit $$second
	@$(NEARSIGHT) measure $(DEMO)/baseline-0 --data-root $(DEMO)/data > /dev/null
	@$(NEARSIGHT) measure $(DEMO)/cutmix-0 --data-root $(DEMO)/data > /dev/null
	@$(NEARSIGHT) report $(DEMO)/baseline-0 $(DEMO)/cutmix-0 --out $(DEMO)/report.html

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(DEMO)
