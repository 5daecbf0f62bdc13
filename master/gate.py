"""The gRPC interceptor (the gate) that limits how much of a master's resources a client can use before it has proved a
password.

It limits the calls in progress, the time and the size of a request, and the requests that are decoded at once. A call
beyond a limit is refused before its request is received.

gRPC itself receives the request of a call before it calls the service, without a time limit. Therefore the gate turns
each method into one with a stream of requests, which a service reads itself. The bytes on the wire do not change.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from contextlib import aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
import structlog
from google.protobuf.message import DecodeError

from dumpfilter.base.errors import DumpfilterError, OptionError
from dumpfilter.base.logs import Seldom
from dumpfilter.base.printable import printable
from dumpfilter.master import limits
from dumpfilter.master.limits import (
    MAX_SMALL_REQUEST,
    MIN_NET_TIMEOUT,
    Kind,
    Overloaded,
    Places,
)
from dumpfilter.master.measurements import MEASURED

log = structlog.get_logger("dumpfilter.master")

Context = grpc.aio.ServicerContext[Any, Any]
"""The object with which gRPC describes a call in the asyncio loop that serves it."""

MAX_ERROR = 1800
"""The longest error text that the master sends to a slave, characters. gRPC limits the text's header to 8 KiB."""

_ESCAPED_SHARE = 3
"""The divisor of the longest error text if the text is not ASCII.

gRPC may need 12 bytes for such a character, because it escapes each byte.
"""

_STOPPING = frozenset(
    {"ALREADY_EXISTS", "INVALID_ARGUMENT", "OUT_OF_RANGE", "FAILED_PRECONDITION", "DATA_LOSS"}
)
"""The gRPC status codes at which a slave stops until its operator has removed the cause. After all others it tries
again.
"""


class RequestRefused(DumpfilterError):
    """The base class of errors for requests that the master refuses before the service receives them."""


class MalformedRequest(RequestRefused):
    """The error for a request that is not a valid message of ``dumpfilter.proto``."""

    grpc_code = "INVALID_ARGUMENT"


class RequestTooLarge(RequestRefused):
    """The error for a request with more bytes than the limit of its method."""

    grpc_code = "RESOURCE_EXHAUSTED"


class RequestTooLate(RequestRefused):
    """The error for a request that does not arrive within the time limit."""

    grpc_code = "CANCELLED"


class OutOfMemory(RequestRefused):
    """The error for a call that failed because the master has no memory left."""

    grpc_code = "RESOURCE_EXHAUSTED"


class Silent(Exception):
    """The exception that ends the dump of a slave that has made no call within the time that the slave promised."""


def stops_slaves(error: DumpfilterError) -> bool:
    """Tell whether a slave that receives this error stops until its operator has removed the cause, instead of trying
    again.
    """
    return error.grpc_code in _STOPPING


@dataclass(frozen=True)
class MethodBounds:
    """The limits of one gRPC method on the size and the contents of requests, and on concurrent calls."""

    max_request: int = MAX_SMALL_REQUEST
    kind: Kind = Kind.CALL
    """The concurrency limit against which a method with streamed responses counts, once its request is decoded."""
    is_serialized: bool = False
    """Whether the service's answers are serialized messages already."""
    check: Callable[[Any], None] = lambda request: None
    """Checks the numbers of elements in a decoded request. Raises OptionError."""


class LifeSigns:
    """The timeouts of dumps whose slaves have promised to make regular calls. Such a dump ends when its slave makes no
    call in time.

    A slave vanishes without a word when its machine loses power or a cable is cut. Pings of HTTP/2 cannot tell such a
    slave from one with a slow connection, because their answers wait behind the stream.
    """

    def __init__(self) -> None:
        self._watches: dict[str, tuple[asyncio.Timeout, float]] = {}
        """The timeout of each dump by the slave's id, with the time without a call after which the dump ends,
        seconds.
        """

    def hear(self, slave_id: str) -> None:
        """Restart the timeout of the dump of slave ``slave_id``, because the slave has made a call."""
        limit, seconds = self._watches.get(slave_id, (None, 0.0))
        if limit is not None and not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time() + seconds)

    @asynccontextmanager
    async def awaited(self, request: Any) -> AsyncIterator[None]:
        """Raise Silent in the ``with`` block when the slave makes no call for the time that ``request`` promises
        (``net_timeout_ms``).

        A request without this field, or with 0, promises nothing, and has no timeout.
        """
        milliseconds = getattr(request, "net_timeout_ms", 0)
        if not milliseconds:
            yield
            return
        slave_id, seconds = request.slave_id, max(milliseconds / 1000, MIN_NET_TIMEOUT)
        limit = asyncio.timeout(seconds)
        watch = self._watches[slave_id] = limit, seconds
        try:
            async with limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            raise Silent from None
        finally:
            if self._watches.get(slave_id) is watch:
                del self._watches[slave_id]


class Gate(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic only in the type stubs
    """A gRPC interceptor that enforces the limits of each method.

    ``bounds`` has the limits by the method's full name. Other methods have the defaults of :class:`MethodBounds`. Large
    requests are decoded by the threads of ``workers``.
    """

    def __init__(self, max_dumps: int, bounds: dict[str, MethodBounds], workers: Executor) -> None:
        self.places = Places(max_dumps)
        self._bounds = bounds
        self._workers = workers
        self._seldom = Seldom()
        self._signs = LifeSigns()

    async def intercept_service(  # type: ignore[override]  # None stands for an unknown method
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming:
            return None
        method = handler_call_details.method
        bounds = self._bounds.get(method, MethodBounds())
        call: Any = handler.unary_stream if handler.response_streaming else handler.unary_unary
        is_free = bounds.kind is Kind.FREE

        async def answer(requests: object, context: Context) -> AsyncIterator[Any]:
            async with self._refusing(context, method):
                with nullcontext() if is_free else self.places.take(Kind.CALL, context.peer()):
                    request = await self._receive(handler.request_deserializer, bounds, context, method)
                    if not handler.response_streaming:
                        yield await call(request, context)
                        return
                with self.places.take(bounds.kind, context.peer()):
                    answering = call(request, context)
                    if inspect.isawaitable(answering):
                        # The health service writes its answers itself.
                        await answering
                        return
                    # The dump of a client that vanished in the middle of a message must end at once.
                    async with aclosing(answering) as responses, self._signs.awaited(request):
                        async for response in responses:
                            yield response

        return grpc.stream_stream_rpc_method_handler(
            answer, None, None if bounds.is_serialized else handler.response_serializer
        )

    async def _receive(
        self, parse: Callable[[bytes], Any] | None, bounds: MethodBounds, context: Context, method: str
    ) -> Any:
        """Receive, check and decode the request of a call, and restart the slave's timeout. Return the decoded request.
        Raises DumpfilterError.
        """
        try:
            async with asyncio.timeout(limits.REQUEST_SECONDS):
                data = await context.read()
        except TimeoutError:
            raise RequestTooLate("the request did not arrive in time") from None
        if not isinstance(data, bytes):
            # The client has ended the call itself, which is no failure.
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call ended without a request")
        if len(data) > bounds.max_request:
            raise RequestTooLarge(f"the request has {len(data)} bytes: at most {bounds.max_request}")

        def decode() -> Any:
            request = data if parse is None else parse(data)
            bounds.check(request)
            return request

        try:
            if len(data) <= MAX_SMALL_REQUEST:
                request = decode()
            else:
                request = await asyncio.get_running_loop().run_in_executor(self._workers, decode)
        except (DecodeError, UnicodeDecodeError) as error:
            raise MalformedRequest(
                "the request is not a message of the contract (a string that is not UTF-8?): "
                f"{printable(str(error))}"
            ) from None
        except OptionError as error:
            self._log(error, context, method)
            raise
        self._signs.hear(getattr(request, "slave_id", ""))
        return request

    @asynccontextmanager
    async def _refusing(self, context: Context, method: str) -> AsyncIterator[None]:
        """End the call with the status code and the text of the error that the ``with`` block raises."""
        try:
            yield
        except Silent:
            log.warning("slave is silent", peer=context.peer(), method=printable(method))
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the slave gave no sign of life")
        except (DumpfilterError, MemoryError) as error:
            if isinstance(error, MemoryError):
                error = OutOfMemory("the master is out of memory; try again later")
            # The service has logged its own errors.
            if isinstance(error, Overloaded | RequestRefused):
                self._log(error, context, method)
            await _abort(context, error)

    def _log(self, error: DumpfilterError, context: Context, method: str) -> None:
        # One stranger can cause thousands of refusals a second, and must not fill the disk with them.
        held = self._seldom.allows()
        if held is not None:
            event = "malformed request" if isinstance(error, MalformedRequest) else "call refused"
            log.warning(
                event,
                peer=context.peer(),
                method=printable(method),
                reason=printable(str(error)),
                lines_held_back=held,
            )


async def _abort(context: Context, error: DumpfilterError) -> NoReturn:
    """Count the error in the metrics, and end the call with the error's status code and text. Always raises."""
    MEASURED.failed_calls.add(error)
    text = str(error)
    most = MAX_ERROR if text.isascii() else MAX_ERROR // _ESCAPED_SHARE
    await context.abort(grpc.StatusCode[error.grpc_code], text if len(text) <= most else text[:most] + "…")
    raise AssertionError("abort() raises")
