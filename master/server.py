"""The master's gRPC server, to which slaves connect. The server also offers gRPC's health checks."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from dumpfilter.base.errors import BinlogError, DumpfilterError
from dumpfilter.base.printable import printable
from dumpfilter.console.serving_loop import ServingLoop
from dumpfilter.filter import ReplicationFilter
from dumpfilter.master.config import MasterConfig
from dumpfilter.master.grpc_port import END_SECONDS, GrpcPort, ListenAddress, end_of_tasks
from dumpfilter.master.limits import MAX_DUMPS, open_connections
from dumpfilter.master.service import DumpFilterService
from dumpfilter.master.sharing import SharedReader
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import SHUTTING_DOWN, Who

if TYPE_CHECKING:
    from dumpfilter.master.source import LoopTurns, SourceThread

log = structlog.get_logger("dumpfilter.master")

_DRAIN_POLL = 0.02
"""The interval at which a draining master checks whether the dumps have ended, seconds."""

_LOOKS_AT_BINLOG = 5.0
"""The interval at which the health check tests whether the binlog can be read, seconds."""

_ANSWER_SECONDS = 5.0
"""The time within which the asyncio loop must answer to count as alive, seconds."""

T = TypeVar("T")

_ANY_PORT = ListenAddress()
"""The default address of a server: a free port that only this machine can reach."""


class ServerDied(DumpfilterError):
    """The error for a master whose asyncio loop has ended unexpectedly, so that no slave could connect any more."""


class MasterServer:
    """The gRPC server that serves one binlog set to slaves.

    With port 0 in ``listen`` the system chooses a free port, which :attr:`port` holds. With None for ``listen`` no
    dumpfilter slave can connect, and :attr:`port` is 0; only the port for real replicas serves the set.
    ``write_filter`` has rules like ``--binlog-do-db`` that apply to all slaves. ``source`` is the running server that
    the master follows; None for none. Raises Exposed when other machines could connect without TLS or without a login.

    All calls run in one asyncio loop, which has its own thread. The methods of this class must be called from other
    threads.
    """

    def __init__(
        self,
        store: BinlogStore,
        *,
        listen: ListenAddress | None = _ANY_PORT,
        write_filter: ReplicationFilter | None = None,
        config: MasterConfig | None = None,
        max_dumps: int = MAX_DUMPS,
        source: SourceThread | None = None,
    ) -> None:
        if listen is not None:
            warning = listen.check_exposure((config or MasterConfig()).users)
            if warning is not None:
                log.warning("insecure", reason=warning)
        self._max_dumps = max_dumps
        self.loop = ServingLoop("grpc-loop")
        self._probe: asyncio.Task[None] | None = None
        self._stopped = False
        self.count_replicas: Callable[[], tuple[int, int]] | None = None
        """Returns the number of connections of the replication port and their limit. None: the master has no such
        port.
        """
        self.source = source
        self._turns: LoopTurns | None = None
        self.reader = SharedReader(store, self.loop.loop)
        self.service = DumpFilterService(self.reader, write_filter=write_filter, config=config)
        if source is not None:
            store.upstream, store.ended = source.ask_logged, source.ended
            source.on_ended = self.service.wake_dumps
            source.on_written = store.watcher.follow_writer(lambda: source.follower.progress.file)
            from dumpfilter.master.source import LoopTurns

            self._turns = source.follower.turns = LoopTurns(self.loop.loop, self.reader.received)
        self.service.drains.on_change.append(self._tell_drained)
        self.loop.start()
        try:
            self.port = self.wait(self._open(listen))
        except BaseException:
            self._end_loop()
            raise

    def wait(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """Run a coroutine in the server's asyncio loop, wait for it, and return its result. Raises TimeoutError after
        ``seconds``; None: no timeout.
        """
        return self.loop.wait(work, seconds)

    @property
    def max_connections(self) -> int:
        """The largest number of connections that each port for slaves or replicas accepts."""
        return open_connections(self._max_dumps, resource.getrlimit(resource.RLIMIT_NOFILE)[0])

    async def _open(self, listen: ListenAddress | None) -> int:
        if self.max_connections < self._max_dumps:
            log.warning(
                "fewer connections than dumps",
                connections=self.max_connections,
                max_dumps=self._max_dumps,
                open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
                hint="raise the limit of open files (ulimit -n) to twice --max-dumps, or give a smaller --max-dumps",
            )
        self._port = GrpcPort(self.service, self._max_dumps)
        self.gate = self._port.gate
        self._health = self._port.health
        return 0 if listen is None else self._port.open(listen)

    def start(self) -> None:
        """Begin to accept connections, and report the health of the service to clients that watch it."""
        self.wait(self._start())

    async def _start(self) -> None:
        await self._port.start(drained=self.service.drains.is_all)
        self._probe = asyncio.create_task(self._look_at_binlog())

    async def _look_at_binlog(self) -> None:
        """Report to the health service every few seconds whether the newest binlog file can be read."""
        readable = True
        while True:
            if self.source is not None:
                await self._health.tell(receiving=self.source.is_connected)
            await asyncio.sleep(_LOOKS_AT_BINLOG)
            before, readable = readable, True
            try:
                await self.reader.call(self.service.store.check_readable)
                if not before:
                    log.info("the binlog can be read again")
            except BinlogError as error:
                readable = False
                if before:
                    log.error("the binlog cannot be read", error=printable(str(error)))
            if before != readable:
                await self._health.tell(readable=readable)

    def _tell_drained(self) -> None:
        """Report to the health service whether the operator has drained all slaves (sent them away)."""
        drained = self.service.drains.is_all
        with contextlib.suppress(RuntimeError):
            # After the end of the loop nobody asks for the health.
            self.loop.loop.call_soon_threadsafe(
                lambda: self.loop.loop.create_task(self._health.tell(drained=drained))
            )

    def drain(self, seconds: float, interrupted: Callable[[], bool] = lambda: False) -> int:
        """Send all slaves away, each at its next transaction boundary, and wait until their dumps have ended.

        The wait ends after ``seconds``, or as soon as ``interrupted`` returns true. Return the number of dumps that
        still run. :meth:`stop` ends these inside a transaction.
        """
        deadline = time.monotonic() + seconds
        if not self.service.drains.is_all:
            # An operator's drain of all slaves must stay as it is, since the next run of the master restores it.
            self.service.drains.drain(Who(), SHUTTING_DOWN)
        while left := sum(bool(slave.dump) for slave in self.service.register.all()):
            if time.monotonic() >= deadline or interrupted():
                break
            time.sleep(_DRAIN_POLL)
        return left

    def answers(self) -> bool:
        """Tell whether the asyncio loop answers within a few seconds."""
        with contextlib.suppress(TimeoutError):
            self.wait(asyncio.sleep(0), _ANSWER_SECONDS)
            return True
        return False

    def check(self) -> None:
        """Raise ServerDied when the asyncio loop has ended, although nobody has stopped the server."""
        if not self.is_serving:
            raise ServerDied(
                "the gRPC server has ended by itself, probably for want of memory; start the master again, with more "
                "memory or fewer --max-dumps"
            )

    @property
    def is_serving(self) -> bool:
        """Whether the server's asyncio loop runs. It does from the creation of the server to its stop."""
        return self.loop.is_running

    def stop(self, grace: float = 1.0) -> None:
        """End all dumps, stop the server, and close the binlog set. Running calls get ``grace`` seconds to end."""
        if self._stopped:
            return
        self._stopped = True
        if self.is_serving:
            with contextlib.suppress(TimeoutError):
                self.wait(self._stop(grace), grace + END_SECONDS)
        else:
            self._port.abandon()
        self._end_loop()
        self.service.store.close()

    async def _stop(self, grace: float) -> None:
        await self._health.tell(serving=False)
        self.service.end_dumps()
        if self._turns is not None:
            self._turns.close()
        if self._probe is not None:
            self._probe.cancel()
        await self._port.stop(grace)
        await end_of_tasks()

    def _end_loop(self) -> None:
        self.loop.end()
        self.reader.close()
