"""Specification files, and errors of files that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.spark_jobs.split.ownership import BY_SCHEMA, Specification, load_specification

DATA = Path(__file__).parent / "data"


def test_a_file() -> None:
    found = load_specification(DATA / "effective.toml")
    assert found.names == ("sales", "audit", "all-but-logs", "others")
    assert not found.by_schema
    assert {one.semantics for one in found.binlogs} == {FilterSemantics.EFFECTIVE}
    assert [name for name, rules in found.filters(NameRules("mariadb")) if rules.rows_ok("logs", "a")] == [
        "sales",
        "audit",
    ]


def test_comments_are_no_part_of_a_specification(tmp_path: Path) -> None:
    text = (DATA / "areas.toml").read_text()
    same = tmp_path / "same.toml"
    same.write_text(f"# another comment\n{text}")
    assert repr(load_specification(same)) == repr(load_specification(DATA / "areas.toml"))
    others = [
        text.replace('"sales"', '"sale"'),
        text.replace("shop.%", "shop.a"),
        f"lower_case_table_names = 1\n{text}",
    ]
    found = {repr(BY_SCHEMA), repr(load_specification(DATA / "areas.toml"))}
    for other in others:
        same.write_text(other)
        found.add(repr(load_specification(same)))
    assert len(found) == 5


WRONG = [
    ("", "binlog: is missing"),
    ("binlog = []", "binlog: "),
    ('[[binlog]]\nname = "a"\nrule = ["x"]', r"binlog\[1\].rule: there is no such key"),
    ("[[binlog]]\nrules = []", r"binlog\[1\].name: is missing"),
    ('other = 1\n[[binlog]]\nname = "a"', "other: there is no such key"),
    ('[[binlog]]\nname = "a"\n[rest]\nname = "b"\nrules = []', "rest.rules: there is no such key"),
    ('[[binlog]]\nname = "a"\n[[binlog]]\nname = "A"', "'A': two binlogs have this name"),
    ('[[binlog]]\nname = "a"\n[rest]\nname = "a"', "'a': two binlogs have this name"),
    ('[[binlog]]\nname = "../a"', "'../a': a binlog's name becomes a file's name"),
    ('[[binlog]]\nname = ""', "'': a binlog's name becomes a file's name"),
    ('[[binlog]]\nname = ".a"', "'.a': a binlog's name becomes a file's name"),
    ('[[binlog]]\nname = "a"\nrules = ["--do=a.%"]', "binlog 'a': rules: unknown option '--do' in classic"),
    (
        '[[binlog]]\nname = "a"\nsemantics = "effective"\nrules = ["--replicate-do-db=a"]',
        "binlog 'a': rules: unknown option '--replicate-do-db' in effective",
    ),
    ('[[binlog]]\nname = "a"\nrules = ["--replicate-do-table=a"]', "not in the form db_name.table_name"),
    ('[[binlog]]\nname = "a"\nrules = ["--replicate-do-db"]', "a value is missing"),
    ('[[binlog]]\nname = "a"\nsemantics = "clever"', r"binlog\[1\].semantics: "),
    ('lower_case_table_names = 3\n[[binlog]]\nname = "a"', "lower_case_table_names: "),
    ("[[binlog", "parts.toml: "),
]


@pytest.mark.parametrize(("text", "reason"), WRONG)
def test_what_is_wrong_is_named(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "parts.toml"
    path.write_text(text)
    with pytest.raises(OptionError, match=reason) as caught:
        load_specification(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_the_names_that_exist_whatever_happens() -> None:
    assert BY_SCHEMA.names == ()
    assert Specification(load_specification(DATA / "mixed.toml").binlogs).names == (
        "shop",
        "orders",
        "not-shop",
    )
