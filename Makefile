# make demo   the main job end to end, on a real recording
# make test   lint and tests
# make bench  the measured claims (minutes, gigabytes in bench/out)
# make lint | proto | clean
#
# Each installs what is missing: the Debian packages below (as root; else it says which), and a virtual
# environment in .venv with the versions of constraints.txt.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test bench lint proto clean packages

demo: $(READY)
	$(BIN)/dumpfilter demo

test: $(READY) lint
	$(BIN)/pytest -n 2 --dist loadgroup -rs

bench: $(READY)
	$(BIN)/python -m bench

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The generated modules are committed, so that only who changes the contract needs this.
proto: $(READY)
	$(BIN)/python -m grpc_tools.protoc -Iproto --python_out=. --pyi_out=. --grpc_python_out=. \
	  proto/dumpfilter/v1/dumpfilter.proto

$(READY): pyproject.toml constraints.txt Makefile | packages
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark,dev]'
	@echo "compiling the kernels, once"
	$(BIN)/python -m dumpfilter.warm_up
	touch $(READY)

# Java for Spark (17 or later), MariaDB for the tests with a real replica and mariadb-binlog, and for the tests
# only a browser to open the bandwidth report in.
packages:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "dumpfilter needs Python 3.11 or later; say which with: make PYTHON=/path/to/python3" >&2; exit 1; }
	@missing=; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing python3-venv"; \
	command -v java >/dev/null || missing="$$missing java"; \
	command -v mariadbd >/dev/null || missing="$$missing mariadb-server"; \
	command -v mariadb-binlog >/dev/null || missing="$$missing mariadb-client"; \
	case " $(MAKECMDGOALS) " in *" test "*|*" packages "*) \
	  command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing="$$missing chromium";; esac; \
	case "$$missing" in *chromium*) apt-cache show chromium >/dev/null 2>&1 || apt-get update -qq || true; \
	  apt-cache show chromium >/dev/null 2>&1 || { \
	    echo "the tests open the report in a browser, and this system has no package chromium (Ubuntu's is a snap," >&2; \
	    echo "which cannot read test files): install google-chrome-stable" >&2; exit 1; };; esac; \
	test -z "$$missing" || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && \
	    case "$$missing" in *java*) \
	      for jre in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do \
	        apt-cache show $$jre >/dev/null 2>&1 && break; done; \
	      missing=$$(echo "$$missing" | sed "s/java/$$jre/");; esac; \
	    echo "installing:$$missing"; apt-get install -y -qq $$missing >/dev/null; \
	  else \
	    echo "missing:$$missing; install them as root:" >&2; \
	    echo "  apt-get install python3-venv openjdk-17-jre-headless mariadb-server mariadb-client chromium" >&2; exit 1; \
	  fi; }

clean:
	rm -rf $(VENV) demo bench/out build *.egg-info
