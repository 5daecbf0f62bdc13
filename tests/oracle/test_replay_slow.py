"""Filtered sets of all recordings, replayed into an empty server with the server's own programs.

The server then has the tables and rows of the recorded replica. MariaDB's recordings go through ``mariadb-binlog … |
mariadb``. MySQL's go through ``mysqlbinlog … | mysql`` where $DUMPFILTER_MYSQL names a running, empty MySQL
(docs/operating.md).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.binlog_tools import MYSQLBINLOG
from tests.mariadb import MariaDb
from tests.oracle.recordings import Recording, covering_cases
from tests.oracle.replaying import MariaDbServer, Server, check, replayable

MYSQL = shlex.split(os.environ.get("DUMPFILTER_MYSQL", ""))
"""The mysql client with the options that reach an empty server (lower_case_table_names=0)."""

NOT_AS_A_REPLICA = {
    # A MariaDB replica replaces a table that exists (slave_ddl_exec_mode=IDEMPOTENT). A client gets an error.
    "mariadb-databases-wild-do-x.t%",
    # mariadb-binlog's --rewrite-db compares exactly, unlike a replica's, and rewrites no statement about a database.
    "mariadb-databases-rewrite",
    "mariadb-databases-rewrite+do-y",
    "mariadb-databases-rewrite+wild-do-y",
    "mariadb-databases-rewrite+ignore-x",
    "mariadb-rewrite-databases-d2-to-c",
    "mariadb-rewrite-statement-databases-d2-to-c",
    "mariadb-lower-case-replica-only-rewrite-shop-store",
    "mariadb-lower-case-replica-only-rewrite-SHOP-store",
    # mariadb-binlog prints an ALTER in two phases as an event, and rewrites no database in it.
    "mariadb118-alter-rewrite",
    "mariadb1189-alter-rewrite",
    # The clients take a backslash in a name in double quotes for an escape character.
    "mariadb-texts-ignore-plain",
    "mysql-texts-ignore-plain",
}
"""Cases in which a client's replay differs from a replica's work, whatever the filter."""


def _cases(family: str, *, lower: bool = False) -> list[Any]:
    chosen = []
    for recording, case in covering_cases():
        ended = recording.oracle["cases"][case]
        reached = ended.get("reached_the_end", ended["gtid"] == recording.oracle["gtid"])
        whole = not ended["stopped"] and reached
        if (
            replayable(recording.name)
            and recording.family == family
            and whole
            and ("lower-case" in recording.name) == lower
            # Its undecided statements are in the filtered set, and the recorded replica dropped them.
            and not recording.name.endswith("client-charsets")
        ):
            name = f"{recording.name}-{case}"
            if name not in NOT_AS_A_REPLICA:
                chosen.append(pytest.param(recording, case, id=name))
    return chosen


@pytest.fixture(scope="module")
def lower_mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = MariaDb(tmp_path_factory.mktemp("lower"), "--skip-log-bin", "--lower-case-table-names=1")
    yield MariaDbServer(server)
    server.close()


@pytest.mark.parametrize(("recording", "case"), _cases("mariadb"))
def test_mariadb(recording: Recording, case: str, mariadb: Server, tmp_path: Path) -> None:
    check(mariadb, recording, case, tmp_path)


@pytest.mark.parametrize(("recording", "case"), _cases("mariadb", lower=True))
def test_mariadb_with_lower_case_names(
    recording: Recording, case: str, lower_mariadb: Server, tmp_path: Path
) -> None:
    check(lower_mariadb, recording, case, tmp_path)


if MYSQL and MYSQLBINLOG:
    # After a statement that fails, MySQL 9.7 answers error 1105 to BINLOG with the rows of MySQL 5.7.
    @pytest.mark.parametrize(
        ("recording", "case"), [one for one in _cases("mysql") if one.values[0].version >= (8, 0)]
    )
    def test_mysql(recording: Recording, case: str, tmp_path: Path) -> None:
        check(Server(MYSQL, MYSQLBINLOG), recording, case, tmp_path)
