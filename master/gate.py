"""The gate through which every gRPC call passes before the service sees it.

The gate bounds what a client can spend before it has shown a password. The bounds are on the calls under way, on the
time and the size of a request, and on the requests that are decoded at once. A call that finds no place is refused
before its request is received.

gRPC itself receives the request of a call before it calls the service, without a time limit. Therefore the gate turns
each method into one with a stream of requests, which a service reads itself. On the wire both are the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
import structlog
from google.protobuf.message import DecodeError

from dumpfilter.errors import OptionError
from dumpfilter.master.handlers import refusal
from dumpfilter.master.limits import (
    MAX_DECODING,
    MAX_SMALL_REQUEST,
    Kind,
    Overloaded,
    Places,
    Seldom,
    ServerLimits,
)
from dumpfilter.master.measurements import MALFORMED_REQUEST, MEASURED, OUT_OF_MEMORY, REQUEST_TOO_LARGE
from dumpfilter.master.refusals import abort
from dumpfilter.printable import printable

log = structlog.get_logger("dumpfilter.master")


@dataclass(frozen=True)
class MethodBounds:
    """The bounds of one gRPC method."""

    max_request: int = MAX_SMALL_REQUEST
    kind: Kind = Kind.CALL
    """The kind of place that a method with a stream of responses takes once its request is decoded."""
    check: Callable[[Any], None] = lambda request: None
    """Checks the numbers of elements in a request, right after the request is decoded. Raises OptionError."""


class Gate(grpc.ServerInterceptor):  # type: ignore[type-arg]  # the class is generic only in the type stubs
    """A gRPC interceptor that keeps the bounds of each method, given by its full name.

    Methods that ``bounds`` leaves out have the defaults of :class:`MethodBounds`.
    """

    def __init__(self, limits: ServerLimits, bounds: dict[str, MethodBounds]) -> None:
        self.places = Places(limits)
        self._bounds = bounds
        self._arrivals = Arrivals(limits.request_seconds)
        self._decoding = threading.Semaphore(MAX_DECODING)
        self._seldom = Seldom()

    def close(self) -> None:
        """Stop the gate's thread, which ends calls whose requests do not arrive."""
        self._arrivals.close()

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[Any, Any] | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = continuation(handler_call_details)
        if handler is None or handler.request_streaming:
            return None
        method = handler_call_details.method
        bounds = self._bounds.get(method, MethodBounds())
        parse = handler.request_deserializer

        def receive(requests: Iterator[bytes], context: grpc.ServicerContext) -> Any:
            with self._arrivals.expected(context):
                data = next(requests, None)
            return self._decode(data, parse, bounds, method, context)

        if handler.response_streaming:
            stream = handler.unary_stream
            assert stream is not None

            def answer_stream(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[Any]:
                with self._refusing(context, method):
                    with self.places.take(Kind.CALL, context.peer()):
                        request = receive(requests, context)
                    with self.places.take(bounds.kind, context.peer()):
                        yield from stream(request, context)

            return grpc.stream_stream_rpc_method_handler(answer_stream, None, handler.response_serializer)
        unary = handler.unary_unary
        assert unary is not None

        def answer(requests: Iterator[bytes], context: grpc.ServicerContext) -> Any:
            with self._refusing(context, method), self.places.take(Kind.CALL, context.peer()):
                return unary(receive(requests, context), context)

        return grpc.stream_unary_rpc_method_handler(answer, None, handler.response_serializer)

    @contextmanager
    def _refusing(self, context: grpc.ServicerContext, method: str) -> Iterator[None]:
        try:
            reason = refusal()
            if reason:
                raise Overloaded(reason)
            yield
        except Overloaded as error:
            self._log("call refused", context, method, error)
            abort(context, error)
        except MemoryError:
            MEASURED.failed_calls.add(OUT_OF_MEMORY)
            self._log("call refused", context, method, "out of memory")
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the master is out of memory; try again later")

    def _decode(
        self,
        data: bytes | None,
        parse: Callable[[bytes], Any] | None,
        bounds: MethodBounds,
        method: str,
        context: grpc.ServicerContext,
    ) -> Any:
        if data is None:
            _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "the call ended without a request")
        if len(data) > bounds.max_request:
            text = f"the request has {len(data)} bytes: at most {bounds.max_request}"
            MEASURED.failed_calls.add(REQUEST_TOO_LARGE)
            self._log("call refused", context, method, text)
            _refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        with self._decoding:
            try:
                request = data if parse is None else parse(data)
            except (DecodeError, UnicodeDecodeError) as error:
                reason = printable(str(error))
                MEASURED.failed_calls.add(MALFORMED_REQUEST)
                self._log("malformed request", context, method, reason)
                _refuse(
                    context,
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"the request is not a message of the contract (a string that is not UTF-8?): {reason}",
                )
            try:
                bounds.check(request)
            except OptionError as error:
                self._log("call refused", context, method, error)
                abort(context, error)
        return request

    def _log(self, event: str, context: grpc.ServicerContext, method: str, reason: object) -> None:
        # One stranger can cause thousands of refusals a second, and must not fill the disk with them.
        held = self._seldom.allows()
        if held is not None:
            log.warning(
                event,
                peer=context.peer(),
                method=printable(method),
                reason=printable(str(reason)),
                lines_held_back=held,
            )


class Arrivals:
    """The calls whose requests are still on their way. A call whose request takes too long is cancelled."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: dict[int, tuple[float, grpc.ServicerContext]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        threading.Thread(target=self._run, name="grpc-arrivals", daemon=True).start()

    @contextmanager
    def expected(self, context: grpc.ServicerContext) -> Iterator[None]:
        """Cancel the call when the ``with`` block, in which its request arrives, takes too long."""
        with self._lock:
            self._waiting[id(context)] = (time.monotonic() + self._seconds, context)
        try:
            yield
        finally:
            with self._lock:
                del self._waiting[id(context)]

    def close(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(min(1.0, self._seconds / 2)):
            now = time.monotonic()
            with self._lock:
                late = [context for deadline, context in self._waiting.values() if deadline < now]
            for context in late:
                context.cancel()  # type: ignore[no-untyped-call]  # the stubs lack its type


def _refuse(context: grpc.ServicerContext, code: grpc.StatusCode, text: str) -> NoReturn:
    context.abort(code, text)
    raise AssertionError("abort() raises")
