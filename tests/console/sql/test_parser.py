"""Every form of every command, in both families' spellings and the worklogs'."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Self

import pytest

import dumpfilter.console.statements  # noqa: F401 — the console's own statements
from dumpfilter.console.sql import clauses
from dumpfilter.console.sql.commands import Threads, parse_statement
from dumpfilter.console.sql.result import Note
from dumpfilter.console.sql.server_errors import (
    ER_DATETIME_FUNCTION_OVERFLOW,
    ER_WRONG_DATETIME_VALUE,
    SqlError,
    too_long,
)
from dumpfilter.filter.rules import BaseRuleKind, EffectiveRuleKind, FilterClause, RuleKind, make_rule
from tests.console.sql.parsed import (
    ChangeBinlog,
    ChangeReplicaFilter,
    ChangeReplicationFilter,
    ChangeSource,
    Command,
    Drain,
    FlushPrivileges,
    PurgeBinaryLogs,
    ResetReplica,
    ShowBinaryLogs,
    ShowBinaryLogStatus,
    ShowBinlogEvents,
    ShowReplicas,
    ShowReplicaStatus,
    StartReplica,
    StopReplica,
    Undrain,
    UnregisterReplica,
    Until,
    parsed,
)

DO, IGNORE, REWRITE = EffectiveRuleKind.DO, EffectiveRuleKind.IGNORE, EffectiveRuleKind.REWRITE
NOW = datetime(2026, 3, 31, 12, 30, 15, 500)


class Standing(datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls(*NOW.timetuple()[:6], NOW.microsecond)


@pytest.fixture(autouse=True)
def _standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clauses, "datetime", Standing)


def clause(kind: BaseRuleKind, *values: str) -> FilterClause:
    return FilterClause(kind, tuple(make_rule(kind, value) for value in values))


def near(text: str, line: int = 1) -> str:
    return (
        "ERROR 1064 (42000): You have an error in your SQL syntax; check the manual that corresponds to your MySQL "
        f"server version for the right syntax to use near '{text}' at line {line}"
    )


def refusal(text: str) -> str:
    with pytest.raises(SqlError) as caught:
        parse_statement(text)
    return str(caught.value)


FILTERS: dict[str, Command] = {
    # WL#7361's own
    "CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE=(`db3`.initfilet3) FOR CHANNEL 'ch_1';": (
        ChangeReplicationFilter((clause(RuleKind.IGNORE_TABLE, "db3.initfilet3"),), channel="ch_1")
    ),
    "CHANGE REPLICATION FILTER REPLICATE_DO_TABLE=(order.items, shop .key)": (
        ChangeReplicationFilter((clause(RuleKind.DO_TABLE, "order.items", "shop.key"),))
    ),
    "CHANGE REPLICATION FILTER REPLICATE_WILD_DO_TABLE=('initfiled%.t%') FOR CHANNEL 'CH_1'": (
        ChangeReplicationFilter((clause(RuleKind.WILD_DO_TABLE, "initfiled%.t%"),), channel="ch_1")
    ),
    "CHANGE REPLICATION FILTER REPLICATE_DO_DB=(db1,`db,3`), REPLICATE_DO_DB = (my_db3), Replicate_Ignore_DB = ()": (
        ChangeReplicationFilter(
            (
                clause(RuleKind.DO_DB, "db1", "db,3"),
                clause(RuleKind.DO_DB, "my_db3"),
                clause(RuleKind.IGNORE_DB),
            )
        )
    ),
    "change replication filter replicate_rewrite_db=((a,b),(`c d`,`e`)) for channel ''": (
        ChangeReplicationFilter((clause(RuleKind.REWRITE_DB, "a->b", "c d->e"),), channel="")
    ),
    "change replication filter replicate_rewrite_db=((`a,b`,`c->d`),(`e-`,`>f`))": (
        ChangeReplicationFilter((clause(RuleKind.REWRITE_DB, "a,b->c->d", "e-->>f"),))
    ),
    "change replication filter replicate_do_table=(`a.b`.c, d.select, e.1f, g.5)": (
        ChangeReplicationFilter((clause(RuleKind.DO_TABLE, "a.b.c", "d.select", "e.1f", "g.5"),))
    ),
    r"""change replication filter replicate_wild_ignore_table=('a\_b.''c\'d\\e', "f\%.""g")""": (
        ChangeReplicationFilter((clause(RuleKind.WILD_IGNORE_TABLE, r"a\_b.'c'd\e", r'f\%."g'),))
    ),
}

SOURCES: dict[str, Command] = {
    # WL#2387's and WL#2516's own
    "CHANGE MASTER 'foo' TO MASTER_HOST=127.0.0.1, REPLICATE-DO-DB='mydb';": ChangeSource(
        (("HOST", "127.0.0.1"),), (clause(RuleKind.DO_DB, "mydb"),), channel="foo", old=True
    ),
    "CHANGE MASTER 'foo' TO \n DO='db1.%',\n IGNORE='%.table2',\n REWRITE=db1.%->db2.%;": ChangeSource(
        (),
        (clause(DO, "db1.%"), clause(IGNORE, "%.table2"), clause(REWRITE, "db1.%->db2.%")),
        channel="foo",
        old=True,
    ),
    "CHANGE BINLOG 'bar' TO DO='db1.%', IGNORE='%_backup.table2'; ": ChangeBinlog(
        "bar", (clause(DO, "db1.%"), clause(IGNORE, "%_backup.table2"))
    ),
    "change binlog 'b' to do='', ignore='a.b', ignore='c.d', ignore=e.f": ChangeBinlog(
        "b", (clause(DO), clause(IGNORE, "a.b", "c.d", "e.f"))
    ),
    "change master to replicate_do_db='a', Replicate-Do-DB=b, replicate-ignore-db='', master_port=7": (
        ChangeSource((("PORT", 7),), (clause(RuleKind.DO_DB, "a", "b"), clause(RuleKind.IGNORE_DB)), old=True)
    ),
    "change replication source to replicate-do-db='a', replicate-do-db='', replicate-do-db='b'": ChangeSource(
        (), (clause(RuleKind.DO_DB, "b"),)
    ),
    "change master to replicate-do-table=a.b, replicate-ignore-table='c.d e', replicate-wild-do-table=f%.g_, "
    "replicate-wild-ignore-table='h.%', replicate-rewrite-db=i -> j, replicate-rewrite-db='k->l'": ChangeSource(
        (),
        (
            clause(RuleKind.DO_TABLE, "a.b"),
            clause(RuleKind.IGNORE_TABLE, "c.d e"),
            clause(RuleKind.WILD_DO_TABLE, "f%.g_"),
            clause(RuleKind.WILD_IGNORE_TABLE, "h.%"),
            clause(RuleKind.REWRITE_DB, "i->j", "k->l"),
        ),
        old=True,
    ),
    "change replication source to replicate_do_db=a, replicate_rewrite_db='c->d', replicate_do_db='b', "
    "source_host='h'": (
        ChangeSource(
            (("HOST", "h"),), (clause(RuleKind.DO_DB, "a", "b"), clause(RuleKind.REWRITE_DB, "c->d"))
        )
    ),
    # the servers' options
    "change replication source to source_host='h', source_port=3307, source_user='u', source_password='p', "
    "source_auto_position=1, source_connect_retry=2, source_retry_count=3, source_heartbeat_period=1.5, "
    "source_log_file='f', source_log_pos=4, ignore_server_ids=(5,6), filter_on='master' for channel 'C'": ChangeSource(
        (
            *(("HOST", "h"), ("PORT", 3307), ("USER", "u"), ("PASSWORD", "p"), ("AUTO_POSITION", 1)),
            *(("CONNECT_RETRY", 2), ("RETRY_COUNT", 3), ("HEARTBEAT_PERIOD", 1.5), ("LOG_FILE", "f")),
            *(("LOG_POS", 4), ("IGNORE_SERVER_IDS", (5, 6)), ("FILTER_ON", "MASTER")),
        ),
        channel="c",
    ),
    "change master to master_use_gtid = slave_pos, do_domain_ids=(1), ignore_domain_ids=(), "
    "master_demote_to_slave=0, filter_on=replica, relay_log_file='r', relay_log_pos=9, master_ssl=1": ChangeSource(
        (
            *(("USE_GTID", "SLAVE_POS"), ("DO_DOMAIN_IDS", (1,)), ("IGNORE_DOMAIN_IDS", ())),
            *(("DEMOTE_TO_SLAVE", 0), ("FILTER_ON", "SLAVE"), ("RELAY_LOG_FILE", "r"), ("RELAY_LOG_POS", 9)),
            ("SSL", 1),
        ),
        old=True,
    ),
    "change replication source to source_tls_ciphersuites=NULL, privilege_checks_user=u@'%', "
    "require_table_primary_key_check=generate, assign_gtids_to_anonymous_transactions='a', "
    "get_source_public_key=1": ChangeSource(
        (
            *(("TLS_CIPHERSUITES", None), ("PRIVILEGE_CHECKS_USER", "u@%")),
            *(
                ("REQUIRE_TABLE_PRIMARY_KEY_CHECK", "GENERATE"),
                ("ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS", "a"),
            ),
            ("GET_SOURCE_PUBLIC_KEY", 1),
        )
    ),
    "change replication source to get_master_public_key=1, source_port=0x10, source_delay=1e3": ChangeSource(
        (("GET_SOURCE_PUBLIC_KEY", 1), ("PORT", 16), ("DELAY", 1))
    ),
}

THREADS: dict[str, Command] = {
    "start replica": StartReplica(),
    "START SLAVE IO_THREAD FOR CHANNEL 'x'": StartReplica(Threads.IO, channel="x"),
    "start replica sql_thread, io_thread": StartReplica(),
    "start slave relay_thread": StartReplica(Threads.IO),
    "start slave 'Conn' sql_thread": StartReplica(Threads.SQL, channel="conn"),
    "start all slaves": StartReplica(every=True),
    "start all replicas sql_thread": StartReplica(Threads.SQL, every=True),
    "start replica user='u' password='p' default_auth='d' plugin_dir='/' for channel ''": (
        StartReplica(channel="", user="u", password="p")
    ),
    "start replica until source_log_pos=4, source_log_file='f'": StartReplica(until=Until("Source", "f", 4)),
    "start slave until master_log_file='f', master_log_pos=4 for channel 'x'": StartReplica(
        channel="x", until=Until("Source", "f", 4)
    ),
    "start slave until relay_log_file='f', relay_log_pos=4": StartReplica(until=Until("Relay", "f", 4)),
    "start replica sql_thread until sql_before_gtids='g'": StartReplica(
        Threads.SQL, until=Until(gtids="g", before=True)
    ),
    "start replica until sql_after_gtids='g'": StartReplica(until=Until(gtids="g")),
    "start slave until master_gtid_pos='0-1-5'": StartReplica(until=Until(gtids="0-1-5")),
    "stop slave": StopReplica(),
    "STOP REPLICA SQL_THREAD FOR CHANNEL 'ch1'": StopReplica(Threads.SQL, channel="ch1"),
    "stop slave 'a' io_thread": StopReplica(Threads.IO, channel="a"),
    "stop all slaves": StopReplica(every=True),
    "reset slave": ResetReplica(),
    "RESET REPLICA ALL FOR CHANNEL 'x'": ResetReplica(all=True, channel="x"),
    "FLUSH PRIVILEGES": FlushPrivileges(),
    "flush no_write_to_binlog privileges;": FlushPrivileges(),
    "UNREGISTER REPLICA 101": UnregisterReplica(server_id=101),
    "unregister slave 'A-b' for channel 'Ch1'": UnregisterReplica(uuid="A-b", channel="ch1"),
    "change replication filter replicate_do_db=(a) for slave 'Repl'": ChangeReplicaFilter(
        (clause(RuleKind.DO_DB, "a"),), "Repl"
    ),
    "CHANGE REPLICATION FILTER REPLICATE_DO_DB=() FOR REPLICA 'r' SERVER_ID 7 FOR CHANNEL 'C'": ChangeReplicaFilter(
        (clause(RuleKind.DO_DB),), "r", 7, channel="c"
    ),
    "DRAIN REPLICA 101": Drain(server_id=101),
    "drain slave 'A-b' for channel 'Ch1' reason 'soon'": Drain(uuid="A-b", channel="ch1", reason="soon"),
    "DRAIN REPLICA USER 'repl' REASON ''": Drain(user="repl"),
    "DRAIN REPLICA HOST '10.0.0.7'": Drain(host="10.0.0.7"),
    "drain all slaves": Drain(),
    "DRAIN ALL REPLICAS FOR CHANNEL 'x' REASON 'r';": Drain(channel="x", reason="r"),
    "UNDRAIN REPLICA 101": Undrain(server_id=101),
    "undrain all replicas": Undrain(),
    "reset replica for channel ''": ResetReplica(channel=""),
    "reset slave 'A' all": ResetReplica(all=True, channel="a"),
}

SHOWS: dict[str, Command] = {
    "show slave status": ShowReplicaStatus(old=True),
    "SHOW REPLICA STATUS FOR CHANNEL 'x'": ShowReplicaStatus(channel="x"),
    "show slave 'A' status": ShowReplicaStatus(channel="a", old=True),
    "show all slaves status": ShowReplicaStatus(old=True, every=True),
    "show all replicas status": ShowReplicaStatus(every=True),
    "show slave hosts": ShowReplicas(old=True),
    "show replica hosts": ShowReplicas(),
    "show replicas": ShowReplicas(),
    "show master status": ShowBinaryLogStatus(old=True),
    "show binary log status": ShowBinaryLogStatus(),
    "show binlog status": ShowBinaryLogStatus(),
    "show binary logs": ShowBinaryLogs(),
    "show master logs": ShowBinaryLogs(),
    "show binlog events": ShowBinlogEvents(),
    "show binlog events in 'f' from 120 limit 5": ShowBinlogEvents("f", 120, 0, 5),
    "show binlog events limit 2, 5": ShowBinlogEvents(offset=2, count=5),
    "show binlog events limit 5 offset 2": ShowBinlogEvents(offset=2, count=5),
    "show relaylog events in 'f' for channel 'X'": ShowBinlogEvents("f", relay_log=True, channel="x"),
    "show relaylog 'c' events": ShowBinlogEvents(relay_log=True, channel="c"),
}

DATETIMES: dict[str, datetime] = {
    "'2026-01-02 03:04:05'": datetime(2026, 1, 2, 3, 4, 5),
    "'2026-01-02'": datetime(2026, 1, 2),
    "'1970-01-01 00:00:00.25'": datetime(1970, 1, 1, 0, 0, 0, 250_000),
    "'2026-01-02 03:04:05+05:30'": datetime(
        2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=5, minutes=30))
    ),
    "timestamp'2026-01-02 03:04:05'": datetime(2026, 1, 2, 3, 4, 5),
    "now()": NOW,
    "NOW(6)": NOW,
    "current_timestamp": NOW,
    "localtimestamp()": NOW,
    "sysdate()": NOW,
    "curdate()": datetime(2026, 3, 31),
    "utc_timestamp()": NOW.astimezone(UTC).replace(tzinfo=None),
    "now() - interval 1 day": datetime(2026, 3, 30, 12, 30, 15, 500),
    "now() - interval 2 hour + interval 30 minute": datetime(2026, 3, 31, 11, 0, 15, 500),
    "now() - interval 1 month": datetime(2026, 2, 28, 12, 30, 15, 500),
    "now() + interval 1 quarter": datetime(2026, 6, 30, 12, 30, 15, 500),
    "curdate() - interval 26 month": datetime(2024, 1, 31),
    "curdate() - interval 2 year": datetime(2024, 3, 31),
}


@pytest.mark.parametrize(("text", "command"), {**FILTERS, **SOURCES, **THREADS, **SHOWS}.items())
def test_a_statement_is_its_command(text: str, command: Command) -> None:
    assert parsed(text) == command


@pytest.mark.parametrize("words", ["BINARY", "MASTER"])
@pytest.mark.parametrize(("text", "value"), DATETIMES.items())
def test_purge_before(words: str, text: str, value: datetime) -> None:
    purge = parsed(f"PURGE {words} LOGS BEFORE {text}")
    assert purge == PurgeBinaryLogs(before=value)
    assert purge.before.tzinfo == value.tzinfo


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("null", []),
        ("'foo'", [ER_WRONG_DATETIME_VALUE.warning("foo")]),
        ("5", [ER_WRONG_DATETIME_VALUE.warning("5")]),
        ("'2026-13-01'", [ER_WRONG_DATETIME_VALUE.warning("2026-13-01")]),
        ("'2026-01-02 03:04:05+99:00'", [ER_WRONG_DATETIME_VALUE.warning("2026-01-02 03:04:05+99:00")]),
        ("'foo' - interval 1 day", [ER_WRONG_DATETIME_VALUE.warning("foo")]),
        # Literals in other forms than ISO 8601's are dropped.
        ("20260102030405", [ER_WRONG_DATETIME_VALUE.warning("20260102030405")]),
        ("'2026/1/2T3.4'", [ER_WRONG_DATETIME_VALUE.warning("2026/1/2T3.4")]),
        ("'26-01-02'", [ER_WRONG_DATETIME_VALUE.warning("26-01-02")]),
        ("now() - interval 9999999 day", [ER_DATETIME_FUNCTION_OVERFLOW.warning("datetime")]),
        ("now() - interval 9999 year", [ER_DATETIME_FUNCTION_OVERFLOW.warning("datetime")]),
        (f"now() - interval {2**64 - 1} day", [ER_DATETIME_FUNCTION_OVERFLOW.warning("datetime")]),
    ],
)
def test_what_is_no_datetime_is_before_all_files_and_told(text: str, warnings: list[Note]) -> None:
    assert parsed(f"purge binary logs before {text}") == PurgeBinaryLogs(
        before=datetime(1970, 1, 1), warnings=tuple(warnings)
    )


def test_purge_to() -> None:
    assert parsed("purge binary logs to 'b.000002'") == PurgeBinaryLogs(to="b.000002")


def test_now_is_the_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clauses, "datetime", datetime)
    before = datetime.now()
    assert before <= parsed("purge binary logs before now()").before <= datetime.now()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "select * from performance_schema.replication_applier_filters where filter_name = 'a;b'",
        "SHOW VARIABLES LIKE 'x'",
        "show warnings",
        "set names utf8mb4",
        "start transaction",
        "reset binary logs and gtids",
        "reset master",
        "FLUSH PRIVILEGES, STATUS",
        "FLUSH TABLES",
        "(select 1)",
        "/*!40101 SET NAMES utf8 */",
        "select 'not closed",
    ],
)
def test_other_statements_are_calls(text: str) -> None:
    assert callable(parse_statement(f"  {text} ; ").method)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start group_replication", near("group_replication")),
        ("'", near("'")),
        ("/* no end", near("/* no end")),
        ("foo", near("foo")),
        (
            "drop table a",
            "ERROR 1235 (42000): This version of MySQL doesn't yet support 'DROP'",
        ),
        ("show " + "x" * (64 << 10), too_long(64 << 10)),
    ],
)
def test_statements_that_no_form_allows(text: str, message: object) -> None:
    assert refusal(text) == str(message)


@pytest.mark.parametrize("text", ["", " ", ";", " ;; "])
def test_nothing_is_an_error(text: str) -> None:
    assert refusal(text) == "ERROR 1065 (42000): Query was empty"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        # statements of older servers, MariaDB and the worklogs, which the recorded server does not have
        ("change master", ""),
        ("change master foo to master_host='a'", "foo to master_host='a'"),
        ("change master to", ""),
        ("change master to master_host", ""),
        ("change master to master_host=", ""),
        ("change master to master_host=,master_port=1", ",master_port=1"),
        ("change master to source_host=a", "a"),
        ("change master to master_port='1'", "'1'"),
        ("change master to master-host='a'", "master-host='a'"),
        ("change master to replicate-do='a'", "replicate-do='a'"),
        ("change master to replicate-do-db 'a'", "'a'"),
        ("change master to replicate-do-db=('a')", "('a')"),
        ("change master to do=(a.b)", "(a.b)"),
        ("change master to do='a.b' 'c.d'", "'c.d'"),
        ("change master to do", ""),
        ("change master to `do`='a.b'", "`do`='a.b'"),
        ("change master to master_use_gtid=1", "1"),
        ("change binlog to do='a.b'", "to do='a.b'"),
        ("change binlog 'b' to replicate-do-db='a'", "replicate-do-db='a'"),
        ("change binlog 'b' to do='a.b' for channel 'c'", "for channel 'c'"),
        ("start all", ""),
        ("start all slaves until master_gtid_pos='1-1-1'", "until master_gtid_pos='1-1-1'"),
        ("start slave io_thread 'foo'", "'foo'"),
        ("drain", ""),
        ("drain replica", ""),
        ("drain replicas", "replicas"),
        ("drain all", ""),
        ("drain replica user 7", "7"),
        ("drain replica 101 reason", ""),
        ("undrain replica 101 reason 'r'", "reason 'r'"),
        ("show slave", ""),
        ("show slave foo", "foo"),
        ("show slave 'foo' hosts", "hosts"),
        ("show master", ""),
        ("show all slaves", ""),
        ("show replica status /* c */ foo # bar", "foo # bar"),
    ],
)
def test_a_syntax_error_is_near_the_place(text: str, rest: str) -> None:
    assert refusal(text) == near(rest)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("change master to do='ab'", "ERROR 1525 (HY000): Incorrect DO value: 'ab'"),
        ("change master to rewrite=a.b", "ERROR 1525 (HY000): Incorrect REWRITE value: 'a.b'"),
        (
            "change master to replicate-do-table='a'",
            "ERROR 1525 (HY000): Incorrect REPLICATE-DO-TABLE value: 'a'",
        ),
        (
            "change master to filter_on='both ways'",
            "ERROR 1525 (HY000): Incorrect FILTER_ON value: 'both ways'",
        ),
        (
            "change master 'a' to master_port=1 for channel 'b'",
            "ERROR 1210 (HY000): Incorrect arguments to CONNECTION_NAME AND FOR CHANNEL CAN NOT BE SPECIFIED AT THE "
            "SAME TIME)",
        ),
        (
            "start replica until sql_after_mts_gaps",
            "ERROR 1235 (42000): This version of MySQL doesn't yet support 'START REPLICA UNTIL SQL_AFTER_MTS_GAPS'",
        ),
        (
            "purge binary logs before unix_timestamp()",
            "ERROR 1235 (42000): This version of MySQL doesn't yet support 'PURGE BINARY LOGS BEFORE unix_timestamp()'",
        ),
        (
            "purge binary logs before date_sub",
            "ERROR 1054 (42S22): Unknown column 'date_sub' in 'field list'",
        ),
        (
            "change replication filter replicate_rewrite_db=((a,b),(`c->d`,`e`))",
            "ERROR 1102 (42000): Incorrect database name 'c->d'",
        ),
        (
            "change replication filter replicate_rewrite_db=((a,` b`))",
            "ERROR 1102 (42000): Incorrect database name ' b'",
        ),
    ],
)
def test_what_is_well_formed_and_cannot_be(text: str, message: str) -> None:
    assert refusal(text) == message


def test_no_keyword_is_spelled_with_other_letters() -> None:
    # 'ſ' is an S in capitals, and 'ı' an I
    assert refusal("ſtop replica") == near("ſtop replica")
    assert refusal("stop replıca") == near("replıca")


@pytest.mark.parametrize(
    "statement",
    [
        "CHANGE REPLICATION FILTER REPLICATE_DO_TABLE = (a.b{})",
        "CHANGE REPLICATION FILTER REPLICATE_DO_DB = (a{}) FOR REPLICA 'r'",
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'h', REPLICATE_DO_DB = {} a",
        "CHANGE BINLOG 'b' TO DO = {} 'a.b'",
    ],
)
def test_a_statement_with_rules_has_a_limited_length(statement: str) -> None:
    longest = 64 << 10
    parse_statement(statement.format(" " * (longest - len(statement) + 2)))
    assert refusal(statement.format(" " * (longest - len(statement) + 3))) == (
        "ERROR 3170 (HY000): Memory capacity of 65536 bytes for 'parser_max_mem_size' exceeded. Parser bailed out for "
        "this query."
    )
