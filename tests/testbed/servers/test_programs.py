"""The search for the programs of servers, with scripts in their place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dumpfilter.binlog.format import Family
from dumpfilter.testbed.errors import ServerMissing
from dumpfilter.testbed.servers import server as module
from dumpfilter.testbed.servers.server import find_program
from dumpfilter.testbed.servers.sql import DIALECTS

MARIADB = "mariadbd  Ver 10.5.29-MariaDB-0+deb11u1 for debian-linux-gnu on x86_64 (Debian 11)"
MYSQL = "/usr/sbin/mysqld  Ver 8.4.2 for Linux on x86_64 (MySQL Community Server - GPL)"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes scripts which print a text, and leave a machine with these programs alone."""

    def make(**texts: str) -> None:
        for name, text in texts.items():
            script = tmp_path / name.replace("_", "-")
            script.write_text(f"#!/bin/sh\necho '{text}'\n")
            script.chmod(0o755)

    monkeypatch.setattr(module, "SBIN", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    for dialect in DIALECTS.values():
        monkeypatch.delenv(dialect.variable, raising=False)
    return make


def test_programs_are_found(programs: Callable[..., None], tmp_path: Path) -> None:
    programs(mariadbd=MARIADB, mariadb_install_db="", mysqld=MYSQL)
    found = find_program("mariadb")
    assert (found.path, found.install) == (str(tmp_path / "mariadbd"), str(tmp_path / "mariadb-install-db"))
    assert found.title == "MariaDB 10.5.29"
    found = find_program("mysql")
    assert (found.path, found.install, found.title) == (str(tmp_path / "mysqld"), "", "MySQL 8.4.2")


def test_a_name_wins_over_the_variable_and_the_variable_over_the_path(
    programs: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(mysqld=MYSQL, other=MYSQL.replace("8.4.2", "9.1.0"), third=MYSQL.replace("8.4.2", "9.7.4"))
    monkeypatch.setenv("DUMPFILTER_MYSQLD", str(tmp_path / "other"))
    assert find_program("mysql").version == "9.1.0"
    assert find_program("mysql", "third").version == "9.7.4"


@pytest.mark.parametrize(
    ("present", "family", "told"),
    [
        ({}, "mariadb", "no mariadbd: install MariaDB"),
        ({}, "mysql", "no mysqld: install MySQL .*DUMPFILTER_MYSQLD, .*root = DIR"),
        ({"mariadbd": MARIADB}, "mariadb", "no mariadb-install-db beside"),
        ({"mariadbd": MYSQL, "mariadb_install_db": ""}, "mariadb", "is no MariaDB server"),
        ({"mysqld": MARIADB}, "mysql", "is no MySQL server"),
        (
            {"mariadbd": MARIADB.replace("10.5.29", "10.4.34"), "mariadb_install_db": ""},
            "mariadb",
            "is MariaDB 10.4.34, and dumpfilter needs 10.5 or later",
        ),
    ],
    ids=[
        "nothing",
        "nothing of MySQL",
        "the server alone",
        "MySQL's server",
        "MariaDB's mysqld",
        "an old one",
    ],
)
def test_what_is_missing_is_told(
    programs: Callable[..., None], present: dict[str, str], family: Family, told: str
) -> None:
    programs(**present)
    with pytest.raises(ServerMissing, match=told):
        find_program(family)


def test_a_named_program_that_is_missing_or_wrong_is_told(programs: Callable[..., None]) -> None:
    programs(mariadbd=MARIADB, mysqld=MARIADB, wrong="")
    with pytest.raises(ServerMissing, match="/nowhere/mysqld: no such program"):
        find_program("mysql", "/nowhere/mysqld")
    with pytest.raises(
        ServerMissing, match=r"wrong is no MariaDB server: name the program of a MariaDB server$"
    ):
        find_program("mariadb", "wrong")


def test_the_cure_does_not_take_mysqld_of_mariadb_for_mysql(programs: Callable[..., None]) -> None:
    programs(mariadbd=MARIADB, mysqld=MARIADB)
    with pytest.raises(ServerMissing, match=r"no mariadb-install-db .*: install MariaDB"):
        find_program("mariadb")


def test_a_program_of_another_system_runs_with_its_loader(
    programs: Callable[..., None], tmp_path: Path
) -> None:
    root = tmp_path / "other"
    for directory in ("lib64", "usr/sbin", "usr/lib/x86_64-linux-gnu"):
        (root / directory).mkdir(parents=True)
    with pytest.raises(
        ServerMissing,
        match=r"other/usr/sbin/mysqld: no such program: name the root of a system that has MySQL",
    ):
        find_program("mysql", root=str(root))
    for name in ("lib64/ld-linux-x86-64.so.2", "usr/sbin/mysqld"):
        (root / name).write_text(f"#!/bin/sh\necho '{MYSQL}'\n")
        (root / name).chmod(0o755)
    found = find_program("mysql", root=str(root))
    loader, option, libraries, *command = found.command
    assert (loader, option) == (str(root / "lib64/ld-linux-x86-64.so.2"), "--library-path")
    assert str(root / "usr/lib/x86_64-linux-gnu") in libraries.split(":")
    assert command == [str(root / "usr/sbin/mysqld"), "--no-defaults", f"--basedir={root}/usr"]


@pytest.mark.parametrize(
    ("family", "other", "archive"),
    [("mysql", "mariadbd", "dev.mysql.com"), ("mariadb", "mysqld", "mariadb.org")],
)
def test_the_cure_does_not_remove_the_other_family(
    programs: Callable[..., None], family: Family, other: str, archive: str
) -> None:
    programs(**{other: MARIADB if other == "mariadbd" else MYSQL})
    with pytest.raises(ServerMissing, match=archive) as caught:
        find_program(family)
    assert "apt-get" not in str(caught.value)
