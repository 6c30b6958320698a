# Scheduled Actions. `make` without a target lists all targets. Requirements: make and Python.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install run demo demo-executors demo-license test test-faults test-malice test-browser test-docs screenshots bench bench-smoke bench-cost bench-peers bench-install proof-executors proof-limits proof-malice proof-on-time proof-pgbouncer proof-scale proof-soak proof-vercel trace-paths format lint types registry docs-benchmarks docs-drawings ci

# The first Python on the path that is 3.11 or newer; override: `make install PYTHON=/path/to/python`.
PYTHON ?= $(shell for one in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$one -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$one && break; done)
# Extra arguments, for example `make test ARGS="-k dedup"`.
ARGS ?=

BIN := .venv/bin
# The existing result files; evaluated when the report is written.
RESULTS = $$(ls benchmarks/results/latest.json benchmarks/results/peers.json 2>/dev/null)
# These files are newer than the dependency files if .venv has what `make run` needs, and all dependencies.
LOCAL := .venv/.local
DEV := .venv/.dev
# Empty if .venv is absent or unusable: its scripts have the path of another directory, its Python is gone, or the
# installation of its pip was interrupted (an installer writes the file INSTALLER last).
USABLE := $(shell { . .venv/bin/activate && test "$$VIRTUAL_ENV" = "$$(pwd -P)/.venv" && \
	$(BIN)/python -c 'from importlib import metadata; assert metadata.distribution("pip").read_text("INSTALLER")'; } \
	>/dev/null 2>&1 && echo yes)
ifndef USABLE
$(shell rm -f $(LOCAL) $(DEV))
endif
# Python compiles a module when it is first imported, which is faster than compiling all modules now.
INSTALL := install --quiet --disable-pip-version-check --no-compile -c constraints.txt
# Prints the wheel of pip that comes with Python; some distributions keep it in a directory of their own.
FIND_PIP := import ensurepip, pathlib, sysconfig, venv; \
	folder = sysconfig.get_config_var("WHEEL_PKG_DIR") or pathlib.Path(ensurepip.__file__).parent / "_bundled"; \
	print(next(pathlib.Path(folder).glob("pip-*.whl")))

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile
	@echo "  PORT=8001 sets the port of make run; PYTHON=python3.12 selects the Python of a new .venv."

install: $(DEV) ## Create .venv and install all dependencies; the other targets install what they need

.PHONY: venv
# Installing pip from its wheel takes half as long as ensurepip, which compiles all of it.
venv:
	@test ! -d .venv || echo "This directory was moved, or .venv is incomplete: creating .venv again."
	@set -e; python="$(PYTHON)"; \
	test -n "$$python" || { \
		echo "No Python 3.11 or newer on PATH. Install one, or run: make install PYTHON=/path/to/python" >&2; exit 1; }; \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "PYTHON=$$python is not Python 3.11 or newer. Select another one: make install PYTHON=/path/to/python" >&2; exit 1; }; \
	wheel=$$("$$python" -c '$(FIND_PIP)' 2>/dev/null) || { \
		echo "$$python cannot create virtual environments: its modules venv and ensurepip are not installed." >&2; \
		echo "On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }; \
	echo "Creating .venv."; \
	"$$python" -m venv --clear --without-pip .venv; \
	$(BIN)/python "$$wheel/pip" $(INSTALL) pip setuptools

$(LOCAL) $(DEV): pyproject.toml constraints.txt setup.py | $(if $(USABLE),,venv)
	@echo "Installing $(WHAT) into .venv, with the versions of constraints.txt ($(TAKES))."
	$(if $(USABLE),@$(BIN)/python -m pip $(INSTALL) pip setuptools)
	@PYTHONWARNINGS=ignore:Editable $(BIN)/python -m pip $(INSTALL) --no-build-isolation -e '.[$(patsubst .%,%,$(@F))]'
	@touch $(LOCAL) $@

$(LOCAL): WHAT := what make run needs
$(LOCAL): TAKES := about 25 seconds
$(DEV): WHAT := all dependencies
$(DEV): TAKES := about a minute

run: $(LOCAL) ## Start the app with Postgres and a minute cron at http://127.0.0.1:8000
	@$(BIN)/scheduled-actions dev

demo: $(LOCAL) ## Run an end-to-end demo in a temporary project and check each step
	@$(BIN)/scheduled-actions demo

demo-executors: $(DEV) ## Run 2,000 actions on Celery workers while a worker and Redis are killed; needs redis-server
	@$(BIN)/python -m proofs.executors

demo-license: $(LOCAL) ## Run the license renewal example on a simulated clock and print its emails
	@$(BIN)/python -m proofs.license

# Every test in the ignored folders has one of these marks; ignoring the folders saves each worker the imports.
test: $(DEV) ## Run the fast tests, without the four suites below; ARGS="-k dedup" selects tests by name
	$(BIN)/pytest -n 3 -m "not slow and not browser and not malice and not docs" $(addprefix --ignore=tests/,browser docs faults malice) $(ARGS)

test-faults: $(DEV) ## Run the fault tests: real processes, kills and restarts
	$(BIN)/pytest -m "slow and not browser" $(ARGS)

test-malice: $(DEV) ## Run the tests with hostile documents, functions and teams (a few minutes)
	$(BIN)/pytest -m malice $(ARGS)

test-browser: $(DEV) ## Test the dashboard in Chromium (apt-get install chromium)
	$(BIN)/pytest -m browser $(ARGS)

test-docs: $(DEV) ## Run every command of README, tutorial and how-to pages, and check the docs against the code
	$(BIN)/pytest tests/docs tests/test_docs.py tests/test_conventions.py tests/test_architecture.py $(ARGS)

screenshots: $(DEV) ## Take the screenshots of the README and docs; needs Chromium
	$(BIN)/python -m tests.browser.screenshots

# The report includes the latest results of bench-peers, if there are any.
bench: $(DEV) ## Run the benchmarks; write benchmarks/results/latest.json and benchmarks/report.html
	@mkdir -p benchmarks/results
	$(BIN)/python -m benchmarks --json benchmarks/results/latest.json
	$(BIN)/python -m benchmarks.report $(RESULTS) > benchmarks/report.html

bench-smoke: $(DEV) ## Run each benchmark once with small numbers to check that it works
	$(BIN)/python -m benchmarks --smoke
	$(BIN)/python -m benchmarks.cost --smoke
	$(BIN)/python -m proofs.scale --smoke

bench-cost: $(DEV) ## Measure CPU time, WAL bytes and statements per action; ARGS="--compare before.json"
	@mkdir -p benchmarks/results
	$(BIN)/python -m benchmarks.cost --json benchmarks/results/cost.json $(ARGS)

bench-peers: $(DEV) ## Compare with other queues; installs them below .scheduled_actions, and redis-server as root
	@mkdir -p benchmarks/results
	$(BIN)/python -m benchmarks.peers --json benchmarks/results/peers.json
	$(BIN)/python -m benchmarks.report $(RESULTS) > benchmarks/report.html

bench-install: $(DEV) ## Measure the time, downloads and size of an installation, from git clone to the first action
	$(BIN)/python -m benchmarks.install $(ARGS)

proof-executors: $(DEV) ## Kill ticks, brokers and workers 20 times in each way; needs Redis and RabbitMQ, two hours
	EXECUTORS=whole $(BIN)/pytest -m slow tests/faults/test_executors.py $(ARGS)

proof-limits: $(DEV) ## Check limits per key while processes are killed and Postgres restarts, for five minutes
	LIMITS=whole $(BIN)/pytest -m slow tests/faults/test_limits.py $(ARGS)

proof-malice: $(DEV) ## Run test-malice with every hostile value, and with a hostile team for ten minutes
	MALICE=whole $(BIN)/pytest -m malice -s $(ARGS)

proof-on-time: $(DEV) ## Check that 1,000 actions start on time with a minute cron and lingering ticks; draws a plot
	$(BIN)/python -m proofs.on_time

proof-pgbouncer: $(DEV) ## Check all guarantees behind PgBouncer: transaction mode, 2 connections, 16 pings
	$(BIN)/pytest -m slow tests/faults/test_transaction_pooler.py $(ARGS)

proof-scale: $(DEV) ## Measure what ticks, workers and Celery cost per action, and what rates need; ARGS=--docs
	$(BIN)/python -m proofs.scale $(ARGS)

proof-soak: $(DEV) ## Check all guarantees while processes are killed and Postgres restarts, for ten minutes
	SOAK=whole $(BIN)/pytest -m slow tests/faults/test_soak.py $(ARGS)

proof-vercel: $(DEV) ## Run vercel build offline, then serve and ping the function; needs npm and Python 3.12
	$(BIN)/python -m proofs.vercel

trace-paths: $(DEV) ## Print the modules that schedule_action() and a ping run through, in order
	$(BIN)/python -m proofs.paths

format: $(DEV) ## Format the code and apply ruff's automatic fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(DEV) ## Check style, formatting, wording and import contracts, and that the registry is up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python registry_build.py --check
	$(BIN)/pytest -q tests/test_wording.py

types: $(DEV) ## Check the types
	$(BIN)/mypy

registry: $(DEV) ## Build handlers/_registry.py from the source of handlers/
	$(BIN)/python registry_build.py

docs-benchmarks: $(DEV) ## Write the latest results of bench, bench-peers and bench-cost into README and docs
	$(BIN)/python -m benchmarks.report $(RESULTS) --docs
	test ! -e benchmarks/results/cost.json || $(BIN)/python -m benchmarks.cost --measured benchmarks/results/cost.json --docs

docs-drawings: $(DEV) ## Draw the import order from pyproject.toml as images in docs/images
	$(BIN)/python -m docs.drawings

# The tests run last, so that their summary ends the output.
ci: lint types bench-smoke demo test test-docs test-browser test-malice test-faults ## Run all checks, as .ci/run does
