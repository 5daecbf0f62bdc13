"""A slave: a relay directory, an I/O thread that fills it and an applier that reads it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.binlog.format import Family
from dumpfilter.errors import OptionError
from dumpfilter.filter import Filter, FilterSemantics, ReplicationFilter, Rule, make_filter
from dumpfilter.filter.convert import filter_to_proto
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc
from slave.durable import DirectoryLock
from slave.io_thread import IoThread, Received, SourceOptions
from slave.master_info import MasterInfo, MasterInfoFile
from slave.receiver import Receiver
from slave.relay_end import RelayEnd
from slave.relay_log import RelayLog
from slave.relay_log_info import RelayLogInfo
from slave.server_uuid import server_uuid
from slave.sql_thread import SqlThread

if TYPE_CHECKING:
    from slave.targets import Target


@dataclass(frozen=True)
class SlaveOptions:
    """A slave's options, by the server's names where it has them."""

    source: SourceOptions
    """Its ``uuid`` and ``filter`` are filled in by :class:`Slave`."""
    relay_dir: Path
    rules: tuple[Rule, ...] = ()
    """The slave's filter."""
    semantics: FilterSemantics = FilterSemantics.CLASSIC
    """How the rules are read."""
    lower_case_table_names: int = 0
    filter_on_master: bool = True
    """Whether the master is told the rules. The slave applies them in any case."""
    apply: bool = True
    """Whether to apply; False is ``START REPLICA IO_THREAD``."""
    sync_relay_log: int = 10_000
    sync_master_info: int = 10_000


@dataclass
class _Outcome:
    """The first error of a thread, if any."""

    error: BaseException | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, error: BaseException) -> None:
        with self.lock:
            self.error = self.error or error


class Slave:
    """One slave with its two threads.

    :meth:`start`, then :meth:`wait`, which returns at the end of a dump that was asked for once or after
    :meth:`stop`, and raises what ended a thread. The directory is locked from the making of the object until
    :meth:`wait` returns. Raises OptionError, DirectoryBusy, StateCorrupt.
    """

    def __init__(
        self,
        options: SlaveOptions,
        target: Target,
        *,
        on_chunk: Callable[[pb.Chunk], None] = lambda chunk: None,
        on_connect: Callable[[rpc.DumpFilterStub, pb.RegisterResponse], None] = lambda stub, answer: None,
    ) -> None:
        if not 1 <= options.source.server_id <= 0xFFFFFFFF:
            raise OptionError(f"--server-id={options.source.server_id}: it is a number from 1 to 4294967295")
        if options.source.auto_position and options.source.start_file:
            raise OptionError("--start-file and --auto-position: give one of them")
        if options.source.start_position != 4 and not options.source.start_file:
            raise OptionError("--start-position needs --start-file")
        self._options = options
        self.filter("mysql")  # its errors belong here, not into a thread
        self._lock = DirectoryLock(options.relay_dir)
        try:
            self._relay_end = RelayEnd()
            self._receiver = Receiver(
                RelayLog(options.relay_dir, sync_every=options.sync_relay_log),
                MasterInfoFile(options.relay_dir, sync_every=options.sync_master_info),
                self._relay_end,
            )
            self._sql = SqlThread(options.relay_dir, self._relay_end, target, self.filter)
            source = replace(
                options.source, uuid=server_uuid(options.relay_dir), filter=self._registered_filter()
            )
        except BaseException:
            self._lock.release()
            raise
        self._io = IoThread(source, self._receiver, on_chunk=on_chunk, on_connect=on_connect)
        self._outcome = _Outcome()
        self._threads = [threading.Thread(target=self._run_io, name="slave-io", daemon=True)]
        if options.apply:
            self._threads.append(threading.Thread(target=self._run_sql, name="slave-sql", daemon=True))

    def filter(self, family: Family) -> ReplicationFilter:
        """The slave's own filter."""
        return make_filter(
            self._options.semantics,
            self._options.rules,
            lower_case_table_names=self._options.lower_case_table_names,
            family=family,
        )

    def _registered_filter(self) -> pb.FilterDefinition:
        rules = self.filter("mysql") if self._options.filter_on_master else Filter()
        definition = filter_to_proto(rules)
        definition.lower_case_table_names = self._options.lower_case_table_names
        definition.family = pb.SERVER_FAMILY_UNSPECIFIED  # as the binlog's own server
        return definition

    @property
    def received(self) -> Received:
        """What came over the wire since :meth:`start`."""
        return self._io.received

    @property
    def master_info(self) -> MasterInfo:
        """How far the I/O thread is."""
        return self._receiver.info

    @property
    def relay_log_info(self) -> RelayLogInfo:
        """How far the applier is."""
        return self._sql.info

    def start(self) -> None:
        """``START REPLICA``."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """``STOP REPLICA``: both threads end soon, the applier after the transaction it is in."""
        self._io.stop()
        self._sql.stop()

    def wait(self) -> None:
        """Wait for both threads. Raises what ended one of them."""
        for thread in self._threads:
            while thread.is_alive():
                thread.join(0.5)
        self._lock.release()
        if self._outcome.error is not None:
            raise self._outcome.error

    def _run_io(self) -> None:
        try:
            self._io.run()
        except BaseException as error:
            self._outcome.note(error)
        finally:
            self._relay_end.close()

    def _run_sql(self) -> None:
        try:
            self._sql.run()
        except BaseException as error:
            self._outcome.note(error)
            self._io.stop()
