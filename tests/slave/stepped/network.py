"""A master and its network in a :class:`World`: the real gRPC service, called without gRPC.

:class:`Network` stands for the master's address. :class:`Stub` replaces the generated client, so that the slave's I/O
thread calls the service directly. Each call passes pauses at which the connection may break.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn
from uuid import UUID

import grpc

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.dump.stream.message import Received
from dumpfilter.master.service import DumpFilterService
from dumpfilter.master.store import BinlogStore
from dumpfilter.slave import connection as connection_module
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.inline import Flag, InlineReader, at_once, one_by_one
from tests.slave.stepped.world import World

MASTER = "master"
"""The process to which the dumps belong."""


class Failed(grpc.RpcError):  # type: ignore[misc]  # grpc has no types
    """The error of a call, as a gRPC client sees it."""

    def __init__(self, code: grpc.StatusCode, details: str = "") -> None:
        super().__init__(f"{code.name}: {details}")
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details


def unavailable() -> Failed:
    return Failed(grpc.StatusCode.UNAVAILABLE, "the connection is broken")


def _failed(error: Failed | DumpfilterError) -> Failed:
    """Return an error of the service as its client sees it. In the product the gate turns it into a status code."""
    return error if isinstance(error, Failed) else Failed(grpc.StatusCode[error.grpc_code], str(error))


class Context:
    """The service's view of a call."""

    def __init__(self) -> None:
        self.active = True

    def peer(self) -> str:
        return "ipv4:127.0.0.1:50000"

    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        raise Failed(code, details)

    def end(self) -> None:
        self.active = False


class Reader(InlineReader):
    """The reader of the stepped world. Whoever lets the binlog grow calls :meth:`grown`."""

    def __init__(self, world: World, binlogs: Path) -> None:
        super().__init__(BinlogStore(binlogs))
        self._world = world
        self._growth = 0

    @property
    def growth(self) -> int:
        return self._growth

    def grown(self) -> None:
        self._growth += 1

    def wait(self, growth: int, seconds: float, flag: Flag) -> None:
        self._world.block(lambda: self._growth != growth or flag.is_set, seconds, "new events")


class Stream:
    """The client's side of a dump, and the messages on their way."""

    def __init__(self, network: Network, request: pb.DumpRequest) -> None:
        self._network = network
        self._world = network.world
        self._request = request
        self._messages: deque[bytes] = deque()
        self._ended = False
        self._error: Failed | None = None
        self.context = Context()
        # The slave ends a stream by these members of gRPC's object.
        self._state = SimpleNamespace(due=())
        self._call = SimpleNamespace(cancel=lambda *why: self.cancel())
        network.streams.append(self)
        if network.service is None:
            self.cut()
            return
        self._world.spawn("dump", self._serve, MASTER)

    def _serve(self) -> None:
        service = self._network.service
        try:
            if service is None:
                raise unavailable()
            for message in one_by_one(service.Dump(self._request, self.context)):
                self._world.block(
                    lambda: len(self._messages) < self._network.capacity or not self.context.active,
                    where="a full wire",
                )
                if not self.context.active:
                    break
                self._messages.append(message)
                self._world.pause("a message is under way")
        except (Failed, DumpfilterError) as error:
            self._error = self._error or _failed(error)
        finally:
            self._ended = True
            self.context.end()

    def __iter__(self) -> Iterator[Received]:
        while True:
            self._world.pause("before a message")
            self._world.block(lambda: bool(self._messages) or self._ended, where="a message")
            if self._messages:
                yield Received.parse(self._messages.popleft())
            elif self._error is not None:
                raise self._error
            else:
                return

    def cut(self, error: Failed | None = None) -> None:
        """Break the connection. Messages on their way are lost."""
        if not self._ended:
            self._error = error or unavailable()
            self._ended = True
            self._messages.clear()
        self.context.end()
        if self in self._network.streams:
            self._network.streams.remove(self)

    def cancel(self) -> bool:
        self.cut(Failed(grpc.StatusCode.CANCELLED, "the slave cancelled the call"))
        return True


class Answer:
    """A call with one answer, which the client may cancel."""

    def __init__(self, network: Network, call: Callable[[], Any]) -> None:
        self._network = network
        self._call = call
        self._cancelled = False

    def cancel(self) -> bool:
        self._cancelled = True
        return True

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Never call back, since no time passes between a call and its answer."""

    def result(self) -> Any:
        self._network.world.pause("a request is under way")
        if self._cancelled:
            raise grpc.FutureCancelledError
        answer = self._call()
        self._network.world.pause("an answer is under way")
        if self._cancelled:
            raise grpc.FutureCancelledError
        return answer


class Network:
    """The master's process and the connections to it. The master may be down."""

    def __init__(self, world: World, binlogs: Path, capacity: int) -> None:
        self.world = world
        self.binlogs = binlogs
        self.capacity = capacity
        """The most messages of a dump that are under way at a time."""
        self.service: DumpFilterService | None = None
        self.streams: list[Stream] = []
        self.broken = 0
        """The number of times that all connections were cut."""
        self.start()

    def start(self) -> None:
        if self.service is None:
            self.service = DumpFilterService(Reader(self.world, self.binlogs))

    def stop(self) -> None:
        """End the master's process. It forgets the registrations."""
        self.cut()
        self.world.kill(MASTER)
        if self.service is not None:
            self.service.store.close()
            self.service = None

    def switch(self, number: int) -> None:
        """Replace the master by another one with the same binlogs."""
        self.stop()
        uuid = UUID(int=number)
        self.binlogs.with_name("auto.cnf").write_text(f"[auto]\nserver-uuid={uuid}\n")
        self.start()

    def cut(self) -> None:
        """Break all connections."""
        self.broken += 1
        for stream in list(self.streams):
            stream.cut()

    def grown(self) -> None:
        if self.service is not None:
            self.service.reader.grown()  # type: ignore[attr-defined]

    def call(self, method: str, request: Any) -> Any:
        """Call the service. The answer is lost when the connection breaks before it arrives."""
        if self.service is None:
            raise unavailable()
        broken = self.broken
        try:
            answer = at_once(getattr(self.service, method)(request, Context()))
        except DumpfilterError as error:
            raise _failed(error) from error
        self.world.pause(f"{method} is answered")
        if broken != self.broken:
            raise unavailable()
        return answer


class Connection:
    """The client's connection, in place of gRPC's."""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass


class Method:
    """A method of the service, as the generated client offers it."""

    def __init__(self, network: Network, name: str) -> None:
        self._network = network
        self._name = name

    def __call__(self, request: Any, timeout: float | None = None, **_: object) -> Any:
        self._network.world.pause(f"{self._name} is under way")
        return self._network.call(self._name, request)

    def future(self, request: Any, timeout: float | None = None, **_: object) -> Answer:
        return Answer(self._network, lambda: self._network.call(self._name, request))


class Stub:
    """The generated client's replacement."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def __getattr__(self, name: str) -> Method:
        return Method(self._network, name)

    def Dump(self, request: pb.DumpRequest, **_: object) -> Stream:
        self._network.world.pause("Dump is under way")
        return Stream(self._network, request)


PATCHES = {
    # A failed call makes the slave try a TLS handshake, over a real socket and with real threads.
    "speaks_tls": (connection_module, lambda *_: False),
}
"""The names of the product's modules that a test replaces."""
