"""The words of MariaDB and MySQL: options, replication statements, and what their answers mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dumpfilter.filter.rules import BaseRuleKind, Rule, ValueForm, parse_option
from dumpfilter.testbed.servers.programs import Family
from dumpfilter.testbed.values import Place


@dataclass(frozen=True)
class SourceAddress:
    """The source of a channel, as a replica is told: a server, or a replication port of dumpfilter."""

    host: str
    port: int
    user: str
    password: str
    tls: bool = False
    """Whether the replica encrypts the connection without a ``ca``, and does not verify the certificate."""
    ca: Path | None = None
    """The CA that must have signed the certificate, which must name the host. None: nothing is verified."""

    def ssl_clauses(self, prefix: str) -> str:
        """Return the clauses on TLS of the statement that points a replica at the source."""
        ca = f"{prefix}_SSL_CA={quoted(str(self.ca))}, " if self.ca else ""
        return (
            f"{prefix}_SSL={int(self.tls or self.ca is not None)}, {ca}"
            f"{prefix}_SSL_VERIFY_SERVER_CERT={int(self.ca is not None)}"
        )


Rules = Mapping[str, Sequence[str]]
"""Filter rules by the name of a channel, as options such as ``replicate-do-db=shop``."""


class Dialect(Protocol):
    """The words of one family of servers."""

    binlog_status: str
    """The statement for the end of the binlog."""
    binlog_gtids: str
    applied_gtids: str
    small: tuple[str, ...]
    """Options that keep a server small and its data directory alike in all servers of one template."""
    options: tuple[str, ...]
    """Options of each server: a binlog with GTIDs, also of what the server applies as a replica."""
    without_replication: str
    """The option of a start that does not start the threads of a replica."""
    without_binlog: str
    """The statement that keeps the session's further statements out of the binlog."""

    def identity(self, domain: int) -> list[str]:
        """Return the options for a GTID domain of the server's own. 0 is the domain of all."""

    def rule_options(self, rules: Rules) -> list[str]:
        """Return the options of the command line for the filters of channels."""

    def new_channel_rules(self, channel: str, rules: Sequence[str]) -> list[str]:
        """Return the statements that give a new channel its rules, if options alone do not."""

    @property
    def privileges(self) -> str:
        """The privileges of an account that reads the binlog."""

    def follow(self, channel: str, source: SourceAddress, place: Place | None) -> str:
        """Return the statement that points a channel at its source: by GTID, or by file and position."""

    def delay(self, channel: str, seconds: int, *, applies: bool = True) -> list[str]:
        """Return the statements that let a channel apply each transaction so many seconds late.

        Without ``applies`` the channel's SQL thread stands still afterwards.
        """

    def control(self, verb: str, channel: str, thread: str = "") -> str:
        """Return START, STOP or RESET of a channel, or of one thread of a channel."""

    def status(self) -> str:
        """Return the statement for the status of all channels."""

    def channel_of(self, row: Mapping[str, Any]) -> str:
        """Return the channel of a row of the status."""

    def wait(self, gtids: str, seconds: float) -> str:
        """Return the statement that waits for a GTID set. Its value is 0 when the set is applied."""


_RETRIES = 100_000
_SHORTEST_WAIT = 0.001
_NET_TIMEOUT = 10
"""The seconds of silence after which a replica connects again. The servers' default is a minute."""

_HEARTBEAT = 1
"""The seconds of silence after which a source sends a heartbeat, with its position."""


class MariaDb:
    """The words of MariaDB."""

    binlog_status = "SHOW MASTER STATUS"
    binlog_gtids = "@@GLOBAL.gtid_binlog_pos"
    applied_gtids = "@@GLOBAL.gtid_slave_pos"
    small: tuple[str, ...] = ("--innodb-log-file-size=4M", "--innodb-buffer-pool-size=16M")
    options: tuple[str, ...] = (
        "--log-bin=bin",
        "--log-slave-updates",
        "--relay-log=relay-bin",
        "--innodb-flush-log-at-trx-commit=2",
        "--sync-binlog=0",
        "--skip-name-resolve",
        f"--slave-net-timeout={_NET_TIMEOUT}",
        f"--master-retry-count={_RETRIES}",
        "--performance-schema=OFF",
        "--key-buffer-size=1M",
        "--aria-pagecache-buffer-size=1M",
    )
    without_replication = "--skip-slave-start"
    without_binlog = "SET SESSION sql_log_bin = 0"
    privileges = "REPLICATION SLAVE, BINLOG MONITOR"

    def identity(self, domain: int) -> list[str]:
        return [f"--gtid-domain-id={domain}"] if domain else []

    def rule_options(self, rules: Rules) -> list[str]:
        found = []
        for channel, given in rules.items():
            for rule in given:
                option = rule.removeprefix("--")
                found.append(f"--{channel}.{option}" if channel else f"--{option}")
        return found

    def new_channel_rules(self, channel: str, rules: Sequence[str]) -> list[str]:
        return []

    def follow(self, channel: str, source: SourceAddress, place: Place | None) -> str:
        how = "MASTER_USE_GTID=slave_pos"
        if place is not None:
            how = f"MASTER_USE_GTID=no, MASTER_LOG_FILE={quoted(place.file)}, MASTER_LOG_POS={place.position}"
        named = f" {quoted(channel)}" if channel else ""
        return (
            f"CHANGE MASTER{named} TO MASTER_HOST={quoted(source.host)}, MASTER_PORT={source.port}, "
            f"MASTER_USER={quoted(source.user)}, MASTER_PASSWORD={quoted(source.password)}, "
            f"{source.ssl_clauses('MASTER')}, MASTER_CONNECT_RETRY=1, "
            f"MASTER_HEARTBEAT_PERIOD={_HEARTBEAT}, {how}"
        )

    def delay(self, channel: str, seconds: int, *, applies: bool = True) -> list[str]:
        named = f" {quoted(channel)}" if channel else ""
        change = f"CHANGE MASTER{named} TO MASTER_DELAY={seconds}"
        start = self.control("START", channel, "" if applies else "IO_THREAD")
        return [self.control("STOP", channel), change, start]

    def control(self, verb: str, channel: str, thread: str = "") -> str:
        named = f" {quoted(channel)}" if channel else ""
        return f"{verb} SLAVE{named} {thread}".rstrip()

    def status(self) -> str:
        return "SHOW ALL SLAVES STATUS"

    def channel_of(self, row: Mapping[str, Any]) -> str:
        return str(row["Connection_name"])

    def wait(self, gtids: str, seconds: float) -> str:
        return f"SELECT MASTER_GTID_WAIT({quoted(gtids)}, {seconds})"


class MySql:
    """The words of MySQL."""

    binlog_status = "SHOW BINARY LOG STATUS"
    binlog_gtids = "@@GLOBAL.gtid_executed"
    applied_gtids = "@@GLOBAL.gtid_executed"
    small: tuple[str, ...] = ("--innodb-redo-log-capacity=8M", "--innodb-buffer-pool-size=32M")
    options: tuple[str, ...] = (
        "--log-bin=bin",
        "--log-replica-updates=ON",
        "--relay-log=relay-bin",
        "--relay-log-recovery=ON",
        "--gtid-mode=ON",
        "--enforce-gtid-consistency=ON",
        "--innodb-flush-log-at-trx-commit=2",
        "--sync-binlog=0",
        "--skip-name-resolve",
        f"--replica-net-timeout={_NET_TIMEOUT}",
        "--mysqlx=OFF",
        # The directory that Debian's package names need not exist.
        "--secure-file-priv=",
        "--performance-schema=OFF",
        "--key-buffer-size=1M",
    )
    without_replication = "--skip-replica-start"
    without_binlog = "SET SESSION sql_log_bin = 0"
    privileges = "REPLICATION SLAVE, REPLICATION CLIENT"

    def identity(self, domain: int) -> list[str]:
        return []

    def rule_options(self, rules: Rules) -> list[str]:
        found = []
        for channel, given in rules.items():
            for rule in given:
                option, _, value = rule.removeprefix("--").partition("=")
                found.append(f"--{option}={channel}:{value}" if channel else f"--{option}={value}")
        return found

    def new_channel_rules(self, channel: str, rules: Sequence[str]) -> list[str]:
        # MySQL ignores the rules on its command line for a channel that it does not have at its start.
        if not channel or not rules:
            return []
        values: dict[BaseRuleKind, list[str]] = {}
        for given in rules:
            rule = parse_option(f"--{given.removeprefix('--')}")
            values.setdefault(rule.kind, []).append(_sql_value(rule))
        clauses = ", ".join(f"{kind.sql_name} = ({', '.join(each)})" for kind, each in values.items())
        return [f"CHANGE REPLICATION FILTER {clauses}{_for_channel(channel)}"]

    def follow(self, channel: str, source: SourceAddress, place: Place | None) -> str:
        how = "SOURCE_AUTO_POSITION=1"
        if place is not None:
            how = f"SOURCE_AUTO_POSITION=0, SOURCE_LOG_FILE={quoted(place.file)}, SOURCE_LOG_POS={place.position}"
        return (
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST={quoted(source.host)}, SOURCE_PORT={source.port}, "
            f"SOURCE_USER={quoted(source.user)}, SOURCE_PASSWORD={quoted(source.password)}, "
            f"{source.ssl_clauses('SOURCE')}, GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1, "
            f"SOURCE_RETRY_COUNT={_RETRIES}, SOURCE_HEARTBEAT_PERIOD={_HEARTBEAT}, {how}{_for_channel(channel)}"
        )

    def delay(self, channel: str, seconds: int, *, applies: bool = True) -> list[str]:
        change = f"CHANGE REPLICATION SOURCE TO SOURCE_DELAY={seconds}{_for_channel(channel)}"
        return [
            self.control("STOP", channel, "SQL_THREAD"),
            change,
            *([self.control("START", channel, "SQL_THREAD")] if applies else []),
        ]

    def control(self, verb: str, channel: str, thread: str = "") -> str:
        return f"{verb} REPLICA {thread}".rstrip() + _for_channel(channel)

    def status(self) -> str:
        return "SHOW REPLICA STATUS"

    def channel_of(self, row: Mapping[str, Any]) -> str:
        return str(row["Channel_Name"])

    def wait(self, gtids: str, seconds: float) -> str:
        # MySQL takes 0 for a wait without a limit.
        return f"SELECT WAIT_FOR_EXECUTED_GTID_SET({quoted(gtids)}, {max(seconds, _SHORTEST_WAIT):f})"


DIALECTS: Mapping[Family, Dialect] = {"mariadb": MariaDb(), "mysql": MySql()}


def quoted(text: str) -> str:
    """Return a string literal that both families read alike."""
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def identifier(name: str) -> str:
    """Return a name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def _sql_value(rule: Rule) -> str:
    """Return a rule's value as CHANGE REPLICATION FILTER takes it."""
    match rule.kind.form:
        case ValueForm.DATABASE_PAIR:
            return f"({identifier(rule.pair[0])}, {identifier(rule.pair[1])})"
        case ValueForm.WILD_TABLE:
            return quoted(rule.value)
        case ValueForm.TABLE:
            return ".".join(map(identifier, rule.value.split(".", 1)))
        case _:
            return identifier(rule.value)


def _for_channel(channel: str) -> str:
    # Without FOR CHANNEL a statement of a server with several channels is for all of them.
    return f" FOR CHANNEL {quoted(channel)}" if channel else ""
