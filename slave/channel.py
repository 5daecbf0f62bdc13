"""A replication channel: a relay directory, an I/O thread that fills it and an applier that reads it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from dumpfilter.binlog.format import NameRules
from dumpfilter.errors import OptionError
from dumpfilter.filter import Filter, FilterSemantics, ReplicationFilter, Rule, make_filter
from dumpfilter.filter.convert import filter_from_proto, filter_to_proto, origin_to_proto
from dumpfilter.filter.kinds import AllFilters
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.filter.rules import FilterOn
from dumpfilter.filter.trusted import TrustedRows
from dumpfilter.slave import durable, imposed_info
from dumpfilter.slave.durable import DirectoryLock
from dumpfilter.slave.io_thread import IoThread, Received, SourceOptions
from dumpfilter.slave.master_info import MasterInfo, MasterInfoFile
from dumpfilter.slave.receiver import Receiver
from dumpfilter.slave.relay_end import Hits, RelayEnd
from dumpfilter.slave.relay_log import RelayLog
from dumpfilter.slave.relay_log_info import RelayLogInfo, RelayLogInfoFile
from dumpfilter.slave.server_uuid import server_uuid
from dumpfilter.slave.sql_thread import SqlThread
from dumpfilter.slave.until import Until
from dumpfilter.slave.worker import Worker
from dumpfilter.sql.commands import Threads
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

if TYPE_CHECKING:
    from dumpfilter.slave.targets import Target

log = structlog.get_logger("dumpfilter.slave.channel")


@dataclass(frozen=True)
class ChannelOptions:
    """A channel's options, by the server's names where it has them."""

    source: SourceOptions
    """Its ``uuid`` and ``filter`` are filled in by :class:`Channel`."""
    relay_dir: Path
    rules: tuple[Rule, ...] = ()
    """The channel's filter."""
    semantics: FilterSemantics = FilterSemantics.CLASSIC
    """How the rules are read."""
    origin: OriginFilter = field(default_factory=OriginFilter)
    """Whose events are wanted."""
    lower_case_table_names: int = 0
    filter_on: FilterOn = FilterOn.BOTH
    apply: bool = True
    """Whether :meth:`Channel.start` starts the applier too; False is ``START REPLICA IO_THREAD``."""
    sync_relay_log: int = 10_000
    sync_master_info: int = 10_000


class Channel:
    """One channel with its two threads.

    :meth:`start`, then :meth:`wait`, which returns at the end of a dump that was asked for once or after
    :meth:`stop`, and raises what ended a thread; or :meth:`start` and :meth:`stop` again and again, then
    :meth:`close`. The directory is locked until then (not without ``lock``: its owner has locked it).

    Without ``alone`` the threads go together: when one fails the other ends too, the applier after what has been
    received. With it each is for itself, as in a server. ``on_hits`` is told how often rules decided something.
    Raises OptionError, DirectoryBusy, StateCorrupt.
    """

    def __init__(
        self,
        options: ChannelOptions,
        target: Target,
        *,
        alone: bool = False,
        lock: bool = True,
        on_hits: Callable[[Hits], None] = lambda hits: None,
        on_chunk: Callable[[pb.Chunk], None] = lambda chunk: None,
        on_connect: Callable[[rpc.DumpFilterStub, pb.RegisterResponse], None] = lambda stub, answer: None,
    ) -> None:
        check(options)
        self._options = options
        self._target = target
        self._alone = alone
        self._on_hits = on_hits
        self._on_chunk = on_chunk
        self._on_connect = on_connect
        self._imposed: tuple[pb.ImposedFilter, ...] = ()
        self._source_server_id = 0
        self._lock = DirectoryLock(options.relay_dir) if lock else None
        self._busy = threading.RLock()  # one statement at a time
        self._io_worker = Worker(f"{self.name or 'default'}-io", self._io_ended)
        self._sql_worker = Worker(f"{self.name or 'default'}-sql", self._sql_ended)
        try:
            self._imposed = imposed_info.load(options.relay_dir)
            self._uuid = options.source.uuid or server_uuid(options.relay_dir)
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        options = self._options
        self._relay_end = RelayEnd()
        self._receiver = Receiver(
            RelayLog(options.relay_dir, sync_every=options.sync_relay_log),
            MasterInfoFile(options.relay_dir, sync_every=options.sync_master_info),
            self._relay_end,
        )
        self._sql = self._new_sql_thread(None)
        self._io = self._new_io_thread()
        self._follow_filter()

    @property
    def name(self) -> str:
        """The channel's name; empty for the default one."""
        return self._options.source.channel

    @property
    def options(self) -> ChannelOptions:
        """The options in force."""
        return self._options

    @property
    def target(self) -> Target:
        """What is applied to."""
        return self._target

    @property
    def uuid(self) -> str:
        """The slave's server_uuid."""
        return self._uuid

    @property
    def io(self) -> IoThread:
        """The newest I/O thread, running or not."""
        return self._io

    @property
    def io_worker(self) -> Worker:
        """Whether the I/O thread runs, and its error."""
        return self._io_worker

    @property
    def sql_worker(self) -> Worker:
        """Whether the applier runs, and its error."""
        return self._sql_worker

    @property
    def running(self) -> Threads:
        """The threads that run."""
        io = Threads.IO if self._io_worker.running else Threads(0)
        return io | Threads.SQL if self._sql_worker.running else io

    @property
    def imposed(self) -> tuple[pb.ImposedFilter, ...]:
        """What the master imposes, as the newest registration's answer says."""
        return self._imposed

    @property
    def source_server_id(self) -> int:
        """The server_id of the master's binlogs' writer, as the newest registration's answer says; 0 before."""
        return self._source_server_id

    @property
    def received(self) -> Received:
        """What came over the wire since the I/O thread was started."""
        return self._io.received

    @property
    def master_info(self) -> MasterInfo:
        """How far the I/O thread is."""
        return self._receiver.info

    @property
    def relay_log_info(self) -> RelayLogInfo:
        """How far the applier is."""
        return self._sql.info

    def filter(self, names: NameRules) -> ReplicationFilter:
        """The channel's own filter."""
        return make_filter(
            self._options.semantics,
            self._options.rules,
            names=names._replace(lower_case_table_names=self._options.lower_case_table_names),
        )

    def start(
        self,
        threads: Threads | None = None,
        *,
        until: Until | None = None,
        user: str | None = None,
        password: str | None = None,
    ) -> None:
        """``START REPLICA``: those of the threads that do not run. ``user`` and ``password`` are for this time only.
        Raises StateCorrupt."""
        if threads is None:
            threads = Threads.BOTH if self._options.apply else Threads.IO
        with self._busy:
            if Threads.IO in threads and not self._io_worker.running:
                self._relay_end.open()
                self._io = self._new_io_thread(user, password)
                self._io_worker.start(self._io)
            if Threads.SQL in threads and not self._sql_worker.running:
                self._sql = self._new_sql_thread(until)
                self._sql_worker.start(self._sql)

    def request_stop(self, threads: Threads = Threads.BOTH) -> None:
        """Ask the threads to end, the applier after the transaction it is in; returns at once."""
        if Threads.IO in threads:
            self._io_worker.stop()
        if Threads.SQL in threads:
            self._sql_worker.stop()

    def stop(self, threads: Threads = Threads.BOTH) -> None:
        """``STOP REPLICA``: returns when they have ended."""
        with self._busy:
            self.request_stop(threads)
            if Threads.IO in threads:
                self._io_worker.join()
            if Threads.SQL in threads:
                self._sql_worker.join()

    def wait(self) -> None:
        """Wait for both threads to end by themselves, and close. Raises what ended one of them."""
        self.join()
        self.close()
        for worker in (self._io_worker, self._sql_worker):
            if worker.error is not None:
                raise worker.error

    def join(self) -> None:
        """Wait for both threads to end by themselves."""
        self._io_worker.join()
        self._sql_worker.join()

    def close(self) -> None:
        """Let go of the directory. The threads have ended."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def change_filter(self, rules: Sequence[Rule], semantics: FilterSemantics) -> None:
        """Another filter, in force from where the applier is, which does not run (WL#7057). The I/O thread may run:
        what it relayed beyond that place is given up, and the master sends it anew, filtered anew."""
        with self._busy:
            assert not self._sql_worker.running
            self._options = replace(self._options, rules=tuple(rules), semantics=semantics)
            self._follow_filter()

    def reconfigure(self, options: ChannelOptions, *, afresh: bool) -> None:
        """``CHANGE REPLICATION SOURCE TO``: neither thread runs. What was relayed and not applied is given up, as in
        servers. With ``afresh`` the place is given up too: another source, or a place that was told. Raises
        OptionError."""
        check(options)
        with self._busy:
            assert not self.running
            self._options = options
            if afresh:
                self._source_server_id = 0
                self.reset()
            else:
                self._follow_filter(refetch=True)

    def reset(self) -> None:
        """``RESET REPLICA``: the relay logs and the positions are gone; what has been applied, and its GTIDs, stay."""
        with self._busy:
            assert not self.running
            here = self._sql.info
            RelayLogInfoFile(self._options.relay_dir).save(
                RelayLogInfo(executed=here.executed, target=self._target.state())
            )
            family = self._receiver.info.family
            with self._receiver.rewinding(MasterInfo(family=family, retrieved=here.executed)):
                pass
            durable.remove(self._options.relay_dir / imposed_info.NAME)
            self._imposed = ()
            self._receiver.close()
            self._open()

    def _follow_filter(self, *, refetch: bool = False) -> None:
        """Have the relay log hold what the filter in force lets pass, and the master know of it.

        Also at the beginning: the options may be others than those the relay log was filtered with.
        """
        definition = self._registered_filter()
        digest = _digest(definition)
        info = self._receiver.info
        # a running thread may have registered with another filter although no chunk has come yet
        begun = self._io_worker.running or (info.source_file and info.filter_digest)
        if not refetch and (not begun or info.filter_digest == digest):
            self._receiver.filter_digest = digest
            self._io.set_filter(definition)
            return
        to = self._sql.reached.model_copy(update={"filter_digest": digest})
        self._io.change_filter(definition, to)
        if not self._io_worker.running:
            self._receiver.close()

    def _registered_filter(self) -> pb.FilterDefinition:
        options = self._options
        on_master = options.filter_on is not FilterOn.SLAVE
        definition = filter_to_proto(self.filter(NameRules()) if on_master else Filter())
        definition.lower_case_table_names = options.lower_case_table_names
        # as the binlog's own server
        definition.family = pb.SERVER_FAMILY_UNSPECIFIED
        definition.names = pb.NAME_COLLATION_UNSPECIFIED
        if on_master:
            definition.origin.CopyFrom(origin_to_proto(options.origin))
        return definition

    def _applied_filter(self, names: NameRules) -> ReplicationFilter:
        """What the applier asks: its own filter, and what the master imposes, which it may have left undecided."""
        own = self.filter(names)
        imposed = [filter_from_proto(one.filter, default=names) for one in self._imposed]
        asked = AllFilters([own, *imposed]) if imposed else own
        return TrustedRows(asked) if self._options.filter_on is FilterOn.MASTER else asked

    def _new_sql_thread(self, until: Until | None) -> SqlThread:
        return SqlThread(
            self._options.relay_dir,
            self._relay_end,
            self._target,
            self._applied_filter,
            origin=self._options.origin,
            on_hits=self._on_hits,
            until=until,
        )

    def _new_io_thread(self, user: str | None = None, password: str | None = None) -> IoThread:
        source = replace(self._options.source, uuid=self._uuid, filter=self._registered_filter())
        if user is not None:
            source = replace(source, user=user, password=password or "")
        return IoThread(source, self._receiver, on_chunk=self._on_chunk, on_connect=self._connected)

    def _connected(self, stub: rpc.DumpFilterStub, answer: pb.RegisterResponse) -> None:
        self._source_server_id = answer.server_id
        imposed = tuple(answer.imposed)
        if imposed != self._imposed:
            log.info(
                "the master imposes filters",
                channel=self.name,
                filters=[one.name for one in imposed] or "none",
            )
            imposed_info.save(self._options.relay_dir, imposed)
            self._imposed = imposed
            self._sql.follow_filter()
        self._on_connect(stub, answer)

    def _io_ended(self, error: BaseException | None) -> None:
        if error is not None and self._alone:  # else whoever waits is told
            log.error("I/O thread ended", channel=self.name, error=str(error))
        if not self._alone or (error is None and self._options.source.once and self._io.ended):
            self._relay_end.close()

    def _sql_ended(self, error: BaseException | None) -> None:
        if error is not None and self._alone:
            log.error("applier ended", channel=self.name, error=str(error))
        elif error is not None:
            self._io_worker.stop()


def check(options: ChannelOptions) -> None:
    """Raises OptionError for options that cannot be."""
    source = options.source
    check_server_id(source.server_id)
    if source.auto_position and source.start_file:
        raise OptionError("--start-file and --auto-position: give one of them")
    if source.start_position != 4 and not source.start_file:
        raise OptionError("--start-position needs --start-file")
    # a filter's errors belong here, not into a thread
    make_filter(
        options.semantics,
        options.rules,
        names=NameRules(lower_case_table_names=options.lower_case_table_names),
    )


def check_server_id(server_id: int) -> None:
    """Raises OptionError for a number that is no server_id."""
    if not 1 <= server_id <= 0xFFFFFFFF:
        raise OptionError(f"--server-id={server_id}: it is a number from 1 to 4294967295")


def _digest(definition: pb.FilterDefinition) -> str:
    return hashlib.blake2b(definition.SerializeToString(deterministic=True), digest_size=8).hexdigest()
