"""The filters of real replicas, from the ``[[replica]]`` tables of the master's configuration file.

A replica's filter is chosen when the replica asks for a dump. The filter changes with a statement on the console, or
when the configuration file is read again. Running dumps apply the new filter at their next transaction boundary.

If a ``[[replica]]`` table has ``connect``, the master also reads the filter that the replica itself applies, over a
connection to the replica. MySQL and MariaDB show the rules of one kind in one text, with commas between them and
without quotes. A rule may contain commas itself: ``--replicate-ignore-db=a,b`` is one rule for a database with the name
``a,b``. So a text with a comma can be parsed in several ways. The master drops an event only if the replica drops it
under each of them.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pymysql
from pymysql.constants import ER
from pymysql.cursors import Cursor, DictCursor

from dumpfilter.base.errors import DumpfilterError, OptionError
from dumpfilter.base.logs import logger
from dumpfilter.base.options.config_files import read_small_file
from dumpfilter.base.printable import printable
from dumpfilter.base.security.client_tls import TlsFileError
from dumpfilter.base.security.guarded_client import MALFORMED, GuardedConnection, Login, PasswordKept
from dumpfilter.base.security.listening import host_and_port
from dumpfilter.base.security.throttle import Recent
from dumpfilter.binlog.format import Family, NameRules, name_collation_of
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.compare import Beyond, passes_beyond
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import FilterClause, FilterSemantics, Rule, RuleKind, make_rule
from dumpfilter.master.config import ConnectBack, Drift, OnDrift, ReplicaEntry, first_fitting
from dumpfilter.master.limits import MAX_NAME, MAX_RULES, MAX_RULES_TEXT, Overloaded
from dumpfilter.master.register import NotRegistered, Register, RegisteredSlave, Unregistered, definition
from dumpfilter.master.who import Peer, SlaveKey, Who, audit_slave

log = logger("dumpfilter.master")

_LONGEST_EXAMPLE = 120

_MOST_REMEMBERED = 10_000
"""The largest number of replicas for which the master remembers the last warning, or the filter that it last read from
the replica.
"""

MOST_BYTES = 4 << 20
"""The largest number of bytes that the master reads from a replica on one connection. A filter of 10,000 rules takes
less.
"""

_LONGEST_REASON = 300

MOST_PIECES = 40
"""The largest number of parts between commas in rules such as do-db, if commas may belong to names.

Each sequence of neighbouring parts then becomes a rule, which makes 820 rules for 40 parts.
"""

_MYSQL_PAIRS = re.compile(r"\(([^(),]+),([^(),]+)\)(?:,(?=\()|$)")
_KEEPS = frozenset({RuleKind.DO_DB, RuleKind.DO_TABLE, RuleKind.WILD_DO_TABLE})

_MOMENTARY = (pymysql.err.OperationalError, pymysql.err.InterfaceError, OSError, TlsFileError)

_DENIED = frozenset(
    {
        ER.ACCESS_DENIED_ERROR,
        ER.DBACCESS_DENIED_ERROR,
        ER.TABLEACCESS_DENIED_ERROR,
        ER.COLUMNACCESS_DENIED_ERROR,
        ER.SPECIFIC_ACCESS_DENIED_ERROR,
        ER.HOST_NOT_PRIVILEGED,
    }
)

_INCOMPARABLE = "the replica's own filter cannot be compared with its filter on the master"


class ReplicaRefused(DumpfilterError):
    """The error for a replica that the master does not serve. The text says what the operator must do."""

    grpc_code = "FAILED_PRECONDITION"

    def __init__(self, text: str, *, momentary: bool = False) -> None:
        super().__init__(text)
        self.momentary = momentary
        """Whether the replica should try again without help.

        A replica stops at error 1236. At any other error it logs the text and reconnects.
        """
        if momentary:
            self.grpc_code = "UNAVAILABLE"


class FilterUnreadable(ReplicaRefused):
    """The error for a replica whose own filter the master cannot read. The text says what to do."""


@dataclass(frozen=True)
class OwnFilter:
    """The replication filter that a replica itself applies, as the master reads it from the replica. A comma in the
    replica's answer may separate two rules or belong to a name; therefore the filter may be uncertain.
    """

    sure: Filter
    """The filter with which the master drops events. This filter drops an event only if the replica drops the event
    under every meaning of the commas in its rules. A comma separates two rules, or belongs to a name.
    """
    likely: Filter
    """The most likely filter of the replica, if every comma in the replica's rules separates two rules."""
    doubts: tuple[str, ...] = ()
    """The replica's rule texts with commas that can be read in several ways, such as ``REPLICATE_IGNORE_DB=a,b``.
    Without any, ``sure`` and ``likely`` are equal.
    """
    not_dropped: tuple[str, ...] = ()
    """The texts among :attr:`doubts` whose rules the filter :attr:`sure` leaves out. The master drops nothing because
    of these rules.
    """


ReadFilter = Callable[[ConnectBack, Peer], OwnFilter]


def read_own_filter(connect: ConnectBack, peer: Peer) -> OwnFilter:
    """Connect to the replica ``peer``, and return the filter that the replica itself applies to what it gets from this
    master.

    ``connect`` is the table ``connect`` of the configuration file, which says how to log in to the replica. Each step
    of the connection takes at most ``connect.timeout`` seconds.

    Raises FilterUnreadable if the replica's port is not known, the connection or the login fails, or the replica's
    rules cannot be used. The error is momentary if a later attempt may succeed without the operator's help.
    """
    host = connect.host or (str(peer.address) if peer.address is not None else "")
    port = connect.port or peer.port
    if not host or not port:
        raise FilterUnreadable(
            "the replica registers without a port: give it report_port, or give connect.port in the [[replica]]"
        )
    where = f"the replica at {host_and_port(printable(host), port)}"
    try:
        login = Login(
            host,
            port,
            connect.user,
            read_small_file(connect.password_file).decode().rstrip("\r\n"),
            connect.client_tls,
        )
        connection = GuardedConnection(login, most_bytes=MOST_BYTES, seconds=connect.timeout)
        connection.connect()
        with connection, connection.cursor(DictCursor) as cursor:
            return _read(cursor, connect, peer, where)
    except (pymysql.err.Error, *_MOMENTARY, *MALFORMED) as error:
        raise FilterUnreadable(
            f"cannot read the filter of {where}: {_reason(error)}: {_cure(error, connect)}",
            momentary=isinstance(error, _MOMENTARY)
            and not isinstance(error, PasswordKept)
            and not _is_denied(error),
        ) from None
    except OptionError as error:
        raise FilterUnreadable(f"cannot use the filter of {where}: {error}") from None


def _read(cursor: Cursor, connect: ConnectBack, peer: Peer, where: str) -> OwnFilter:
    cursor.execute("SELECT @@version AS version, @@lower_case_table_names AS lower_case")
    facts = _row(cursor)
    version = str(facts["version"])
    family: Family = "mariadb" if "mariadb" in version.lower() else "mysql"
    if family == "mysql":
        texts = _of_mysql(cursor, peer.channel)
    else:
        texts = _of_mariadb(cursor, peer, where)
    names = NameRules(family, name_collation_of(family, version), int(facts["lower_case"]))
    return read_rules(texts, commas_separate=connect.commas_separate, names=names)


def _of_mysql(cursor: Cursor, channel: str) -> dict[RuleKind, str]:
    # The table has the rules that a channel obeys. They include those of the global filter, which a new channel copies.
    cursor.execute("SELECT @@performance_schema AS on_")
    if int(_row(cursor)["on_"]):
        cursor.execute(
            "SELECT filter_name AS kind, filter_rule AS rules FROM performance_schema.replication_applier_filters "
            "WHERE channel_name = %s",
            (channel,),
        )
        shown = {str(row["kind"]): row["rules"] for row in cursor.fetchall()}
        unknown = set(shown) - {kind.sql_name for kind in RuleKind}
        if unknown:
            raise OptionError(f"it has rules of an unknown kind: {printable(', '.join(sorted(unknown)))}")
        return {kind: str(shown.get(kind.sql_name) or "") for kind in RuleKind}
    # With performance_schema=OFF the table is empty, whatever rules there are.
    cursor.execute("SHOW REPLICA STATUS FOR CHANNEL %s", (channel,))
    status = _row(cursor)
    return {kind: str(status[kind.status_column] or "") for kind in RuleKind}


def _of_mariadb(cursor: Cursor, peer: Peer, where: str) -> dict[RuleKind, str]:
    cursor.execute("SHOW ALL SLAVES STATUS")
    rows = [row for row in cursor.fetchall() if row["Master_User"] == peer.user]
    # A MariaDB replica does not tell a source which of its connections it is.
    if len(rows) > 1:
        rows = [row for row in rows if str(row["Connection_name"]).lower() == peer.channel]
    if len(rows) != 1:
        raise OptionError(
            f"{where} has {'several connections' if rows else 'no connection'} with MASTER_USER {peer.user!r}, so "
            "that its filter cannot be told: give each connection a user of its own"
        )
    (row,) = rows
    texts = {kind: str(row[kind.status_column] or "") for kind in RuleKind if kind.status_column in row}
    if RuleKind.REWRITE_DB not in texts:
        raise OptionError(
            f"{where} is too old to show its rewrite rules (MariaDB 10.11 shows them): write the rules into the "
            "[[replica]], with rules ="
        )
    return texts


def _row(cursor: Cursor) -> dict[str, Any]:
    row = cursor.fetchone()
    if not isinstance(row, dict):
        raise OptionError("it has no channel that reads from this master")
    return row


def _reason(error: BaseException) -> str:
    text = error.args[1] if isinstance(error, pymysql.err.Error) and len(error.args) > 1 else error
    return printable(str(text) or type(error).__name__)[:_LONGEST_REASON]


def _is_denied(error: BaseException) -> bool:
    return isinstance(error, pymysql.err.Error) and bool(error.args) and error.args[0] in _DENIED


def _cure(error: BaseException, connect: ConnectBack) -> str:
    if _is_denied(error):
        return (
            f"let user {connect.user!r} log in from this master, with SELECT on "
            "performance_schema.replication_applier_filters (MySQL), REPLICATION CLIENT on *.* (MySQL with "
            "performance_schema=OFF) or REPLICA MONITOR on *.* (MariaDB)"
        )
    return (
        "see connect in the [[replica]]: host, port, TLS and password, and whether the replica listens there"
    )


def read_rules(texts: Mapping[RuleKind, str], *, commas_separate: bool, names: NameRules) -> OwnFilter:
    """Parse the filter rules that a replica shows, and return the filter. ``texts`` has the replica's text for each
    kind of rule, such as ``a,b`` for REPLICATE_IGNORE_DB.

    With ``commas_separate`` every comma separates two rules; otherwise a comma may also belong to a name. ``names``
    says how the replica compares names. Raises OptionError for a text that cannot be parsed, or that has too many
    possible meanings.
    """
    _check_size(texts)
    sure: list[Rule] = []
    likely: list[Rule] = []
    doubts: list[str] = []
    not_dropped: list[str] = []
    for kind in RuleKind:
        text = texts.get(kind, "")
        if not text:
            continue
        pieces = text.split(",")
        # A wrong reading of a rewrite rule gives other names to all other rules, so it must be sure.
        rewrites = [make_rule(kind, pair) for pair in _pairs(text)] if kind is RuleKind.REWRITE_DB else []
        separate = rewrites or list(_rules(kind, pieces))
        likely += separate
        if rewrites or len(pieces) == 1 or commas_separate:
            sure += separate
            continue
        doubts.append(f"{kind.sql_name}={text}")
        if kind in _KEEPS:
            if len(pieces) > MOST_PIECES:
                raise OptionError(
                    f"{kind.sql_name} has {len(pieces)} texts between commas, and commas may belong to names: if no "
                    "name has a comma, say so with commas_separate = true"
                )
            # Any sequence of consecutive pieces may be one name.
            sequences = combinations(range(len(pieces) + 1), 2)
            sure += _rules(kind, [",".join(pieces[begin:end]) for begin, end in sequences])
            continue
        not_dropped.append(doubts[-1])
        if kind is RuleKind.IGNORE_DB:
            # MySQL asks wild rules about CREATE DATABASE only without any database rule. No name ends with a space.
            sure.append(make_rule(kind, f"{text} "))
    return OwnFilter(
        Filter(sure, names=names), Filter(likely, names=names), tuple(doubts), tuple(not_dropped)
    )


def _check_size(texts: Mapping[RuleKind, str]) -> None:
    """Raise OptionError if the filter rules that a replica shows are too many or too long. A hostile replica could
    otherwise fill the master's memory. ``texts`` has one text for each kind of rule.
    """
    if sum(map(len, texts.values())) > MAX_RULES_TEXT:
        raise OptionError(f"its rules have more than {MAX_RULES_TEXT} characters together: use wild rules")
    if sum(text.count(",") + 1 for text in texts.values()) > MAX_RULES:
        raise OptionError(f"it has more than {MAX_RULES} rules: use wild rules")
    if any(len(piece) > MAX_NAME for text in texts.values() for piece in text.split(",")):
        raise OptionError(f"it has a rule of more than {MAX_NAME} characters")


def _rules(kind: RuleKind, values: list[str]) -> Iterator[Rule]:
    for value in values:
        try:
            yield make_rule(kind, value)
        except OptionError:
            # No server accepts the value, so the commas around it belong to a longer name.
            continue


def _pairs(text: str) -> list[str]:
    """Return the rewrite rules in ``text``, the value that a replica shows for REPLICATE_REWRITE_DB. Each rule is a
    text ``source->target``. Raises OptionError for a text that can be read in several ways.
    """
    if text.startswith("("):
        found = list(_MYSQL_PAIRS.finditer(text))
        if sum(len(one[0]) for one in found) == len(text):
            return [f"{one[1]}->{one[2]}" for one in found]
    else:
        pieces = text.split(",")
        if all(len(pair := piece.split("->")) == 2 and all(pair) for piece in pieces):
            return pieces
    raise OptionError(
        f"REPLICATE_REWRITE_DB={text!r} can be read in several ways: write the rules into the [[replica]], with rules ="
    )


@dataclass(frozen=True)
class ChangedFilter:
    """The rules that an operator has given to one ``[[replica]]`` table of the configuration by a console statement.
    These rules apply in place of the rules in the configuration file.
    """

    who: Who
    """The condition that selects the replicas of the ``[[replica]]`` table. By this condition the table is found again
    when the configuration file is read again.
    """
    semantics: FilterSemantics
    rules: tuple[str, ...]
    in_place_of: tuple[str, ...]
    """The table's rules in the configuration file when the operator changed them. If the file has other rules later,
    the rules of the file apply again.
    """
    changed_at: float

    def applied(self, entry: ReplicaEntry | None) -> ReplicaEntry | None:
        """Return a copy of ``entry``, the ``[[replica]]`` table in the configuration file, with the rules that an
        operator has set by a console statement.

        Return None if these rules no longer apply. The reason may be that the table is gone (``entry`` is None), or
        that its rules or their semantics in the file have changed since the statement. Another reason is that the
        operator's rules are no longer valid.
        """
        if entry is None or self.semantics is not entry.semantics or self.in_place_of != _texts(entry):
            return None
        try:
            return entry.with_rules(self.rules)
        except OptionError:
            return None


def _texts(entry: ReplicaEntry) -> tuple[str, ...] | None:
    return None if entry.filter is None else tuple(map(str, entry.filter.rules))


class ReplicaFilters:
    """The passwords and filters of real replicas, from the ``[[replica]]`` tables of the configuration. Thread-safe.

    ``entries`` are the tables, in the order of the file. ``register`` has the replicas that are registered now, whose
    filters change with the tables. ``read`` is the function that connects to a replica and reads the replica's own
    filter.
    """

    def __init__(
        self, entries: Sequence[ReplicaEntry], register: Register, *, read: ReadFilter = read_own_filter
    ) -> None:
        self._register = register
        self._lock = threading.Lock()
        """The lock that a change holds until it is saved and the registered replicas have their new filters."""
        self._read = read
        self._file: Mapping[Who, ReplicaEntry] = {entry.who: entry for entry in entries}
        """The ``[[replica]]`` tables as they are in the configuration file, by their conditions on replicas."""
        self.changes: tuple[ChangedFilter, ...] = ()
        """The changes of replicas' filter rules that operators made on the console, oldest first."""
        self.entries = tuple(entries)
        """The ``[[replica]]`` tables in force, in the order of the file, with the rules that operators changed."""
        self.on_change: list[Callable[[], object]] = []
        """Functions that are called after each change of :attr:`changes`, to save the changes."""
        self._drifts: Recent[tuple[SlaveKey, int], Drift] = Recent(_MOST_REMEMBERED)
        """The last warning about each replica whose own filter is wider than the master's (drift)."""
        self._adopted: Recent[tuple[SlaveKey, int], ReplicationFilter] = Recent(_MOST_REMEMBERED)
        """The filter that the master read from each replica last, to use it in place of configured rules (``adopt``).
        The key has user, channel, UUID and server id.
        """

    def restore(self, saved: Iterable[ChangedFilter]) -> None:
        """Apply the changes that operators made on the console in the master's last run. A change is ignored, with a
        line in the log, if it no longer applies. For example, its ``[[replica]]`` table may be gone, or may have other
        rules than before the change.
        """
        with self._lock:
            self._use(self._file, saved)

    def _choose(self, user: str, channel: str | None, server_id: int | None) -> ReplicaEntry:
        mine = [entry for entry in self.entries if entry.user == user]
        if not mine:
            raise OptionError(f"there is no [[replica]] of user {printable(user)!r} in the configuration")
        found = [
            entry
            for entry in mine
            if channel in (None, entry.channel) and (server_id is None or server_id in entry.server_ids)
        ]
        if len(found) == 1:
            return found[0]
        listed = "; ".join(f"{entry.key} for {entry.conditions}" for entry in mine)
        raise OptionError(
            f"user {printable(user)!r} has {'several' if found else 'no'} [[replica]] with these conditions: name "
            f"the channel or a server id of one as the configuration does ({printable(listed)})"
        )

    def change(
        self,
        user: str,
        clauses: Sequence[FilterClause],
        *,
        channel: str | None = None,
        server_id: int | None = None,
    ) -> tuple[list[RegisteredSlave], list[str]]:
        """Replace filter rules of one ``[[replica]]`` table of ``user``, also in the running dumps of the table's
        replicas. Return the registered replicas of the table, and warnings for the operator.

        ``channel`` and ``server_id`` select among several tables; None selects any. For each kind of rule in
        ``clauses``, the last clause replaces all rules of that kind, as in CHANGE REPLICATION FILTER. If the rules then
        equal those of the configuration file, the table counts as unchanged again.

        Raises OptionError when no table or several tables match, for a rule that is not valid, and for a table with
        ``adopt``, whose filter is read from the replica itself.
        """
        with self._lock:
            entry = self._choose(user, channel, server_id)
            old = entry.filter
            if old is None:
                raise OptionError(
                    f"{entry.key} adopts the filter that the replica itself has: say CHANGE REPLICATION FILTER on the "
                    "replica, and let it reconnect"
                )
            rules = list(old.rules)
            for clause in clauses:
                rules = [rule for rule in rules if rule.kind is not clause.kind] + list(clause.rules)
            changed = entry.with_rules(map(str, rules))
            new = changed.filter
            assert new is not None
            own, now = _texts(self._file[entry.who]) or (), _texts(changed) or ()
            kept = [one for one in self.changes if one.who != entry.who]
            if now != own:
                kept.append(ChangedFilter(entry.who, entry.semantics, now, own, time.time()))
            widened = self._use(self._file, kept)
        warnings = [
            f"server id {slave.peer.server_id}, channel {printable(slave.peer.channel)!r}: {wider}"
            for slave, wider in widened
        ]
        slaves = self.replicas().get(entry.who, [])
        if not any(slave.file for slave in slaves) and passes_beyond(new, old).beyond is not Beyond.NOTHING:
            warnings.append(
                "the new filter passes events that the old one dropped. They do not come back to replicas that have "
                "received or executed their GTIDs; such a replica needs a new copy of these tables (docs/filters.md)"
            )
        if entry.connect is None:
            warnings.append("the replica's own filter stays as it is: change it, too, on the replica")
        if not self.on_change:
            warnings.append("the change ends with this master, which was started without --state-dir")
        return slaves, warnings

    def take_over(self, entries: Sequence[ReplicaEntry]) -> None:
        """Apply the ``[[replica]]`` tables ``entries`` of the configuration file, which the master has read again, in
        place of the present tables. Running dumps use their new filters, too.

        A filter that an operator changed on the console stays in force, unless the file now has other rules or
        semantics than at the time of the change.

        The master ends a replica's registration and dump if the user has another password, or if no table selects the
        replica any more. The master also does so if the new filter takes too much memory. With ``adopt`` the master
        uses the replica's own filter, which it reads over ``connect``. A change of ``adopt``, or of ``connect`` in a
        table with ``adopt``, ends registration and dump, too.
        """
        with self._lock:
            self._use({entry.who: entry for entry in entries}, self.changes)

    def _use(
        self, file: Mapping[Who, ReplicaEntry], changes: Iterable[ChangedFilter]
    ) -> list[tuple[RegisteredSlave, str]]:
        """Put the ``[[replica]]`` tables ``file`` of the configuration file into force, also in running dumps. In the
        tables that an operator changed on the console, the rules of ``changes`` replace those of the file. A change
        that no longer applies, for example because the changed table is gone, is dropped and logged.

        Return the replicas to which the new filter may send events that the old one dropped, each with a warning. The
        caller holds the lock until the replicas have their new filters, so that two changes at the same time cannot
        mix.
        """
        old_entries, old_changes = self.entries, self.changes
        self._file = file
        applied = [(changed, changed.applied(file.get(changed.who))) for changed in changes]
        self.changes = tuple(changed for changed, entry in applied if entry is not None)
        in_force = {entry.who: entry for _, entry in applied if entry is not None}
        self.entries = tuple(in_force.get(who, entry) for who, entry in file.items())
        for changed, entry in applied:
            if entry is None:
                log.info(
                    "the configuration replaces a filter that was changed on the console",
                    user=printable(",".join(changed.who.users)),
                    rules=printable(" ".join(changed.rules)),
                )
        if self.changes != old_changes:
            for tell in self.on_change:
                tell()
        # Listed after the change: a replica that registers later finds that its table is gone, and chooses again.
        replicas = [slave for slave in self._register.all() if slave.peer.is_real_replica]
        ended = {
            slave.slave_id: Unregistered(
                f"the master's configuration has changed for user {printable(slave.peer.user)!r}: connect again"
            )
            for slave in replicas
            if _login_facts(self.find(slave.peer)) != _login_facts(first_fitting(old_entries, slave.peer))
        }
        for slave in self._register.remove_all(lambda one: ended.get(one.slave_id)):
            _note("end of the registration", slave, str(slave.ended_by))
        widened = []
        for slave in replicas:
            entry, old = self.find(slave.peer), slave.filter
            used = None if entry is None or slave.slave_id in ended else entry.filter
            if used is not None and definition(used) != definition(old):
                self._change(slave, used)
                wider = _widening(old, used, slave)
                _note("change of filter", slave, "ok", wider)
                widened += [(slave, wider)] if wider else []
        return widened

    def _change(self, slave: RegisteredSlave, new: ReplicationFilter) -> None:
        """Give a registered replica the filter ``new``, also in its running dump. If the filter takes too much memory,
        end the replica's registration and dump instead.
        """
        try:
            self._register.change_filter(slave.slave_id, new)
        except NotRegistered:
            log.debug("the replica left before its filter changed", server_id=slave.peer.server_id)
        except Overloaded as error:
            failed = {slave.slave_id: error}
            self._register.remove_all(lambda one: failed.get(one.slave_id))

    def replicas(self) -> dict[Who, list[RegisteredSlave]]:
        """Return the real replicas that are registered now, grouped by the ``[[replica]]`` table that gives them their
        filter. The keys are the tables' conditions (such as users and channels).
        """
        found: dict[Who, list[RegisteredSlave]] = {}
        for slave in self._register.all():
            if slave.peer.is_real_replica and (entry := self.find(slave.peer)) is not None:
                found.setdefault(entry.who, []).append(slave)
        return found

    def find(self, peer: Peer) -> ReplicaEntry | None:
        """Return the first ``[[replica]]`` table of the configuration whose conditions (such as user and channel) the
        replica ``peer`` meets, or None.
        """
        return first_fitting(self.entries, peer)

    def asks(self, peer: Peer) -> bool:
        """Tell whether :meth:`filter_for` may have to connect to the replica ``peer`` to read its own filter, which may
        take seconds.
        """
        entry = self.find(peer)
        return entry is not None and entry.connect is not None

    def filter_for(self, peer: Peer) -> tuple[ReplicaEntry, ReplicationFilter]:
        """Return the ``[[replica]]`` table that a replica belongs to, and the replica's filter. The replica ``peer``
        has asked for a dump. The call may connect to the replica, and may take seconds.

        The result is valid while the table is in :attr:`entries`. Another thread may replace the table meanwhile.

        Raises ReplicaRefused if the replica meets no table's conditions, or if the master shall use the replica's own
        filter (``adopt``) and cannot read it. A replica is also refused if its own filter would apply events that the
        master drops (drift), or cannot be compared with the master's filter. If drift is certain and ``on_drift`` is
        ``"refuse"``, each attempt is refused. Otherwise only the first attempt is refused, with a warning, and the next
        one is served. Drift is uncertain if commas in the replica's rules may belong to names.
        """
        entry = self.find(peer)
        if entry is None:
            raise ReplicaRefused(
                f"no [[replica]] of user {printable(peer.user)!r} is for channel {printable(peer.channel)!r}, server "
                f"id {peer.server_id} and address {peer.address}: add one to the master's configuration"
            )
        if entry.filter is None:
            return entry, self._adopt(entry, peer)
        # A program that only reads the binlog, such as mysqlbinlog, registers without a port and has no filter.
        if entry.connect is not None and (entry.connect.port or peer.port):
            self._check_own(entry, entry.connect, peer, entry.filter)
        return entry, entry.filter

    def _adopt(self, entry: ReplicaEntry, peer: Peer) -> ReplicationFilter:
        """Connect to the replica ``peer`` and return the filter by which the master drops events. This filter drops
        only what the replica's own filter surely drops. ``entry`` is the ``[[replica]]`` table, which says how to
        connect.

        Warn when the filter now passes events that the filter which was read from the replica last dropped. Raises
        FilterUnreadable when the filter cannot be read.
        """
        assert entry.connect is not None
        own = self._read(entry.connect, peer)
        if own.not_dropped:
            log.warning(
                "rules of the replica are not adopted, since each text can be one rule or several",
                **peer.fields,
                address=str(peer.address),
                rules=printable("; ".join(own.not_dropped)),
                hint="the master sends these events; if no name has a comma, say so with commas_separate = true",
            )
        with self._lock:
            old = self._adopted.get((peer.key, peer.server_id))
            self._adopted[peer.key, peer.server_id] = own.sure
        if old is not None and (wider := passes_beyond(own.sure, old)).beyond is not Beyond.NOTHING:
            text = (
                "the replica's own filter has been widened: what the master dropped before does not come back, unless "
                "the replica discarded its relay log before (STOP REPLICA, RESET REPLICA, CHANGE REPLICATION FILTER)"
            )
            _warn("adopted filter widened", peer, text, example=printable(wider.example))
        return own.sure

    def _check_own(
        self, entry: ReplicaEntry, connect: ConnectBack, peer: Peer, used: ReplicationFilter
    ) -> None:
        """Compare the replica's own filter with ``used``, the replica's filter on the master. Refuse the replica
        ``peer`` if its own filter would apply events that ``used`` drops (drift), or cannot be compared.

        ``entry`` is the replica's ``[[replica]]`` table of the configuration file, and ``connect`` says how to connect
        to the replica. With ``on_drift = "refuse"`` a replica with certain drift is always refused. Any other replica
        is refused only once for each new warning, so that it logs the warning, and its next attempt is served. The
        master logs the warning, too. Raises ReplicaRefused with the warning as text.
        """
        try:
            text, is_sure = _difference(self._read(connect, peer), used)
        except FilterUnreadable as error:
            text, is_sure = f"{_INCOMPARABLE}: {error}", False
        refuses = is_sure and entry.on_drift is OnDrift.REFUSE
        with self._lock:
            known = self._drifts.get((peer.key, peer.server_id))
            is_known = known is not None and known.text == text
            if not text:
                self._drifts.pop((peer.key, peer.server_id), None)
            elif not is_known:
                self._drifts[peer.key, peer.server_id] = Drift(peer, text, refuses, time.time())
        if not text or (is_known and not refuses):
            return
        _warn("drift", peer, text, refuses)
        if refuses:
            raise ReplicaRefused(text)
        # A replica shows no text of a source that serves it. At an error it logs the text and reconnects at once.
        raise ReplicaRefused(f"warning: {text} (the next attempt is served)", momentary=True)

    def drifting(self) -> list[Drift]:
        """Return the warnings about replicas whose own filter, when last compared, would apply events that the master
        drops (drift), or could not be compared. The newest warning comes last.
        """
        with self._lock:
            return list(self._drifts.values())


def _difference(own: OwnFilter, used: ReplicationFilter) -> tuple[str, bool]:
    """Compare ``own``, the filter that a replica itself applies, with ``used``, the filter that the master uses for the
    replica. Return a warning text, and whether the warning is sure.

    The warning says that the replica would apply events that the master drops (drift), or that drift cannot be
    excluded. The text is empty if there is no drift. A comma in the replica's rules may separate two rules or belong to
    a name. Most likely every comma separates two rules. The warning is sure if there is drift in this reading.
    """
    surely = passes_beyond(own.sure, used)
    if surely.beyond is Beyond.NOTHING:
        return "", False
    likely = passes_beyond(own.likely, used) if own.doubts else surely
    if likely.beyond is Beyond.SOMETHING:
        by = f"by {likely.rule}" if likely.rule is not None else "since no rule keeps them"
        example = printable(likely.example, _LONGEST_EXAMPLE)
        text = (
            f"the replica's own filter is wider than its filter on the master: the replica would apply {example}, "
            f"which the master drops ({printable(by, _LONGEST_EXAMPLE)}); give both the same rules"
        )
        return text, True
    reason = "see to it that the master drops nothing that the replica wants"
    if likely.beyond is Beyond.NOTHING:
        doubts = printable("; ".join(own.doubts), _LONGEST_EXAMPLE)
        reason = (
            f"{doubts} can be one rule or several; if no name has a comma, say so with commas_separate = true in the "
            "[[replica]]"
        )
    return f"{_INCOMPARABLE}: {reason}", False


def _note(what: str, slave: RegisteredSlave, result: str, warning: str = "") -> None:
    """Write a change that concerns a replica to the audit log.

    ``what`` is the action, ``slave`` the replica's entry in the master's register of slaves, and ``result`` the
    outcome. A ``warning`` that is not empty replaces ``result``, and is written to the ordinary log, too.
    """
    rules = " ".join(map(str, slave.filter.rules))
    audit_slave(what, slave.peer, slave.peer.endpoint, warning or result, rules=rules)
    if warning:
        log.warning("filter widened", **slave.peer.fields, reason=printable(warning), rules=printable(rules))


def _login_facts(entry: ReplicaEntry | None) -> tuple[object, ...]:
    """Return the values of a ``[[replica]]`` table whose change forces the replica to connect again: the password, and
    whether and how the master adopts the replica's own filter. None stands for a replica without a table.
    """
    return () if entry is None else (entry.stored, entry.adopt, entry.connect if entry.adopt else None)


def _widening(old: ReplicationFilter, new: ReplicationFilter, slave: RegisteredSlave) -> str:
    """Return a warning for the operator if a replica's new filter ``new`` may send events that its filter ``old``
    dropped. Return an empty text otherwise, and for a replica without any dump yet.

    ``slave`` is the replica's entry in the register. The warning names the binlog position that the replica's dump has
    reached. The new filter applies from there on, and events that were dropped before are not sent later.
    """
    wider = passes_beyond(new, old)
    if not slave.file or wider.beyond is Beyond.NOTHING:
        return ""
    what = wider.example if wider.beyond is Beyond.SOMETHING else "events that the old one dropped"
    return (
        f"the new filter passes {printable(what)} from {printable(slave.file)}:{slave.position} on; what the old one "
        "dropped before does not come back, and the replica needs a new copy of these tables (docs/filters.md)"
    )


def _warn(event: str, peer: Peer, text: str, refused: bool | None = None, **details: str) -> None:
    """Write a warning about a replica to the ordinary log and to the audit log. ``event`` is the kind of warning, such
    as ``drift``, and ``text`` the reason.

    ``refused`` says whether the replica was refused; None leaves this field out. ``details`` are further fields of the
    ordinary log.
    """
    fate = {} if refused is None else {"refused": refused}
    log.warning(event, **peer.fields, address=str(peer.address), reason=text, **details, **fate)
    audit_slave(event, peer, str(peer.address), text, **{name: int(value) for name, value in fate.items()})
