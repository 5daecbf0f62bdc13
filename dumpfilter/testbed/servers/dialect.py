"""The SQL dialects of MariaDB and MySQL: options, replication statements, and the interpretation of their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dumpfilter.binlog.format import Family
from dumpfilter.filter.rules import BaseRuleKind, Rule, ValueForm, parse_option
from dumpfilter.testbed.values import Place


@dataclass(frozen=True)
class SourceAddress:
    """The address and credentials of a channel's source: a server, or a replication port of dumpfilter."""

    host: str
    port: int
    user: str
    password: str
    tls: bool = False
    """Whether the replica uses TLS even without ``ca``. The certificate is then not verified."""
    ca: Path | None = None
    """The CA that must have signed the certificate, which must name the host. None: nothing is verified."""


Rules = Mapping[str, Sequence[str]]
"""Filter rules by the name of a channel, as options such as ``replicate-do-db=shop``."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The options and statements of one family of servers (MariaDB or MySQL)."""

    binlog_status: str
    """The statement for the end of the binlog."""
    binlog_gtids: str
    applied_gtids: str
    small: tuple[str, ...]
    """Options that keep a server small, and the data directories of all servers of one template equal."""
    options: tuple[str, ...]
    """Options of each server: a binlog with GTIDs, also of the transactions that the server applies as a replica."""
    without_replication: str
    """The option for a start without the replication threads."""
    channel_rule: str
    """The format of an option for a channel's filter rule."""
    privileges: str
    """The privileges of an account that reads the binlog."""
    source: str
    """The prefix of the names of a source's settings."""
    change: str
    """The format of the statement that changes these settings. Each format has a placeholder for the channel's
    clause.
    """
    control: str
    """The format of START, STOP or RESET for a channel, or for one thread of a channel."""
    channel: str
    """The format of the clause with a channel's name."""
    by_gtid: str
    by_place: str
    status: str
    """The statement for the status of all channels."""
    wait_form: str
    without_binlog = "SET SESSION sql_log_bin = 0"
    """The statement that keeps the session's further statements out of the binlog."""

    def rule_options(self, rules: Rules) -> list[str]:
        """Return the command line options for the filters of channels."""
        found = []
        for channel, given in rules.items():
            for rule in given:
                option, _, value = rule.removeprefix("--").partition("=")
                form = self.channel_rule if channel else "--{option}={value}"
                found.append(form.format(channel=channel, option=option, value=value))
        return found

    def new_channel_rules(self, channel: str, rules: Sequence[str]) -> list[str]:
        """Return the statements that give a new channel its filter rules; empty if command line options suffice."""
        if self is _MARIADB or not channel or not rules:
            return []
        values: dict[BaseRuleKind, list[str]] = {}
        for given in rules:
            rule = parse_option(f"--{given.removeprefix('--')}")
            values.setdefault(rule.kind, []).append(sql_value(rule))
        clauses = ", ".join(f"{kind.sql_name} = ({', '.join(each)})" for kind, each in values.items())
        return [f"CHANGE REPLICATION FILTER {clauses}{self._named(channel)}"]

    def follow(self, channel: str, source: SourceAddress, place: Place | None) -> str:
        """Return the statement that sets a channel's source.

        Replication begins at the position ``place`` of the source's binlog; with None it begins by GTID.
        """
        prefix, how, tls = self.source, self.by_gtid, f"{self.source}_SSL"
        if place is not None:
            how = (
                f"{self.by_place}, {prefix}_LOG_FILE={quoted(place.file)}, {prefix}_LOG_POS={place.position}"
            )
        ca = f"{tls}_CA={quoted(str(source.ca))}, " if source.ca else ""
        return self.changed(
            channel,
            f"{prefix}_HOST={quoted(source.host)}, {prefix}_PORT={source.port}, "
            f"{prefix}_USER={quoted(source.user)}, {prefix}_PASSWORD={quoted(source.password)}, "
            f"{tls}={int(source.tls or bool(ca))}, {ca}{tls}_VERIFY_SERVER_CERT={int(bool(ca))}, "
            f"{prefix}_CONNECT_RETRY=1, {prefix}_HEARTBEAT_PERIOD={_HEARTBEAT}, {how}",
        )

    def controlled(self, verb: str, channel: str, thread: str = "") -> str:
        """Return the statement that does ``verb`` (START, STOP or RESET) for a channel, or for one of its threads."""
        thread = thread and f" {thread}"
        return self.control.format(verb=verb, thread=thread, channel=self._named(channel))

    def wait(self, gtids: str, seconds: float) -> str:
        """Return the statement that waits ``seconds`` for a GTID set. Its result is 0 when the set has been applied."""
        return self.wait_form.format(gtids=quoted(gtids), seconds=max(seconds, _SHORTEST_WAIT))

    def changed(self, channel: str, settings: str) -> str:
        """Return the statement that changes settings of a channel's source, such as ``SOURCE_DELAY=3``."""
        return self.change.format(channel=self._named(channel), settings=settings)

    def _named(self, channel: str) -> str:
        # Without a name, MySQL's statement of a server with several channels is for all of them.
        return self.channel.format(quoted(channel)) if channel else ""


_SHORTEST_WAIT = 0.001
"""The shortest wait for a GTID set, seconds. MySQL would wait without a limit for 0."""

_RETRIES = 100_000
_NET_TIMEOUT = 10
"""The time without data after which a replica reconnects, seconds. The servers' default is a minute."""

_HEARTBEAT = 1
"""The idle time after which a source sends a heartbeat, with its position, seconds."""

_OF_BOTH = (
    "--log-bin=bin",
    "--relay-log=relay-bin",
    "--innodb-flush-log-at-trx-commit=2",
    "--sync-binlog=0",
    "--skip-name-resolve",
    "--performance-schema=OFF",
    "--key-buffer-size=1M",
)

_RETRY = f"GET_SOURCE_PUBLIC_KEY=1, SOURCE_RETRY_COUNT={_RETRIES}"
"""MySQL's settings of a channel that tries again to connect."""

_MARIADB = Dialect(
    binlog_status="SHOW MASTER STATUS",
    binlog_gtids="@@GLOBAL.gtid_binlog_pos",
    applied_gtids="@@GLOBAL.gtid_slave_pos",
    small=("--innodb-log-file-size=4M", "--innodb-buffer-pool-size=16M"),
    options=(
        *_OF_BOTH,
        "--log-slave-updates",
        f"--slave-net-timeout={_NET_TIMEOUT}",
        f"--master-retry-count={_RETRIES}",
        "--aria-pagecache-buffer-size=1M",
    ),
    without_replication="--skip-slave-start",
    channel_rule="--{channel}.{option}={value}",
    privileges="REPLICATION SLAVE, BINLOG MONITOR",
    source="MASTER",
    change="CHANGE MASTER{channel} TO {settings}",
    control="{verb} SLAVE{channel}{thread}",
    channel=" {}",
    by_gtid="MASTER_USE_GTID=slave_pos",
    by_place="MASTER_USE_GTID=no",
    status="SHOW ALL SLAVES STATUS",
    wait_form="SELECT MASTER_GTID_WAIT({gtids}, {seconds})",
)

_MYSQL = Dialect(
    binlog_status="SHOW BINARY LOG STATUS",
    binlog_gtids="@@GLOBAL.gtid_executed",
    applied_gtids="@@GLOBAL.gtid_executed",
    small=("--innodb-redo-log-capacity=8M", "--innodb-buffer-pool-size=32M"),
    options=(
        *_OF_BOTH,
        "--log-replica-updates=ON",
        "--relay-log-recovery=ON",
        "--gtid-mode=ON",
        "--enforce-gtid-consistency=ON",
        f"--replica-net-timeout={_NET_TIMEOUT}",
        "--mysqlx=OFF",
        # The directory that Debian's package names need not exist.
        "--secure-file-priv=",
    ),
    without_replication="--skip-replica-start",
    channel_rule="--{option}={channel}:{value}",
    privileges="REPLICATION SLAVE, REPLICATION CLIENT",
    source="SOURCE",
    change="CHANGE REPLICATION SOURCE TO {settings}{channel}",
    control="{verb} REPLICA{thread}{channel}",
    channel=" FOR CHANNEL {}",
    by_gtid=f"{_RETRY}, SOURCE_AUTO_POSITION=1",
    by_place=f"{_RETRY}, SOURCE_AUTO_POSITION=0",
    status="SHOW REPLICA STATUS",
    wait_form="SELECT WAIT_FOR_EXECUTED_GTID_SET({gtids}, {seconds:f})",
)

DIALECTS: Mapping[Family, Dialect] = {"mariadb": _MARIADB, "mysql": _MYSQL}


def quoted(text: str) -> str:
    """Return a string literal that both families read in the same way."""
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def identifier(name: str) -> str:
    """Return an identifier in backquotes, with backquotes inside doubled."""
    return "`" + name.replace("`", "``") + "`"


def sql_value(rule: Rule) -> str:
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
