"""The SQL statements and tables that the master's console, its port for the operator's MySQL clients, offers."""

from __future__ import annotations

import functools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dumpfilter
from dumpfilter.analyse.printing.show_events import no_events, show_events
from dumpfilter.base.errors import BinlogMissing, DumpfilterError, OptionError
from dumpfilter.console.sql import columns
from dumpfilter.console.sql import commands as C
from dumpfilter.console.sql import server_errors as E
from dumpfilter.console.sql.grammar import Role
from dumpfilter.console.sql.result import OK, Note, Result
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import make_write_filter
from dumpfilter.filter.rules import FilterClause, WriteRuleKind, WriteSemantics
from dumpfilter.index.lag import BinlogEnd
from dumpfilter.master import facts
from dumpfilter.master.purge import purge
from dumpfilter.master.register import RegisteredSlave, Unregistered
from dumpfilter.master.replica_filters import ReplicaFilters
from dumpfilter.master.service import DumpFilterService
from dumpfilter.master.who import Drain, Who

if TYPE_CHECKING:
    from dumpfilter.master.source import SourceThread


_LONGEST_NOTE = 512
"""The longest text of a warning in the client/server protocol, characters."""


_SLAVE = [f"REPLICA|SLAVE {by} {C.FOR_CHANNEL}" for by in ("uuid:line", "server_id:integer")]
_SLAVES = [
    *_SLAVE,
    *(f"{by} {C.FOR_CHANNEL}" for by in ("REPLICA|SLAVE USER user:line", "REPLICA|SLAVE HOST host:line")),
    f"ALL REPLICAS|SLAVES {C.FOR_CHANNEL}",
]

# UNREGISTER REPLICA ends the registration of a slave, and forgets the slave.
C.statement("UNREGISTER REPLICA", Role.ALL, *(f"UNREGISTER {slave}" for slave in _SLAVE), changes=True)

# DRAIN sends slaves away, to other masters, until UNDRAIN.
C.statement("DRAIN", Role.ALL, *(f"DRAIN {slaves} [REASON reason:line]" for slaves in _SLAVES), changes=True)
C.statement("UNDRAIN", Role.ALL, *(f"UNDRAIN {slaves}" for slaves in _SLAVES), changes=True)


@dataclass(eq=False)
class MasterConsole(C.Executor):
    """The executor of a master's console statements, an :class:`~dumpfilter.console.sql.commands.Executor`.

    Results have the columns of the server family (MySQL or MariaDB) that wrote the binlog. Errors have the numbers and
    texts of that family.
    """

    service: DumpFilterService
    """The gRPC service whose binlog set and slaves the console shows."""
    port: int = 0
    """The port that slaves connect to, shown as the system variable ``port``."""
    lower_case_table_names: int = 0
    """The value 0, 1 or 2 of this variable on the server that wrote the binlog, as the master's option states it.

    The statement CHANGE BINLOG sets rules by which the master hides databases and tables from all slaves. With 1 or 2
    these rules ignore the case of names.
    """
    source: SourceThread | None = None
    """The thread that receives the binlog of the running server that the master follows. None if the master follows no
    server.
    """

    def __post_init__(self) -> None:
        self._store = self.service.store
        self._register = self.service.register
        self._drains = self.service.drains
        self._changing = threading.Lock()
        """The lock that a statement holds while it purges binlog files or changes the binlog's rules."""

    @property
    def tables(self) -> Mapping[tuple[str, str], Callable[[], Result]]:
        """The tables of the console (a port for MySQL clients), by schema and name, each with the function that returns
        its present rows.
        """
        filters, source = self.service.filters, self.source
        tables: dict[str, Callable[[], Result]] = {
            "drains": lambda: facts.Drains.table(
                facts.DrainView(drain, self._concerned(drain)) for drain in self._drains.all()
            ),
            "filter_warnings": self._warnings,
            "imposed_filters": lambda: facts.ImposedFilters.table(self.service.config.imposed),
            "replica_drift": lambda: facts.ReplicaDrift.table(filters.drifting()),
            "replica_filters": lambda: facts.ReplicaFilters.table(_entries(filters)),
            "slaves": self._slaves,
            "source": lambda: facts.Source.table([source] if source else ()),
            "write_rules": lambda: facts.WriteRules.table(_write_rows(self._register.write_filter)),
        }
        # performance_schema describes replication channels, which a master does not have.
        empty = columns.PERFORMANCE_SCHEMA.items()
        return {
            **{("dumpfilter", name): rows for name, rows in tables.items()},
            **{("performance_schema", name): functools.partial(Result, of) for name, of in empty},
        }

    @property
    def _mysql(self) -> bool:
        return self._store.family == "mysql"

    def _slaves(self) -> Result:
        end = BinlogEnd(self._store.binlogs.paths, time.time())
        return facts.Slaves.table(facts.SlaveView(slave, end) for slave in self.service.known_slaves.all())

    def _warnings(self) -> Result:
        return facts.FilterWarnings.table(
            facts.WarningView(slave, warning)
            for slave in self._register.all()
            for warning in self.service.filter_warnings.of(slave.filter)
        )

    @property
    def version(self) -> str:
        """The version that clients see: that of the server that wrote the binlog."""
        return self._store.format_description.server_version

    def variables(self) -> Mapping[str, str | int]:
        """Return the system variables that clients of the console see, by name.

        Server id and version are those of the server that wrote the binlog. Host name and port are those of the master
        process.
        """
        fd = self._store.format_description
        newest = self._store.binlogs.path(self._store.binlogs.names[-1])
        return {
            "hostname": socket.gethostname(),
            "log_bin": "ON",
            "log_bin_basename": str(newest.with_name(self._base)),
            "log_bin_index": str(self._store.binlogs.index or ""),
            "lower_case_table_names": self.lower_case_table_names,
            "port": self.port,
            "read_only": "ON",
            "server_id": fd.header.server_id,
            "server_uuid": self.service.master_uuid,
            "version": self.version,
            "version_comment": f"dumpfilter {dumpfilter.__version__}, master",
        }

    @property
    def _base(self) -> str:
        """The base name of the binlog files, such as ``binlog`` for ``binlog.000007``."""
        return Path(self._store.binlogs.names[-1]).stem

    def _show_binary_logs(self) -> Result:
        width = 3 if self._mysql else 2
        return Result(columns.BINARY_LOGS[:width], [(*file, "No")[:width] for file in self._store.sizes()])

    def _show_binary_log_status(self, old: bool = False) -> Result:
        do_db, ignore_db = map(self._write_names, (WriteRuleKind.DO_DB, WriteRuleKind.IGNORE_DB))
        logged = self._store.logged() if self._mysql else None
        gtids = "" if logged is None else str(logged.gtids).replace(",", ",\n")
        width = 5 if self._mysql else 4
        row = *self._store.sizes()[-1], do_db, ignore_db, gtids
        return Result(columns.BINARY_LOG_STATUS[:width], [row[:width]])

    def _write_names(self, kind: WriteRuleKind) -> str:
        return ",".join(rule.value for rule in self._register.write_filter.rules if rule.kind is kind)

    def _show_binlog_events(
        self, relay_log: bool = False, channel: str | None = None, file: str | None = None, **window: int
    ) -> Result:
        if relay_log:
            raise no_events("Could not find target log", "SHOW RELAYLOG EVENTS")
        self._store.binlogs.refresh()
        names = self._store.binlogs.names
        name = names[0] if file is None else file
        if self._mysql:
            # MySQL ignores a directory in the file name of SHOW BINLOG EVENTS IN.
            name = Path(name).name
        try:
            path = self._store.binlogs.path(name)
        except BinlogMissing:
            raise no_events("Could not find target log") from None
        return show_events(path, self._store.family, **window)

    def _purge_binary_logs(
        self, to: str | None = None, before: datetime | None = None, warnings: Sequence[Note] = ()
    ) -> Result:
        reading = [slave.file for slave in self._register.all() if slave.dump]
        with self._changing:
            gone, notes = purge(
                self._store.binlogs,
                to=to,
                before=before,
                reading=reading,
                is_own=self.source is not None,
            )
            self._store.forget_files(gone)
        return Result(notes=(*warnings, *notes))

    def _change_binlog(self, name: str, clauses: Iterable[FilterClause]) -> Result:
        if name != self._base:
            raise E.SqlError(
                1373,
                "HY000",
                f"Target log not found in binlog index: the binlog that is served is '{self._base}'",
            )
        chosen = {clause.kind: clause.rules for clause in clauses}
        with self._changing:
            old = self._register.write_filter
            kept = old.rules if isinstance(old, EffectiveFilter) else ()
            rules = [
                *(rule for rule in kept if rule.kind not in chosen),
                *chain.from_iterable(chosen.values()),
            ]
            names = self._store.names._replace(lower_case_table_names=self.lower_case_table_names)
            changed = make_write_filter(WriteSemantics.EFFECTIVE, rules, names=names)
            self._register.change_write_filter(changed)
        if isinstance(old, EffectiveFilter) or not old.rules:
            return OK
        # Effective rules (WL#2516) consider the tables that a statement changes, and never the current database.
        lost = f"effective rules take the place of {facts.rule_text(old)}"
        return Result(notes=[E.ER_UNKNOWN_ERROR.warning(lost[:_LONGEST_NOTE])])

    def _flush_privileges(self) -> Result:
        self.service.reload(self._store.names)
        return OK

    def _unregister_replica(self, **slave: Any) -> Result:
        who = Who.of(**slave)

        def reason(slave: RegisteredSlave) -> DumpfilterError | None:
            text = "the master's operator ended this registration (UNREGISTER REPLICA)"
            return Unregistered(text) if who.fits(slave.peer) else None

        gone = {one.peer.key for one in self._register.remove_all(reason)}
        gone |= {one.peer.key for one in self._register.counters.finish(lambda record: who.fits(record.peer))}
        gone |= {one.peer.key for one in self.service.known_slaves.forget(who)}
        if not gone:
            raise E.ER_UNKNOWN_ERROR(
                f"The master has served no slave with {who}, or no longer waits for that slave: see SELECT * FROM "
                "dumpfilter.slaves"
            )
        return Result(affected=len(gone))

    def _drain(self, reason: str = "", **slaves: Any) -> Result:
        who = Who.of(**slaves)
        concerned = self._concerned(self._drains.drain(who, reason))
        note = f"No slave is registered with {who}; the drain holds for slaves that register later"
        return Result(affected=len(concerned), notes=[] if concerned else [E.ER_UNKNOWN_ERROR.note(note)])

    def _undrain(self, **slaves: Any) -> Result:
        who = Who.of(**slaves)
        ended = self._drains.undrain(who)
        if not ended and who != Who():
            raise E.ER_UNKNOWN_ERROR(
                f"There is no drain of {who}: see SELECT * FROM dumpfilter.drains, and name the slaves as there"
            )
        return Result(affected=ended)

    def _concerned(self, drain: Drain) -> list[RegisteredSlave]:
        """Return the registered slaves that the conditions of ``drain`` select. A drain is the operator's order to send
        slaves away.
        """
        return [slave for slave in self._register.all() if drain.who.fits(slave.peer)]

    def _show_replicas(self, old: bool = False) -> Result:
        source_id = self._store.format_description.header.server_id
        # SHOW SLAVE HOSTS of MariaDB has no column for the slaves' UUIDs.
        width = 5 if self._mysql else 4
        rows = [slave.peer.row(source_id)[:width] for slave in self._register.listed()]
        return Result(columns.REPLICAS[old or not self._mysql][:width], rows)

    def _show_replica_status(self, channel: str | None = None, old: bool = False, **_: Any) -> Result:
        if channel:
            raise E.ER_REPLICA_CHANNEL_DOES_NOT_EXIST(channel)
        return Result(columns.REPLICA_STATUS[old or not self._mysql])

    def _change_replication_source_to(self, **_: Any) -> Result:
        raise E.SqlError(
            1794,
            "HY000",
            "Replica is not configured: this is a master. Its slaves have consoles of their own; to leave events out "
            f"of the binlog for all slaves: CHANGE BINLOG '{self._base}' TO …",
        )

    _change_replication_filter = _start_replica = _stop_replica = _reset_replica = (
        _change_replication_source_to
    )

    def _change_replication_filter_for_replica(
        self, clauses: Sequence[FilterClause], user: str, **chosen_by: Any
    ) -> Result:
        if not self.service.filters.entries:
            raise OptionError("This master has no real replicas: it was started without --replica-port")
        slaves, warnings = self.service.filters.change(user, clauses, **chosen_by)
        notes = [E.ER_UNKNOWN_ERROR.warning(text[:_LONGEST_NOTE]) for text in warnings]
        return Result(affected=len(slaves), notes=notes)


def _write_rows(write_filter: ReplicationFilter) -> Iterable[tuple[str, str]]:
    semantics = getattr(write_filter, "semantics", WriteSemantics.EFFECTIVE)
    return ((str(semantics), str(rule)) for rule in write_filter.rules)


def _entries(filters: ReplicaFilters) -> list[facts.EntryView]:
    changed = {one.who: one.changed_at for one in filters.changes}
    replicas = filters.replicas()
    return [
        facts.EntryView(entry, changed.get(entry.who), replicas.get(entry.who, []))
        for entry in filters.entries
    ]
