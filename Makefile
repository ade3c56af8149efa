# All targets work in a fresh clone: each runs `setup` first.
# Paths are relative, because the name of the project's directory may contain spaces.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PACKAGES := $(sort $(wildcard libs/* services/*))
SOURCES := $(addsuffix /src,$(PACKAGES)) tests $(wildcard benchmarks infra)
STAMP := $(VENV)/.installed
# In the order of tests/conftest.py: files that take longest come first.
PYTEST_PARALLEL := -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
ARGS ?=
SECONDS ?= 600
# A file for the exit code of pytest: make itself returns 2 for every failure.
EXIT_CODE ?= /dev/null

# Set on some machines; without compiled files every start is slow.
unexport PYTHONDONTWRITEBYTECODE

# Installers need a home directory for their cache; `make distclean` removes this one.
ifneq ($(shell test -n "$$HOME" && test -d "$$HOME" && test -w "$$HOME" && echo usable),usable)
export HOME := $(CURDIR)/$(VENV)/home
endif

.PHONY: help setup lock up demo test test-again test-docker check fmt bench bench-peers llama clients \
	chaos explore metrics reference screenshots clean distclean

help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  \033[1m%-13s\033[0m %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## Create the virtual environment from the lock (the other targets run it automatically)

$(STAMP): requirements.lock infra/build.lock $(addsuffix /pyproject.toml,$(PACKAGES))
	@sh infra/setup.sh "$(VENV)" $(PACKAGES)
	@touch $@

lock: setup ## Resolve the dependencies again and write the locks
	@echo "==> resolving"
	@$(PY) -m uv lock --upgrade
	@$(PY) -m uv export -q --frozen --all-packages --all-groups --no-emit-workspace --no-annotate --no-header \
		-o requirements.lock
	@printf 'hatchling\neditables\n' | $(PY) -m uv pip compile -q --upgrade --universal --python-version 3.11 \
		--generate-hashes --no-annotate --no-header --no-emit-index-url -o infra/build.lock -

up: setup ## Run the whole system in this terminal; Ctrl-C stops it
	@exec $(PY) -m beacon_devstack up

demo: setup ## Run the whole system, put a 3 x 3 x 3 matrix through it, print the 27 answers, stop
	@exec $(PY) -m beacon_devstack demo

test: setup ## Run all tests on embedded servers (ARGS="-k name" narrows it down)
	@echo "==> testing"
	@$(PY) -m pytest $(PYTEST_PARALLEL) $(ARGS); code=$$?; echo $$code >"$(EXIT_CODE)"; exit $$code

test-again: setup ## Run the tests that failed last time once more, one at a time
	@echo "==> testing again what failed"
	@$(PY) -m pytest --last-failed --last-failed-no-failures none $(ARGS)

test-docker: setup ## Run all tests on the stock Postgres and Valkey images (needs a Docker engine)
	@echo "==> testing on containers"
	@BEACON_TEST_SERVERS=docker $(PY) -m pytest $(PYTEST_PARALLEL) $(ARGS)

check: setup ## Lint, format, types, import contracts, class names, documentation, portal, deployment files
	@echo "==> ruff"
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@echo "==> mypy"
	@$(PY) -m mypy $(SOURCES)
	@echo "==> import contracts"
	@$(BIN)/lint-imports --no-logo
	@echo "==> class names"
	@$(PY) -m infra.class_names
	@echo "==> names in the documentation"
	@$(PY) -m infra.doc_paths
	@$(PY) -m infra.config_reference --check
	@echo "==> portal"
	@sh infra/check_portal.sh
	@echo "==> deployment files"
	@$(PY) -m infra.check

reference: setup ## Generate docs/configuration.md
	@$(PY) -m infra.config_reference

fmt: setup ## Format the code and apply automatic fixes
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

bench: setup ## Measure Beacon against its limits (NAME=runner runs benchmarks/runner alone)
	@$(PY) -m benchmarks$(if $(NAME),.$(NAME)) $(ARGS)

bench-peers: setup ## Install other queues and compare Beacon with them
	@$(PY) -m benchmarks.peers $(ARGS)

llama: setup ## Install llama.cpp in its own environment, for the tests of the router in front of it
	@test -x .venv-llama/bin/python || $(PY) -m venv .venv-llama
	@.venv-llama/bin/python -m pip install -q --disable-pip-version-check --only-binary :all: \
		-r tests/fixtures/llama-requirements.txt

clients: setup ## Install clients of OpenAI's API beside the project, for their tests
	@test -x .venv-clients/bin/python || $(PY) -m venv .venv-clients
	@. infra/registry.sh; pass_registry_to_uv $(PY); \
		$(PY) -m uv pip install -q --python .venv-clients/bin/python -r tests/fixtures/clients-requirements.txt
	@if command -v npm >/dev/null; then npm install --silent --no-audit --no-fund --no-package-lock \
		--prefix .venv-clients/node openai; else echo "npm is missing: the Node client is not installed"; fi

# The seed is random and printed; BEACON_CHAOS_SEED repeats a run.
chaos: setup ## Kill parts of the system at random moments, and count what is lost (minutes)
	@BEACON_CHAOS_SEED=$${BEACON_CHAOS_SEED:-$$(date +%s)} $(PY) -m pytest tests/chaos -m chaos -v $(ARGS)

explore: setup ## Run property tests and chaos with new seeds (SECONDS=600)
	@$(PY) -m infra.explore --seconds $(SECONDS)

screenshots: setup ## Take the pictures of the README from a running system (needs Chromium)
	@echo "==> taking screenshots"
	@$(PY) -m infra.screenshots

metrics: setup ## Measure the code metrics of this checkout
	@$(PY) -m benchmarks.code_metrics

clean: ## Remove the data of `make up` and all caches
	@if test -x $(PY); then $(PY) -m beacon_devstack clean; else rm -rf .beacon; fi
	@rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -not -path './$(VENV)/*' -type d -prune -exec rm -rf {} +

distclean: clean ## Remove the virtual environment too
	@rm -rf $(VENV) .venv-peers* .venv-llama .venv-clients services/portal/node_modules
