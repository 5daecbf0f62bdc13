"""The SQL dialects of MariaDB and MySQL: options, replication statements, and the interpretation of their results."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from dumpfilter.binlog.format import Family
from dumpfilter.filter.rules import BaseRuleKind, Rule, ValueForm, parse_option
from dumpfilter.testbed.values import Place


@dataclass(frozen=True)
class SourceAddress:
    """The address, user and password with which a replica connects to its source: a server, or a replication port of
    dumpfilter.
    """

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
    """The program names, options and replication statements in which MariaDB and MySQL differ, for one of the two
    families. The file ``dialects.toml`` explains the fields.
    """

    family: Family
    title: str
    program: str
    variable: str
    package: str
    archive: str
    oldest: tuple[int, ...]
    small: tuple[str, ...]
    options: tuple[str, ...]
    without_replication: str
    channel_rule: str
    binlog_status: str
    binlog_gtids: str
    privileges: str
    applied_gtids: str
    wait_form: str
    status: str
    channel: str
    control: str
    change: str
    source: str
    by_gtid: str
    by_place: str
    without_binlog = "SET SESSION sql_log_bin = 0"
    """The statement that keeps the session's further statements out of the binlog."""

    def rule_options(self, rules: Rules) -> list[str]:
        """Return the options of the server's command line that set replication filters. ``rules`` maps a channel's name
        to its rules, such as ``replicate-do-db=shop``.
        """
        found = []
        for channel, given in rules.items():
            for rule in given:
                option, _, value = rule.removeprefix("--").partition("=")
                form = self.channel_rule if channel else "--{option}={value}"
                found.append(form.format(channel=channel, option=option, value=value))
        return found

    def new_channel_rules(self, channel: str, rules: Sequence[str]) -> list[str]:
        """Return the SQL statements that set the filter rules of a new channel. Empty if the command line options of
        :meth:`rule_options` suffice.
        """
        if self.family == "mariadb" or not channel or not rules:
            return []
        values: dict[BaseRuleKind, list[str]] = {}
        for given in rules:
            rule = parse_option(f"--{given.removeprefix('--')}")
            values.setdefault(rule.kind, []).append(sql_value(rule))
        clauses = ", ".join(f"{kind.sql_name} = ({', '.join(each)})" for kind, each in values.items())
        return [f"CHANGE REPLICATION FILTER {clauses}{self._named(channel)}"]

    def follow(self, channel: str, source: SourceAddress, place: Place | None) -> str:
        """Return the statement (``CHANGE REPLICATION SOURCE TO`` or ``CHANGE MASTER TO``) that sets the source of
        ``channel``.

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
        """Return the statement that starts, stops or resets the replication of a channel. ``verb`` is START, STOP or
        RESET. ``thread`` restricts the statement to ``IO_THREAD`` or ``SQL_THREAD``.
        """
        thread = thread and f" {thread}"
        return self.control.format(verb=verb, thread=thread, channel=self._named(channel))

    def wait(self, gtids: str, seconds: float) -> str:
        """Return the statement that waits at most ``seconds`` until the server has applied ``gtids``. The statement's
        result is 0 when it has.
        """
        return self.wait_form.format(gtids=quoted(gtids), seconds=max(seconds, _SHORTEST_WAIT))

    def changed(self, channel: str, settings: str) -> str:
        """Return the statement that changes settings of the source of ``channel``. ``settings`` is the text of its
        clauses, such as ``SOURCE_DELAY=3``.
        """
        return self.change.format(channel=self._named(channel), settings=settings)

    def _named(self, channel: str) -> str:
        # Without a name, MySQL's statement of a server with several channels is for all of them.
        return self.channel.format(quoted(channel)) if channel else ""


_SHORTEST_WAIT = 0.001
"""The shortest wait for a GTID set, seconds. MySQL would wait without a limit for 0."""

_HEARTBEAT = 1
"""The idle time after which a source sends a heartbeat, with its position, seconds."""


def _dialects() -> Iterator[tuple[Family, Dialect]]:
    """Yield the dialect of each family from ``dialects.toml``."""
    facts = tomllib.loads(Path(__file__).with_name("dialects.toml").read_text("utf-8"))
    for family in get_args(Family):
        own: dict[str, Any] = {
            key: (*values.get("both", ()), *value) if isinstance(value := values[family], list) else value
            for key, values in facts.items()
        }
        yield family, Dialect(family=family, **own)


DIALECTS: Mapping[Family, Dialect] = dict(_dialects())


def quoted(text: str) -> str:
    """Return ``text`` as an SQL string literal that both MySQL and MariaDB read in the same way."""
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def identifier(name: str) -> str:
    """Return ``name`` as an SQL identifier in backquotes, with backquotes inside doubled."""
    return "`" + name.replace("`", "``") + "`"


def sql_value(rule: Rule) -> str:
    """Return the value of a filter rule as CHANGE REPLICATION FILTER spells it, with quotes where MySQL requires
    them.
    """
    match rule.kind.form:
        case ValueForm.DATABASE_PAIR:
            return f"({identifier(rule.pair[0])}, {identifier(rule.pair[1])})"
        case ValueForm.WILD_TABLE:
            return quoted(rule.value)
        case ValueForm.TABLE:
            return ".".join(map(identifier, rule.value.split(".", 1)))
        case _:
            return identifier(rule.value)
