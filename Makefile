# Scheduled Actions. `make` alone lists what it can do; nothing but make and Python is needed.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install run demo demo-license test test-faults test-malice test-browser screenshots bench bench-smoke bench-cost bench-peers proof-malice proof-on-time proof-pgbouncer proof-vercel trace-paths format lint types registry docs docs-drawings ci

# The first Python that is new enough; `make install PYTHON=/path/to/python` takes another.
PYTHON ?= $(shell for one in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$one -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$one && break; done)
# More arguments for pytest: `make test ARGS="-k dedup"`.
ARGS ?=

BIN := .venv/bin
# Whichever of the two has been measured, asked when the report is drawn.
RESULTS = $$(ls benchmarks/results/latest.json benchmarks/results/peers.json 2>/dev/null)
# Newer than what it was installed from, or the installation is done again.
INSTALLED := .venv/.installed

help: ## List what make can do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile
	@echo "  PORT=8001 moves the port of make run; PYTHON=python3.12 chooses the Python of make install."

install: $(INSTALLED) ## Make .venv with everything in it (the others call this)

$(INSTALLED): pyproject.toml constraints.txt setup.py
	@test -n "$(PYTHON)" || { \
		echo "No Python 3.11 or newer was found. Install one, or name it: make install PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "PYTHON=$(PYTHON) is not Python 3.11 or newer. Name another: make install PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments: its modules venv and ensurepip are packaged apart." >&2; \
		echo "On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || $(PYTHON) -m venv --clear .venv
	@echo "Installing into .venv, as constraints.txt says; this takes half a minute, once."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

run: install ## Start the app with Postgres and a minute cron at http://127.0.0.1:8000
	@$(BIN)/scheduled-actions dev

demo: install ## Tell a whole story on a project of its own, and check each step
	@$(BIN)/scheduled-actions demo

demo-license: install ## Play the licence that almost expired, with the mails it sends, on a simulated calendar
	@$(BIN)/python -m proofs.license

# Of the folders that are left out every test has one of the marks; each worker would read and compile them.
test: install ## Run the tests; ARGS="-k dedup" picks some
	$(BIN)/pytest -n 3 -m "not slow and not browser and not malice" $(addprefix --ignore=tests/,browser faults malice) $(ARGS)

test-faults: install ## Run the proofs with real processes, kills and restarts
	$(BIN)/pytest -m "slow and not browser" $(ARGS)

test-malice: install ## Run hostile documents, functions and teams among good actions, for a few minutes
	$(BIN)/pytest -m malice $(ARGS)

test-browser: install ## Open the pages of the dashboard in Chromium (apt-get install chromium), and look at them
	$(BIN)/pytest -m browser $(ARGS)

screenshots: install ## Draw the pages that the README and the docs show; needs Chromium
	$(BIN)/python -m tests.browser.screenshots

# The report takes in what the peers did when they were last measured.
bench: install ## Measure; the values of every round go to benchmarks/results, a page of plots to benchmarks/report.html
	@mkdir -p benchmarks/results
	$(BIN)/python -m benchmarks --json benchmarks/results/latest.json
	$(BIN)/python -m benchmarks.report $(RESULTS) > benchmarks/report.html

bench-smoke: install ## Run each benchmark once, small, to see that it still runs
	$(BIN)/python -m benchmarks --smoke
	$(BIN)/python -m benchmarks.cost --smoke

bench-cost: install ## Measure CPU time, WAL bytes and statements per action; ARGS="--compare before.json" compares
	@mkdir -p benchmarks/results
	$(BIN)/python -m benchmarks.cost --json benchmarks/results/cost.json $(ARGS)

bench-peers: install ## Measure other queues on Postgres beside ours; installs them below .scheduled_actions
	@mkdir -p benchmarks/results
	$(BIN)/python -m benchmarks.peers --json benchmarks/results/peers.json
	$(BIN)/python -m benchmarks.report $(RESULTS) > benchmarks/report.html

proof-malice: install ## Run every hostile value of the malice suite, and ten minutes of a hostile team
	MALICE=whole $(BIN)/pytest -m malice -s $(ARGS)

proof-on-time: install ## Prove second precision: a minute cron, ticks that linger, 1,000 actions in three minutes; draws a plot
	$(BIN)/python -m proofs.on_time

proof-pgbouncer: install ## Prove all promises behind PgBouncer: transaction mode, 2 connections, 16 pings
	$(BIN)/pytest -m slow tests/faults/test_transaction_pooler.py $(ARGS)

proof-vercel: install ## Build as Vercel does, offline, and serve and ping what was built; needs npm and Python 3.12
	$(BIN)/python -m proofs.vercel

trace-paths: install ## Print the modules that one schedule_action() and one ping pass, in order
	$(BIN)/python -m proofs.paths

format: install ## Let ruff format and mend what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: install ## Check style, formatting, the import contracts, and that the registry is fresh
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python registry_build.py --check

types: install ## Check the types
	$(BIN)/mypy

registry: install ## Build handlers/_registry.py from the text of handlers/
	$(BIN)/python registry_build.py

docs: install ## Check that the documentation says what the code does
	$(BIN)/pytest $(wildcard tests/test_docs.py tests/test_house.py tests/test_architecture.py)

docs-drawings: install ## Draw the import order of the folders from pyproject.toml into docs/images
	$(BIN)/python -m docs.drawings

# The tests come last, so that what is seen last is what they counted.
ci: lint types bench-smoke demo test test-browser test-malice test-faults ## Check everything, as .ci/run does
