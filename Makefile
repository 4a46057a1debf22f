# make run    sets up and serves the example scripts; no key, no network needed once installed
# make test   sets up and runs every test
# make check  the gate: style, types, imports, dependencies, tests
# make transcripts  plays the example scripts and writes what came of it to tests/transcripts, for a look at the diff
# make fuzz   100,000 changed scripts, each of which must be read to its end
# make bench  figures, printed beside a floor measured in the same run
# make bench-analytics  each report over 100,000 simulated sessions, beside SQLite; SIM_DATA=FOLDER takes a record there is
# make reference  the README's tables of the model and the reports, from their comments
# make bench-memory  the same for memory: how fast, and with LOCOMO=locomo10.zip how much of what matters it recalls

PYTHON ?= python3
PORT ?= 8000
export LOCOMO ?= $(wildcard ../shared/data/locomo10.zip)
BIN := .venv/bin

.PHONY: run test check bench bench-memory bench-analytics fuzz reference transcripts clean

.venv/base: pyproject.toml .ci/constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c .ci/constraints.txt -e .
	touch $@

.venv/dev: .venv/base
	$(BIN)/pip install --quiet --disable-pip-version-check -c .ci/constraints.txt -e '.[dev,embeddings]'
	touch $@

run: .venv/base
	$(BIN)/cuebook serve --port $(PORT)

test: .venv/dev
	$(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile

check: .venv/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(MAKE) test

transcripts: .venv/dev
	WRITE_TRANSCRIPTS=1 $(BIN)/pytest -q tests/transcripts

bench: .venv/dev
	$(BIN)/python tests/benchmarks/bench_turns.py
	$(BIN)/python tests/benchmarks/bench_streams.py
	$(BIN)/python tests/benchmarks/bench_sessions.py

bench-memory: .venv/dev
	$(BIN)/python tests/benchmarks/bench_memory.py
	$(BIN)/python tests/benchmarks/bench_memory_index.py
	$(BIN)/python tests/benchmarks/bench_memory_set.py
ifneq ($(LOCOMO),)
	$(BIN)/python tests/benchmarks/bench_memory_locomo.py
else
	@echo "LoCoMo is left out: LOCOMO=FOLDER/locomo10.zip names its file"
endif

bench-analytics: .venv/dev
	$(BIN)/python tests/benchmarks/bench_analytics.py
	$(BIN)/python tests/benchmarks/bench_analytics_turns.py

reference: .venv/base
	$(BIN)/python -m api.analytics.reference README.md

fuzz: .venv/dev
	$(BIN)/python tests/scripts/mutants.py --count 100000

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
