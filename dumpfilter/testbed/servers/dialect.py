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

    def ssl_clauses(self, prefix: str) -> str:
        """Return the TLS clauses of the statement that sets a channel's source. ``prefix`` is MASTER or SOURCE."""
        ca = f"{prefix}_SSL_CA={quoted(str(self.ca))}, " if self.ca else ""
        return (
            f"{prefix}_SSL={int(self.tls or self.ca is not None)}, {ca}"
            f"{prefix}_SSL_VERIFY_SERVER_CERT={int(self.ca is not None)}"
        )


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
    domain: str = ""
    """The option that sets the server's GTID domain. Empty: the family has no domains."""
    channel_rule: str
    """The format of an option for a channel's filter rule."""
    has_channels_at_start: bool
    """Whether rules of channels on the command line apply to channels that are created later."""
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
    retry: str
    by_gtid: str
    by_place: str
    delayed: str
    """The thread that must be stopped while the delay changes. Empty: both."""
    undelayed: str
    """The thread that is started again when the SQL thread is to stay stopped. Empty: none."""
    status: str
    """The statement for the status of all channels."""
    channel_column: str
    """The column of the status that has the channel's name."""
    wait_form: str
    shortest_wait: float = 0.0
    without_binlog: str = "SET SESSION sql_log_bin = 0"
    """The statement that keeps the session's further statements out of the binlog."""

    def identity(self, domain: int) -> list[str]:
        """Return the option that sets the server's GTID domain. The result is empty for domain 0, the default."""
        return [f"{self.domain}={domain}"] if domain and self.domain else []

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
        if self.has_channels_at_start or not channel or not rules:
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
        prefix, how = self.source, self.by_gtid
        if place is not None:
            how = (
                f"{self.by_place}, {prefix}_LOG_FILE={quoted(place.file)}, {prefix}_LOG_POS={place.position}"
            )
        return self._change(
            channel,
            f"{prefix}_HOST={quoted(source.host)}, {prefix}_PORT={source.port}, "
            f"{prefix}_USER={quoted(source.user)}, {prefix}_PASSWORD={quoted(source.password)}, "
            f"{source.ssl_clauses(prefix)}, {prefix}_CONNECT_RETRY=1, "
            f"{prefix}_HEARTBEAT_PERIOD={_HEARTBEAT}, {self.retry}{how}",
        )

    def delay(self, channel: str, seconds: int, *, applies: bool = True) -> list[str]:
        """Return the statements that make a channel apply each transaction ``seconds`` late.

        Without ``applies`` the channel's SQL thread stays stopped afterwards.
        """
        statements = [
            self.controlled("STOP", channel, self.delayed),
            self._change(channel, f"{self.source}_DELAY={seconds}"),
        ]
        if applies or self.undelayed:
            thread = self.delayed if applies else self.undelayed
            statements.append(self.controlled("START", channel, thread))
        return statements

    def controlled(self, verb: str, channel: str, thread: str = "") -> str:
        """Return the statement that does ``verb`` (START, STOP or RESET) for a channel, or for one of its threads."""
        thread = thread and f" {thread}"
        return self.control.format(verb=verb, thread=thread, channel=self._named(channel))

    def wait(self, gtids: str, seconds: float) -> str:
        """Return the statement that waits ``seconds`` for a GTID set. Its result is 0 when the set has been applied."""
        return self.wait_form.format(gtids=quoted(gtids), seconds=max(seconds, self.shortest_wait))

    def _change(self, channel: str, settings: str) -> str:
        return self.change.format(channel=self._named(channel), settings=settings)

    def _named(self, channel: str) -> str:
        # Without a name, MySQL's statement of a server with several channels is for all of them.
        return self.channel.format(quoted(channel)) if channel else ""


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
    domain="--gtid-domain-id",
    channel_rule="--{channel}.{option}={value}",
    has_channels_at_start=True,
    privileges="REPLICATION SLAVE, BINLOG MONITOR",
    source="MASTER",
    change="CHANGE MASTER{channel} TO {settings}",
    control="{verb} SLAVE{channel}{thread}",
    channel=" {}",
    retry="",
    by_gtid="MASTER_USE_GTID=slave_pos",
    by_place="MASTER_USE_GTID=no",
    delayed="",
    undelayed="IO_THREAD",
    status="SHOW ALL SLAVES STATUS",
    channel_column="Connection_name",
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
    has_channels_at_start=False,
    privileges="REPLICATION SLAVE, REPLICATION CLIENT",
    source="SOURCE",
    change="CHANGE REPLICATION SOURCE TO {settings}{channel}",
    control="{verb} REPLICA{thread}{channel}",
    channel=" FOR CHANNEL {}",
    retry=f"GET_SOURCE_PUBLIC_KEY=1, SOURCE_RETRY_COUNT={_RETRIES}, ",
    by_gtid="SOURCE_AUTO_POSITION=1",
    by_place="SOURCE_AUTO_POSITION=0",
    delayed="SQL_THREAD",
    undelayed="",
    status="SHOW REPLICA STATUS",
    channel_column="Channel_Name",
    wait_form="SELECT WAIT_FOR_EXECUTED_GTID_SET({gtids}, {seconds:f})",
    # MySQL takes 0 for a wait without a limit.
    shortest_wait=0.001,
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
