# What people and CI both call. `make` alone lists the targets.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PORT   ?= 8000
ARGS   ?=

EXPORT := $(BIN)/uv export --quiet --no-header --format requirements-txt --no-emit-project --all-extras --group build

.DEFAULT_GOAL := help
.PHONY: help install run test check types lint protos-lint manifests format protos docs lock bench bench-store bench-translator bench-gateway profile goldens replicas fuzz schemathesis clean

help:            ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

install: $(VENV)/.installed  ## make .venv with what running needs, every package pinned by hash

$(VENV)/.installed: requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --requirement requirements.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.txt
	$(BIN)/pip install --quiet --require-hashes --requirement requirements-dev.txt
	@touch $@

node_modules/.installed: package.json package-lock.json
	npm install --silent --ignore-scripts --no-save
	@touch $@

run: install     ## start everything on this machine, with a real Triton and a small model
	$(BIN)/antiphon up --port $(PORT) $(ARGS)

# The tests start hundreds of interpreters, which read what the first of them compiled.
test: check      ## check, then run every test
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest $(ARGS)

check:           ## everything that can be said without running the code
	$(MAKE) --no-print-directory --jobs=2 lint types protos-lint manifests

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check --quiet --output-format=concise
	$(BIN)/ruff format --quiet --check

types: $(VENV)/.installed-dev
	$(BIN)/mypy

protos-lint: node_modules/.installed
	cd protos && ../node_modules/.bin/buf lint && ../node_modules/.bin/buf format --exit-code > /dev/null

manifests: $(VENV)/.installed-dev
	$(BIN)/python k8s/check.py

format: $(VENV)/.installed-dev  ## rewrite the code in the project's form
	$(BIN)/ruff check --quiet --fix
	$(BIN)/ruff format --quiet
	cd protos && ../node_modules/.bin/buf format --write

protos: $(VENV)/.installed-dev  ## generate the messages of all .proto files
	PATH=$(abspath $(BIN)):$$PATH $(BIN)/python protos/generate.py

docs: $(VENV)/.installed-dev    ## write the generated pages of docs/reference
	$(BIN)/antiphon config --markdown > docs/reference/settings.md
	$(BIN)/python -m tests.contract.store.table > docs/reference/store-engines.md

lock: $(VENV)/.installed-dev  ## resolve the dependencies again and pin them with their hashes
	$(BIN)/uv lock --quiet --upgrade
	$(EXPORT) --no-default-groups --output-file requirements.txt
	$(EXPORT) --group dev --output-file requirements-dev.txt
	@rm uv.lock

bench: bench-store bench-translator bench-gateway  ## run the benchmarks: ratios against a baseline of the same run
	for bench in $(basename $(notdir $(wildcard tests/bench/*_bench.py))); do $(BIN)/python -m tests.bench.$$bench || exit 1; done

bench-store: $(VENV)/.installed-dev  ## what the store costs on each engine, beside the engine itself
	$(BIN)/python -m tests.bench.store $(ARGS)

bench-translator: $(VENV)/.installed-dev  ## what parsers and pipelines of each model family cost, beside the tokenizer library
	$(BIN)/python -m tests.bench.translator $(ARGS)

bench-gateway: $(VENV)/.installed-dev  ## what tokens and turns cost in the whole gateway, beside the engine and a peer
	$(BIN)/python -m tests.bench.gateway $(ARGS)

profile: $(VENV)/.installed-dev  ## flame graphs of the gateway under a workload: ARGS='--only chat --systems one'
	$(BIN)/python -m tests.bench.gateway --profile build/profile $(ARGS)

goldens: $(VENV)/.installed-dev node_modules/.installed  ## ask other implementations again what they make of our cases
	$(BIN)/python -m tests.golden.harmony.record

replicas: $(VENV)/.installed-dev  ## the test of many replicas, with 100 idempotency keys instead of 10
	REPLICA_KEYS=100 $(BIN)/pytest tests/integration/test_replicas.py $(ARGS)

fuzz: $(VENV)/.installed-dev    ## read a million soups of markers with the parsers of all model families
	$(BIN)/python -m tests.golden.tool_calls.fuzz $(ARGS)

schemathesis: $(VENV)/.installed-dev  ## ask a scripted system 10,000 requests that its OpenAPI document suggests
	$(BIN)/python -m tests.clients.http_fuzz $(ARGS)

clean:           ## remove what the other targets made
	rm -rf $(VENV) node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
