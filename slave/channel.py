"""A replication channel: a relay directory, an I/O thread that fills it, and an applier that reads it."""

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
from dumpfilter.slave.state import durable, imposed_info
from dumpfilter.slave.state.durable import DirectoryLock
from dumpfilter.slave.state.master_info import MasterInfo, MasterInfoFile
from dumpfilter.slave.state.relay_log import RelayLog
from dumpfilter.slave.state.relay_log_info import RelayLogInfo, RelayLogInfoFile
from dumpfilter.slave.state.server_uuid import server_uuid
from dumpfilter.slave.threads.io_thread import IoThread
from dumpfilter.slave.threads.master_options import MasterOptions
from dumpfilter.slave.threads.received import Received
from dumpfilter.slave.threads.receiver import Receiver
from dumpfilter.slave.threads.relay_end import Hits, RelayEnd
from dumpfilter.slave.threads.sql_thread import SqlThread
from dumpfilter.slave.threads.until import Until
from dumpfilter.slave.threads.worker import Worker
from dumpfilter.sql.commands import Threads
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

if TYPE_CHECKING:
    from dumpfilter.slave.targets import Target

log = structlog.get_logger("dumpfilter.slave")


@dataclass(frozen=True)
class ChannelOptions:
    """A channel's options, by the server's names where the server has them."""

    master: MasterOptions
    """The connection to the master. :class:`Channel` fills in ``uuid`` and ``filter``."""
    relay_dir: Path
    """The directory of the channel's relay logs and state files."""
    rules: tuple[Rule, ...] = ()
    """The rules of the channel's filter."""
    semantics: FilterSemantics = FilterSemantics.CLASSIC
    """The semantics of the rules."""
    origin: OriginFilter = field(default_factory=OriginFilter)
    """The filter on the origin of transactions."""
    lower_case_table_names: int = 0
    filter_on: FilterOn = FilterOn.BOTH
    apply: bool = True
    """Whether :meth:`Channel.start` starts the applier too. Without the applier it is ``START REPLICA IO_THREAD``."""
    sync_relay_log: int = 10_000
    sync_master_info: int = 10_000


class Channel:
    """One channel with its two threads.

    A caller calls :meth:`start` and :meth:`stop` any number of times, then :meth:`close`. Alternatively it
    calls :meth:`start` and :meth:`wait`, which raises the error that ended a thread. With ``lock`` the
    channel locks its directory until :meth:`close`. Without, its owner has locked the directory.

    Without ``alone``, an error that ends a thread ends the other thread too, the applier after the received
    transactions. With ``alone``, each thread runs independently, as in a server. ``on_hits`` receives the
    hits of the filter's rules.

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
        self._master_server_id = 0
        self._lock = DirectoryLock(options.relay_dir) if lock else None
        self._busy = threading.RLock()  # held by the statement that changes the channel
        self._io_worker = Worker(f"{self.name or 'default'}-io", self._io_ended)
        self._sql_worker = Worker(f"{self.name or 'default'}-sql", self._sql_ended)
        try:
            self._imposed = imposed_info.load(options.relay_dir)
            self._uuid = options.master.uuid or server_uuid(options.relay_dir)
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
        """The channel's name. The default channel has the empty name."""
        return self._options.master.channel

    @property
    def options(self) -> ChannelOptions:
        """The options in force."""
        return self._options

    @property
    def target(self) -> Target:
        """The target that the applier applies to."""
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
        """The worker that runs the I/O thread and keeps its error."""
        return self._io_worker

    @property
    def sql_worker(self) -> Worker:
        """The worker that runs the applier and keeps its error."""
        return self._sql_worker

    @property
    def running(self) -> Threads:
        """The running threads."""
        io = Threads.IO if self._io_worker.running else Threads(0)
        return io | Threads.SQL if self._sql_worker.running else io

    @property
    def imposed(self) -> tuple[pb.ImposedFilter, ...]:
        """The filters that the master imposes, from its answer to the newest registration."""
        return self._imposed

    @property
    def master_server_id(self) -> int:
        """The server id of the server that wrote the master's binlogs. 0 before the first registration."""
        return self._master_server_id

    @property
    def received(self) -> Received:
        """The counts of messages since the I/O thread was started."""
        return self._io.received

    @property
    def master_info(self) -> MasterInfo:
        """The I/O thread's position."""
        return self._receiver.info

    @property
    def relay_log_info(self) -> RelayLogInfo:
        """The applier's position."""
        return self._sql.info

    def filter(self, names: NameRules) -> ReplicationFilter:
        """Make the channel's own filter."""
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
        """Start the given threads that are not running (``START REPLICA``).

        The I/O thread logs in with ``user`` and ``password`` this time only. Raises StateCorrupt.
        """
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
        """Ask the threads to end, the applier after its current transaction, and return at once."""
        if Threads.IO in threads:
            self._io_worker.stop()
        if Threads.SQL in threads:
            self._sql_worker.stop()

    def stop(self, threads: Threads = Threads.BOTH) -> None:
        """Stop the threads and wait until they have ended (``STOP REPLICA``)."""
        with self._busy:
            self.request_stop(threads)
            if Threads.IO in threads:
                self._io_worker.join()
            if Threads.SQL in threads:
                self._sql_worker.join()

    def wait(self) -> None:
        """Wait until both threads have ended, and close the channel. Raise the error that ended a thread."""
        self.join()
        self.close()
        for worker in (self._io_worker, self._sql_worker):
            if worker.error is not None:
                raise worker.error

    def join(self) -> None:
        """Wait until both threads have ended."""
        self._io_worker.join()
        self._sql_worker.join()

    def close(self) -> None:
        """Release the directory. The threads must have ended."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def change_filter(self, rules: Sequence[Rule], semantics: FilterSemantics) -> None:
        """Use another filter from the applier's position on (WL#7057). The applier must not be running.

        The I/O thread may be running. The receiver truncates the relay log to the applier's position, and the
        master sends the rest again with the new filter.
        """
        with self._busy:
            assert not self._sql_worker.running
            self._options = replace(self._options, rules=tuple(rules), semantics=semantics)
            self._follow_filter()

    def reconfigure(self, options: ChannelOptions, *, afresh: bool) -> None:
        """Use other options (``CHANGE REPLICATION SOURCE TO``). Neither thread must be running.

        Discard the part of the relay log that has not been applied, as a server does. With ``afresh``,
        discard the position too, because the options name another master or another position. Raises
        OptionError.
        """
        check(options)
        with self._busy:
            assert not self.running
            self._options = options
            if afresh:
                self._master_server_id = 0
                self.reset()
            else:
                self._follow_filter(refetch=True)

    def reset(self) -> None:
        """Delete relay logs and positions (``RESET REPLICA``). Keep the applied data and its GTIDs."""
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
        """Give the I/O thread the filter in force, and discard relayed events that another filter selected.

        A channel calls this method at its start too, because its filter options may have changed while it was down.
        """
        definition = self._registered_filter()
        digest = _digest(definition)
        info = self._receiver.info
        # A running thread may have registered with the old filter and not have received a chunk yet.
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
        # The master takes the family and the collation of the server that wrote the binlogs.
        definition.family = pb.SERVER_FAMILY_UNSPECIFIED
        definition.names = pb.NAME_COLLATION_UNSPECIFIED
        if on_master:
            definition.origin.CopyFrom(origin_to_proto(options.origin))
        return definition

    def _applied_filter(self, names: NameRules) -> ReplicationFilter:
        """Make the applier's filter from the channel's rules and the imposed ones.

        The applier asks the imposed rules again, because the master sends the statements that it cannot decide.
        """
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
        master = replace(self._options.master, uuid=self._uuid, filter=self._registered_filter())
        if user is not None:
            master = replace(master, user=user, password=password or "")
        return IoThread(master, self._receiver, on_chunk=self._on_chunk, on_connect=self._connected)

    def _connected(self, stub: rpc.DumpFilterStub, answer: pb.RegisterResponse) -> None:
        self._master_server_id = answer.server_id
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
        if error is not None and self._alone:  # without `alone`, wait() raises the error
            log.error("I/O thread ended", channel=self.name, error=str(error))
        if not self._alone or (error is None and self._options.master.once and self._io.ended):
            self._relay_end.close()

    def _sql_ended(self, error: BaseException | None) -> None:
        if error is not None and self._alone:
            log.error("applier ended", channel=self.name, error=str(error))
        elif error is not None:
            self._io_worker.stop()


def check(options: ChannelOptions) -> None:
    """Raise OptionError for options that contradict each other or are out of range."""
    master = options.master
    check_server_id(master.server_id)
    if master.auto_position and master.start_file:
        raise OptionError("--start-file and --auto-position: give one of them")
    if master.start_position != 4 and not master.start_file:
        raise OptionError("--start-position needs --start-file")
    # Make the filter once for its errors, which would otherwise end a thread.
    make_filter(
        options.semantics,
        options.rules,
        names=NameRules(lower_case_table_names=options.lower_case_table_names),
    )


def check_server_id(server_id: int) -> None:
    """Raise OptionError for a number that is no server_id."""
    if not 1 <= server_id <= 0xFFFFFFFF:
        raise OptionError(f"--server-id={server_id}: give a number from 1 to 4294967295")


def _digest(definition: pb.FilterDefinition) -> str:
    return hashlib.blake2b(definition.SerializeToString(deterministic=True), digest_size=8).hexdigest()
