"""A bare ``grpc.aio`` server, the floor for the master: it sends bytes to many streams and does nothing else.

The process reads commands from standard input. ``commit MARK SIZE`` sends a message of SIZE bytes, which begins with
MARK, to all followers.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc

FOLLOW = "/bench.Raw/Follow"
COPY = "/bench.Raw/Copy"


class _Handler(grpc.GenericRpcHandler):
    def __init__(self) -> None:
        self.data = os.urandom(1 << 20) * 8
        self.followers: set[asyncio.Queue[bytes]] = set()

    def service(self, details: Any) -> Any:
        methods = {FOLLOW: self.follow, COPY: self.copy}
        method = methods.get(details.method)
        return grpc.unary_stream_rpc_method_handler(method) if method else None

    async def follow(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        """Yield a first message, and then the message of each commit."""
        messages: asyncio.Queue[bytes] = asyncio.Queue()
        self.followers.add(messages)
        try:
            yield b"first"
            while True:
                yield await messages.get()
        finally:
            self.followers.discard(messages)

    async def copy(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        """Yield bytes without a message around them. ``request`` is a text of the messages' sizes."""
        for size in map(int, request.split()):
            yield self.data[:size]


async def _serve() -> None:
    handler = _Handler()
    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers((handler,))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        _, mark, size = line.split()
        message = mark.ljust(int(size), b"x")
        for messages in handler.followers:
            messages.put_nowait(message)
    await server.stop(0)


if __name__ == "__main__":
    asyncio.run(_serve())
