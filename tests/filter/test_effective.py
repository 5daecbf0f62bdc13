"""The effective filter: the worklog's examples, and the cases that the worklog leaves open."""

from __future__ import annotations

from typing import Literal

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.parse import make_statement, parse_statement
from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.filter.base import Decision, Step, Verdict
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.rules import Rule, RuleKind
from dumpfilter.index.subjects import TableSubject

Family = Literal["mysql", "mariadb"]


def _filter(*options: str, family: Family = "mysql") -> EffectiveFilter:
    return EffectiveFilter.from_options(options, names=NameRules(family))


def _update(*names: str, current: str | None = None) -> Statement:
    made = [TableName(*n.split(".")) if "." in n else TableName(None, n) for n in names]
    return Statement(StatementKind.UPDATE, current, updated=(tuple(made),))


class TestTheWorklogsExamples:
    def test_all_tables_like_abc_except_efg(self) -> None:
        rules = _filter("--ignore=abc.%", "--do=%.EFG")
        assert not rules.rows_ok("abc", "t")
        assert rules.rows_ok("abc", "EFG")
        assert rules.rows_ok("xyz", "t")
        include = _filter("--do=abc.%", "--ignore=%.%", "--ignore=%.EFG")
        assert include.rows_ok("abc", "EFG")  # DO is asked first, so that it makes exceptions
        assert not include.rows_ok("xyz", "EFG")

    def test_change_master(self) -> None:
        rules = _filter("--do=db1.%", "--ignore=%.table2", "--rewrite=db1.%->db2.%")
        assert rules.rewrite_table("db1", "t") == ("db2", "t")
        # the effective name of db1.table2 is db2.table2, so DO='db1.%' is not its exception
        assert not rules.rows_ok("db1", "table2")
        assert not rules.rows_ok("db3", "table2")
        assert rules.rows_ok("db3", "t")

    def test_change_binlog(self) -> None:
        rules = _filter("--do=db1.%", "--ignore=%_backup.table2")
        assert not rules.rows_ok("db1_backup", "table2")
        assert rules.rows_ok("db1_backup", "table3")
        assert rules.rows_ok("_", "table2")
        # `_` is any one character, and `%` may be nothing
        assert not rules.rows_ok("xbackup", "table2")
        assert rules.rows_ok("backup", "table2")
        assert _filter("--ignore=%\\_backup.table2").rows_ok("xbackup", "table2")

    def test_the_current_database_is_never_asked(self) -> None:
        rules = _filter("--ignore=foo.%")
        assert rules.verdict(_update("foo.sometable", current="bar")) is Verdict.IGNORE
        assert rules.verdict(_update("bar.sometable", current="foo")) is Verdict.EXECUTE
        assert rules.verdict(_update("sometable", current="foo")) is Verdict.IGNORE
        assert rules.verdict(_update("sometable")) is Verdict.EXECUTE


class TestWhatTheWorklogLeavesOpen:
    def test_several_tables_one_wanted(self) -> None:
        rules = _filter("--ignore=a.%")
        assert rules.verdict(_update("a.x", "b.y")) is Verdict.EXECUTE
        assert rules.verdict(_update("b.y", "a.x")) is Verdict.EXECUTE
        assert rules.verdict(_update("a.x", "a.y")) is Verdict.IGNORE
        assert rules.decide(_update("a.x", "a.y")).name == "a.x"

    def test_each_list_must_pass(self) -> None:
        lists = ((TableName("shop", "t"),), (TableName("mysql", "tables_priv"), TableName("mysql", "user")))
        grant = Statement(StatementKind.ACCOUNT, "hr", updated=lists)
        assert _filter("--ignore=hr.%").verdict(grant) is Verdict.EXECUTE
        assert _filter("--ignore=shop.%").verdict(grant) is Verdict.IGNORE
        assert _filter("--ignore=mysql.%").verdict(grant) is Verdict.IGNORE
        assert _filter("--ignore=mysql.user").verdict(grant) is Verdict.EXECUTE

    @pytest.mark.parametrize("kind", [k for k in StatementKind if k.is_database])
    def test_a_whole_database_is_db_dot(self, kind: StatementKind) -> None:
        def verdict(*options: str, named: str | None = "db1") -> Verdict:
            return _filter(*options).verdict(Statement(kind, "used", named))

        assert verdict("--ignore=db1.%") is Verdict.IGNORE
        assert verdict("--ignore=d%.%") is Verdict.IGNORE
        assert verdict("--ignore=db1.") is Verdict.IGNORE
        assert verdict("--ignore=%.table2") is Verdict.EXECUTE
        assert verdict("--ignore=db1.%", "--do=db1.t") is Verdict.IGNORE
        assert verdict("--ignore=db1.%", "--do=db1.") is Verdict.EXECUTE
        assert verdict("--ignore=used.%") is Verdict.EXECUTE
        assert verdict("--ignore=used.%", named=None) is Verdict.IGNORE
        assert verdict("--ignore=db2.%", "--rewrite=db1.%->db2.%") is Verdict.IGNORE
        assert verdict("--ignore=db2.%", "--rewrite=db1.t->db2.t") is Verdict.EXECUTE

    @pytest.mark.parametrize("kind", [StatementKind.ROUTINE, StatementKind.EVENT])
    def test_routines_and_events_by_their_databases(self, kind: StatementKind) -> None:
        rules = _filter("--ignore=a.%")

        def decide(databases: tuple[str, ...] | None) -> Decision:
            return rules.decide(Statement(kind, "a", updated_databases=databases, updated=()))

        assert decide(("a",)).verdict is Verdict.IGNORE
        assert decide(("a", "b")).verdict is Verdict.EXECUTE
        assert decide(()).step is decide(None).step is Step.EFFECTIVE_NOTHING

    def test_what_changes_nothing_is_written(self) -> None:
        rules = _filter("--ignore=%.%")
        for statement in (
            Statement(StatementKind.FLUSH, "a", updated_databases=("a",), updated=()),
            Statement(StatementKind.DELETE, "a", updated_databases=("a",), updated=((),)),
        ):
            assert rules.decide(statement) == (Verdict.EXECUTE, Step.EFFECTIVE_NOTHING, None, None)

    def test_alter_sequence_goes_by_the_sequence(self) -> None:
        changed = make_statement(parse_statement("ALTER SEQUENCE b.s INCREMENT 2"), current_database="a")
        assert _filter("--ignore=b.%").decide(changed).verdict is Verdict.IGNORE
        assert _filter("--ignore=a.%").decide(changed).verdict is Verdict.EXECUTE

    def test_what_is_not_known_is_left_to_the_slave(self) -> None:
        unknown = Statement(StatementKind.UNKNOWN, "a")
        function = Statement(StatementKind.SELECT, "a", updated=())
        for statement in (unknown, function):
            assert _filter("--ignore=b.t").decide(statement).verdict is Verdict.UNDECIDED
            assert _filter("--do=b.t").decide(statement).verdict is Verdict.EXECUTE
            assert _filter("--rewrite=b.%->c.%").decide(statement).verdict is Verdict.EXECUTE

    def test_tables_info_decides_where_all_of_it_is_decided_alike(self) -> None:
        def involving(*names: str) -> Statement:
            return Statement(
                StatementKind.UNKNOWN, "a", involved=tuple(TableName(*name.split(".")) for name in names)
            )

        rules = _filter("--ignore=b.%")
        assert rules.verdict(involving("b.t", "b.u")) is Verdict.IGNORE
        assert rules.verdict(involving("c.t", "a.u")) is Verdict.EXECUTE
        assert rules.verdict(involving("b.t", "a.u")) is Verdict.UNDECIDED

    @pytest.mark.parametrize(
        ("rules", "verdict"),
        [
            ("ignore=hr.%", Verdict.IGNORE),
            ("ignore=hr.t%", Verdict.UNDECIDED),
            ("ignore=%.% do=hr.t", Verdict.UNDECIDED),
            ("ignore=%.% do=%.t", Verdict.UNDECIDED),
            ("ignore=%.% do=shop.%", Verdict.IGNORE),
            ("ignore=shop.% rewrite=h%.%->s%.% rewrite=sr.%->shop.%", Verdict.UNDECIDED),
            ("ignore=sr.% rewrite=h%.%->s%.% rewrite=sr.%->shop.%", Verdict.IGNORE),
            ("ignore=hr.% rewrite=hr.t->shop.t", Verdict.UNDECIDED),
            ("ignore=hr.% rewrite=hr.%->shop.%", Verdict.UNDECIDED),
        ],
    )
    def test_drop_trigger_goes_by_all_tables_of_its_database(self, rules: str, verdict: Verdict) -> None:
        given = _filter(*(f"--{rule}" for rule in rules.split()))
        for text, current in (("DROP TRIGGER hr.g", None), ("DROP TRIGGER IF EXISTS g", "hr")):
            statement = make_statement(parse_statement(text), current_database=current)
            assert given.verdict(statement) is verdict

    def test_names_in_a_text_are_read_as_the_family_does(self) -> None:
        """MySQL's parser knows no characters beyond three bytes."""
        table = _update("a.\U0001f642")
        database = _update("\U0001f642.t")
        whole = Statement(StatementKind.DROP_DATABASE, None, "\U0001f642")
        for statement, side in ((table, "a.{}"), (database, "{}.t"), (whole, "{}.%")):
            read, written = (side.format(c) for c in ("?", "\U0001f642"))
            assert _filter(f"--ignore={read}").verdict(statement) is Verdict.IGNORE
            assert _filter(f"--ignore={written}").verdict(statement) is Verdict.EXECUTE
            assert _filter(f"--ignore={written}", family="mariadb").verdict(statement) is Verdict.IGNORE

    def test_each_side_of_the_dot_is_its_own(self) -> None:
        rules = _filter("--ignore=a%.t")
        assert not rules.rows_ok("ab", "t")
        assert rules.rows_ok("a", "x.t")
        assert rules.rows_ok("a.t", "u")
        assert not rules.rows_ok("a.x", "t")
        assert _filter("--ignore=a.%").rows_ok("a.b", "t")
        assert not _filter("--ignore=a\\.b.%").rows_ok("a.b", "t")
        assert not _filter("--ignore=a.b.c").rows_ok("a", "b.c")

    @pytest.mark.parametrize("escaped", ["a\\_b.%", "a\\_b.%%", "a\\_%.%"])
    def test_a_database_with_an_escape(self, escaped: str) -> None:
        rules = _filter(f"--ignore={escaped}")
        assert not rules.rows_ok("a_b", "t")
        assert rules.rows_ok("axb", "t")

    @pytest.mark.parametrize("expression", ["Shop.%", "Sho_.%", "%.T\u00e9", "Shop.T%"])
    def test_names_compare_as_in_the_familys_wild_rules(self, expression: str) -> None:
        """Names compare so in rules of whole databases, too, which are looked up and not matched."""
        options = [f"--ignore={expression}"]
        assert _filter(*options).rows_ok("shop", "te")
        assert not _filter(*options).rows_ok("Shop", "T\u00e9")
        assert not _filter(*options, family="mariadb").rows_ok("shop", "te")
        folded = EffectiveFilter.from_options(options, names=NameRules(lower_case_table_names=1))
        assert not folded.rows_ok("sHOP", "t\u00c9")

    def test_a_character_of_two_bytes(self) -> None:
        assert _filter("--ignore=_.%").rows_ok("\u00e9", "t")
        assert not _filter("--ignore=__.%").rows_ok("\u00e9", "t")
        assert not _filter("--ignore=_.%", family="mariadb").rows_ok("\u00e9", "t")


class TestRewrite:
    @pytest.mark.parametrize(
        ("value", "name", "new"),
        [
            ("db1.%->db2.%", ("db1", "t"), ("db2", "t")),
            ("db1.%->db2.%", ("db10", "t"), ("db10", "t")),
            ("db%.%->new%.%", ("db17", "t"), ("new17", "t")),
            ("%_old.%->%.%", ("shop_old", "t"), ("shop", "t")),
            ("%_old.%->%.%", ("_old", "t"), ("", "t")),
            ("a%b.%->%.%", ("ab", "t"), ("", "t")),
            ("a%a.%->%.%", ("a", "t"), ("a", "t")),
            ("db1.t%->db1.u%", ("db1", "t7"), ("db1", "u7")),
            ("%.log%->archive.%", ("shop", "log_2026"), ("archive", "_2026")),
            ("db1.t->db2.u", ("db1", "t"), ("db2", "u")),
            ("db1.t->db2.u", ("db1", "t2"), ("db1", "t2")),
            ("shard%.%->all.%", ("shard7", "t"), ("all", "t")),
            ("a_b.%->c.%", ("a_b", "t"), ("c", "t")),
            ("a_b.%->c.%", ("axb", "t"), ("axb", "t")),
            ("a\\%.%->b\\%.%", ("a%", "t"), ("b%", "t")),
            ("a\\%.%->b\\%.%", ("ax", "t"), ("ax", "t")),
            ("a\\.b.%->c.%", ("a.b", "t"), ("c", "t")),
            ("a.b.c->a.d.e", ("a", "b.c"), ("a", "d.e")),
        ],
    )
    def test_names(self, value: str, name: tuple[str, str], new: tuple[str, str]) -> None:
        assert _filter(f"--rewrite={value}").rewrite_table(*name) == new

    def test_what_the_percent_stood_for_keeps_its_case(self) -> None:
        rules = _filter("--rewrite=SHOP%.%->store%.%", family="mariadb")
        assert rules.rewrite_table("shop_Eu", "T") == ("store_Eu", "T")

    def test_the_first_that_matches_wins_and_once(self) -> None:
        rules = _filter("--rewrite=a.%->b.%", "--rewrite=%.%->c.%", "--rewrite=b.%->d.%")
        assert rules.rewrite_table("a", "t") == ("b", "t")
        assert rules.rewrite_table("b", "t") == ("c", "t")

    def test_the_current_database_by_whole_database_rewrites_only(self) -> None:
        rules = _filter("--rewrite=a.t->x.t", "--rewrite=a.%->y.old_%", "--rewrite=a%.%->b%.%")
        assert rules.rewrite_db("a") == "b"
        assert rules.rewrite_db("ab") == "bb"
        assert rules.rewrite_db("c") == "c"
        assert rules.rewrite_table("a", "u") == ("y", "old_u")

    def test_it_comes_before_the_rules(self) -> None:
        rules = _filter("--rewrite=a.%->b.%", "--ignore=a.%", "--ignore=c.%")
        assert rules.rows_ok("a", "t")
        assert not _filter("--rewrite=a.%->b.%", "--ignore=b.%").rows_ok("a", "t")
        # the effective name counts, whether the name is qualified or not
        assert rules.verdict(_update("a.t", current="c")) is Verdict.EXECUTE
        assert rules.verdict(_update("t", current="a")) is Verdict.EXECUTE


def test_no_rules_and_is_on() -> None:
    assert _filter().decide(TableSubject("a", "t")).step is Step.NO_RULES
    assert not _filter().is_on
    assert not _filter("--do=a.%", "--rewrite=a.%->b.%").is_on
    assert _filter("--do=a.%", "--ignore=b.c").is_on
    assert _filter("--ignore=b.%").is_on
    assert len(_filter("--do=a.%", "--do=a.%", "--do=b.%").rules) == 2


@pytest.mark.parametrize("kind", RuleKind)
def test_the_old_rules_are_unknown(kind: RuleKind) -> None:
    with pytest.raises(OptionError, match=f"unknown option '--{kind.value}'") as raised:
        EffectiveFilter([Rule(kind, "a.b")])
    assert "--do, --ignore, --rewrite" in str(raised.value)


@pytest.mark.parametrize("value", [-1, 3])
def test_lower_case_table_names(value: int) -> None:
    with pytest.raises(OptionError, match="it is 0, 1 or 2"):
        EffectiveFilter(names=NameRules(lower_case_table_names=value))
