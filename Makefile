# Everything runs from .venv, made from requirements.lock; nothing else is installed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two processes; tests/groups.py says which tests stay together. A Spark session and a broker take
# a core and 2 GB each.
SIDE_BY_SIDE := --numprocesses 2 --dist loadscope --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow test-long model bench bench-decode fuzz check sbom format lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

install: $(VENV)/.installed ## the environment in .venv, the command at .venv/bin/kip848

$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: install ## a real broker, real consumers, the nightly job on their topic
	$(BIN)/kip848 demo

test: install ## the quick tests, with a real broker and real Spark: about eight minutes
	$(BIN)/python -m pytest -m "not slow and not long" $(SIDE_BY_SIDE)

test-slow: install ## the other tests of CI: many brokers, Spark sessions, whole captures; thirty to forty minutes
	$(BIN)/python -m pytest -m "slow and not long" $(SIDE_BY_SIDE)

test-long: install ## the tests that take minutes each
	$(BIN)/python -m pytest -m long

model: install ## the TLA+ models of the protocol, checked by TLC: some minutes
	$(BIN)/python -m spec.run

fuzz: install ## five million damaged records through the codec
	$(BIN)/python -m tests.wire.fuzz

bench: install ## ingest and a night beside writing the raw bytes, the audit beside ingest; the simulation
	$(BIN)/python -m benchmarks.ingest
	$(BIN)/python -m benchmarks.audit
	$(BIN)/python -m benchmarks.audit_nights
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.hot_partition
	$(BIN)/python -m benchmarks.history
	$(BIN)/python -m benchmarks.report
	$(BIN)/python -m benchmarks.night
	$(BIN)/python -m benchmarks.night --s3 --records 1000000
	$(BIN)/python -m benchmarks.many_nights
	$(BIN)/python -m benchmarks.simulate

bench-decode: install ## the decoder beside others, one core, the same records
	$(BIN)/python -m benchmarks.decode

check: install ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

sbom: install ## sbom.json: what is installed, as CycloneDX; uv downloads the tool
	uv tool run --from cyclonedx-bom cyclonedx-py environment $(BIN)/python -o sbom.json

format: install ## ruff's formatting and its safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: ## recreate requirements.lock from pyproject.toml (needs uv)
	uv pip compile --quiet --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-header --extra dev --extra openlineage pyproject.toml \
	  -o requirements.lock

clean: ## the environment and the caches of the tools
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
