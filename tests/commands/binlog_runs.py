"""Runs of ``dumpfilter binlog`` in the test's own process, and the parts of the printed text."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner, Result

from dumpfilter.cli import app
from tests.commands.in_process import Finished, untold_compilation
from tests.commands.in_process import run as run_in_process
from tests.log_state import reset_logs

ORACLE = Path(__file__).parents[1] / "oracle" / "data" / "oracle"
MYSQL, MARIADB = ORACLE / "mysql-statement", ORACLE / "mariadb-statement"

_GTID = re.compile(r"\tGtid\t(\S+)")


def run(*arguments: str | Path) -> Finished:
    return run_in_process("binlog", *arguments)


def invoke(*arguments: str | Path) -> Result:
    """Run the command in this process, and demand that it succeeds."""
    try:
        with untold_compilation():
            done = CliRunner().invoke(app, ["binlog", *map(str, arguments)], catch_exceptions=False)
    finally:
        reset_logs()
    assert done.exit_code == 0, done.stderr
    return done


def printed(*arguments: str | Path) -> str:
    done = invoke(*arguments)
    assert done.stderr == "", done.stderr
    return done.stdout_bytes.decode("utf-8", "surrogateescape")


def undecided(*arguments: str | Path) -> str:
    """Return the text of a run that warns of undecided events."""
    done = invoke(*arguments)
    assert "could not be decided and are in the output" in done.stderr
    return done.stdout_bytes.decode("utf-8", "surrogateescape")


def gtids(text: str) -> list[str]:
    return _GTID.findall(text)
