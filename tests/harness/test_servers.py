"""The choice of servers' programs, and the cases that a test gets from it."""

from __future__ import annotations

import pytest

from dumpfilter.harness.plugin import ServerCase, ServerProgram, cases, parse_programs
from dumpfilter.topology import Topology, server, slave

M10 = ServerProgram("mariadb-10.11", "mariadb", "/a/mariadbd")
M11 = ServerProgram("mariadb-11.8", "mariadb", "/b/mariadbd")
MYSQL = ServerProgram("mysql", "mysql", "/c/mysqld")


def test_programs_have_names_and_families() -> None:
    texts = ["mariadb-10.11=/a/mariadbd", "mariadb-11.8=/b/mariadbd", "/c/mysqld"]
    assert parse_programs(texts) == (M10, M11, MYSQL)


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["postgres=/usr/bin/postgres"], "begins with mariadb or mysql"),
        (["/usr/bin/server"], "begins with mariadb or mysql"),
        (["mysql="], "give NAME=PROGRAM"),
        (["mysql=/a", "mysql=/b"], "the name mysql is given twice"),
    ],
    ids=["family", "no name", "no program", "twice"],
)
def test_a_wrong_program_is_an_error(texts: list[str], told: str) -> None:
    with pytest.raises(pytest.UsageError, match=told):
        parse_programs(texts)


def names(found: list[ServerCase]) -> list[str]:
    return [case.name for case in found]


def test_a_topology_runs_once_with_each_program_of_its_families() -> None:
    programs = (M10, M11, MYSQL)
    assert names(cases(programs, ["mariadb"])) == ["mariadb-10.11", "mariadb-11.8"]
    assert names(cases(programs, ["mariadb", "mysql"])) == ["mariadb-10.11+mysql", "mariadb-11.8+mysql"]
    assert names(cases(programs, [])) == ["servers"]
    assert len(cases((), ["mariadb", "mysql"])) == 1


def test_a_mark_asks_for_families() -> None:
    assert names(cases((M10, M11, MYSQL), [], ("mariadb", "mysql"))) == [
        "mariadb-10.11",
        "mariadb-11.8",
        "mysql",
    ]
    assert names(cases((), [], ("mysql", "mariadb"))) == ["mysql", "mariadb"]


def topology() -> Topology:
    return Topology(
        (
            server("m", program="/own/mariadbd"),
            server("web", "mariadb", "m"),
            slave("hr", "m"),
        )
    )


def test_a_case_gives_programs_to_servers_without_one() -> None:
    m, web, hr = ServerCase((M10, MYSQL)).applied(topology()).nodes
    assert (m.program, web.program) == ("/own/mariadbd", "/a/mariadbd")
    assert hr == topology()["hr"]


def test_a_case_of_another_family_replaces_all_servers() -> None:
    m, web, _ = ServerCase((M10, MYSQL), "mysql").applied(topology()).nodes
    assert (m.family, m.program) == (web.family, web.program) == ("mysql", "/c/mysqld")


def test_without_choices_a_topology_stays_as_it_is() -> None:
    assert ServerCase().applied(topology()) == topology()
