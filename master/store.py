"""The binlog store, which reads and scans a binlog set once for all dumps.

The store scans a binlog file in segments (runs of events of up to 8 MiB, or of one larger event). The first dump that
needs a segment causes the scan. A cache keeps the result for later dumps. A segment that the cache has evicted is
scanned again. The store also tells the logged GTIDs of the set, and its watcher reports growth. Functions of this
module compute and save the set's UUID.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
import uuid as uuids
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dumpfilter.base.errors import (
    BinlogError,
    BinlogMissing,
    BinlogTruncated,
    BinlogUnreadable,
    BinlogUnsupported,
    DumpfilterError,
    PositionError,
)
from dumpfilter.base.file_changes import FileChanges
from dumpfilter.base.files import committed
from dumpfilter.base.logs import logger
from dumpfilter.base.printable import printable
from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.binlog.gtid import GtidSet, MariadbGtid, MariadbGtidSet, MysqlGtidSet
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.reader import unreadable
from dumpfilter.index.fileset import BinlogFile, BinlogSet, add_transactions, gtids_before, identity_of
from dumpfilter.index.scanner import MAX_OPENED
from dumpfilter.index.segment import ALWAYS, Segment
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.indexed_file import CacheState, IndexedFile, RecentCache, SegmentCache


@dataclass(frozen=True)
class Logged:
    """The GTIDs that a MySQL or MariaDB server has logged in its binlog, as far as the master knows them."""

    gtids: GtidSet = field(default_factory=MysqlGtidSet)
    """The GTIDs of all logged transactions. For a MariaDB server use :attr:`last` instead."""
    last: dict[tuple[int, int], int] = field(default_factory=dict)
    """The last sequence number of each domain and server (``gtid_binlog_state`` of MariaDB). The newest entry of a
    domain comes last.
    """
    slave_position: frozenset[MariadbGtid] = frozenset()
    """The GTIDs that a MariaDB server has applied as a replica (``gtid_slave_pos``), and that its own binlog may
    lack.
    """
    end: tuple[str, int] | None = None
    """The newest binlog file and its size, or None if the server did not tell them."""

    def newest(self, domain: int) -> int | None:
        """Return the sequence number that the server logged last in a MariaDB domain. Return None for a domain without
        transactions.
        """
        return next((number for key, number in reversed(self.last.items()) if key[0] == domain), None)

    def has(self, gtid: MariadbGtid) -> bool:
        """Tell whether a MariaDB server accepts ``gtid`` as a replica's position.

        The server must have logged this or a higher sequence number of the GTID's domain and server id, or have
        ``gtid`` in its ``gtid_slave_pos``. A GTID with server id 0 (unknown) may belong to any server.
        """
        if gtid in self.slave_position:
            return True
        return any(
            number >= gtid.seq_no and domain == gtid.domain_id and gtid.server_id in (0, server)
            for (domain, server), number in self.last.items()
        )

    def copy(self) -> Logged:
        """Return a copy of these logged GTIDs, which later calls of :meth:`add` do not change."""
        return replace(self, gtids=self.gtids.copy(), last=dict(self.last))

    def list(self, gtids: Sequence[MariadbGtid]) -> None:
        """Record in :attr:`last` the sequence numbers of ``gtids``, the last GTID of each MariaDB domain and server id.

        ``gtids`` comes from the beginning of a binlog file (Gtid_list event), or from the server's variable
        ``gtid_binlog_state``. Both list the GTID that was logged last in a domain after the domain's other GTIDs.
        :attr:`last` keeps this order, which :meth:`newest` needs.
        """
        for gtid in gtids:
            self.last[gtid.domain_id, gtid.server_id] = gtid.seq_no

    def add(self, segment: Segment, sources: SourceNumbers) -> None:
        """Add the GTIDs of all transactions that end in a segment (scanned events). In a relay log, the transactions
        that the slave's master dropped are added, too.

        ``sources`` is the register of GTID sources, which turns a number in the segment's arrays into a server UUID, or
        a domain and server id.
        """
        add_transactions(self.gtids, segment, sources)
        if self.gtids.family == "mysql":
            return
        found = [(number, last) for _, number, _, last, _, _ in segment.dropped.tolist()]
        source = segment.txn_source[: segment.ended]
        ends = sorted(np.flatnonzero(source == number)[-1] for number in np.unique(source[source >= 0]))
        found += zip(source[ends].tolist(), segment.txn_number[ends].tolist(), strict=True)
        for number, last in found:
            key: Any = sources.key(number)
            self.last.pop(key, None)
            self.last[key] = last


def logged_before(file: BinlogFile) -> Logged | None:
    """Return the GTIDs of all earlier files, which a binlog file names at its beginning (Previous_gtids or Gtid_list).
    Return None when the file does not begin with a GTID set. Raises BinlogCorrupt if this event is malformed.
    """
    before = gtids_before(file)
    if before.all is None:
        return None
    found = Logged(before.all)
    found.list(before.listed)
    return found


PAUSE = 0.02
"""The time after growth of the binlog in which the watcher thread does not check the files, seconds. All transactions
that are committed in this time are sent together. Where the system does not report changed files, this is the interval
between two checks.
"""
_UNTOLD_INTERVAL = 0.2
"""The interval at which the binlog files are checked for changes that the system does not report, as on a network file
system, seconds.
"""


class Watcher:
    """A watcher that detects growth of the binlog set, and then calls :attr:`listener`.

    If this process itself receives the binlog, the receiver reports each write by the function that
    :meth:`follow_writer` returns. If another process writes the set, a thread waits for changes of the paths that the
    function ``files`` returns. After a change the thread calls ``look``, a function whose result changes when the set
    grows, such as file sizes.

    The thread also calls ``look`` every 200 ms, for network file systems, and every 20 ms where inotify is not
    available or ``files`` names no path. The thread begins when a dump waits for the first time.
    """

    def __init__(self, look: Callable[[], object], files: Callable[[], Sequence[Path]] = list) -> None:
        self._look = look
        self._files = files
        self._lock = threading.Lock()
        self._seen: object = None
        self._closed = False
        self._thread: threading.Thread | None = None
        self.is_told = False
        """Whether a writer in this process reports growth, so that no polling is needed."""
        self.file_in_use: Callable[[], str] = lambda: ""
        """The function that returns the name of the file that a writer in this process is writing; empty without such
        a writer.
        """
        self.listener: Callable[[], None] = lambda: None
        self.generation = 0
        """A number that increases whenever the binlog set has grown, before the listener is called."""

    def follow_writer(self, file_in_use: Callable[[], str] = lambda: "") -> Callable[[], None]:
        """Return a function by which a writer in this process reports that the binlog set has grown, so that no thread
        checks the files. The writer must call the function after each write, from any thread.

        ``file_in_use`` is a function that returns the name of the file that the writer is writing. After a change of
        this name the writer calls the returned function, too.
        """
        self.file_in_use = file_in_use
        self.is_told = True
        return self._grown

    def note(self) -> None:
        """Record that the binlog set has grown, without a call of :attr:`listener`, the function that is called after
        growth. The caller itself does what the listener would do, and for example wakes the waiting dumps.
        """
        with self._lock:
            self.generation += 1

    def _grown(self) -> None:
        self.note()
        self.listener()

    def start(self) -> None:
        """Start the thread that checks the files for growth, because a dump waits. Do nothing if the thread runs
        already, or if a writer in this process reports each growth (:meth:`follow_writer`).
        """
        if self.is_told or self._thread is not None or self._closed:
            return
        thread = threading.Thread(target=self._run, name="binlog-watcher", daemon=True)
        # The system may give the process no more threads. The next dump that waits tries again.
        with contextlib.suppress(RuntimeError):
            thread.start()
            self._thread = thread

    def close(self) -> None:
        """Stop the thread that checks the binlog set. The thread does not start again."""
        self._closed = True

    def _run(self) -> None:
        changes = None
        with contextlib.suppress(OSError):
            changes = FileChanges()
        while not self._closed:
            files = self._files()
            # Before the look, so that no change between the two is missed.
            is_watched = changes is not None and bool(files) and changes.watch(files)
            try:
                seen = self._look()
            except OSError as error:
                # Looking at the files may fail because a file was purged. The waiting dumps then read again, and
                # report the error themselves.
                seen = str(error)
            is_grown, self._seen = seen != self._seen, seen
            if is_grown:
                self._grown()
            if changes is not None and is_watched and not is_grown:
                changes.wait(_UNTOLD_INTERVAL)
            else:
                time.sleep(PAUSE)
        if changes is not None:
            changes.close()


_SERVER_UUID = re.compile(r"^\s*server[-_]uuid\s*=\s*([0-9a-fA-F-]{36})\s*$", re.MULTILINE)


def uuid_of(binlogs: BinlogSet) -> str:
    """Return the UUID that identifies a binlog set, which is the same at every start of the master.

    A set in a MySQL server's data directory has the UUID of ``auto.cnf``. For another set, the UUID is computed from
    the first bytes of its first file. If :func:`keep_uuid` has saved a UUID before that file was purged, the saved UUID
    is used. Raises BinlogError for a file that cannot be read.
    """
    if binlogs.index is not None:
        for path in _kept(binlogs.index):
            try:
                found = _SERVER_UUID.search(path.read_text("ascii", "replace"))
            except FileNotFoundError:
                continue
            except OSError as error:
                # Without this file the set would have another UUID, and its slaves would take it for another set.
                raise unreadable(error, file=str(path)) from None
            if found:
                return found[1].lower()
    with binlogs.file(binlogs.names[0]) as first:
        head = first.format_description.raw + first.read_up_to(first.first_event, 4096)
    return str(uuids.uuid5(uuids.NAMESPACE_OID, head.hex()))


def keep_uuid(binlogs: BinlogSet) -> None:
    """Save the UUID of a binlog set in a file beside the index file, before the set's first file is purged.
    :func:`uuid_of` may compute the UUID from the first file, and could not do so later.

    Nothing is written if this file or a MySQL server's ``auto.cnf`` already exists there. Raises OutputError if the
    file cannot be written, and BinlogError if the set's first file cannot be read.
    """
    assert binlogs.index is not None
    if not any(path.exists() for path in _kept(binlogs.index)):
        path = _kept(binlogs.index)[-1]
        with committed(path) as file:
            file.write(f"[auto]\nserver-uuid={uuid_of(binlogs)}\n".encode())


def _kept(index: Path) -> list[Path]:
    """Return the paths of the files that may have a binlog set's UUID: a server's ``auto.cnf``, and a file with the
    ending ``.uuid``, in which :func:`keep_uuid` saves a UUID. ``index`` is the path of the set's index file.
    """
    return [index.with_name("auto.cnf"), index.with_suffix(".uuid")]


log = logger("dumpfilter.master")

CACHE_BYTES = 32 << 20
"""The default limit on the memory of the cache of scanned binlog events, bytes."""

_UNKNOWN = (
    "the slave does not know which GTIDs came before its relay log, because it began in the middle of a binlog file; "
    "start the slave with --auto-position or at the beginning of a file (CHANGE REPLICATION SOURCE TO "
    "SOURCE_AUTO_POSITION=1), or wait until its master begins another binlog file"
)


class BinlogStore:
    """The binlog files that a master serves, with the cached results of scanning them. Thread-safe. Raises BinlogError
    if the set or its newest file cannot be opened.

    Parameters:
        source: the set, or its index file, its directory, or a list of binlog files (see BinlogSet.open).
        verify: whether the checksums of events are verified when the files are read.
        cache_bytes: the limit on the memory for scan results, bytes.
        max_opened: the uncompressed size up to which compressed transactions are opened and filtered, bytes. Larger
            ones are sent whole.
        subjects: a register of tables and statements with their numbers, shared with another set; None: a new register.
    """

    def __init__(
        self,
        source: str | Path | Sequence[str | Path] | BinlogSet,
        *,
        verify: bool = True,
        cache_bytes: int = CACHE_BYTES,
        max_opened: int = MAX_OPENED,
        subjects: Subjects | None = None,
    ) -> None:
        self.binlogs = source if isinstance(source, BinlogSet) else BinlogSet.open(source)
        self.subjects = Subjects() if subjects is None else subjects
        self.sources = SourceNumbers()
        self._verify = verify
        self._max_opened = max_opened
        self._files: dict[str, IndexedFile] = {}
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._cache: SegmentCache = RecentCache(cache_bytes, lambda segment: segment.nbytes)
        self.watcher = Watcher(self.binlogs.growth, self.binlogs.growing)
        """The object that detects growth of the binlog set, and then calls a function that wakes the waiting dumps."""
        self.on_forgotten: Callable[[Sequence[IndexedFile]], None] = lambda files: None
        """The function that is called with the files that :meth:`forget_files` has removed, in any thread."""
        self.upstream: Callable[[], Logged] | None = None if self.binlogs.end is None else _cannot_ask
        """The function that asks the server from which the set is received for the server's logged GTIDs. None if the
        set is not received.

        The function raises DumpfilterError if the server cannot be asked. For a slave's relay log the function always
        raises this error.
        """
        self.ended: Callable[[], BinlogError | None] = lambda: None
        """The function that returns an error if the set will never grow again, and None otherwise."""
        self._logged: tuple[int, int, Logged] | None = None
        """The number of the newest file, the byte offset up to which its GTIDs are known, and the GTIDs logged up to
        there. A reference to the file would keep it open after a purge.
        """
        self._logging = threading.Lock()
        # Servers may be upgraded between two files. The writer of the newest file counts as the server of the set.
        newest = self.open_file(self.binlogs.names[-1]).file
        self.format_description = newest.format_description
        self.is_relay_log = newest.is_relay_log
        """Whether the set is a slave's relay log. The readers of a relay log use the files and positions of the writer,
        the server that wrote the events.
        """

    @property
    def family(self) -> Family:
        """The family of the server that wrote the binlog, ``mysql`` or ``mariadb``."""
        return self.format_description.family

    @property
    def names(self) -> NameRules:
        """The rules (letter case and collation) by which the server that wrote the binlog compares database and table
        names.
        """
        return self.format_description.names

    def open_file(self, name: str) -> IndexedFile:
        """Return an open binlog file with its index of scanned segments (runs of events).

        The file stays open for later callers until :meth:`forget_files`. When another file has taken the open file's
        name, the caller gets the new file. Raises BinlogError if the file is not in the set, or cannot be opened.
        """
        found = self._files.get(name)
        if found is not None and self._is_current(found):
            return found
        # A lock of its own, because the comparison of two large files must not make dumps of other files wait.
        with self._opening:
            found = self._files.get(name)
            if found is not None and self._is_current(found):
                return found
            check_name(name)
            file = self.binlogs.file(name)
            if found is not None and found.adopt(file):
                log.info("binlog replaced by a newer copy of it", file=printable(name))
                return found
            if found is not None:
                log.warning("binlog replaced by another one", file=printable(name))
                self.forget_files([name])
            opened = IndexedFile(
                file,
                self.subjects,
                self.sources,
                self._cache,
                verify=self._verify,
                max_opened=self._max_opened,
                is_written_here=lambda: self.watcher.is_told,
            )
            with self._lock:
                self._files[name] = opened
            return opened

    def _is_current(self, indexed: IndexedFile) -> bool:
        """Tell whether dumps may continue to read the open file ``indexed``. Return True if the file still has its name
        in the file system. Also return True if no file has this name now, because dumps may read a deleted file to its
        end.

        Return False if another file has taken the name, or the scanned events are lost (:attr:`IndexedFile.gone`), for
        example because the file was truncated. Raises BinlogUnreadable if the file system reports an error.
        """
        if indexed.gone:
            return False
        try:
            return identity_of(self.binlogs.path(indexed.name).stat()) == indexed.identity
        except FileNotFoundError:
            return True
        except OSError as error:
            raise unreadable(error, file=indexed.name, doing="found") from None

    def first_position(self, name: str) -> int:
        """Return the byte offset of the first event after the format description event in the binlog file ``name``.
        Raises BinlogError if the file cannot be opened.
        """
        return self.open_file(name).file.first_event

    def segment_at(self, name: str, position: int) -> Segment | None:
        """Return the segment (scanned events) of a binlog file that contains the event at the byte offset
        ``position``.

        Return None when no whole transaction has been written at ``position`` yet. Raises BinlogError, with file and
        position, where the file is damaged, and PositionError for a position past the end.
        """
        return self.segment_of(self.open_file(name), position)

    def segments(self, name: str) -> Iterator[Segment]:
        """Yield the segments (runs of scanned events) of a binlog file in order, as far as whole transactions are
        written. Raises BinlogError where the file is damaged.
        """
        indexed = self.open_file(name)
        position = indexed.file.first_event
        while (segment := self.segment_of(indexed, position)) is not None:
            yield segment
            position = segment.end

    def segment_of(self, indexed: IndexedFile, position: int) -> Segment | None:
        """Return the segment (scanned events) of an open binlog file that contains the event at the byte offset
        ``position``.

        Return None when no whole transaction has been written at ``position`` yet. Raises BinlogError where the file is
        damaged, and PositionError for a position past the end. Raises BinlogReplaced when another file with other
        events has taken the file's name.
        """
        if indexed.name in self.binlogs:
            current = self.open_file(indexed.name)
            if current is not indexed and current.identity != indexed.identity:
                raise indexed.lost()
        segment = indexed.segment_at(position)
        return segment if segment is None else self._with_known_ends(indexed, segment)

    def _with_known_ends(self, indexed: IndexedFile, segment: Segment) -> Segment:
        """Return ``segment`` with the tables of each XA COMMIT and XA ROLLBACK whose transaction was prepared in an
        earlier file.

        By these tables a filter decides whether a slave gets the XA COMMIT or XA ROLLBACK. The method searches the
        earlier files, the newest first. A prepared transaction is not found if its file was purged, or if an earlier
        file is damaged. In this case its XA COMMIT or XA ROLLBACK is always sent. Raises BinlogUnreadable if an earlier
        file cannot be read at the moment.
        """
        if not segment.unknown_ends:
            return segment
        name, held = indexed.name, indexed.held
        missing = set(segment.unknown_ends.values()) - held.keys()
        names = self.binlogs.names
        earlier = names[: names.index(name)] if missing and name in names else []
        try:
            for before in reversed(earlier):
                prepared = self.open_file(before).prepared_at_end()
                held.update({xid: prepared[xid] for xid in missing & prepared.keys()})
                missing -= held.keys()
                if not missing:
                    break
        except DumpfilterError as error:
            # Damage in an earlier file must not stop a dump of this file. The prepared transaction counts as not found.
            # An error that may pass must not be recorded so. The next dump opens the earlier file again.
            if isinstance(error, BinlogUnreadable) and error.momentary:
                self.forget_files([before])
                raise
        held.update(dict.fromkeys(missing, ALWAYS))
        return segment.with_known_ends(held)

    def check_readable(self) -> None:
        """Check that the newest binlog file can be found, opened and read. Raises BinlogError otherwise."""
        self.refresh()
        name = self.binlogs.names[-1]
        # An open file can be read after its name is gone, and a slave that connects later could not be served.
        self.binlogs.size(name)
        newest = self.open_file(name)
        newest.read(0, newest.file.first_event)
        newest.check()

    def forget_files(self, names: Iterable[str]) -> None:
        """Remove files, such as purged ones, from the store and the cache, and call :attr:`on_forgotten` with them.
        Names that the store has not opened are ignored.

        A purged file is closed, and its disk space freed, when no dump reads from it any more.
        """
        with self._lock:
            gone = [indexed for name in names if (indexed := self._files.pop(name, None)) is not None]
        if gone:
            self.on_forgotten(gone)
        numbers = {indexed.number for indexed in gone}
        self._cache.remove_if(lambda key: key[0] in numbers)

    def holds(self, indexed: IndexedFile) -> bool:
        """Tell whether the store has the open file ``indexed``. A dump may read a file to its end that the store has
        forgotten (:meth:`forget_files`), for example because it was purged. Any thread may call this method.
        """
        return self._files.get(indexed.name) is indexed

    def give_up(self, error: BinlogError) -> None:
        """Let each later read of the files that are open now raise ``error``. The caller knows that their content is no
        longer valid, for example because a relay log begins again at an earlier position.
        """
        with self._lock:
            files = list(self._files.values())
        for indexed in files:
            indexed.give_up(error)

    def refresh(self) -> bool:
        """Read the set's index file again, and return whether the list of files has changed. Without an index file
        nothing changes. Raises BinlogError if the index file cannot be read or is malformed.

        Files that another process has purged are removed from the store and the cache.
        """
        changed = self.binlogs.refresh()
        self.forget_files([name for name in list(self._files) if name not in self.binlogs])
        return changed

    def logged(self) -> Logged | None:
        """Return the GTIDs of all transactions that the server which wrote the binlog has logged so far
        (``gtid_executed``).

        They are the GTIDs that the newest file names at its beginning, and those of its complete transactions. Return
        None when the newest file does not begin with a GTID set. Each call scans only the part that was written since
        the last call. Raises BinlogError where the newest file is damaged.
        """
        indexed = self.open_file(self.binlogs.names[-1])
        with self._logging:
            if self._logged is not None and self._logged[0] == indexed.number:
                _, position, found = self._logged
            else:
                before = logged_before(indexed.file)
                if before is None:
                    return None
                position, found = indexed.file.first_event, before
            while (segment := self.segment_of(indexed, position)) is not None:
                found.add(segment, self.sources)
                position = segment.end
                self._logged = indexed.number, position, found
            return found.copy()

    def file_following(self, indexed: IndexedFile, position: int | None = None) -> str | None:
        """Return the name of the next file if a dump has read all of the open file ``indexed``, and free the scan
        buffers of the open file. Otherwise return None.

        A dump has not read all if ``indexed`` is the last file, or has more events at the byte offset ``position``.
        With None for ``position`` the check begins where scanning has ended.

        Raises BinlogTruncated when the end of the open file is missing, for example because the file was copied in
        part. Raises BinlogMissing when neither the open file nor a later file is in the set, or when files after the
        open file were purged. Raises BinlogError where a file is damaged.
        """
        following = self.file_after(indexed.name)
        if following is None:
            self._check_in_place(indexed)
            return None
        if self.segment_of(indexed, indexed.scanned_to if position is None else position) is not None:
            # The server had written more events to the file before it began the next file.
            return None
        indexed.check_end(last=False)
        if not indexed.is_rotated:
            self._check_gtids(indexed, following)
        indexed.release()
        return following

    def file_after(self, name: str) -> str | None:
        """Return the name of the file after ``name`` in the set, without a check of its content. If no later file is
        known, read the index file again. Return None if ``name`` is then still the last file.

        The file ``name`` itself may be purged already. Raises BinlogMissing if files directly after ``name`` were
        purged, too, because a dump would miss their transactions. Raises BinlogError if the index file cannot be read.
        """
        following = self.binlogs.after(name)
        if following is None:
            self.refresh()
            following = self.binlogs.after(name)
        return following

    def _check_in_place(self, indexed: IndexedFile) -> None:
        """Check that the open file ``indexed``, after which no other file is known, is still in the set and on the
        disk. A dump at its end would otherwise wait for ever.

        Raises BinlogMissing if the file is gone.
        """
        if indexed.name in self.binlogs:
            try:
                self.binlogs.size(indexed.name)
                return
            except BinlogMissing:
                # The server may have begun its binlogs anew since the index file was read.
                self.refresh()
                if indexed.name in self.binlogs:
                    raise
        names = self.binlogs.names
        raise BinlogMissing(
            f"the binlog set no longer has this file nor a later one; it has {names[0]} to {names[-1]}. If the "
            "server began its binlogs anew (RESET MASTER), set the slave up again from a backup",
            file=indexed.name,
            position=indexed.scanned_to,
        )

    def _check_gtids(self, indexed: IndexedFile, following: str) -> None:
        """Check that a file has all GTIDs that the next file ``following`` lists as logged before. Raises
        BinlogTruncated otherwise.

        The check is for a file that ends without Rotate or Stop event, because the file was truncated or its server
        crashed. The check passes if one of the files does not list the GTIDs before it, and for a relay log that this
        process writes.

        MariaDB's list has only the last GTID of each domain and server. Lower numbers need not exist, since a session
        can set gtid_seq_no.
        """
        if self.binlogs.end is not None:
            # The slave that writes the set checks it. The head of each file tells the size of the file before.
            return
        before = gtids_before(self.open_file(following).file).all
        have = gtids_before(indexed.file).all
        if before is None or have is None:
            return
        for segment in self.segments(indexed.name):
            add_transactions(have, segment, self.sources)
        if isinstance(before, MariadbGtidSet):
            lost = ",".join(str(gtid) for gtid in before.gtids() if gtid not in have)
        else:
            lost = str(before - have)
        if lost:
            raise BinlogTruncated(
                f"the file ends before {lost}, which {following} says came before it; "
                "fetch it again from the server",
                file=indexed.name,
                position=indexed.scanned_to,
            )

    def previous_gtids(self, name: str) -> GtidSet | None:
        """Return the GTIDs of all transactions before the binlog file ``name``, at which a dump may begin.

        The Previous_gtids or Gtid_list event at the beginning of the file lists these GTIDs. Return None for a file
        without such an event, unless the binlog set is an incomplete relay log.

        An incomplete relay log begins at a position inside a file of the slave's master. For a file without the event,
        the method looks for the next relay log file with a Previous_gtids event. It returns the GTIDs of this event
        without the GTIDs that the slave itself had received before that file. The rest are the GTIDs of transactions
        before the relay log began. Raises PositionError if no later file has the event.
        """
        names = self.binlogs.names
        before = gtids_before(self.open_file(name).file).all
        if before is not None or self.open_file(names[0]).file.is_whole:
            return before
        for later in names[names.index(name) + 1 :]:
            logged, received, _ = gtids_before(self.open_file(later).file)
            # MariaDB's positions do not tell where the slave began.
            if isinstance(logged, MysqlGtidSet):
                return logged if received is None else logged - received
        raise PositionError(_UNKNOWN, file=name)

    def sizes(self) -> list[tuple[str, int]]:
        """Return the names and sizes (bytes) of the set's files, after the index file was read again. Raises
        BinlogError if the index file cannot be read.

        As on a server, a file that the index file names and that is missing has the size 0.
        """
        self.refresh()
        found = []
        for name in self.binlogs.names:
            size = 0
            with contextlib.suppress(BinlogError):
                size = self.binlogs.size(name)
            found.append((name, size))
        return found

    def cache_state(self) -> CacheState:
        """Return the size and the limit of the cache of scanned events, and its numbers of hits and misses."""
        return self._cache.state()

    def close(self) -> None:
        """Stop the watcher's thread and close all binlog files."""
        self.watcher.close()
        with self._lock:
            for indexed in self._files.values():
                indexed.file.close()
            self._files.clear()


def _cannot_ask() -> Logged:
    raise BinlogUnreadable("the slave may not have received everything from its master", momentary=True)


def check_name(name: str) -> None:
    """Raise BinlogUnsupported for the name of a binlog file that is not UTF-8, since the gRPC protocol needs UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise BinlogUnsupported(
            "the file's name is not UTF-8, which the protocol for slaves needs; give the file another name",
            file=printable(name),
        ) from None
