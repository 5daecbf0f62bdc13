"""One channel of a slave as other slaves and real replicas see it: the dumps of its relay log."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, cast

import structlog

from dumpfilter.binlog.format import NameRules
from dumpfilter.errors import BinlogUnreadable
from dumpfilter.index.fileset import BinlogSet, PublishedEnd, RelayWentBack
from dumpfilter.master.config import MasterConfig
from dumpfilter.master.limits import ServerLimits
from dumpfilter.master.refusals import Context
from dumpfilter.master.service import DumpFilterService
from dumpfilter.master.sharing import SharedReader
from dumpfilter.master.store import BinlogStore
from dumpfilter.options.defaults import FIRST_EVENT
from dumpfilter.slave.slave import Slave
from dumpfilter.slave.state.relay_log import BASENAME, RelayPosition, place_order
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as pb_grpc

log = structlog.get_logger("dumpfilter.slave")

_CLOSE_AFTER = 10.0
"""The time after which the threads of a closed relay log end, seconds. Its dumps have ended long before."""


class ServedChannel:
    """A channel with a port. :meth:`note` may be called from any thread, :meth:`service` as well.

    The channel's relay log only grows, until the slave changes its filter, resets the channel, or discards a damaged
    part. Then all dumps end, and slaves and replicas connect again. The dumps that begin afterwards read the new relay
    log through another service. GTIDs, or positions of the writer, decide what each still needs.

    ``load_config`` returns the users and the imposed filters for a way of comparing names.
    """

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        *,
        limits: ServerLimits | None = None,
        load_config: Callable[[NameRules], MasterConfig] = lambda names: MasterConfig(),
    ) -> None:
        self.name = name
        self._load_config = load_config
        self._loop = loop
        self._limits = limits
        self._lock = threading.Lock()
        self._end: PublishedEnd | None = None
        self._grown: Callable[[], None] = lambda: None
        self._reader: SharedReader | None = None
        self.running: DumpFilterService | None = None
        """The service over the present relay log, or None if nobody has connected since it began."""
        self._is_closed = False

    def note(self, position: RelayPosition | None) -> None:
        """Note the position up to which the relay log is complete. A position further back ends all dumps.

        The method returns when nobody relies on the discarded part any more.
        """
        with self._lock:
            if self._end is not None and place_order(position) < place_order(self._end.position):
                self._close_relay_log()
            if position is None or self._is_closed:
                return
            if self._end is None:
                self._end = PublishedEnd(position)
            self._end.position = position
            grown = self._grown
        grown()

    def service(self, slave: Slave) -> DumpFilterService:
        """Return the service over the present relay log. Raises BinlogError, a momentary one without a relay log."""
        # A client may have added the channel on the console.
        channel = next((one for one in slave.channels_now if one.name == self.name), None)
        with self._lock:
            if self._is_closed:
                raise BinlogUnreadable("the slave is shutting down; connect again", momentary=True)
            if self.running is None:
                if self._end is None or channel is None:
                    raise BinlogUnreadable(
                        "the slave has received nothing from its master yet; try again later", momentary=True
                    )
                info = channel.info
                is_complete = info.auto_position or not info.log_file or info.log_pos <= FIRST_EVENT
                binlogs = BinlogSet.from_index(channel.directory / f"{BASENAME}.index", self._end)
                store = BinlogStore(binlogs, is_complete=is_complete)
                self._grown = store.watcher.follow_writer()
                self._reader = SharedReader(store, self._loop)
                self.running = DumpFilterService(
                    self._reader,
                    master_uuid=slave.uuid,
                    config=self._load_config(store.names),
                    limits=self._limits,
                )
            return self.running

    def stop(self) -> None:
        """End all dumps with an error after which slaves connect again. No dump begins any more."""
        with self._lock:
            self._is_closed = True
            service = self.running
        if service is not None:
            service.stopping = True
            for slave in service.register.all():
                slave.dump = 0
                slave.notify()

    def close(self) -> None:
        """End all dumps, and close the relay log for good."""
        with self._lock:
            self._is_closed = True
            reader = self._forget()[1]
        if reader is not None:
            _close(reader)

    def _forget(self) -> tuple[DumpFilterService | None, SharedReader | None]:
        """Close the present relay log to readers. Return its service and reader."""
        found = self.running, self._reader
        if self._end is not None:
            self._end.is_closed = True
        self._end = self.running = self._reader = None
        self._grown = lambda: None
        return found

    def _close_relay_log(self) -> None:
        service, reader = self._forget()
        if service is None or reader is None:
            return
        service.store.give_up(RelayWentBack())
        gone = service.register.remove_all(lambda slave: RelayWentBack())
        log.info("the relay log goes back", channel=self.name, registrations=len(gone))
        closing = threading.Timer(_CLOSE_AFTER, _close, [reader])
        closing.daemon = True
        closing.start()


def _close(reader: SharedReader) -> None:
    reader.close()
    reader.store.close()


class RelayService(pb_grpc.DumpFilterServicer):  # type: ignore[misc]  # generated, untyped
    """The gRPC service of a channel. ``present`` returns the one over the present relay log, or raises DumpfilterError.

    A slave that registered with an earlier service is not known to the present one, and registers again.
    """

    def __init__(self, present: Callable[[], DumpFilterService]) -> None:
        self._present = present

    async def present(self) -> DumpFilterService:
        """Return the service over the present relay log. Raises DumpfilterError."""
        # A relay log that is opened for the first time waits for the disk.
        return await asyncio.to_thread(self._present)

    async def Dump(self, request: pb.DumpRequest, context: Context) -> AsyncIterator[bytes]:
        """Stream the relay log to a slave, with the writer's positions."""
        service = await self.present()
        stream = cast("AsyncGenerator[bytes]", service.Dump(request, context))
        async with contextlib.aclosing(stream) as messages:
            async for message in messages:
                yield message


def _forwarded(method: str) -> Callable[[RelayService, Any, Context], Awaitable[Any]]:
    async def call(self: RelayService, request: Any, context: Context) -> Any:
        service = await self.present()
        return await getattr(service, method)(request, context)

    return call


for _method in pb.DESCRIPTOR.services_by_name["DumpFilter"].methods:
    if not _method.server_streaming:
        setattr(RelayService, _method.name, _forwarded(_method.name))
