# The commands of the house. `make` alone lists them; every one of them installs what it needs first.

PYTHON ?= python3
UV_VERSION := 0.13.7
UV := .tools/uv/bin/uv
BIN := .venv/bin

export UV_PYTHON_DOWNLOADS := never
export UV_NO_PROGRESS := 1
export UV_SYSTEM_CERTS ?= true
# Tests and commands start many processes; each would compile everything that it imports again.
export PYTHONDONTWRITEBYTECODE :=
export npm_config_fund := false
export npm_config_audit := false
export npm_config_update_notifier := false

# Two workers; one that has nothing left takes tests from the other.
PARALLEL := -n 2 --dist worksteal

PROPERTIES = $(shell grep -rl --include='test_*.py' '^from hypothesis' packages tests)
PACKAGES := $(wildcard packages/*/pyproject.toml)
CANVAS_SOURCES := $(wildcard canvas/*.json canvas/*.ts canvas/*.html) $(shell find canvas/src canvas/public -type f 2>/dev/null) \
	packages/platform/src/molecule_platform/demo/hello.py

UV_READY := .tools/uv-$(UV_VERSION).stamp
PYTHON_READY := .venv/.synced
A2A_0_3_READY := .venv-a2a-0.3/.synced
HERMES_READY := .engines/.installed
CANVAS_READY := canvas/node_modules/.installed
CANVAS_BUILT := packages/platform/src/molecule_platform/static/index.html

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help up test test-changed test-long soak check bench smoke docs lock format clean system ready

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

up: $(PYTHON_READY) $(CANVAS_BUILT) ## start Molecule with the demo organisation (ARGS="--port 9000" adds flags)
	@exec $(BIN)/molecule up --data-dir .data --demo $(ARGS)

test: system ready ## every test but the long ones
	cd canvas && npm test
	MOLECULE_TEST_FACTOR=$${MOLECULE_TEST_FACTOR:-2} $(BIN)/pytest -m "not long" $(PARALLEL) --durations=10 $(ARGS)

test-changed: system ready ## what a change touches, nearest first, in under a minute
	$(BIN)/python -m scripts.changed_tests $(ARGS)

test-long: system ready ## what takes minutes, the whole spec on PostgreSQL, ten times the examples
	$(BIN)/pytest -m long $(PARALLEL) $(ARGS) tests/spec
	$(BIN)/pytest -m long $(ARGS) --ignore tests/spec
	$(BIN)/pytest -m "not long" $(PARALLEL) $(ARGS) --hypothesis-profile thorough $(PROPERTIES)

soak: system $(PYTHON_READY) $(CANVAS_BUILT) ## 5,000 messages while the platform is killed 50 times; five minutes at most
	$(BIN)/python -m scripts.soak $(ARGS)

check: $(PYTHON_READY) $(CANVAS_READY) ## format, lint, types, import walls, sizes, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.sizes
	$(BIN)/codespell
	cd canvas && npm run lint
	cd canvas && npm run types

bench: $(PYTHON_READY) $(CANVAS_BUILT) $(HERMES_READY) ## measure the budgets; fails on a miss
	$(BIN)/python -m benchmarks.run $(ARGS)

smoke: $(PYTHON_READY) $(CANVAS_BUILT) ## build the wheels and use each one alone
	$(BIN)/python -m scripts.smoke $(UV)

docs: $(PYTHON_READY) $(CANVAS_BUILT) ## write docs/reference from the code, then run every sample
	$(BIN)/python -m scripts.reference
	$(BIN)/pytest tests/architecture/test_reference.py tests/architecture/test_samples.py

lock: $(UV_READY) ## resolve every Python dependency again into the two lock files
	$(UV) lock --python $(PYTHON)
	$(UV) export --locked --python $(PYTHON) --all-packages --all-extras --all-groups --format requirements-txt \
		--no-emit-workspace --no-header --quiet --output-file requirements.lock
	printf 'a2a-sdk[http-server]>=0.3,<0.4\nuvicorn>=0.35\n' | $(UV) pip compile --quiet --python $(PYTHON) \
		--universal --generate-hashes --no-header --no-annotate --output-file requirements-a2a-0.3.lock -

format: $(PYTHON_READY) ## let ruff format and fix what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove what make built and installed; .data stays
	rm -rf .venv .venv-a2a-0.3 .engines .tools dist canvas/node_modules $(dir $(CANVAS_BUILT)) .pytest_cache .ruff_cache .import_linter_cache .hypothesis

system:
	@sh scripts/system_packages.sh

# What tests need. Python and the canvas are installed side by side: in a fresh clone that saves 20 s.
ready: system
	@$(MAKE) --no-print-directory -j2 $(PYTHON_READY) $(A2A_0_3_READY) $(CANVAS_BUILT) $(HERMES_READY)

$(UV_READY):
	sh scripts/install_uv.sh $(PYTHON) $(UV_VERSION)
	@touch $@

$(PYTHON_READY): requirements.lock pyproject.toml $(PACKAGES) | $(UV_READY)
	test -x $(BIN)/python || $(UV) venv --quiet --clear --python $(PYTHON) .venv
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps $(patsubst %/pyproject.toml,-e %,$(PACKAGES))
	@touch $@

$(A2A_0_3_READY): requirements-a2a-0.3.lock | $(UV_READY)
	test -x .venv-a2a-0.3/bin/python || $(UV) venv --quiet --clear --python $(PYTHON) .venv-a2a-0.3
	$(UV) pip sync --quiet --python .venv-a2a-0.3/bin/python --require-hashes requirements-a2a-0.3.lock
	@touch $@

# The real engine for tests/hermes, by the command that users have. Without it those tests are skipped, and say so.
# Where links for pip are set, uv gets them too: the command would take pip otherwise, which needs 30 s longer.
$(HERMES_READY): packages/wire/src/molecule_wire/engines.py | $(PYTHON_READY)
	-MOLECULE_ENGINES_DIR=$(CURDIR)/.engines UV_FIND_LINKS="$${UV_FIND_LINKS:-$$PIP_FIND_LINKS}" \
		PATH="$(CURDIR)/$(dir $(UV)):$$PATH" $(BIN)/molecule runtime install hermes
	@mkdir -p $(dir $@) && touch $@

$(CANVAS_READY): canvas/package.json canvas/package-lock.json
	@sh scripts/check_node.sh
	cd canvas && npm ci --no-progress
	@touch $@

$(CANVAS_BUILT): $(CANVAS_READY) $(CANVAS_SOURCES)
	cd canvas && npm run build
	@touch $@
