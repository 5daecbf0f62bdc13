"""The printing of events as SQL text that a client can run, as ``mysqlbinlog`` and ``mariadb-binlog`` do.

The text follows the ``print`` functions in ``sql/log_event.cc`` and ``client/mysqlbinlog.cc`` of both servers, and
the output of these programs. docs/binlog.md lists the differences.
"""

from __future__ import annotations

import functools
import itertools
import struct
import tempfile
import time
from base64 import encodebytes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.lint.findings import listed
from dumpfilter.analyse.printing import literals as L
from dumpfilter.analyse.printing.event_texts import DELIMITER, TYPE_AT, EventTexts, event_line
from dumpfilter.analyse.printing.harmless import AS_IT_IS, Harmless, lacking, named
from dumpfilter.analyse.printing.options import MayFail, TextOptions
from dumpfilter.base.errors import BinlogCorrupt, BinlogError, OutputError
from dumpfilter.base.files import writing
from dumpfilter.binlog import context_events as C
from dumpfilter.binlog import gtid_events as G
from dumpfilter.binlog.compression import TransactionPayload
from dumpfilter.binlog.context_events import LoadBlock
from dumpfilter.binlog.events import HEADER_LENGTH, MYSQL_GTIDS, STATEMENTS, EventHeader, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import MariadbGtid, format_uuid
from dumpfilter.binlog.query import (
    QUERY_HEADER_LENGTH,
    ExecuteLoadQueryEvent,
    QueryEvent,
    decode_statement_event,
)
from dumpfilter.binlog.reader import Event, decode_event
from dumpfilter.dump.set_pass import KeptEvents, PassedStatement
from dumpfilter.dump.with_tables_info import announce_tables_info, has_tables_info
from dumpfilter.filter.base import KindFilter, ReplicationFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.world import World
from dumpfilter.index.segment import ended_xid
from dumpfilter.index.subjects import statement_of


class LoadFiles:
    """A writer of the data files of LOAD DATA statements, one new file ``SQL_LOAD-<file id>-<n>`` for each statement.

    ``directory`` is created with the first file. With None a temporary directory is created, which is never removed,
    because the printed statements name its files.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory
        self.is_temporary = directory is None
        self.written = 0
        self._paths: dict[int, Path] = {}

    def begin(self, block: LoadBlock) -> Path:
        """Write the first block of a data file (Begin_load_query event) to a new file, and return the file's path.

        Raises OutputError when the file cannot be written, or when a statement cannot name its path.
        """
        if self.directory is None:
            self.directory = Path(tempfile.mkdtemp(prefix="dumpfilter-load-"))
        with writing(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
        while (path := self.directory.resolve() / f"SQL_LOAD-{block.file_id}-{self.written}").exists():
            self.written += 1
        if "\\" in str(path) or not str(path).isprintable():
            raise OutputError(
                f"{path}: a LOAD DATA statement cannot name this file; give another --local-load"
            )
        with writing(path):
            path.write_bytes(block.data)
        self.written += 1
        self._paths[block.file_id] = path
        return path

    def append(self, block: LoadBlock) -> Path:
        """Append a later block of a data file (Append_block event), and return the file's path.

        Raises BinlogCorrupt if the file has no first block, and OutputError if it cannot be written.
        """
        path = self._path(block.file_id)
        with writing(path), open(path, "ab") as file:
            file.write(block.data)
        return path

    def take(self, file_id: int) -> Path:
        """Return the path of a complete data file for its LOAD DATA statement. Afterwards its ``file_id`` may be
        used for another file.

        Raises BinlogCorrupt if the file has no first block.
        """
        path = self._path(file_id)
        del self._paths[file_id]
        return path

    def delete(self, file_id: int) -> None:
        """Delete a data file, of which the LOAD DATA statement failed without an effect (Delete_file event)."""
        path = self.take(file_id)
        with writing(path):
            path.unlink()

    def _path(self, file_id: int) -> Path:
        try:
            return self._paths[file_id]
        except KeyError:
            raise BinlogCorrupt(f"LOAD DATA: the file with number {file_id} was never begun") from None


T = EventType

_PIECE = 1 << 20
"""The size of the pieces in which a compressed transaction is printed, bytes."""
_KEYWORDS = (b"BEGIN", b"COMMIT", b"ROLLBACK")
_FRAMES = (b"SAVEPOINT ", b"ROLLBACK ", b"RELEASE SAVEPOINT ", b"XA ")
_ANONYMOUS = "ANONYMOUS"
_AUTOMATIC = b"/*!50616 SET @@SESSION.GTID_NEXT= 'AUTOMATIC'*/"
_ENDS_OF_TRANSACTIONS = frozenset({b"BEGIN", b"COMMIT"})
_IS_ALONE: npt.NDArray[np.bool_] = np.isin(np.arange(256), [T.FORMAT_DESCRIPTION, T.TRANSACTION_PAYLOAD])
"""For each event type by number, whether its events are printed separately. The event format changes after a format
description event, and inside a compressed transaction.
"""

# The offsets of fields in events: of a Query event, of MySQL's GTID events with times, and of MariaDB's GTID event.
_DB_LENGTH_AT, _STATUS_AT = HEADER_LENGTH + 8, HEADER_LENGTH + QUERY_HEADER_LENGTH
_SERVER_ID_AT = 5
_THREAD_AND_SECONDS = struct.Struct("<II")
_TIMED_GTIDS = frozenset({T.GTID, T.ANONYMOUS_GTID})
_TIMED_GTID = struct.Struct("<x16sqBqq")
_HAS_TIME = 2
_MARIADB_GTID = struct.Struct("<QIB")
_uuid = functools.lru_cache(format_uuid)


class TextPrinter(EventTexts):
    """A printer of binlog events as SQL text, which a client can run on another server (the target). The caller must
    pass the events in binlog order.

    Parameters:
        write: receives the text as bytes, because statements keep their clients' character sets.
        options: the form of the text.
        rules: the filter, which renames databases (``--replicate-rewrite-db``). None: no filter.
        warn: receives a warning, with file and position, if the printed text cannot repeat an event.
        kinds: the filter by statement kinds. The target is assumed to have the effects of the statements that this
            filter drops. None: no such filter.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        options: TextOptions,
        *,
        rules: ReplicationFilter | None = None,
        warn: Callable[[str], None] = lambda text: None,
        kinds: KindFilter | None = None,
    ) -> None:
        rules = rules or Filter()
        super().__init__(write, options, rules.rewrite_db)
        self._written: list[bytes] = []
        """The text collected by the methods that print single events."""
        self._write = self._written.append
        self._kinds = kinds
        self._harmless: Harmless | None = None
        if options.may_fail is not MayFail.PRINT:
            world: World[QueryEvent] = World(rules, is_strict=True, there=options.target_has or ())
            self._harmless = Harmless(world)
        self._context_settings: list[bytes] = []
        """The SET statements for Intvar, Rand and User_var events, which belong to the next statement."""
        self._comments = 0
        self._load_files = LoadFiles(options.local_load)
        self._skip_gtids = options.skip_gtids
        self._warn = warn
        self._file = ""
        self._first_file = ""
        self._offset = 0
        self._fd: FormatDescription | None = None
        self._session: L.Session | None = None
        self._status: bytes | None = None
        """The error code and status variables of the last Query event, in its bytes. None: the next statement's
        settings must be printed in full.
        """
        self._opened: Iterator[KeptEvents] | None = None
        """The events of the compressed transaction to print next, or None."""
        self._undecided = False
        self._in_transaction = False
        self._xa_start: bytes | None = None
        """The XA START of a transaction of which nothing has been printed yet, or None."""
        self._empty_xa: set[G.Xid] = set()
        """The prepared XA transactions of which nothing was printed."""
        self._gtid: bytes | None = None
        """The statement by which the text has set a GTID for the session on a MySQL server, or None."""
        self._has_run = False
        """Whether the text printed since the last GTID event runs a statement other than BEGIN or COMMIT."""

    def shortcomings(self) -> Iterator[str]:
        """Yield warnings about the printed text, at most one for each of the following shortcomings.

        - Statements are only comments in the text, because they would fail on the server that runs the text.
        - Later changes of a table may fail on that server, because the filter drops statements, such as ALTER TABLE,
          that define the table's columns.
        - Files of LOAD DATA are in a temporary directory, which a user has to remove.
        """
        if comments := self._comments + self.refused:
            are, they = (
                ("statement is a comment", "it") if comments == 1 else ("statements are comments", "they")
            )
            yield (
                f"{comments} {are} in the text (# dumpfilter: not run), because {they} would fail where the text is "
                "run; --target-has names what the target has, and --may-fail=print prints them"
            )
        if self._harmless is not None and self._harmless.drifted:
            tables = listed(map(named, self._harmless.drifted))
            yield (
                f"the filter drops statements that define columns of {tables}: a client may stop at a later change of "
                "the table; `dumpfilter lint` shows these statements, and the client's --force goes on"
            )
        if self._load_files.written and self._load_files.is_temporary:
            yield f"files of LOAD DATA are in {self._load_files.directory}; remove them when the text has been run"

    def begin(self) -> None:
        """Print the statements that begin the text. Call this before printing any event."""
        self._write(b"/*!50530 SET @@SESSION.PSEUDO_SLAVE_MODE=1*/;\n")
        self._write(b"/*!50003 SET @OLD_COMPLETION_TYPE=@@COMPLETION_TYPE,COMPLETION_TYPE=0*/;\n")
        # A replica alters versioned tables as with this value, which no event holds.
        self._write(b"/*M!100304 SET @@SESSION.system_versioning_alter_history=KEEP*/;\n")
        self._write(b"delimiter " + DELIMITER + b"\n")
        self._print(self._taken())

    def end(self) -> None:
        """Print the remaining events, and the statements that end the text and restore the client's settings."""
        self.finish()
        self._end_gtids()
        self._write(b"delimiter ;\n# End of log file\n")
        self._write(b"/*!50003 SET COMPLETION_TYPE=@OLD_COMPLETION_TYPE*/;\n")
        self._write(b"/*!50530 SET @@SESSION.PSEUDO_SLAVE_MODE=0*/;\n")
        self._print(self._taken())

    def left_out(self, statement: PassedStatement) -> None:
        """Take note of a statement that is not printed, because the filter drops it, or because the selection by
        position, time or GTID excludes it.

        From these statements the printer knows which tables and other objects exist on the server that runs the text.
        Raises BinlogError with file and position for a malformed event.
        """
        if self._harmless is None or self._fd is None:
            return
        try:
            kind = T(statement.event[4])
            query = decode_statement_event(kind, statement.fd.body(statement.event), statement.fd)
        except BinlogError as error:
            raise error.located(statement.file, statement.offset) from error
        kinds = self._kinds
        if statement.passes or kinds is None or kinds.verdict(statement_of(query, statement.fd)).passes:
            self._harmless.left_out(query, runs=statement.passes)

    def events(self, kept: KeptEvents) -> None:
        """Print the consecutive events ``kept``. The text of some events may be delayed until a later call or
        :meth:`flush`.

        ``kept.fd`` must be the format description event of the file that the events are from. If ``kept`` has this
        event itself, ``kept.fd`` must already be this event.

        Raises BinlogError, with file and position, for a malformed event, and OutputError if a file of LOAD DATA cannot
        be written.
        """
        alone = np.flatnonzero(_IS_ALONE[kept.data[kept.start + TYPE_AT]])
        bounds = np.unique(np.concatenate(([0], alone, alone + 1, [kept.start.size]))).tolist()
        for first, last in itertools.pairwise(bounds):
            self._events(kept.part(first, last))

    def _events(self, kept: KeptEvents) -> None:
        self._file, self._undecided, self._fd_of_events = kept.file, kept.undecided, kept.fd
        self._first_file = self._first_file or kept.file
        kind = int(kept.data[kept.start[0] + TYPE_AT])
        if kind == T.FORMAT_DESCRIPTION:
            self.finish()
            self._end_gtids()
            self._print(self._taken())
        self.add(kept)
        if self._opened is not None:
            inner, self._opened = self._opened, None
            self.finish()
            try:
                for piece in inner:
                    self.events(piece)
            except BinlogError:
                self.flush()
                raise
            self.finish()

    def _taken(self) -> bytes:
        """Return the text that the methods for single events have collected since the last call, and clear it."""
        text = b"".join(self._written)
        self._written.clear()
        return text

    def text_of(self, raw: bytes, offset: int) -> bytes:
        # Frequent events are not decoded as a whole.
        kind, fd = raw[TYPE_AT], self._fd_of_events
        end = len(raw) - fd.checksum_length
        if kind == T.XID and end == HEADER_LENGTH + 8:
            self._in_transaction = False
            xid = int.from_bytes(raw[HEADER_LENGTH:end], "little")
            return event_line(kind, f"Xid = {xid}", b"COMMIT" + DELIMITER + b"\n")
        if kind in _TIMED_GTIDS and end >= HEADER_LENGTH + _TIMED_GTID.size:
            uuid, gno, code, last_committed, number = _TIMED_GTID.unpack_from(raw, HEADER_LENGTH)
            if code == _HAS_TIME and gno > 0:
                gtid = f"{_uuid(uuid)}:{gno}" if kind == T.GTID else _ANONYMOUS
                return self._mysql_gtid_text(kind, gtid, last_committed, number)
        if kind == T.MARIADB_GTID and end >= HEADER_LENGTH + _MARIADB_GTID.size:
            sequence, domain, flags = _MARIADB_GTID.unpack_from(raw, HEADER_LENGTH)
            if sequence and not flags & G.FL_PREPARED_XA:
                server = int.from_bytes(raw[_SERVER_ID_AT : _SERVER_ID_AT + 4], "little")
                self._in_transaction = not flags & G.FL_STANDALONE
                return self._mariadb_gtid_text(MariadbGtid(domain, server, sequence), flags)
        if kind == T.QUERY and self._status is not None and not self._xa_start and not self._context_settings:
            status_end = _STATUS_AT + int.from_bytes(raw[_STATUS_AT - 2 : _STATUS_AT], "little")
            word = raw[status_end + raw[_DB_LENGTH_AT] + 1 : end].upper()
            if word in _ENDS_OF_TRANSACTIONS and raw[_DB_LENGTH_AT + 1 : status_end] == self._status:
                return self._frame_text(raw, word)
        self._event(Event(offset, EventHeader.unpack(raw), raw, fd))
        return self._taken()

    def _frame_text(self, raw: bytes, word: bytes) -> bytes:
        """Return the printed text of a BEGIN or COMMIT event, from the name of the event's type on. The time, the
        server id and the end position, which the text begins with, are left out. ``raw`` has the event's bytes, and
        ``word`` is BEGIN or COMMIT.

        The event must record the session settings that the printed text has already set.
        """
        assert self._session is not None
        self._in_transaction = word == b"BEGIN"
        thread, seconds = _THREAD_AND_SECONDS.unpack_from(raw, HEADER_LENGTH)
        settings = [b"SET TIMESTAMP=%d" % int.from_bytes(raw[:4], "little")]
        if self._session.is_new_thread(thread):
            settings.append(b"SET @@session.pseudo_thread_id=%d" % thread)
        lines = b"".join(one + DELIMITER + b"\n" for one in settings)
        return event_line(
            T.QUERY,
            f"thread_id={thread}\texec_time={seconds}\terror_code=0",
            lines + word + b"\n" + DELIMITER + b"\n",
        )

    def _event(self, event: Event) -> None:
        kind = self._kind = event.type
        self._offset = event.offset
        content = decode_event(event)
        if kind in _ABOUT_FILE:
            self._tail(_ABOUT_FILE[kind](content))
        elif kind in _PRINTERS:
            _PRINTERS[kind](self, content, event)
        else:
            self._tail(f"type {kind}, {event.header.size} bytes")
            self._warn(f"{self._here}: {event.name} (type {kind}) cannot be printed, so replay lacks it")

    def _tail(self, text: str = "") -> None:
        self._write(event_line(self._kind, text))

    def _setting(self, text: bytes) -> None:
        self._write(text + DELIMITER + b"\n")

    def _in_utf8(self, text: bytes) -> None:
        assert self._session is not None
        for line in self._session.in_utf8(text):
            self._setting(line)

    def _statement(self, text: bytes) -> None:
        # The delimiter is on a line of its own, since the statement may end in a comment. A statement that contains the
        # delimiter gets another delimiter.
        delimiter, number = DELIMITER, 0
        while delimiter in text:
            delimiter, number = b"/*!%d*/;" % number, number + 1
        if number:
            self._write(b"delimiter %s\n" % delimiter)
        self._write(b"%s\n%s\n" % (text, delimiter))
        if number:
            self._write(b"delimiter %s\n" % DELIMITER)

    def _comment(self, lines: bytes, mark: bytes = b"# ") -> None:
        for line in lines.replace(b"\0", b" ").splitlines():
            self._write(mark + line + b"\n")

    def _format_description(self, fd: FormatDescription, event: Event) -> None:
        created = time.strftime("%y%m%d %k:%M:%S", time.localtime(fd.created))
        self._tail(
            f"Start: binlog v 4, server v {fd.server_version}" + (f" created {created}" if fd.created else "")
        )
        if self._fd is None or self._fd.server_version != fd.server_version:
            self._session = L.Session(fd)
            if self._harmless is not None:
                number = self._first_file.rpartition(".")[2]
                is_first = number.isdecimal() and int(number) == 1
                self._harmless.written_by(fd.family, L.server_version(fd), from_first=is_first)
        self._fd = fd
        self._status = None
        self.checksum = fd.checksum
        if fd.created:
            self._setting(b"ROLLBACK")
        # Tables info (WL#40) is a list of tables in Query events that real servers do not know. Real servers refuse a
        # format description event that announces tables info. The printed text has no Query events, so the format
        # description event is printed without the announcement.
        plain = announce_tables_info(fd, False) if has_tables_info(fd) else fd
        if self._row_events:
            self._write(b"BINLOG '\n" + encodebytes(plain.raw) + b"'" + DELIMITER + b"\n")
        if self._row_events and fd.family == "mysql" and self._skip_gtids:
            # MySQL refuses statements after a BINLOG statement with a format description event, until GTID_NEXT is set.
            self._setting(_AUTOMATIC)

    def refusal(self, database: str, table: str) -> bytes:
        missing = None if self._harmless is None else self._harmless.missing_table(database, table)
        if missing is None:
            return b""
        self._comment(f"dumpfilter: not run: {lacking(missing).reason}".encode("utf-8", "surrogateescape"))
        return self._taken()

    def before_rows(self) -> bytes:
        self._has_run = True
        if self._xa_start is None and not self._context_settings:
            return b""
        self._run_xa_start()
        self._end_context()
        return self._taken()

    def _query(self, query: QueryEvent, event: Event) -> None:
        header = event.header
        self._tail(f"thread_id={query.thread_id}\texec_time={query.exec_time}\terror_code={query.error_code}")
        assert self._session is not None
        if query.is_committed_later:
            self._comment(query.raw)
            return
        keyword = query.raw.upper()
        if keyword in _KEYWORDS:
            self._in_transaction = keyword == b"BEGIN"
        frame = keyword in _KEYWORDS or query.raw[:20].upper().startswith(_FRAMES)
        if query.error_code and not frame:
            self._warn(
                f"{self._here}: this statement ended with error {query.error_code} on the server that wrote it; "
                "replayed it fails too, or does more (mysql --force goes on)"
            )
        form = AS_IT_IS
        if self._harmless is not None and not frame and not keyword.startswith(b"XA "):
            form = self._harmless.form(query, header.flags, undecided=self._undecided)
            if form.reason:
                self._not_run(query, form.reason)
                return
        if frame and self._xa_frame(query):
            return
        if not frame and not form.before:
            self._run_xa_start()
        self._end_context()
        database = self._rewrite_db(query.db) if query.db else ""
        if form.before:
            # The databases are made with the settings of the statement's session, and before USE.
            for line in self._session.before(query, header, database=database, use=False):
                self._setting(line)
            self._make_databases(form.before)
            # An XA transaction cannot make a database.
            self._run_xa_start()
        # No USE is printed before BEGIN and COMMIT. The database that their events name need not exist, and then USE
        # would fail.
        for line in self._session.before(query, header, database=database, use=not frame):
            self._setting(line)
        is_plain = not query.error_code and query.status.microseconds is None
        self._status = _status(event) if is_plain else None
        if isinstance(query, ExecuteLoadQueryEvent):
            self._statement(self._load(query))
        else:
            self._statement(query.raw if form.text is None else form.text)
        self._has_run = self._has_run or not frame

    def _make_databases(self, statements: Sequence[bytes]) -> None:
        """Print ``statements``, which create databases that later statements need. CREATE DATABASE ends the current
        transaction and uses up its GTID, so the text then begins the transaction again and sets the GTID again.

        A transaction with a GTID that has already changed something cannot be divided in this way. The client that runs
        the text then stops with an error. With MariaDB's GTIDs the text switches the binlog off during
        ``statements``, since strict mode has no GTID for them.
        """
        assert self._fd is not None
        around: tuple[bytes, ...] = ()
        if self._gtid is not None:
            around = _AUTOMATIC, self._gtid
        elif self._fd.family == "mariadb" and not self._skip_gtids:
            around = b"SET @@session.sql_log_bin=0", b"SET @@session.sql_log_bin=1"
        begins_again = self._in_transaction and not (around and self._has_run)
        if around and not self._has_run:
            # The session no longer owns the GTID.
            self._setting(b"ROLLBACK")
        for statement in (*around[:1], *statements, *around[1:]):
            self._in_utf8(statement)
        if begins_again:
            self._setting(b"BEGIN")

    def _not_run(self, query: QueryEvent, reason: str) -> None:
        # The settings before the statement must not stay for the next statement, so that they are comments, too.
        self._comments += 1
        self._comment(f"dumpfilter: not run: {reason}".encode("utf-8", "surrogateescape"))
        for setting in self._context_settings:
            self._comment(setting, b"#   ")
        self._context_settings = []
        if isinstance(query, ExecuteLoadQueryEvent):
            self._load_files.take(query.file_id)
        self._comment(query.raw, b"#   ")
        if self._xa_start is None:
            self._take_gtid()

    def _xa_frame(self, query: QueryEvent) -> bool:
        """Handle a statement that begins or ends an XA transaction. Return True if the caller must not print the
        statement.

        XA START is delayed until the transaction's first statement that runs. A server rolls back a prepared
        transaction without changes and then rejects its XA COMMIT, so an empty transaction is printed as comments.
        """
        raw = bytes(query.raw)
        word = raw[:10].upper()
        if word.startswith((b"XA START", b"XA BEGIN")):
            self._xa_start = raw
            return True
        if self._xa_start is not None:
            if not word.startswith(b"XA END"):
                self._run_xa_start()
                return False
            self._comment(raw)
            return True
        xid = ended_xid(raw)
        if xid is None or xid not in self._empty_xa:
            return False
        self._empty_xa.discard(xid)
        self._comment(raw)
        self._take_gtid()
        return True

    def _run_xa_start(self) -> None:
        if self._xa_start is not None:
            self._setting(self._xa_start)
            self._xa_start = None

    def _take_gtid(self) -> None:
        # With a GTID set, the session owns the GTID until a transaction ends. An empty transaction gives the GTID to
        # the target.
        if self._gtid is not None and not self._in_transaction:
            self._setting(b"BEGIN")
            self._setting(b"COMMIT")

    def _end_context(self) -> None:
        for setting in self._context_settings:
            self._in_utf8(setting)
        self._context_settings = []

    def _load(self, query: ExecuteLoadQueryEvent) -> bytes:
        # The printed LOAD DATA names the file on disk, which load_files has written from the binlog.
        path = str(self._load_files.take(query.file_id))
        replace_ = b" REPLACE" if query.dup_handling == 2 else b""
        infile = b" LOCAL INFILE " + L.quoted_text(path) + replace_ + b" INTO"
        return query.raw[: query.fn_pos_start] + infile + query.raw[query.fn_pos_end :]

    @property
    def _here(self) -> str:
        return f"{self._file}: at {self._offset}"

    def _xa_prepare(self, prepare: C.XaPrepare, event: Event) -> None:
        self._tail()
        said = L.xa_prepare_text(prepare).encode()
        if self._xa_start is None:
            self._setting(said)
            return
        # Nothing of the transaction has been printed.
        self._comment(said)
        self._xa_start = None
        if not prepare.one_phase:
            self._empty_xa.add(prepare.xid)
        self._take_gtid()

    def _annotation(self, text: bytes, event: Event) -> None:
        self._tail()
        self._comment(text, b"#Q> ")

    def _incident(self, incident: C.Incident, event: Event) -> None:
        self._tail(f"Incident {incident.number}: {incident.message}")
        self._warn(f"{self._here}: an incident: {incident.message or 'lost events'}; replay stops here")
        # Like mysqlbinlog and mariadb-binlog, print an invalid statement that stops the client.
        self._statement(b"RELOAD DATABASE; # Shall generate syntax error")

    def _intvar(self, number: C.Intvar, event: Event) -> None:
        self._tail()
        name = "INSERT_ID" if number.type == C.INSERT_ID_EVENT else "LAST_INSERT_ID"
        self._context_settings.append(f"SET {name}={number.value}".encode())

    def _rand(self, seeds: C.Rand, event: Event) -> None:
        self._tail()
        setting = f"SET @@RAND_SEED1={seeds.seed1}, @@RAND_SEED2={seeds.seed2}"
        self._context_settings.append(setting.encode())

    def _user_var(self, variable: C.UserVar, event: Event) -> None:
        self._tail()
        assert self._session is not None
        value = L.user_variable(variable, self._session.family, self._session.own_name)
        if value is None:
            self._warn(
                f"{self._here}: collation {variable.charset} of @{variable.name} is not known; "
                "its value is printed without"
            )
            value = b"X'" + (variable.value or b"").hex().encode() + b"'"
        self._context_settings.append(b"SET @" + L.quoted_name(variable.name) + b":=" + value)

    def _load_block(self, block: C.LoadBlock, event: Event) -> None:
        is_first = event.type == T.BEGIN_LOAD_QUERY
        path = self._load_files.begin(block) if is_first else self._load_files.append(block)
        self._tail(f"file_id: {block.file_id}  block_len: {len(block.data)}  in {path}")

    def _delete_file(self, block: C.LoadBlock, event: Event) -> None:
        self._load_files.delete(block.file_id)
        self._tail(f"file_id: {block.file_id}")

    def _payload(self, payload: TransactionPayload, event: Event) -> None:
        self._tail(f"payload_size={len(payload.payload)}\tuncompressed_size={payload.uncompressed_size}")
        self._opened = _pieces(payload, self._file, replace(event.fd, checksum=False), event.offset)

    def _end_gtids(self) -> None:
        # The server that runs the text then gives its own GTIDs to later statements. Each format description
        # needs this, too. Otherwise MySQL sets GTID_NEXT to ANONYMOUS after a file without transactions (error 1782).
        if self._gtid is not None:
            self._setting(_AUTOMATIC)

    def _mysql_gtid(self, found: G.MysqlGtidEvent, event: Event) -> None:
        gtid = str(found.gtid or _ANONYMOUS)
        self._write(self._mysql_gtid_text(event.type, gtid, found.last_committed, found.sequence_number))

    def _mysql_gtid_text(self, kind: int, gtid: str, last_committed: int | None, number: int | None) -> bytes:
        lines = b""
        if not self._skip_gtids:
            self._gtid, self._has_run = f"SET @@SESSION.GTID_NEXT= '{gtid}'".encode(), False
            lines = self._gtid + DELIMITER + b"\n"
        text = f"{gtid}\tlast_committed={last_committed}\tsequence_number={number}"
        return event_line(kind, text, lines)

    def _mariadb_gtid(self, found: G.MariadbGtidEvent, event: Event) -> None:
        self._write(self._mariadb_gtid_text(found.gtid, found.flags))
        self._xa_start = f"XA START {found.xid}".encode()

    def _mariadb_gtid_text(self, gtid: MariadbGtid, flags: int) -> bytes:
        self._has_run = False
        after = []
        if not self._skip_gtids:
            after += [
                f"SET @@session.gtid_domain_id={gtid.domain_id}",
                f"SET @@session.server_id={gtid.server_id}",
                f"SET @@session.gtid_seq_no={gtid.seq_no}",
            ]
        if not flags & (G.FL_PREPARED_XA | G.FL_STANDALONE):
            # MariaDB's GTID event begins the transaction, and no BEGIN event follows.
            after.append("START TRANSACTION")
        words = [" ddl" if flags & G.FL_DDL else "", "" if flags & G.FL_STANDALONE else " trans"]
        lines = b"".join(one.encode() + DELIMITER + b"\n" for one in after)
        return event_line(T.MARIADB_GTID, f"{gtid}{''.join(words)}", lines)


def _pieces(
    payload: TransactionPayload, file: str, fd: FormatDescription, offset: int
) -> Iterator[KeptEvents]:
    """Yield the events of a compressed transaction in pieces of about 1 MiB, so that the memory does not depend on its
    size.

    The events get ``offset``, the offset of the Transaction_payload event in ``file``. Raises BinlogError with file and
    position, after yielding the events before the damage.
    """
    some: list[bytes] = []

    def piece() -> KeptEvents:
        size = np.array([*map(len, some)], np.int64)
        data = np.frombuffer(b"".join(some), np.uint8)
        return KeptEvents(file, fd, data, np.cumsum(size) - size, size, np.full(size.size, offset))

    size = 0
    try:
        for _, raw in payload.events():
            some.append(raw)
            size += len(raw)
            if size >= _PIECE:
                yield piece()
                some.clear()
                size = 0
    except BinlogError as error:
        if some:
            yield piece()
        raise error.located(file, offset) from error
    if some:
        yield piece()


def _status(event: Event) -> bytes | None:
    """Return the bytes of a Query event's error code, status length and status variables. None if the event has another
    layout. A BEGIN or COMMIT event with the same bytes as the event before has the same session settings.
    """
    if event.type != T.QUERY or event.fd.post_header_length(T.QUERY) != QUERY_HEADER_LENGTH:
        return None
    end = _STATUS_AT + int.from_bytes(event.raw[_STATUS_AT - 2 : _STATUS_AT], "little")
    return event.raw[_DB_LENGTH_AT + 1 : end]


_ABOUT_FILE: dict[int, Callable[[Any], str]] = {
    T.ROTATE: lambda rotate: f"{rotate.name}  pos: {rotate.position}",
    T.STOP: lambda nothing: "",
    T.PREVIOUS_GTIDS: lambda gtids: str(gtids) or "[empty]",
    T.GTID_LIST: lambda gtids: f"[{gtids.position()}]",
    T.BINLOG_CHECKPOINT: str,
    T.START_ENCRYPTION: lambda nothing: "",
    T.HEARTBEAT: lambda name: "",
    T.HEARTBEAT_V2: lambda nothing: "",
    T.IGNORABLE: L.gap_text,
}
"""The functions that turn the content of events about the binlog file into comments, by event type."""

_PRINTERS: dict[int, Callable[[TextPrinter, Any, Event], None]] = {
    T.FORMAT_DESCRIPTION: TextPrinter._format_description,
    **dict.fromkeys(STATEMENTS, TextPrinter._query),
    **dict.fromkeys(MYSQL_GTIDS, TextPrinter._mysql_gtid),
    T.MARIADB_GTID: TextPrinter._mariadb_gtid,
    T.XA_PREPARE: TextPrinter._xa_prepare,
    T.TRANSACTION_PAYLOAD: TextPrinter._payload,
    T.INTVAR: TextPrinter._intvar,
    T.RAND: TextPrinter._rand,
    T.USER_VAR: TextPrinter._user_var,
    T.ROWS_QUERY: TextPrinter._annotation,
    T.ANNOTATE_ROWS: TextPrinter._annotation,
    T.BEGIN_LOAD_QUERY: TextPrinter._load_block,
    T.APPEND_BLOCK: TextPrinter._load_block,
    T.DELETE_FILE: TextPrinter._delete_file,
    T.INCIDENT: TextPrinter._incident,
}
"""The methods that print single events by their type, except the types in :data:`_ABOUT_FILE`. Each takes the decoded
event and the raw event.
"""
