"""Slaves from the command line and from replicas' own option files."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.topology.slaves_file import SlaveDefinition, slaves_of, slaves_of_my_cnf, slaves_of_text


def one(text: str) -> SlaveDefinition:
    (found,) = slaves_of_text(text)
    return found


def cnf(folder: Path, text: str, name: str = "web.cnf") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_options_are_spelled_as_servers_spell_them() -> None:
    assert one("web:--replicate_do_db=shop --replicate-ignore-table shop.log").rules == (
        "--replicate-do-db=shop",
        "--replicate-ignore-table=shop.log",
    )
    assert one("web:").rules == one("web").rules == ()
    assert one("web: --replicate-do-db='my shop'").rules == ("--replicate-do-db=my shop",)
    assert one(r"web:--replicate-wild-do-table='my\_shop.%'").rules == (
        r"--replicate-wild-do-table=my\_shop.%",
    )


def test_rules_of_the_effective_filter() -> None:
    found = one("web:--do=shop.% --ignore=%.tmp")
    assert found.semantics is FilterSemantics.EFFECTIVE
    assert found.rules == ("--do=shop.%", "--ignore=%.tmp")


def test_origins_and_case() -> None:
    found = one("web:--server-id=11 --ignore-server-ids=7,8 --do-domain-ids=1 --lower-case-table-names=1")
    assert found.origin == OriginFilter(frozenset({7, 8}), frozenset({1}), own_server_id=11)
    assert (found.server_id, found.lower_case_table_names) == (11, 1)
    assert one("web:--server-id=11 --replicate-same-server-id").origin is None


def test_a_channel_is_a_slave_of_its_own() -> None:
    found = slaves_of_text(
        "web:--replicate-do-db=Ch1:shop --replicate-ignore-table=hr.log --replicate-do-db=ch2:hr"
    )
    assert {each.name: each.rules for each in found} == {
        "web/ch1": ("--replicate-do-db=shop", "--replicate-ignore-table=hr.log"),
        "web": ("--replicate-ignore-table=hr.log",),
        "web/ch2": ("--replicate-do-db=hr", "--replicate-ignore-table=hr.log"),
    }


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("--replicate-do-db=shop", "the slave's name is missing"),
        (":--replicate-do-db=shop", "the slave's name is missing"),
        ("a --replicate-do-db=shop", "the colon behind the slave's name is missing"),
        ("a=--replicate-do-db=shop", "the colon behind the slave's name is missing"),
        ("a\t--replicate-do-db=channel:shop", "the colon behind the slave's name is missing"),
        ("web:--replicate-do-bd=shop", "did you mean 'replicate-do-db'"),
        ("web:--replicate-do-db", "a value is missing"),
        ("web:replicate-do-db=shop", "begins with two dashes"),
        ("web:--replicate-do-table=shop", "db_name.table_name"),
        ("web:--replicate-do-db='shop", "quotation"),
        ("web:--replicate-do-db=shop --do=x.y", "both semantics"),
        ("web:--server-id=x", "whole number"),
        ("web:--do-domain-ids=1 --ignore-domain-ids=2", "together"),
    ],
)
def test_errors_name_the_slave_and_the_cure(text: str, part: str) -> None:
    with pytest.raises(OptionError) as caught:
        slaves_of_text(text)
    assert part in str(caught.value)
    if text.startswith("web"):
        assert "slave 'web'" in str(caught.value)


def test_a_replica_s_own_option_file(tmp_path: Path) -> None:
    path = cnf(
        tmp_path,
        "[client]\nport=1\n[mysqld]\nport = 3306\nserver_id = 11\nreplicate-do-db = shop\n"
        "[mariadb-10.11]\nreplicate_ignore_table = shop.log\nlower_case_table_names=1\nskip-name-resolve\n",
    )
    (found,) = slaves_of_my_cnf(path)
    assert found == SlaveDefinition(
        "web",
        ("--replicate-do-db=shop", "--replicate-ignore-table=shop.log"),
        FilterSemantics.CLASSIC,
        1,
        11,
        OriginFilter(own_server_id=11),
    )


def test_the_name_is_report_host_or_the_file_s_or_the_directory_s(tmp_path: Path) -> None:
    def name(path: Path) -> str:
        return slaves_of_my_cnf(path)[0].name

    assert name(cnf(tmp_path, "[mysqld]\nreport_host = db7\n")) == "db7"
    assert name(cnf(tmp_path, "[mysqld]\n")) == "web"
    assert name(cnf(tmp_path, "[mysqld]\n", "hr/my.cnf")) == "hr"


def test_an_option_file_includes_others_and_names_channels(tmp_path: Path) -> None:
    cnf(tmp_path, "[mysqld]\nreplicate-do-db=ch1:shop\n", "conf.d/a.cnf")
    path = cnf(tmp_path, f"!includedir {tmp_path}/conf.d\n[mariadb]\nconn2.replicate_do_db=hr\n")
    assert {each.name: each.rules for each in slaves_of_my_cnf(path)} == {
        "web/ch1": ("--replicate-do-db=shop",),
        "web/conn2": ("--replicate-do-db=hr",),
    }


def test_errors_of_an_option_file_name_its_line(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"web\.cnf:2: .*db_name\.table_name"):
        slaves_of_my_cnf(cnf(tmp_path, "[mysqld]\nreplicate-do-table=shop\n"))
    with pytest.raises(OptionError, match=r"web\.cnf:2: .*requires an argument"):
        slaves_of_my_cnf(cnf(tmp_path, "[mysqld]\nreplicate-do-db\n"))


def test_files_and_texts_together(tmp_path: Path) -> None:
    toml = tmp_path / "slaves.toml"
    toml.write_text('[[slave]]\nname = "a"\n')
    files = [toml, cnf(tmp_path, "[mysqld]\n", "b.cnf")]
    assert [each.name for each in slaves_of(files, ["c:--replicate-do-db=x"])] == ["a", "b", "c"]
    with pytest.raises(OptionError, match="'b': two slaves have this name"):
        slaves_of(files, ["b:"])
