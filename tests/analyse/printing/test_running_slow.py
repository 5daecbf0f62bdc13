"""Texts of filtered recordings run to their end in a client without ``--force``, and give the replica's tables."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpfilter.analyse.printing.may_fail import MayFail
from dumpfilter.receiver.objects import objects_of
from tests.analyse.printing.printed import recording as find
from tests.analyse.printing.running import lower_case_of, mariadb, run_case, runnable, text_of, verdict
from tests.commands.binlog_runs import invoke
from tests.oracle.recordings import Recording
from tests.oracle.replaying import Server

SAMPLE = (
    "mariadb-mixed",
    "mariadb-row",
    "mariadb-statement",
    "mariadb-statement-kinds",
    "mariadb-rewrite-statement",
)
"""The recordings that the suite runs. ``python -m tests.analyse.printing.running`` runs all."""

SINGLE = {
    ("mariadb-forms", "do-db-ignore-b"),
    ("mariadb-forms", "rewrite-do"),
    ("mariadb-forms2", "do-a"),
    ("mariadb-statements", "rewrite+do-shop"),
    ("mariadb118-alter", "rewrite"),
}
"""Single cases of larger recordings: renamed tables, MERGE tables, a collision of keys, an ALTER in two phases."""

CASES = [
    pytest.param(name, one, case, id=name)
    for name, one, case in runnable("mariadb")
    if (one.name in SAMPLE or (one.name, case) in SINGLE) and not lower_case_of(one, case)
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with mariadb(tmp_path_factory.mktemp("texts") / "server", 0) as running:
        yield running


@pytest.mark.parametrize(("name", "one", "case"), CASES)
def test_a_text_runs_to_its_end(server: Server, name: str, one: Recording, case: str) -> None:
    assert verdict(name, one, case, run_case(server, one, case)) == ""


def test_as_it_is_the_text_stops(server: Server, tmp_path: Path) -> None:
    """With --may-fail=print the client stops at the first statement that the filter has torn apart."""
    one = find("mariadb-statement")
    server.empty([], one.collation)
    text, _ = text_of(one, "ignore-table", tmp_path / "loads", MayFail.PRINT)
    command = [*server.client, "--binary-mode", "--local-infile=1"]
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    assert b"ERROR 1146" in done.stderr


def test_the_target_is_asked_for_what_it_has(server: Server) -> None:
    """The filter drops the CREATE of tables that the target has all the same."""
    one = find("mariadb-statement")
    server.empty([], one.collation)
    socket = next(text for text in server.client if text.startswith("--socket=")).removeprefix("--socket=")
    address = f"mysql://root@localhost/?socket={socket}"

    def missing(*options: str) -> set[str]:
        text = invoke(*one.files, "--replicate-do-db=shop", *options).stdout
        return set(re.findall(r"# dumpfilter: not run: table (\S+) is missing", text))

    before = missing()
    assert before
    assert missing(f"--target-has={address}") == before
    for name in before:
        database, _, table = name.partition(".")
        server.sql(f"CREATE DATABASE IF NOT EXISTS `{database}`")
        server.sql(f"CREATE TABLE `{database}`.`{table}` (i INT)")
    assert not missing(f"--target-has={address}") & before
    server.sql("CREATE DATABASE `a%b`")
    server.sql("CREATE FUNCTION `a%b`.`f_` () RETURNS INT RETURN 1")
    assert {r"a\%b.", r"a\%b.f\_"} <= set(objects_of(address))
