"""The applier: it reads events of the relay log, filters them, and hands them to a target.

A target is the object to which the slave applies transactions. The applier asks the slave's own filter about every
event, although the master has filtered the events before. The applier also applies the rules of
``--replicate-rewrite-db``. :class:`EventApplier` handles one event at a time.
:class:`dumpfilter.slave.sql_thread.SqlThread` uses it for a growing relay log. :mod:`dumpfilter.testbed.law` uses it
for binlog files, to compute what a slave must have applied.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from dumpfilter.base.errors import BinlogCorrupt, BinlogError, SlaveIncident
from dumpfilter.binlog.compression import decode_transaction_payload, rows_data
from dumpfilter.binlog.context_events import decode_incident
from dumpfilter.binlog.events import GTIDS, ROWS, STATEMENTS, EventHeader, EventType, Symbol, types_of
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import Gtid, MariadbGtid
from dumpfilter.binlog.gtid_events import FL_STANDALONE, MICROSECONDS, MysqlGtidEvent, decode_gtid
from dumpfilter.binlog.query import decode_statement_event
from dumpfilter.binlog.reader import Event
from dumpfilter.binlog.rows_events import TableMap, decode_rows_header, decode_table_map
from dumpfilter.filter.base import OriginFilter, ReplicationFilter, TrustedRows
from dumpfilter.filter.rules import BaseRuleKind
from dumpfilter.index.subjects import TableSubject, statement_of
from dumpfilter.slave.targets import Target
from dumpfilter.slave.threads import ChannelMeasurements

_MOST_MAPS = 4096
"""The largest number of decoded Table_map events in the cache. A full cache is emptied."""


_OPENING = types_of(Symbol.CONTEXT, Symbol.TABLE_MAP, Symbol.ROWS)
_ENDING = types_of(Symbol.XID, Symbol.XA_PREPARE, Symbol.PAYLOAD)
_LONE = STATEMENTS | {EventType.INCIDENT}
"""The types of events (statements and incidents) that are complete by themselves outside of BEGIN and COMMIT."""


_KEYWORD = re.compile(
    r"(?P<begin>BEGIN\Z|XA START|XA BEGIN)|(?P<end>COMMIT\Z|ROLLBACK\Z)|"
    r"(?P<inside>ROLLBACK|SAVEPOINT |RELEASE SAVEPOINT |XA )",
    re.IGNORECASE | re.ASCII,
)


def keyword(text: str) -> str | None:
    """Return "begin" for a statement that opens a transaction, "end" for one that ends it, and "inside" for one that
    controls it in another way, such as SAVEPOINT. Return None for any other statement.

    Filters decide only about the other statements. The server's function for this test is
    ``Query_log_event::is_trans_keyword``.

    >>> keyword("begin"), keyword("ROLLBACK TO `a`"), keyword("BEGIN NOT ATOMIC")
    ('begin', 'inside', None)
    """
    found = _KEYWORD.match(text)
    return found and found.lastgroup


class Groups:
    """A tracker of transaction boundaries in a binlog. :meth:`enter` is called for the events one after another. After
    each event :attr:`inside` tells whether a transaction, or a statement outside of transactions, is open.

    The applier may stop and save its position only between two groups (transactions or statements). A GTID event opens
    a group. In a binlog without GTIDs, BEGIN or the first event of a statement opens a group. Xid, COMMIT, ROLLBACK, XA
    PREPARE or a compressed transaction (Transaction_payload event) closes a group. A group without BEGIN, such as a DDL
    statement, ends with its only statement. :mod:`dumpfilter.index.scanner` has the same rules for the master.
    """

    def __init__(self) -> None:
        self.inside = False
        """Whether the newest event lies inside a transaction or statement that is not complete yet."""
        self._is_transaction = False
        """Whether the open transaction began with BEGIN (or a MariaDB Gtid event that stands for BEGIN), so that only
        COMMIT, ROLLBACK, Xid or XA PREPARE completes it. Otherwise the end of a statement does.
        """

    def enter(
        self, kind: int, *, mariadb_flags: int = 0, word: str | None = None, statement_end: bool = False
    ) -> bool:
        """Process the type and flags of the next event of the binlog. Return True if the event completes a transaction,
        or a statement outside of transactions.

        ``kind`` is the number of the event's type. ``mariadb_flags`` are the flags of a MariaDB Gtid event. ``word``
        is the :func:`keyword` of a Query event's statement. ``statement_end`` says that the event is the
        last rows event of its statement (STMT_END_F).
        """
        if kind in GTIDS:
            self.inside = True
            self._is_transaction = kind == EventType.MARIADB_GTID and not mariadb_flags & FL_STANDALONE
        elif word == "begin":
            self.inside = self._is_transaction = True
        elif (
            kind in _ENDING
            or word == "end"
            or (not self._is_transaction and (kind in _LONE or (kind in ROWS and statement_end)))
        ):
            self.inside = self._is_transaction = False
            return True
        elif kind in _OPENING:
            self.inside = True
        return False


class _Table(NamedTuple):
    """A table, as a Table_map event describes it, with the filter's decision about its rows."""

    map: TableMap
    here: tuple[str, str] | None
    """The names of the database and the table on the slave, after the rules of ``--replicate-rewrite-db``.

    None when the slave's filter, or the server id or domain of the transaction, drops the table's rows.
    """
    hits: tuple[BaseRuleKind, ...]
    """The kinds of filter rules that decide about this table's rows. The slave counts how often each kind decides, as a
    server does.
    """


def gtid_of(event: Event) -> Gtid | None:
    """Return the GTID in a GTID event of MySQL or MariaDB, or None for any other event."""
    return decode_gtid(event.header, event.body).gtid if event.type in GTIDS else None


class EventApplier:
    """A filter in front of a target (the object to which a slave applies transactions). The applier receives the events
    of a binlog or relay log one by one, and applies to the target those that pass the filter ``rules``.

    The target gets the names after ``--replicate-rewrite-db``. The applier calls ``Target.begin`` when the first event
    of a transaction passes. The target is not called for a transaction of which no event passes.

    ``origin`` drops whole transactions by server id or domain, before the rules are checked. ``on_complete`` receives
    the GTID of each completed transaction, even if the target received nothing of the transaction. ``on_complete`` is
    not called for a MySQL transaction that ``origin`` dropped, because a MySQL replica does not add such a transaction
    to ``gtid_executed``. A MariaDB replica adds such a transaction to its position. ``measured`` counts transactions
    and filtered events.
    """

    def __init__(
        self,
        rules: ReplicationFilter,
        target: Target,
        *,
        origin: OriginFilter | None = None,
        on_complete: Callable[[Gtid], None] = lambda gtid: None,
        measured: ChannelMeasurements | None = None,
    ) -> None:
        self._measured = measured or ChannelMeasurements()
        self._rules = rules
        self._target = target
        self._origin = origin if origin is not None and origin.is_on else None
        self._on_complete = on_complete
        self.hits: Counter[BaseRuleKind] = Counter()
        """The number of hits (matches with events) of filter rules since :meth:`take_hits` was last called, by kind of
        rule.
        """
        self._is_unwanted_origin = False
        self._groups = Groups()
        self._gtid: Gtid | None = None
        self._begun = False
        self._tables: dict[int, _Table] = {}
        # A cache of decoded Table_map events by their bytes, because a binlog repeats them for each statement.
        self._maps: dict[bytes, _Table] = {}

    @property
    def inside(self) -> bool:
        """Whether the newest event belongs to a transaction, or to a statement outside of transactions, that is not
        complete yet.
        """
        return self._groups.inside

    def take_hits(self) -> Counter[BaseRuleKind]:
        """Return how often each kind of filter rule, such as Replicate_Do_DB, has matched an event since the last call.
        The count begins again at zero, so that the caller can add each result to its totals.
        """
        hits, self.hits = self.hits, Counter()
        return hits

    def feed(self, event: Event, *, file: str) -> None:
        """Process the next event of the binlog or relay log. If the event passes the filter, apply it to the target
        (the object that holds the slave's data).

        ``file`` is the file's path, for the texts of errors. Raises BinlogCorrupt or BinlogUnsupported for an event
        that cannot be read, and SlaveIncident when the master logged an incident such as lost events. Errors of the
        target are raised, too.
        """
        try:
            if self._origin is not None and not self._groups.inside:
                self._is_unwanted_origin = self._is_unwanted(event)
            self._apply(event.header, event.raw, event.body, event.fd)
        except BinlogError as error:
            raise error.located(file, event.offset) from error

    def _apply(
        self, header: EventHeader, raw: bytes, body: bytes | memoryview, description: FormatDescription
    ) -> None:
        kind = header.type
        word, statement_ends = None, False
        if kind == EventType.TABLE_MAP:
            self._table_map(bytes(body))
        elif kind in ROWS:
            statement_ends = self._rows(kind, body)
        elif kind in STATEMENTS:
            word = self._query(kind, body, description)
        elif kind in GTIDS:
            self._begin(header, body)
            return
        elif kind == EventType.TRANSACTION_PAYLOAD:
            self._payload(body, description)
            if not self._groups.inside:
                # The last event in the payload has completed the transaction.
                return
        elif kind == EventType.INCIDENT and not self._is_unwanted_origin:
            incident = decode_incident(body)
            raise SlaveIncident(
                f"the master logged an incident at {header.end_log_pos}: "
                f"{incident.message or 'lost events'}; this slave may lack data: seed it anew"
            )
        if self._groups.enter(kind, word=word, statement_end=statement_ends):
            self._complete()

    def _begin(self, header: EventHeader, body: bytes | memoryview) -> None:
        if self._groups.inside:
            raise BinlogCorrupt("a transaction begins inside another one")
        event = decode_gtid(header, body)
        self._gtid = event.gtid
        committed_at = event.immediate_commit_timestamp if isinstance(event, MysqlGtidEvent) else None
        self._measured.committed_at = (
            committed_at / MICROSECONDS if committed_at else header.timestamp or None
        )
        self._groups.enter(header.type, mariadb_flags=event.flags)

    def _complete(self) -> None:
        if self._begun:
            self._target.commit()
        self._measured.transactions += 1
        is_lost = self._is_unwanted_origin and not isinstance(self._gtid, MariadbGtid)
        if self._gtid is not None and not is_lost:
            self._on_complete(self._gtid)
        self._gtid = None
        self._begun = False
        self._tables.clear()

    def _is_unwanted(self, event: Event) -> bool:
        """Tell whether the filter ``origin`` drops the transaction that begins with ``event``. This filter decides by
        the server id, or MariaDB's domain id, of the transaction.
        """
        assert self._origin is not None
        gtid = gtid_of(event)
        domain = gtid.domain_id if isinstance(gtid, MariadbGtid) else None
        return not self._origin.wants(event.header.server_id, domain, writer=event.fd.header.server_id)

    def _begin_for_target(self) -> None:
        """Tell the target (the object that holds the slave's data) that a transaction begins, by ``Target.begin``. Do
        nothing if the target already knows of the current transaction.
        """
        if not self._begun:
            self._target.begin(None if self._gtid is None else str(self._gtid))
            self._begun = True

    def _table_map(self, body: bytes) -> None:
        known = self._maps.get(body)
        if known is None:
            table = decode_table_map(body)
            passes = self._rules.rows_ok(table.database, table.table)
            known = _Table(
                table,
                self._rules.rewrite_table(table.database, table.table) if passes else None,
                self._rules.hits(TableSubject(table.database, table.table)),
            )
            if len(self._maps) >= _MOST_MAPS:
                self._maps.clear()
            self._maps[body] = known
        if self._is_unwanted_origin:
            known = known._replace(here=None)
        else:
            for kind in known.hits:
                self.hits[kind] += 1
        self._tables[known.map.table_id] = known

    def _rows(self, kind: int, body: bytes | memoryview) -> bool:
        header = decode_rows_header(kind, body)
        if not header.is_dummy:
            try:
                table, here, _ = self._tables[header.table_id]
            except KeyError:
                raise BinlogCorrupt(f"rows of table id {header.table_id}, which no table map names") from None
            if here is not None:
                self._begin_for_target()
                self._target.rows(*here, table, header, rows_data(header, body))
            else:
                self._measured.events_filtered += 1
        if header.statement_ends:
            self._tables.clear()
        return header.statement_ends

    def _query(self, kind: int, body: bytes | memoryview, description: FormatDescription) -> str | None:
        """Filter a statement, and apply it to the target (the object that holds the slave's data) if it passes.

        Statements that control a transaction do not go to the target. For these return ``begin`` (such as BEGIN),
        ``end`` (such as COMMIT) or ``inside`` (such as SAVEPOINT), and for all others None.
        """
        query = decode_statement_event(EventType(kind), body, description)
        if kind != EventType.EXECUTE_LOAD_QUERY:
            word = keyword(query.text)
            if word is not None:
                return word
        if self._is_unwanted_origin:
            self._measured.events_filtered += 1
            return None
        statement = statement_of(query, description)
        for hit in self._rules.hits(statement):
            self.hits[hit] += 1
        if self._rules.verdict(statement).passes:
            self._begin_for_target()
            self._target.statement(self._rules.rewrite_db(query.db) if query.db else None, query.raw)
        else:
            self._measured.events_filtered += 1
        return None

    def _payload(self, body: bytes | memoryview, description: FormatDescription) -> None:
        """Decompress a Transaction_payload event, and apply the events in it that pass the filter. These events have no
        checksums.

        The filter decides about each row event here, even with ``FILTER_ON = 'MASTER'``. With this option the slave
        normally lets all rows pass, because the master has filtered them. However, the master does not filter a
        compressed transaction that is too large to decompress.
        """
        inner = replace(description, checksum=False)
        rules, maps = self._rules, self._maps
        if isinstance(rules, TrustedRows):
            self._rules, self._maps = rules.inner, {}
        try:
            for header, raw in decode_transaction_payload(body).events():
                self._apply(header, raw, inner.body(raw), inner)
        finally:
            self._rules, self._maps = rules, maps
