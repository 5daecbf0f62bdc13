"""The gRPC service by which a slave serves the relay log of one channel to other slaves.

A relay log that goes back has a service of its own afterwards (:class:`~dumpfilter.edge.served_channel.ServedChannel`).
The calls of other slaves go to the service over the present relay log. A slave that registered with an earlier service
is not known there, and registers again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import cast

from dumpfilter.errors import DumpfilterError
from dumpfilter.master.refusals import Context, abort
from dumpfilter.master.service import DumpFilterService
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as pb_grpc


class RelayService(pb_grpc.DumpFilterServicer):  # type: ignore[misc]  # generated, untyped
    """The service of a channel. ``present`` returns the one over the present relay log, or raises DumpfilterError."""

    def __init__(self, present: Callable[[], DumpFilterService]) -> None:
        self._present = present

    async def _now(self, context: Context) -> DumpFilterService:
        try:
            # A relay log that is opened for the first time waits for the disk.
            return await asyncio.to_thread(self._present)
        except DumpfilterError as error:
            await abort(context, error)

    async def Register(self, request: pb.RegisterRequest, context: Context) -> pb.RegisterResponse:
        """Register a slave with its filter."""
        service = await self._now(context)
        return await service.Register(request, context)

    async def Unregister(self, request: pb.UnregisterRequest, context: Context) -> pb.UnregisterResponse:
        """Forget a slave and end its dump."""
        service = await self._now(context)
        return await service.Unregister(request, context)

    async def ChangeFilter(
        self, request: pb.ChangeFilterRequest, context: Context
    ) -> pb.ChangeFilterResponse:
        """Replace a registered slave's filter."""
        service = await self._now(context)
        return await service.ChangeFilter(request, context)

    async def Dump(self, request: pb.DumpRequest, context: Context) -> AsyncIterator[bytes]:
        """Stream the relay log to a slave, with the writer's positions."""
        service = await self._now(context)
        stream = cast("AsyncGenerator[bytes]", service.Dump(request, context))
        async with contextlib.aclosing(stream) as messages:
            async for message in messages:
                yield message

    async def Alive(self, request: pb.AliveRequest, context: Context) -> pb.AliveResponse:
        """Answer a slave's sign of life."""
        service = await self._now(context)
        return await service.Alive(request, context)

    async def ListSlaves(self, request: pb.ListSlavesRequest, context: Context) -> pb.ListSlavesResponse:
        """Return the registered slaves that the client may know."""
        service = await self._now(context)
        return await service.ListSlaves(request, context)

    async def Status(self, request: pb.StatusRequest, context: Context) -> pb.StatusResponse:
        """Return the relay log files, and the registered slaves that the client may know."""
        service = await self._now(context)
        return await service.Status(request, context)
