"""The pytest plugin's options. Options of the command line override keys of pytest's configuration file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.harness.servers import ServerProgram, parse_programs

TIMEOUT = "60"
"""The default time limit for a start and for a wait, seconds. Machines that run tests are often busy."""

ARTIFACTS = "topology-artifacts"
"""The default directory for the artifacts of failed tests, below pytest's root directory."""


@dataclass(frozen=True)
class Settings:
    """The plugin's options of one run."""

    programs: tuple[ServerProgram, ...]
    timeout: float
    artifacts: Path
    skips_missing: bool
    """Whether a test whose server is not installed is skipped. Otherwise the test fails."""
    keeps: bool
    """Whether the directories of all topologies are kept after the run."""
    default: str
    """The topology of tests without a mark, empty for none."""


def add_options(parser: pytest.Parser) -> None:
    """Declare the plugin's options of pytest's command line, and its keys of pytest's configuration file."""
    group = parser.getgroup("topology", "replication topologies (dumpfilter)")

    def add(option: str, metavar: str, text: str, **more: Any) -> None:
        group.addoption(f"--topology-{option}", metavar=metavar, help=text, **more)

    add(
        "server",
        "[NAME=]PROGRAM",
        "a server's program, such as mysql-8.4=/opt/mysql-8.4/bin/mysqld. The name begins with mariadb or mysql. "
        "With several programs of a family, each test that starts such a server runs once with each of them",
        action="append",
    )
    add("timeout", "SECONDS", f"the default limit for a start and for a wait ({TIMEOUT})")
    add("artifacts", "DIRECTORY", f"where the artifacts of failed tests are written ({ARTIFACTS})")
    add("missing", "fail|skip", "what becomes of a test whose server is not installed (fail)")
    group.addoption(
        "--topology-keep",
        action="store_true",
        help="leave the directories of all topologies, with data and logs, and name them at the end of the run",
    )
    parser.addini(
        "topology", "the topology of tests without a mark: a short string or a TOML file", default=""
    )
    parser.addini("topology_servers", "programs of servers, as --topology-server", type="linelist")
    for key, default in (("timeout", TIMEOUT), ("artifacts", ARTIFACTS), ("missing", "fail")):
        parser.addini(f"topology_{key}", f"as --topology-{key}", default=default)


def read_settings(config: pytest.Config) -> Settings:
    """Return the plugin's options of a run. Raises pytest.UsageError for an invalid value."""
    timeout, artifacts, missing = (
        config.getoption(key) or config.getini(key)
        for key in ("topology_timeout", "topology_artifacts", "topology_missing")
    )
    if missing not in ("fail", "skip"):
        raise pytest.UsageError(f"topology_missing = {missing}: give fail or skip")
    try:
        seconds = float(timeout)
    except ValueError:
        raise pytest.UsageError(f"topology_timeout = {timeout}: give a number of seconds") from None
    return Settings(
        parse_programs(config.getoption("topology_server") or config.getini("topology_servers")),
        seconds,
        config.rootpath / artifacts,
        missing == "skip",
        bool(config.getoption("topology_keep")),
        config.getini("topology"),
    )
