# make demo   the main job end to end, on a real recording
# make test   lint and tests
# make fresh  the demo and the tests that need servers, in a bare Debian (SUITE=trixie); as root
# make bench  the measured claims (minutes, gigabytes in bench/out)
# make lint | proto | clean
#
# Each installs what is missing: Debian packages (tools/system_packages.py; when not root, it says which), and a
# virtual environment in .venv with the versions of constraints.txt.

# python3, or another one where python3 is too old or too new.
ifndef PYTHON
PYTHON := $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
  $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && echo $$python && exit; \
  done; echo python3)
endif
VENV   := .venv
BIN    := $(VENV)/bin
PYTEST := $(BIN)/pytest -n 2 --dist loadgroup -rs
READY  := $(VENV)/.ready

.PHONY: demo test server-tests fresh bench lint proto clean packages test-packages

demo: packages $(READY)
	$(BIN)/dumpfilter demo

test: test-packages $(READY) lint
	$(PYTEST)

# What differs from one distribution to the next: the servers' own programs, Java, the browser, a terminal.
server-tests: test-packages $(READY)
	$(PYTEST) tests/oracle/test_replay.py tests/oracle/test_readers.py tests/printing/test_print_set.py tests/commands/test_cli.py \
	  tests/options/test_my_cnf.py tests/test_system_packages.py tests/console tests/master/test_live_server.py \
	  tests/spark_jobs/spark/test_context_slow.py tests/spark_jobs/spark/test_cluster_slow.py \
	  tests/spark_jobs/bandwidth/test_report_slow.py

bench: $(READY)
	$(BIN)/python -m bench

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/house_rules.py

# The generated modules are committed, so that only who changes the contract needs this.
proto: $(READY)
	$(BIN)/python -m grpc_tools.protoc -Iproto --python_out=. --pyi_out=. --grpc_python_out=. \
	  proto/dumpfilter/v1/dumpfilter.proto

$(READY): pyproject.toml constraints.txt Makefile | packages
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark,dev]'
	@echo "compiling the kernels, once"
	$(BIN)/python -m dumpfilter.warm_up
	touch $(READY)

packages:
	@$(PYTHON) tools/system_packages.py

test-packages:
	@$(PYTHON) tools/system_packages.py --tests

# A tree that FRESH keeps is used again, so that a second run costs only the tests.
SUITE ?= trixie
FRESH ?= /var/tmp/dumpfilter-$(SUITE)
fresh:
	tools/bare-debian $(SUITE) $(FRESH) make demo server-tests

clean:
	rm -rf $(VENV) demo bench/out build *.egg-info
