"""A slave and its replication channels. A channel is the stream from one master, with its own relay log, I/O thread,
applier (SQL thread) and filter.

The I/O thread receives events from the master and writes the relay log. The applier reads the relay log and applies the
transactions to a target. The class :class:`Slave` has all channels, and the operations that SQL statements need: it
adds, changes, starts, stops and resets channels. In MySQL the class ``Multisource_info`` has the channels and these
operations. :mod:`dumpfilter.slave.console` checks beforehand whether a statement is allowed.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from dumpfilter.base import files
from dumpfilter.base.errors import OptionError, OutputError, RelayLogDamaged, StateCorrupt
from dumpfilter.base.logs import logger
from dumpfilter.binlog.format import NameRules
from dumpfilter.console.sql.commands import Threads
from dumpfilter.filter.base import AllFilters, OriginFilter, ReplicationFilter, TrustedRows
from dumpfilter.filter.channels import ChannelFilters, UnknownChannel, fold_channel
from dumpfilter.filter.convert import filter_from_proto, filter_to_proto, origin_to_proto
from dumpfilter.filter.filter import Filter, make_filter
from dumpfilter.filter.rules import FilterClause, FilterOn, FilterSemantics, Hits
from dumpfilter.slave import state as S
from dumpfilter.slave.connection import Source
from dumpfilter.slave.io_thread import IoThread
from dumpfilter.slave.options import SlaveOptions
from dumpfilter.slave.receiver import Receiver
from dumpfilter.slave.relay_log import RelayLog, read_head
from dumpfilter.slave.relay_position import RelayPosition, file_number, place_order
from dumpfilter.slave.sql_thread import SAVE_PERIOD, SqlThread, Until
from dumpfilter.slave.targets import SummaryTarget, Target
from dumpfilter.slave.threads import ChannelCounters, ChannelMeasurements, ChannelThread, Progress, RelayEnd
from dumpfilter.v1 import dumpfilter_pb2 as pb

log = logger("dumpfilter.slave")

MOST_REFETCHES = 3
"""The number of times that a slave fetches its relay log again from one position because of damage there. After that
the slave stops with an error.
"""

_LONGEST_NAME = 120
"""The longest name of a channel's directory, characters. File systems limit the length of file names.

A longer name is cut, and a hash of the channel's name is appended, so that names stay different.
"""


class RelayReader(Protocol):
    """A reader of a channel's relay log besides the applier. An example is a port at which the slave serves the relay
    log to other slaves and replicas.
    """

    def note(self, position: RelayPosition | None) -> None:
        """Tell this reader of the relay log up to which position the relay log is complete, so that the reader may read
        up to there. None: there is no relay log. Any thread may call this method.

        The channel calls this method whenever the position moves. Before the channel truncates the relay log, the
        channel calls the method with the new end. When the method returns, the reader no longer reads beyond the
        position.
        """

    @property
    def needed_file(self) -> str | None:
        """The name of the oldest relay log file that this reader still reads, so that the channel does not remove the
        file. None if the reader needs no file.
        """


class Channel:
    """One replication channel of ``slave``: its configuration ``info``, its relay directory (relay logs and state
    files) and its two threads.

    Raises OptionError for invalid options and for options that contradict each other. Raises StateCorrupt when a file
    in the directory is unusable, and OutputError when the directory or a file cannot be written.
    """

    def __init__(self, slave: Slave, info: S.SourceInfo) -> None:
        self._slave = slave
        self.options = options = slave.options
        self.info = info
        self.name = info.channel
        """The channel's name. The default channel has the empty name."""
        self.check(info)
        self.directory = (
            options.relay_dir / S.CHANNELS / _file_name(self.name) if self.name else options.relay_dir
        )
        """The directory of the channel's relay logs and state files."""
        with files.writing(self.directory, doing="made"):
            self.directory.mkdir(parents=True, exist_ok=True)
        self.target: Target = SummaryTarget()
        """The object to which the applier applies transactions."""
        self.measured = ChannelMeasurements()
        """The counters and latencies of this channel, over all starts of its threads."""
        self.counters = ChannelCounters(self.directory)
        """The counts of connections, messages, bytes, events and errors over all starts of the channel's threads and
        of the slave.
        """
        self.master_server_id = 0
        """The server id of the server that wrote the master's binlog. 0 until the slave has registered."""
        self.progress = slave.progress
        """The object that wakes SQL statements that wait for an applier."""
        self._reader = slave.readers.get(self.name)
        # A statement such as START REPLICA holds this lock, so that two statements never change the channel at once.
        self._busy = threading.RLock()
        self._open()
        self._begin_afresh()

    def _open(self) -> None:
        self.relay_end = RelayEnd() if self._reader is None else RelayEnd(self._reader.note)
        self.place = S.Place(S.RelayLogInfo, self.directory, save_period=SAVE_PERIOD)
        """The applier's position, GTIDs and saved state (``relay-log.info``). Each start of the applier continues with
        this object.
        """
        self._refetched: dict[tuple[str, int], int] = {}
        self.receiver = Receiver(
            RelayLog(self.directory, synced=bool(self.options.sync_relay_log)),
            self.relay_end,
            sync_every=self.options.sync_relay_log,
            measured=self.measured,
        )
        self.io = IoThread(self, self._new_source(self.info))
        """The I/O thread that was started last, which may have ended. Before the first start, a thread that has not
        run yet.
        """
        self._make_places_agree()
        self.sql = SqlThread(self)
        """The applier (SQL thread) that was started last, which may have ended. Before the first start, a thread that
        has not run yet.
        """
        self.follow_filter()

    def check(self, info: S.SourceInfo) -> None:
        """Check the configuration ``info`` before it is used for this channel. Raises OptionError when two options
        contradict each other, or a filter rule is invalid.
        """
        if info.auto_position and info.log_file:
            raise OptionError("--start-file and --auto-position: give one of them")
        info.check_tls()
        self._origin(info)
        # Making the filter checks its rules now. Otherwise an invalid rule would end a running thread later.
        self.filter(NameRules())

    def _make_places_agree(self) -> None:
        """Discard the relay log if the applier's saved position does not lie in the relay log. The master then sends
        the events again.

        The I/O thread's position is in ``master.info``, and the applier's in ``relay-log.info``. Each file is replaced
        atomically, but the two files are not replaced at once. A kill or a full disk may leave an older ``master.info``
        beside a newer ``relay-log.info``, or the other way round. The slave trusts ``relay-log.info``, because this
        file also has the state of the target (the object that holds the slave's data). The applier must not be running.
        """
        applied = self.place.saved
        if not self._relay_log_fits(applied):
            log.warning(
                "the relay log does not fit the applier's position; the slave fetches it again from there",
                channel=self.name,
                file=applied.source_file,
                position=applied.source_position,
            )
            self._receive_again(whole=True)

    def _relay_log_fits(self, applied: S.RelayLogInfo) -> bool:
        """Tell whether the applier can continue in the present relay log from its saved position ``applied`` (the
        content of ``relay-log.info``). If not, the master must send the events again.
        """
        if applied.relay_position is not None:
            return place_order(applied.relay_position) <= place_order(self.relay_end.position)
        first = self.receiver.first_relay_file
        if not applied.source_file or first is None:
            # A kill inside RESET REPLICA leaves the applier's place without a place in master.info.
            return not applied.source_file or bool(self.master_info.source_file)
        # The slave went on without its relay log. The new relay log begins at the applier's place, the old one did not.
        try:
            head = read_head(first)
        except RelayLogDamaged:
            return False
        return (head.file, head.position) == (applied.source_file, applied.source_position)

    @property
    def running(self) -> Threads:
        """The threads of the channel that are running now: none, the I/O thread, the applier, or both."""
        # A thread that has found damage holds the lock until its successor has started.
        with self._busy:
            io = Threads.IO if self.io.running else Threads(0)
            return io | Threads.SQL if self.sql.running else io

    @property
    def master_info(self) -> S.MasterInfo:
        """The I/O thread's state as saved in ``master.info``: its position in the master's binlog, the end of the relay
        log, and the received GTID set. The applier may read the relay log up to this position.
        """
        return self.receiver.place.saved

    @property
    def relay_log_info(self) -> S.RelayLogInfo:
        """The applier's state: its position in the relay log and in the master's binlog, and the executed GTID set."""
        return self.place.info

    @property
    def semantics(self) -> FilterSemantics:
        """The rule language of the channel's filter: classic (``--replicate-*`` rules, which work as the servers'
        manuals describe), or effective (the rules DO, IGNORE and REWRITE of MySQL's worklog WL#2516).

        Effective rules decide by the tables that a statement changes, and never by the default database.
        """
        return self._slave.filters.current(self.name).semantics

    def filter(self, names: NameRules) -> ReplicationFilter:
        """Return the channel's own filter, without the filters that the master's operator imposes. Raises OptionError
        for an invalid rule.

        ``names`` says how the server that wrote the binlog compares names. The slave's option
        ``lower_case_table_names`` replaces the value in ``names``.
        """
        current = self._slave.filters.current(self.name)
        names = names._replace(lower_case_table_names=self.options.lower_case_table_names)
        return make_filter(current.semantics, current.rules, names=names)

    @property
    def origin(self) -> OriginFilter:
        """The filter that drops whole transactions by the server id, or the MariaDB domain id, of the server that wrote
        them (``IGNORE_SERVER_IDS`` and similar options).
        """
        return self._origin(self.info)

    def _origin(self, info: S.SourceInfo) -> OriginFilter:
        return OriginFilter(
            ignore_server_ids=frozenset(info.ignore_server_ids),
            do_domain_ids=frozenset(info.do_domain_ids),
            ignore_domain_ids=frozenset(info.ignore_domain_ids),
            own_server_id=0 if self.options.replicate_same_server_id else self.options.server_id,
        )

    @property
    def imposed(self) -> list[pb.ImposedFilter]:
        """The filters that the master's operator has set for this slave, besides the slave's own filter.

        The master names these filters each time the slave registers.
        """
        return [pb.ImposedFilter.FromString(base64.b64decode(one)) for one in self.info.imposed]

    def _keep(self, info: S.SourceInfo) -> None:
        S.SourceInfo.file(self.directory).save(info)
        self.info = info

    def start(
        self,
        threads: Threads | None = None,
        *,
        until: Until | None = None,
        user: str | None = None,
        password: str | None = None,
    ) -> None:
        """Start ``threads`` (``START REPLICA``). A thread that is already running stays as it is.

        Without ``threads`` the option ``io_thread_only`` decides whether both threads start or only the I/O thread. The
        applier stops at the condition ``until``; None: without a condition. A ``user`` and ``password`` replace the
        configured ones until the I/O thread ends.

        Raises StateCorrupt when the slave has removed old relay log files that the applier has never read. StateCorrupt
        also says that the target (the object to which transactions are applied) cannot restore its state from
        ``relay-log.info``.
        """
        if threads is None:
            threads = Threads.IO if self.options.io_thread_only else Threads.BOTH
        with self._busy:
            self._begin_afresh()
            if Threads.SQL in threads:
                self._check_nothing_expired()
            if not self.sql.running:
                self._make_places_agree()
                # The statement that changed the filter may have failed to discard the relay log.
                self.follow_filter()
            if Threads.IO in threads and not self.io.running:
                self.counters.begin()
                login = {} if user is None else {"user": user, "password": password or ""}
                self._start_io(self.info.model_copy(update=login))
            if Threads.SQL in threads and not self.sql.running:
                self._start_applier(until)

    def _check_nothing_expired(self) -> None:
        """Raise StateCorrupt if the slave has removed relay log files because of their age, and the applier has never
        read any. An applier that starts now would miss the transactions in those files.
        """
        first = self.receiver.first_relay_file
        if first is not None and file_number(first.name) > 1 and not self.place.saved.source_file:
            raise StateCorrupt(
                f"{first}: is the oldest relay log, and the applier has read none of those before, which expired: "
                "RESET REPLICA has the master send everything again"
            )

    def expire_relay_log(self, seconds: float) -> None:
        """Remove relay log files that were last written at least ``seconds`` ago and that no reader needs any more.
        With 0 for ``seconds`` all files stay.

        The applier needs the file that it reads and all later files. If the channel never runs an applier
        (``io_thread_only``), no file is kept for an applier. A failure is logged, and a later call tries again.
        """
        newest = self.relay_end.position
        if not seconds or newest is None:
            return
        with self._busy:
            before = [newest.file]
            if not self.options.io_thread_only or self.sql.running:
                applied = self.place.saved.relay_position
                if applied is None:
                    return
                before.append(applied.file)
            if self._reader is not None and (needed := self._reader.needed_file) is not None:
                before.append(needed)
            try:
                gone = self.receiver.expire_relay_log(min(before, key=file_number), time.time() - seconds)
            except (OutputError, StateCorrupt) as error:
                log.error("relay logs not removed", channel=self.name, reason=str(error))
                return
        if gone:
            log.info("relay logs expired", channel=self.name, first=gone[0], last=gone[-1])

    def request_stop(self, threads: Threads = Threads.BOTH) -> None:
        """Ask ``threads`` to end, without waiting for their end. The applier completes its current transaction."""
        for one in self._threads(threads):
            one.stop()

    def stop(self, threads: Threads = Threads.BOTH) -> None:
        """Stop ``threads`` (the I/O thread, the applier, or both) and wait until they have ended (``STOP REPLICA``)."""
        with self._busy:
            self.request_stop(threads)
            for one in self._threads(threads):
                one.join()

    def _threads(self, chosen: Threads) -> list[ChannelThread]:
        threads: dict[Threads, ChannelThread] = {Threads.IO: self.io, Threads.SQL: self.sql}
        return [one for thread, one in threads.items() if thread in chosen]

    def reconfigure(self, info: S.SourceInfo, *, afresh: bool) -> None:
        """Replace the channel's configuration (``CHANGE REPLICATION SOURCE TO``). Both threads must be stopped.

        The part of the relay log that has not been applied is discarded, as in a server. With ``afresh`` the position
        in the master's binlog is discarded, too, because the configuration names another master or another position.
        Without ``afresh`` the channel continues at the applier's position. Raises OptionError for options that
        contradict each other, before anything has changed.
        """
        self.check(info)
        with self._busy:
            assert not self.running
            self._keep(self.info.reconfigured(info, afresh=afresh))
            if self.info.afresh:
                self._begin_afresh()
            else:
                self.follow_filter(refetch=True)

    def _begin_afresh(self) -> None:
        """Discard the channel's position in the master's binlog if the configuration has the mark ``afresh``, and
        remove the mark.

        CHANGE REPLICATION SOURCE TO sets the mark when it names another master or position. If a kill or an error
        interrupts the statement, the mark is still there at the channel's next start, which then discards the position.
        """
        if self.info.afresh:
            self.master_server_id = 0
            self.reset()
            self._keep(self.info.model_copy(update={"afresh": False}))

    def reset(self, *, all: bool = False) -> None:
        """Delete the relay logs and the positions (``RESET REPLICA``). Both threads must be stopped.

        The target (the object to which the applier applies transactions) keeps the applied data, and the channel keeps
        the set of executed GTIDs. With ``all`` the target's data and the executed GTIDs are discarded, too. The caller
        then removes the channel's files. If the slave is killed before that, a channel remains that has applied
        nothing.
        """
        with self._busy:
            assert not self.running
            received, applied = S.MasterInfo(), S.RelayLogInfo()
            if not all:
                executed = self.place.info.executed
                received = S.MasterInfo(family=self.receiver.place.info.family, retrieved=executed)
                applied = S.RelayLogInfo(executed=executed, target=self.target.state())
            # A kill between the two writes must not leave a whole relay log that an applier reads from the beginning.
            self.receiver.rewind(received)
            self.place.save(**dict(applied))
            self.target.restore(applied.target)
            self._keep(self.info.model_copy(update={"imposed": []}))
            self.receiver.close()
            self._open()

    def follow_filter(self, *, refetch: bool = False) -> None:
        """Discard the received events that are not applied yet, if another filter than the current one selected them.
        The master sends everything after the applier's position again with the current filter.

        The filter changes by CHANGE REPLICATION FILTER (MySQL's worklog WL#7057). A user may also have changed the
        filter options while the slave was down, so a channel calls this method at its start, too. ``refetch`` discards
        the events in any case. The applier must not be running; the I/O thread may be.
        """
        with self._busy:
            assert not self.sql.running
            digest = self._new_source(self.info).filter_digest
            info = self.receiver.place.info
            selected_by = {info.filter_digest} if info.source_file else set()
            if self.io.running:
                # The thread may have registered with the old filter although it has not received any event yet.
                selected_by.add(self.io.source.filter_digest)
            if refetch or selected_by - {"", digest}:
                self._receive_again(filter_digest=digest)

    def _receive_again(
        self, *, whole: bool = False, finder: ChannelThread | None = None, filter_digest: str | None = None
    ) -> None:
        """Discard the part of the relay log after the applier's saved position. The I/O thread's position moves back to
        the applier's position in the master's binlog, so that the master sends all events after it again.

        A running I/O thread is stopped first, and afterwards a new one is started, which registers the current filter
        with the master. Raises OutputError if the relay log cannot be truncated or ``master.info`` cannot be written.
        No new I/O thread is started then, since the next dump would still begin at the old position, with the new
        filter.

        Parameters:
            whole: whether to discard the whole relay log, and not only the part after the applier's position. The whole
                relay log is discarded in any case if it is damaged before that position.
            finder: the I/O thread or applier that calls this method because it has found damage in the relay log. None
                for another caller. The method does not wait for the end of the calling thread.
            filter_digest: the hash of the current filter, to be saved in ``master.info``. None: the filter has not
                changed.
        """
        to = self.receiver.place.info.back_at(self.place.saved)
        if filter_digest is not None:
            to = to.model_copy(update={"filter_digest": filter_digest})
        restarts, connected = self.io.running, self.io.connected
        if restarts:
            self.io.stop()
            if self.io is not finder:
                self.io.join()
        try:
            self.receiver.rewind(self._without_relay_log(to) if whole else to)
        except RelayLogDamaged:
            self.receiver.rewind(self._without_relay_log(to))
        finally:
            self.receiver.close()
        if restarts:
            # As on a server, Replica_IO_Running is still Yes, although the slave registers again.
            self._start_io(self.io.source.info, connected=connected)

    def _without_relay_log(self, to: S.MasterInfo) -> S.MasterInfo:
        """Remove the position in the relay log from ``relay-log.info``, and return a copy of ``to`` (a content of
        ``master.info``) that has no such position either. The slave then begins a new relay log. The positions in the
        master's binlog stay.

        The slave calls this method when even the applied part of the relay log is damaged. ``relay-log.info`` must be
        on the disk before the new relay log begins, because the new files have the old files' names.
        """
        nothing: dict[str, Any] = {"relay_file": "", "relay_offset": 0}
        self.place.save(**nothing)
        return to.model_copy(update=nothing)

    def discard_damaged(self, damage: RelayLogDamaged, finder: ChannelThread) -> bool:
        """Discard the relay log after the applier's saved position, let the master send that part again, and start the
        channel's threads again. Return False, and change nothing, if damage was found too often while the applier was
        at this position.

        ``damage`` is the error that was found. ``finder`` is the calling thread, the I/O thread or the applier, whose
        run has ended because of the damage. If STOP REPLICA stops this thread at the same time, the method does
        nothing. The thread that is started next finds the damage again.
        """
        # A statement such as STOP REPLICA may hold the lock, and waits for the thread's end.
        while not self._busy.acquire(timeout=0.05):
            if finder.stopping:
                return True
        try:
            place = self.place.saved.source_file, self.place.saved.source_position
            attempt = self._refetched[place] = self._refetched.get(place, 0) + 1
            if attempt > MOST_REFETCHES:
                return False
            log.warning(
                "relay log damaged",
                channel=self.name,
                error=str(damage),
                file=place[0],
                position=place[1],
                hint="the slave fetches the relay log again from the applier's position",
            )
            applies = self.sql.running
            self.sql.stop()
            if self.sql is not finder:
                self.sql.join()
            if self.sql.error is not None and not self.options.alone:
                # The error of the applier ends the I/O thread, too.
                return True
            # If fetching again did not help, the head of the file that the applier reads may be damaged.
            self._receive_again(whole=attempt > 1, finder=finder)
            if self.relay_end.is_last:
                self._start_io(self.info)
            if applies and self.sql.error is None:
                self._start_applier(self.sql.until)
            return True
        finally:
            self._busy.release()

    def _start_io(self, info: S.SourceInfo, *, connected: bool = False) -> None:
        self.relay_end.is_last = False
        self.io = IoThread(self, self._new_source(info))
        self.io.connected = connected
        self.io.start()

    def _start_applier(self, until: Until | None) -> None:
        applier = SqlThread(self, until)
        applier.start()
        # An applier that is replaced because it has found damage still runs. Until now readers find that one.
        self.sql = applier

    def _registered_filter(self) -> pb.FilterDefinition:
        on_master = self.info.filter_on != FilterOn.SLAVE
        definition = filter_to_proto(self.filter(NameRules()) if on_master else Filter())
        definition.lower_case_table_names = self.options.lower_case_table_names
        # The slave leaves the server family and the collation for names open, because only the master knows which
        # server wrote its binlogs.
        definition.family = pb.SERVER_FAMILY_UNSPECIFIED
        definition.names = pb.NAME_COLLATION_UNSPECIFIED
        if on_master:
            definition.origin.CopyFrom(origin_to_proto(self.origin))
        return definition

    def applied_filter(self, names: NameRules) -> ReplicationFilter:
        """Return the filter that the applier uses for each event: the channel's own rules and the imposed rules
        together. ``names`` says how the server that wrote the binlog compares names.

        The imposed rules are filters that the master's operator has set for this slave. The master has applied these
        rules, but it also sends statements about which these rules cannot decide. Therefore the applier applies the
        rules again. With the channel's option ``FILTER_ON = 'MASTER'``, which leaves row events to the master, every
        row event outside compressed transactions passes.
        """
        own = self.filter(names)
        imposed = [filter_from_proto(one.filter, default=names) for one in self.imposed]
        asked = AllFilters([own, *imposed]) if imposed else own
        return TrustedRows(asked) if self.info.filter_on == FilterOn.MASTER else asked

    def _new_source(self, info: S.SourceInfo) -> Source:
        return Source(info, self.options, self._slave.uuid, self._registered_filter())

    def hit(self, hits: Hits) -> None:
        """Add new rule hits (matches of filter rules with events) to the counts of this channel and of
        ``replication_applier_filters``. The slave's own filter or the master has counted them. ``hits`` has their
        number by kind of rule, such as Replicate_Do_DB.
        """
        self.counters.count_hits(hits)
        self._slave.filters.count(self.name, hits)

    def connected(self, answer: pb.RegisterResponse) -> None:
        """Store the server id from the master's answer, and the filters that the master's operator imposes on this
        slave, so that the applier uses them, too. Log the master's warnings about the slave's own filter.

        ``answer`` is the master's answer to the slave's registration.
        """
        self.master_server_id = answer.server_id
        imposed = [base64.b64encode(one.SerializeToString()).decode() for one in answer.imposed]
        if imposed != self.info.imposed:
            log.info(
                "the master imposes filters",
                channel=self.name,
                filters=[one.name for one in answer.imposed] or "none",
            )
            self._keep(self.info.model_copy(update={"imposed": imposed}))
        for warning in answer.filter_warnings:
            log.warning(
                "filter warning", channel=self.name, warning=warning, hint="dumpfilter lint shows the events"
            )

    def ended(self, thread: ChannelThread) -> None:
        """Record that a run of the I/O thread or of the applier has ended, and wake the SQL statements that wait for
        the applier.

        With the option ``alone`` the two threads end independently, as in a server. Otherwise an error of the applier
        also stops the I/O thread, and after the end of the I/O thread the applier ends at the end of the relay log. If
        the I/O thread has reached the end of the binlog with the option ``once``, the applier ends there in any case.
        """
        self.progress.told()
        error, alone, is_io = thread.error, self.options.alone, isinstance(thread, IoThread)
        if error is not None:
            self.counters.count_error("io" if is_io else "sql", str(error))
            if alone:
                event = "i/o thread ended" if is_io else "applier ended"
                log.error(event, channel=self.name, error=str(error))
        if thread is self.io and (not alone or self.io.ended):
            self.relay_end.close()
        elif not is_io and error is not None and not alone:
            self.io.stop()


def _file_name(channel: str) -> str:
    """Return the name of a channel's directory: the channel's name, with unsafe characters escaped. A long name is cut,
    and a hash is appended. Different channels get different directories.

    >>> _file_name("ch1"), _file_name("../x")
    ('ch1', '..%2Fx')
    """
    name = quote(channel, safe=" +,-=@_")
    if not name.strip("."):
        # A channel may have the name "." or "..". In file systems these names stand for other directories.
        name = name.replace(".", "%2E")
    if len(name) > _LONGEST_NAME:
        digest = hashlib.blake2b(channel.encode(), digest_size=8).hexdigest()
        name = f"{name[:_LONGEST_NAME]}-{digest}"
    return name


SAVE_COUNTERS = 5.0
"""The interval at which changed counts are saved, seconds. A crash loses the counts of this time at most."""


class Slave:
    """All replication channels of one slave and their filters.

    The constructor locks the relay directory (the directory of relay logs and state files). Then the constructor
    creates all channels with their filters, but does not start their threads. Channels of earlier runs are read from
    their files ``source.info``. ``sources`` are the channels of the command line. If one of them exists from an earlier
    run, it gets the new configuration and keeps its position in the master's binlog.

    ``options`` are shared by all channels. ``readers`` maps a channel's name to a reader of its relay log besides the
    SQL thread.

    Raises OptionError for an invalid server id or channel option. Raises DirectoryBusy when another process uses the
    relay directory, and StateCorrupt when a file in the directory is unusable.
    """

    def __init__(
        self,
        options: SlaveOptions,
        filters: ChannelFilters,
        sources: Iterable[S.SourceInfo] = (),
        *,
        readers: Mapping[str, RelayReader] | None = None,
    ) -> None:
        options.check()
        self.options = options
        self.filters = filters

        self.progress = Progress()
        """The object that wakes SQL statements that wait for the appliers."""
        self.readers = readers or {}
        """The readers of relay logs besides the SQL threads, by channel. An example is a port that serves the relay
        log to other slaves.
        """
        self.lock = threading.RLock()
        """The lock that the console holds while it executes a statement, so that two clients cannot change channels at
        the same time. Whoever only reads the list of channels does not wait for the lock.
        """
        self._lock = S.lock_directory(options.relay_dir)
        self._channels: dict[str, Channel] = {}
        self._closing = threading.Event()
        self._saver = threading.Thread(target=self._save_counters, name="slave-counters", daemon=True)
        try:
            self.uuid = S.server_uuid(options.relay_dir)
            directories = (options.relay_dir, *sorted((options.relay_dir / S.CHANNELS).glob("*/")))
            found = (S.SourceInfo.file(directory).load() for directory in directories)
            infos = {info.channel: info for info in filter(None, found)}
            for info in map(_folded, sources):
                # A CHANGE REPLICATION SOURCE TO that was interrupted must still discard the position.
                infos[info.channel] = infos.get(info.channel, info).reconfigured(info)
            self.warnings = filters.finish_startup(infos)
            """Warnings about filter options for channels that do not exist (WL#7361)."""
            for info in infos.values():
                self._add(info)
        except BaseException:
            self._lock.release()
            raise
        self._saver.start()

    @property
    def channels(self) -> list[Channel]:
        """The channels of the slave, ordered by name. The default channel, whose name is empty, comes first."""
        return sorted(self._channels.values(), key=lambda one: one.name.encode())

    def get(self, name: str) -> Channel:
        """Return the channel with this name, in upper or lower case. Raises UnknownChannel when there is no such
        channel.
        """
        try:
            return self._channels[fold_channel(name)]
        except KeyError:
            raise UnknownChannel(name) from None

    def has(self, name: str) -> bool:
        """Tell whether the slave has a channel with this name. Upper and lower case mean the same."""
        return fold_channel(name) in self._channels

    def configure(
        self, info: S.SourceInfo, clauses: Sequence[FilterClause] = (), *, afresh: bool = False
    ) -> None:
        """Add a channel, or change the configuration of an existing one (``CHANGE REPLICATION SOURCE TO``).

        ``info`` is the new configuration. The threads of an existing channel must be stopped. ``clauses`` are the
        filter rules in the same statement, if it has any (MySQL's worklogs WL#2387 and WL#2516). With ``afresh`` an
        existing channel forgets its position in the master's binlog, because ``info`` names another master or another
        position. Raises OptionError before anything has changed, StateCorrupt when a file of the channel is unusable,
        and OutputError when a file cannot be written.
        """
        info = _folded(info)
        name = info.channel
        channel = self._channels.get(name)
        if channel is not None:
            channel.check(info)
            self.filters.change(clauses, name)
            channel.reconfigure(info, afresh=afresh)
            return
        self.filters.add_channel(name)
        try:
            self.filters.change(clauses, name)
            self._add(info)
        except BaseException:
            self.filters.remove_channel(name)
            raise

    def change_filter(self, clauses: Sequence[FilterClause], name: str | None) -> None:
        """Change the filter of the channel ``name``, or of all channels if ``name`` is None (``CHANGE REPLICATION
        FILTER``).

        Each of ``clauses`` replaces the rules of one kind. The appliers of these channels must not be running. Raises
        OptionError for invalid rules, before any filter has changed, and UnknownChannel if there is no channel
        ``name``.
        """
        self.filters.change(clauses, name)
        for channel in self.channels if name is None else [self.get(name)]:
            channel.follow_filter()

    def start(self, threads: Threads | None = None) -> None:
        """Start ``threads`` of every channel. With None both threads start, or only the I/O thread if the option
        ``io_thread_only`` is set.
        """
        for channel in self.channels:
            channel.start(threads)

    def reset(self, name: str, *, all: bool) -> None:
        """Delete the relay logs and the positions of a stopped channel (``RESET REPLICA``). The state of the target,
        the object to which transactions are applied, stays. Raises UnknownChannel if there is no channel ``name``.

        With ``all`` also remove the channel, its filter, its state files and the state of its target (``RESET REPLICA
        ALL``).
        """
        channel = self.get(name)
        channel.reset(all=all)
        if not all:
            return
        # Without this file the slave has no such channel, whatever is left of the others.
        files.remove(channel.directory / S.SourceInfo.NAME)
        channel.counters.remove()
        del self._channels[channel.name]
        self.filters.remove_channel(name)
        if channel.name:
            shutil.rmtree(channel.directory, ignore_errors=True)
        else:
            for name in (S.MasterInfo.NAME, S.RelayLogInfo.NAME, "relay-bin.index"):
                files.remove(channel.directory / name)

    def wait(self) -> None:
        """Wait until the threads of all channels have ended.

        Threads end at the end of the binlog with the option ``once``, or after an error. A signal interrupts the wait.
        """
        while any(one.running for one in self.channels):
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the threads of all channels, and wait until they have ended."""
        for channel in self.channels:
            channel.request_stop()
        for channel in self.channels:
            channel.stop()

    def close(self) -> None:
        """Stop the threads of all channels, save the channels' counts of events and errors, and release the lock on the
        relay directory.
        """
        self._closing.set()
        self.progress.told()
        # A statement that has begun may still start threads.
        with self.lock:
            self.stop()
            self._saver.join()
            for one in self.channels:
                one.counters.save()
            self._lock.release()

    @property
    def is_closing(self) -> bool:
        """Whether the slave is being shut down (:meth:`close` was called). If so, SQL statements that wait for an
        applier end with an error.
        """
        return self._closing.is_set()

    def _save_counters(self) -> None:
        """Save the counts of all channels every few seconds until :meth:`close`. Also remove relay log files that are
        older than the option ``relay_log_expire_seconds`` and that no reader needs any more.
        """
        while not self._closing.wait(SAVE_COUNTERS):
            for one in self.channels:
                one.counters.save()
                one.expire_relay_log(self.options.relay_log_expire_seconds)

    @property
    def error(self) -> BaseException | None:
        """The earliest error by which a thread of any channel ended. Only the newest run of each thread is considered.
        None if no error ended these runs.
        """
        failed = [
            one for channel in self.channels for one in (channel.io, channel.sql) if one.error is not None
        ]
        return min(failed, key=lambda one: one.failed_at).error if failed else None

    def _add(self, info: S.SourceInfo) -> None:
        channel = Channel(self, info)
        S.SourceInfo.file(channel.directory).save(channel.info)
        self._channels[info.channel] = channel


def _folded(info: S.SourceInfo) -> S.SourceInfo:
    return info.model_copy(update={"channel": fold_channel(info.channel)})
