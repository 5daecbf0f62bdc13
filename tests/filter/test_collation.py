"""Comparison of names by family, version and lower_case_table_names."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import Family, NameCollation, NameRules, name_collation_of
from dumpfilter.filter.collation import collation_of, weight
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.index.subjects import TableSubject

OLD, NEW = NameCollation.GENERAL_CI, NameCollation.GENERAL1400_AS_CI
BMP = st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("5.5.68-MariaDB", OLD),
        ("10.11.19-MariaDB-0+deb12u1-log", OLD),
        ("11.4.9-MariaDB-log", OLD),
        ("11.5.1-MariaDB", NEW),
        ("11.8.9-MariaDB-4 from Debian-log", NEW),
        ("12.0.2-MariaDB", NEW),
        ("MariaDB", OLD),
        ("", OLD),
    ],
)
def test_the_version_decides(version: str, expected: NameCollation) -> None:
    assert name_collation_of("mariadb", version) is expected


def test_mysql_has_no_collation_to_choose() -> None:
    assert name_collation_of("mysql", "26.0.0") is OLD


@pytest.mark.parametrize(
    ("one", "other", "collations"),
    [
        ("cafe", "CAFE", {OLD, NEW}),
        ("привет", "ПРИВЕТ", {OLD, NEW}),
        ("é", "É", {OLD, NEW}),
        ("é", "è", {OLD}),
        ("й", "и", set()),
        ("ί", "Ι", {OLD}),
        ("ⱥ", "Ⱥ", {NEW}),  # younger than the old weights, and of another byte length
        ("ა", "Ა", {NEW}),
    ],
)
def test_wild_rules(one: str, other: str, collations: set[NameCollation]) -> None:
    for name, rule in ((one, other), (other, one)):
        for names in NameCollation:
            given_rules = Filter.from_options(
                [f"--replicate-wild-do-table={rule}.%"], names=NameRules("mariadb", names)
            )
            assert given_rules.rows_ok(name, "t") == (names in collations)
            effective = EffectiveFilter.from_options(
                ["--ignore=%.%", f"--do={rule}.%"], names=NameRules("mariadb", names)
            )
            assert effective.rows_ok(name, "t") == (names in collations)


@pytest.mark.parametrize(
    ("name", "rule", "collations"),
    [
        ("cafe", "CAFE", {OLD, NEW}),
        ("é", "è", {OLD}),
        ("é", "e", set()),
        ("ſ", "s", {NEW}),  # two bytes and one byte
        ("ⱥ", "Ⱥ", {NEW}),  # three bytes and two bytes
    ],
)
def test_table_rules(name: str, rule: str, collations: set[NameCollation]) -> None:
    for names in NameCollation:
        given_rules = Filter.from_options(
            [f"--replicate-do-table={rule}.t"], names=NameRules("mariadb", names)
        )
        assert given_rules.rows_ok(name, "T") == (names in collations)


@pytest.mark.parametrize("names", NameCollation)
@pytest.mark.parametrize("lower", [0, 1])
def test_databases_compare_by_bytes(names: NameCollation, lower: int) -> None:
    given_rules = Filter.from_options(
        ["--replicate-do-db=CAFÉ", "--replicate-do-db=é", "--replicate-rewrite-db=X->é"],
        names=NameRules("mariadb", names, lower),
    )
    assert given_rules.rows_ok("é", "t")
    assert given_rules.rows_ok("É", "t") == bool(lower)
    assert given_rules.rows_ok("CAFÉ", "t") == (not lower)
    assert given_rules.rows_ok("X", "t") == (not lower)
    assert not given_rules.rows_ok("x", "t")


def test_without_a_version_the_old_collation_decides() -> None:
    given_rules = Filter.from_options(["--replicate-wild-do-table=cafe.%"], names=NameRules("mariadb"))
    assert given_rules.names.collation is OLD
    assert given_rules.rows_ok("café", "t")


@pytest.mark.parametrize("lower", [0, 1, 2])
@given(name=st.text(st.sampled_from("aAéÉèſsßẞ"), max_size=4), rule=st.text(st.sampled_from("aAéÉèſsßẞ")))
def test_mysql_never_asks_the_collation(lower: int, name: str, rule: str) -> None:
    family: Family = "mysql"
    old, new = (collation_of(NameRules(family, names, lower)) for names in (OLD, NEW))
    assert (old.table(name) == old.table(rule)) == (new.table(name) == new.table(rule))
    assert list(map(old.unit, old.units(name))) == list(map(new.unit, new.units(name)))


@given(character=BMP)
def test_a_weight_weighs_itself(character: str) -> None:
    assert weight(weight(character, NEW), NEW) == weight(character, NEW)


@given(character=BMP)
def test_weights_with_accents_are_upper_case(character: str) -> None:
    """A character and its weight differ in case alone."""
    weighs = weight(character, NEW)
    if weighs != character:
        assert weighs.casefold() == character.casefold() or weighs.lower() == character.lower()
    assert len(weighs) == 1


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_servers_lower_case_fewer_characters_than_python(family: Family) -> None:
    """MySQL 9.7 and MariaDB 10.11 answer LOWER() so for each character, and so do MySQL's replicas."""
    lower = collation_of(NameRules(family, OLD, 1)).database
    assert lower("ÉİǄ\u2126\u212a\u212b") == "éiǆωkå"
    assert lower("ԱẞⰀⱯϹ") == "աẞⰀⱯϹ"


def test_a_setting_that_there_is_not() -> None:
    with pytest.raises(OptionError, match="lower_case_table_names=3"):
        collation_of(NameRules("mariadb", NEW, 3))


@pytest.mark.parametrize(
    "names", [NameRules("mysql"), NameRules("mysql", lower_case_table_names=1), NameRules("mariadb")]
)
def test_a_filter_can_be_pickled(names: NameRules) -> None:
    made = Filter.from_options(["--replicate-do-table=d.t", "--replicate-wild-do-table=e.%"], names=names)
    again = pickle.loads(pickle.dumps(made))
    for database, table in (("d", "t"), ("d", "u"), ("e", "t")):
        assert again.decide(TableSubject(database, table)) == made.decide(TableSubject(database, table))
