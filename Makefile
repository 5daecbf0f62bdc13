# make demo   the main job end to end, on a real recording and with real MariaDB servers
# make test   lint and all tests; needs Java, MariaDB and a browser
# make check  lint and the quick tests, in about a minute; needs Python alone
# make search a thousand new random examples for each property test; an hour (SEARCH=tests/dump: those of one part)
# make fresh  the demo and the tests that need servers, in a bare Debian (SUITE=trixie); as root
# make bench  the measured claims (minutes, gigabytes in bench/out)
# make wheel  a wheel with the kernels compiled for this Python, in dist
# make lint | quick-tests | proto | clean
#
# Each target installs missing Debian packages (tools/system_packages.py; without root it names them), and makes a
# virtual environment in .venv with the versions of constraints.txt.

# tools/system_packages.py has the range of supported versions. Name another Python by make PYTHON=/path/to/python3.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
# Two workers for each processor of a small machine, since many tests wait for servers.
WORKERS ?= 4
PYTEST  := $(BIN)/pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder -rs
READY   := $(VENV)/.ready
COLLECTED := $(VENV)/.collected

# The tests start some hundred Python processes. Each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test all-tests check quick-tests server-tests search fresh bench wheel lint proto clean needs-of-python needs-of-demo needs-of-tests

demo: needs-of-demo $(READY)
	$(BIN)/dumpfilter demo

# Lint uses the time in which one process collects the tests and then the tests wait for servers.
test: needs-of-tests $(READY)
	@$(MAKE) --no-print-directory --jobs 2 all-tests lint

all-tests: $(COLLECTED)
	$(PYTEST)

check: $(READY)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target quick-tests lint

quick-tests: $(COLLECTED)
	$(PYTEST) --quick

# Tests of what differs between distributions: the servers' own programs, Java, the browser, the terminal.
server-tests: needs-of-tests $(READY)
	$(PYTEST) tests/oracle/test_re* tests/analyse/printing/test_print_set* tests/commands/test_*_slow.py tests/commands/test_cli.py tests/base/options \
	  tests/test_system_packages.py tests/console tests/master/test_live_server* \
	  tests/spark_jobs/test_spark_context_slow.py tests/spark_jobs/test_spark_cluster_slow.py \
	  tests/spark_jobs/bandwidth/test_report_slow.py

# Hypothesis' plugin gives its tests the mark. A test with so many examples may take longer than the limit of others.
SEARCH ?= tests
search: needs-of-tests $(READY)
	$(PYTEST) -m hypothesis --hypothesis-profile=search --timeout=0 $(SEARCH)

bench: $(READY)
	$(BIN)/python -m bench
	$(BIN)/python -m bench.before

# The build directory of an earlier wheel would go into the wheel.
wheel: $(READY)
	rm -rf build
	$(BIN)/python -m dumpfilter.compile
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

lint: $(READY)
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/house_rules.py

# The generated modules are committed. Only a change of the contract needs this target.
proto: $(READY)
	$(BIN)/python -m grpc_tools.protoc -Iproto --python_out=. --pyi_out=. --grpc_python_out=. \
	  proto/dumpfilter/v1/dumpfilter.proto

$(READY): pyproject.toml setup.py constraints.txt Makefile | needs-of-python
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark,dev]'
	@echo "compiling the kernels, once"
	$(BIN)/python -m dumpfilter.compile
	touch $(READY)

# Without it, each worker of the first run rewrites the assertions of all tests (20 s of processor time).
$(COLLECTED): $(READY)
	$(BIN)/pytest --collect-only --quiet > /dev/null
	touch $(COLLECTED)

needs-of-python needs-of-demo needs-of-tests:
	@$(PYTHON) tools/system_packages.py $(@:needs-of-%=%)

# A tree that FRESH names is used again, so that a second run costs only the tests.
SUITE ?= trixie
FRESH ?= /var/tmp/dumpfilter-$(SUITE)
fresh:
	tools/bare-debian $(SUITE) $(FRESH) make demo server-tests

clean:
	rm -rf $(VENV) demo bench/out build *.egg-info
