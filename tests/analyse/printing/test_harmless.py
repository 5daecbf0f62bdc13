"""The forms of statements that a filter has torn apart: comments, IF EXISTS, and databases that are made first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from dumpfilter.analyse.printing.harmless import Form, Harmless
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.query import QueryEvent, StatusVariables
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.world import World

OWN = 0
"""The flags of an event whose current database matters."""


def query(text: str, db: str = "shop", session: int = 1) -> QueryEvent:
    return QueryEvent(session, 0, 0, db, StatusVariables(), text.encode(), text, True, None)


class Text:
    """A text in the making: statements that pass, and statements that the filter drops."""

    def __init__(
        self,
        family: Literal["mysql", "mariadb"] = "mysql",
        rewrites: dict[str, str] | None = None,
        *,
        from_first: bool = True,
        there: Sequence[str] = (),
    ) -> None:
        options = [f"--replicate-rewrite-db={old}->{new}" for old, new in (rewrites or {}).items()]
        world: World[QueryEvent] = World(
            Filter.from_options(options, names=NameRules(family)), is_strict=True, there=there
        )
        version = (10, 11) if family == "mariadb" else (8, 4)
        self.harmless = Harmless(world)
        self.harmless.written_by(family, version, from_first=from_first)

    def drops(self, *texts: str, db: str = "shop") -> None:
        for text in texts:
            self.harmless.left_out(query(text, db), runs=False)

    def form(self, text: str, db: str = "shop", *, undecided: bool = False, session: int = 1) -> Form:
        return self.harmless.form(query(text, db, session), OWN, undecided=undecided)

    def runs(self, *texts: str, db: str = "shop") -> None:
        for text in texts:
            found = self.form(text, db)
            assert not found.reason, (text, found)

    def changed(self, text: str, *, undecided: bool = False) -> str:
        found = self.form(text, undecided=undecided)
        assert not found.reason, found
        return text if found.text is None else found.text.decode()

    def comments(self, *texts: str, db: str = "shop") -> None:
        for text in texts:
            assert self.form(text, db).reason, text


def test_drop_trigger_of_an_ignored_table_is_a_comment() -> None:
    text = Text()
    text.drops("CREATE TABLE t (i INT)", "CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW SET @a = 1")
    assert "trigger shop.g is missing" in text.form("DROP TRIGGER g", undecided=True).reason


def test_drop_trigger_that_was_printed_is_printed() -> None:
    text = Text()
    text.runs("CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW SET @a = 1")
    assert text.changed("DROP TRIGGER g", undecided=True) == "DROP TRIGGER g"


def test_drop_of_an_unknown_object_gets_if_exists() -> None:
    text = Text()
    assert text.changed("DROP TRIGGER g", undecided=True) == "DROP TRIGGER IF EXISTS g"
    assert text.changed("DROP  PROCEDURE p") == "DROP  PROCEDURE IF EXISTS p"
    assert text.changed("DROP USER u@h") == "DROP USER IF EXISTS u@h"
    assert text.changed("DROP VIEW IF EXISTS v") == "DROP VIEW IF EXISTS v"


def test_an_undecided_statement_about_accounts_is_a_comment() -> None:
    assert Text().form("GRANT SELECT ON t TO u", undecided=True).reason
    assert Text().form("REVOKE SELECT ON t FROM u", undecided=True).reason
    assert Text("mariadb").form("SET DEFAULT ROLE r FOR u", undecided=True).reason
    assert Text("mariadb").form("SET DEFAULT ROLE NONE", undecided=True).reason


def test_a_statement_that_needs_a_dropped_table_is_a_comment() -> None:
    text = Text()
    text.drops("CREATE TABLE hr.emp (i INT)")
    text.comments(
        "INSERT INTO t SELECT * FROM hr.emp", "UPDATE t, hr.emp SET t.i = 1", "CREATE INDEX i ON hr.emp (i)"
    )
    text.comments(
        "CREATE TABLE c LIKE hr.emp", "INSERT INTO c VALUES (1)", "ALTER TABLE c ADD j INT", "DROP TABLE c"
    )
    text.runs("INSERT INTO t VALUES (1)", "INSERT INTO emp SELECT 1")


def test_tables_are_needed_through_views_triggers_and_functions() -> None:
    text = Text()
    text.runs("CREATE TABLE t (i INT)", "CREATE TABLE logs.audit (i INT)")
    text.runs(
        "CREATE VIEW v AS SELECT * FROM logs.audit",
        "CREATE FUNCTION f() RETURNS INT RETURN (SELECT 1 FROM v)",
    )
    text.runs("CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW INSERT INTO logs.audit VALUES (1)")
    text.runs("INSERT INTO t VALUES (1)", "DO f()", "SELECT * FROM v")
    text.runs("DROP TABLE logs.audit")
    text.comments("INSERT INTO t VALUES (1)", "DO f()", "DELETE FROM w WHERE i IN (SELECT i FROM v)")
    text.runs("UPDATE t SET i = 2", "DELETE FROM t")
    text.runs("DROP TRIGGER g", "INSERT INTO t VALUES (1)")


def test_triggers_go_with_their_table() -> None:
    text = Text()
    text.runs("CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW SET @a = 1", "DROP TABLE t")
    text.comments("DROP TRIGGER g")
    text.runs("CREATE TRIGGER g AFTER INSERT ON u FOR EACH ROW SET @a = 1", "RENAME TABLE u TO w")
    text.runs("DROP DATABASE shop")
    text.comments("DROP TRIGGER g", "DROP TABLE w")


def test_renames_are_followed() -> None:
    text = Text()
    text.drops("CREATE TABLE a (i INT)")
    text.runs("CREATE TABLE b (i INT)", "CREATE TABLE c (i INT)")
    text.comments("RENAME TABLE b TO x, a TO y", "INSERT INTO x VALUES (1)")
    text.runs("RENAME TABLE b TO x, c TO b, x TO c", "INSERT INTO b SELECT * FROM c")
    text.comments("INSERT INTO x VALUES (1)")


def test_a_drop_of_several_tables() -> None:
    for family, expected in (("mysql", None), ("mariadb", "DROP TABLE IF EXISTS a, b")):
        text = Text(family)  # type: ignore[arg-type]
        text.drops("CREATE TABLE a (i INT)")
        text.runs("CREATE TABLE b (i INT)")
        if expected is None:
            # MySQL drops all or none.
            text.comments("DROP TABLE a, b")
            text.runs("INSERT INTO b VALUES (1)")
        else:
            assert text.changed("DROP TABLE a, b") == expected
            text.comments("INSERT INTO b VALUES (1)")


def test_a_create_of_a_table_that_is_there() -> None:
    text = Text("mariadb")
    text.runs("CREATE TABLE a (i INT)")
    text.drops("DROP TABLE a")
    assert text.changed("CREATE TABLE a (j INT)") == "CREATE OR REPLACE TABLE a (j INT)"
    text = Text("mysql")
    text.runs("CREATE TABLE a (i INT)", "CREATE USER u")
    text.drops("DROP TABLE a", "DROP USER u")
    text.comments("CREATE TABLE a (j INT)", "CREATE USER u")


def test_accounts() -> None:
    text = Text()
    text.drops("CREATE USER u1 IDENTIFIED BY 'x'")
    text.comments(
        "GRANT SELECT ON t TO u1", "ALTER USER u1 REQUIRE SSL", "SET PASSWORD FOR u1 = 'y'", "DROP USER u1"
    )
    text.drops("GRANT SELECT ON t TO u2")
    text.comments("REVOKE SELECT ON t FROM u2")
    text.runs("GRANT INSERT ON s TO u2", "REVOKE INSERT ON s FROM u2")


def test_a_statement_that_failed_for_some_accounts_runs_for_the_others() -> None:
    text = Text("mariadb")
    text.runs("CREATE USER u2")
    for words, there in (("CREATE USER", "IF NOT EXISTS"), ("DROP USER", "IF EXISTS")):
        failed = replace(query(f"{words} u1, u2"), error_code=1396)
        assert text.harmless.form(failed, OWN, undecided=False).text == f"{words} {there} u1, u2".encode()


def test_rights_outlive_their_table() -> None:
    text = Text()
    text.runs("CREATE TABLE t (i INT)", "CREATE USER u", "GRANT SELECT ON t TO u", "DROP TABLE t")
    text.runs("REVOKE SELECT ON t FROM u")


def test_a_server_writes_the_database_of_a_grant() -> None:
    text = Text()
    text.drops("GRANT SELECT ON `shop`.`t` TO u")
    text.comments("REVOKE SELECT ON t FROM u")


def test_a_missing_database_is_made() -> None:
    text = Text()
    text.drops("CREATE DATABASE shop CHARACTER SET latin1")
    found = text.form("CREATE TABLE t (i INT)")
    assert found.before == (b"CREATE DATABASE IF NOT EXISTS `shop` CHARACTER SET latin1",)
    assert text.form("INSERT INTO t VALUES (1)").before == ()


def test_a_rewritten_database() -> None:
    text = Text(rewrites={"shop": "store"})
    text.runs("CREATE DATABASE shop")
    assert text.form("CREATE TABLE t (i INT)").before == (b"CREATE DATABASE IF NOT EXISTS `store`",)
    text.runs("INSERT INTO t VALUES (1)")
    # The statement names the database itself, and nothing renames it in the text.
    text.comments("INSERT INTO shop.t VALUES (1)")
    assert text.harmless.missing_table("store", "t") is None
    assert text.harmless.missing_table("shop", "t") is not None


def test_temporary_tables_belong_to_their_session() -> None:
    text = Text()
    text.drops("CREATE TABLE t (i INT)")
    text.runs("CREATE TEMPORARY TABLE t (i INT)", "INSERT INTO t VALUES (1)")
    assert text.form("INSERT INTO t VALUES (1)", session=2).reason
    text.runs("DROP TEMPORARY TABLE t")
    text.comments("INSERT INTO t VALUES (1)")


def test_a_statement_uses_the_table_that_a_dropped_temporary_one_would_hide() -> None:
    text = Text()
    text.runs("CREATE TABLE t (i INT)")
    text.drops("CREATE TEMPORARY TABLE t (i INT)", "CREATE TEMPORARY TABLE u (i INT)")
    text.runs("INSERT INTO s SELECT * FROM t")
    text.comments("INSERT INTO s SELECT * FROM u")


def test_a_replica_only_passes_over_a_sequence_that_it_lacks() -> None:
    text = Text("mariadb")
    text.drops("CREATE SEQUENCE s")
    text.comments("ALTER SEQUENCE s INCREMENT 2")
    text.runs("ALTER SEQUENCE IF EXISTS s INCREMENT 2")


def test_upkeep_of_the_partitions_of_a_missing_table_is_a_comment() -> None:
    text = Text()
    text.drops("CREATE TABLE t (i INT)")
    text.comments("ALTER TABLE t ANALYZE PARTITION p0")


def test_foreign_keys() -> None:
    text = Text()
    text.drops("CREATE TABLE p (i INT PRIMARY KEY)")
    text.comments(
        "CREATE TABLE c (i INT REFERENCES p (i))", "ALTER TABLE o ADD FOREIGN KEY (i) REFERENCES p (i)"
    )
    text.runs("CREATE TABLE m (i INT REFERENCES p (i)) ENGINE=MyISAM")


def test_a_table_may_be_older_than_a_set_that_begins_late() -> None:
    """An application says CREATE TABLE IF NOT EXISTS at each start. The statement makes nothing then."""
    for text, use in (
        ("CREATE TABLE IF NOT EXISTS shop.o (i INT)", "INSERT INTO o VALUES (1)"),
        ("CREATE OR REPLACE VIEW shop.o AS SELECT 1", "INSERT INTO p SELECT * FROM o"),
    ):
        late, whole = Text(from_first=False), Text()
        late.drops(text, db="hr")
        late.runs(use)
        assert late.harmless.missing_table("shop", "o") is None
        whole.drops(text, db="hr")
        whole.comments(use)


def test_a_table_whose_drop_is_dropped_stays() -> None:
    text, mariadb = Text(), Text("mariadb")
    for one in (text, mariadb):
        one.drops("DROP TABLE shop.t", db="hr")
    text.comments("CREATE TABLE t (i INT)")
    assert mariadb.changed("CREATE TABLE t (i INT)") == "CREATE OR REPLACE TABLE t (i INT)"


def test_a_table_whose_place_another_takes_by_a_dropped_rename_stays() -> None:
    """Tools that change a table's schema put a copy in the table's place, and the filter may ignore the copy."""
    text = Text()
    text.drops("CREATE TABLE t_new (i INT)", "RENAME TABLE t TO t_old, t_new TO t")
    text.runs("INSERT INTO t VALUES (1)")
    text.comments("INSERT INTO t_old VALUES (1)")


def test_assigned_columns_are_no_tables() -> None:
    text = Text()
    text.drops("CREATE TABLE total (i INT)")
    text.runs("INSERT INTO a SELECT * FROM b ON DUPLICATE KEY UPDATE i = 1, total = 2")


def test_load_data_fires_triggers() -> None:
    text = Text()
    text.runs(
        "CREATE TABLE t (i INT)",
        "CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW INSERT INTO audit VALUES (1)",
    )
    text.drops("CREATE TABLE audit (i INT)")
    text.comments("LOAD DATA INFILE 'x' INTO TABLE t (i)")


def test_a_database_is_made_with_the_options_behind_its_name() -> None:
    text = Text()
    text.drops(
        "create database if not exists s charset latin1",
        "/* `hr` */ CREATE DATABASE `hr` CHARSET latin1 -- why",
        "CREATE DATABASE `é` CHARSET latin1;",
    )
    made = [text.form("CREATE TABLE t (i INT)", db).before for db in ("s", "hr", "é")]
    assert [statement.decode() for (statement,) in made] == [
        "CREATE DATABASE IF NOT EXISTS `s` charset latin1",
        "CREATE DATABASE IF NOT EXISTS `hr` CHARSET latin1 -- why\n",
        "CREATE DATABASE IF NOT EXISTS `é` CHARSET latin1",
    ]


def test_tables_whose_columns_may_differ() -> None:
    text = Text()
    text.runs("CREATE TABLE t (i INT)", "CREATE TABLE u (i INT)")
    text.drops(
        "ALTER TABLE shop.t ADD n INT", "ALTER TABLE older ADD n INT", "CREATE TABLE later (i INT, n INT)"
    )
    text.runs("ALTER TABLE u ADD n INT", "CREATE TABLE IF NOT EXISTS later (i INT)")
    assert [name for _, _, name in text.harmless.drifted] == ["t", "later"]


def test_what_the_target_has_is_not_missing() -> None:
    text = Text(there=["hr.e%", "logs."])
    text.drops("CREATE DATABASE hr", "CREATE TABLE hr.emp (i INT)", "CREATE TABLE hr.pay (i INT)")
    text.drops("CREATE DATABASE logs")
    text.runs("INSERT INTO t SELECT * FROM hr.emp")
    text.comments("INSERT INTO t SELECT * FROM hr.pay")
    assert "unless the target has it" in text.form("DROP TABLE hr.pay").reason
    assert text.form("CREATE TABLE audit (i INT)", "logs").before == ()
    assert text.harmless.missing_table("hr", "emp") is None
    text.runs("DROP TABLE hr.emp")
    text.comments("INSERT INTO t SELECT * FROM hr.emp")


def test_what_the_target_has_can_be_made_again() -> None:
    text = Text("mariadb", there=["logs.", "shop.t"])
    assert text.changed("CREATE DATABASE logs") == "CREATE DATABASE IF NOT EXISTS logs"
    assert text.changed("CREATE TABLE t (i INT)") == "CREATE OR REPLACE TABLE t (i INT)"
    assert text.changed("CREATE TABLE u (i INT)") == "CREATE TABLE u (i INT)"
    assert Text(there=["shop.t"]).changed("CREATE TABLE t (i INT)") == "CREATE TABLE t (i INT)"


def test_what_the_target_had_is_gone_after_a_drop() -> None:
    text = Text(there=["shop.t", "shop.u", "hr.t"])
    text.runs("DROP TABLE t", "RENAME TABLE u TO v", "DROP DATABASE hr")
    text.drops("CREATE TABLE t (i INT)", "CREATE TABLE u (i INT)", "CREATE TABLE hr.t (i INT)")
    text.comments("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)", "INSERT INTO hr.t VALUES (1)")


def test_a_dropped_drop_leaves_what_the_target_has() -> None:
    text = Text(there=["shop.t"])
    text.drops("DROP TABLE IF EXISTS t", "CREATE TABLE t (i INT)")
    text.runs("INSERT INTO t VALUES (1)")


def test_a_rename_of_a_missing_table_leaves_what_the_target_has() -> None:
    """A real replica went on with its own table."""
    text = Text("mariadb", there=["shop.u"])
    text.drops("CREATE TABLE hr.t (i INT)")
    text.runs("RENAME TABLE IF EXISTS hr.t TO u", "ALTER TABLE u ADD j INT")


def test_a_view_of_the_target_has_tables_of_its_own() -> None:
    text = Text(there=["shop.v"])
    text.drops("CREATE TABLE t (i INT)", "CREATE VIEW v AS SELECT * FROM t")
    text.runs("CREATE VIEW w AS SELECT * FROM v")


def test_a_temporary_table_hides_a_table_of_the_target() -> None:
    text = Text(there=["shop.t"])
    text.drops("CREATE TEMPORARY TABLE t (i INT)")
    text.runs("INSERT INTO s SELECT * FROM t")


def test_a_partition_is_not_exchanged_with_its_own_table() -> None:
    text = Text(rewrites={"shop": "logs"})
    text.comments("ALTER TABLE logs.t EXCHANGE PARTITION p WITH TABLE t")
    text.runs("ALTER TABLE logs.t EXCHANGE PARTITION p WITH TABLE u")
