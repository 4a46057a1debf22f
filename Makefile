# make run         sets up and serves the example scripts; needs no key, and no network once installed
# make console     checks and builds the pages of the console into api/console/static
# make test        sets up and runs the tests, but for the slow ones
# make check       style, types, imports, dependencies
# make test-all    make test, then the console in a browser, kills, fuzzing, documentation, generated clients, others' scripts, embedding models
# make test GATE=1  the same run with the slow tests that continuous integration runs, fewer kills in each
# make test-postgres  the tests of the API over PostgreSQL
# make soak        the long runs: ten times the kills and examples; hours
# make transcripts writes tests/e2e/transcripts again, so that a change of them shows in the diff
# make reference   writes the generated pages of docs/reference
# make pictures    takes the pictures of the tutorial in a browser
# make docs        builds the documentation into site/, which the server then serves at /docs
# make fuzz        100,000 mutated scripts, each of which must be read without a crash
# make mutants     changes the core in thousands of ways, and prints how many of the changes no test notices; hours
# make bench       benchmarks of speed beside peers measured in the same run, with a table at the end (BENCH_AGAINST=COMMIT)
# make size        prints the lines of code by folder, and the longest functions
# make trace       prints the path of one message: its frames and modules
# make bench-memory, make bench-analytics  the same for memory (LOCOMO=locomo10.zip) and analytics (SIM_DATA=FOLDER)

PYTHON ?= python3
PORT ?= 8000
# of the tests; on two cores the third one runs while others wait for processes and timers
WORKERS ?= 3
export LOCOMO ?= $(wildcard ../shared/data/locomo10.zip)
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c .ci/constraints.txt
# compiled modules are reused, whatever the shell says: without them each process compiles all of the code
export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist worksteal

.PHONY: run console test test-all test-postgres soak check size trace bench bench-memory bench-analytics fuzz mutants reference pictures docs transcripts clean

.venv/bin/pip:
	$(PYTHON) -m venv .venv

.venv/base: pyproject.toml .ci/constraints.txt | .venv/bin/pip
	$(PIP) -e .
	touch $@

# this one and `.venv/console` install what they are based on in the same step, which takes half a minute less
.venv/dev: pyproject.toml .ci/constraints.txt | .venv/bin/pip
	$(PIP) -e '.[dev]'
	touch .venv/base $@

.venv/postgres: .venv/base
	$(PIP) -e '.[postgres]'
	touch $@

.venv/embeddings: .venv/dev
	$(PIP) -e '.[embedding-tests]'
	touch $@

.venv/clients: .venv/dev
	$(PIP) -e '.[client-tests]'
	touch $@

.venv/console: pyproject.toml .ci/constraints.txt | .venv/bin/pip
	$(PIP) -e '.[dev,console-tests]'
	touch .venv/base .venv/dev $@

.venv/mutants: .venv/dev
	$(PIP) -e '.[mutation-tests]'
	touch $@

# LangGraph, which is only measured, in an environment of its own: it brings a plugin of pytest and much else
.venv/benchmarks: .venv/dev
	$(PYTHON) -m venv .venv/peers
	.venv/peers/bin/pip install --quiet --disable-pip-version-check -c .ci/constraints.txt langgraph langgraph-checkpoint-sqlite \
		langgraph-checkpoint-postgres "psycopg[binary]" psycopg-pool
	touch $@

.venv/docs: .venv/base
	$(PIP) -e '.[docs]'
	touch $@

PAGES := api/console/static/index.html
PAGE_SOURCES := api/analytics/report_texts.zh.json $(shell find api/console/web -type f -not -path '*/node_modules/*' -not -name openapi.json -not -name schema.d.ts \
	-not -name language.json)

# built only if they are older than their sources; without Node.js and a network the server runs without them
$(PAGES): $(PAGE_SOURCES) | .venv/base
	PYTHONPATH=. $(BIN)/python api/console/web/build.py --optional

console: .venv/base
	PYTHONPATH=. $(BIN)/python api/console/web/build.py

run: .venv/base $(PAGES) $(if $(DATABASE),.venv/postgres)
	$(BIN)/cuebook serve --port $(PORT) $(if $(DATABASE),--database $(DATABASE))

# these write and remove many small files: in memory, where a file system there has 8 GB free
ifeq ($(shell test "$$(df -Pk /dev/shm 2> /dev/null | awk 'END {print $$4}')" -gt 8000000 2> /dev/null && echo room),room)
test test-postgres: export TMPDIR := /dev/shm
endif

QUICK := not slow and not embeddings and not browser

test: $(if $(GATE),.venv/console console,.venv/dev)
	TEST_EFFORT=0.1 $(PYTEST) -m '$(if $(GATE),$(QUICK) or gate,$(QUICK) and not gate)'

test-all soak: export REQUIRE_POSTGRES = 1

test-all: test .venv/embeddings .venv/clients .venv/docs .venv/console console
	$(PYTEST) -m 'slow or gate or embeddings or browser'

soak: .venv/embeddings .venv/clients .venv/docs .venv/console console
	TEST_EFFORT=10 $(PYTEST) -m 'slow or property' --timeout 36000

test-postgres: .venv/dev
	TEST_ENGINE=postgres TEST_EFFORT=0.1 $(PYTEST) -m '$(QUICK)' tests/api tests/e2e

check: .venv/console
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .

transcripts: .venv/dev
	WRITE_TRANSCRIPTS=1 $(BIN)/pytest -q tests/e2e/transcripts

bench: .venv/benchmarks
	$(BIN)/python tests/benchmarks/bench_streams.py
	$(BIN)/python tests/benchmarks/bench_sessions.py
	$(BIN)/python tests/benchmarks/bench_store_size.py
	$(BIN)/python tests/benchmarks/bench_backup.py
	$(BIN)/python tests/benchmarks/bench_all.py

size: .venv/dev
	$(BIN)/python tests/benchmarks/code_size.py

trace: .venv/dev
	$(BIN)/python tests/benchmarks/trace_turn.py

bench-memory: .venv/embeddings
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

reference: .venv/dev
	$(BIN)/python docs/generate

pictures: .venv/console console
	$(BIN)/python docs/generate/tutorial_pictures.py

docs: .venv/docs
	$(BIN)/zensical build --clean --strict

fuzz: .venv/dev
	$(BIN)/python tests/slow/mutate_scripts.py --count 100000

mutants: .venv/mutants
	PATH="$(CURDIR)/$(BIN):$$PATH" TEST_EFFORT=0.05 $(BIN)/mutmut run --max-children $(WORKERS) $(if $(MUTANTS),'$(MUTANTS)')
	$(BIN)/python tests/benchmarks/mutation_score.py

clean:
	rm -rf .venv mutants .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .cache site api/console/static api/console/web/node_modules
