"""The answer to gRPC requests that cannot be parsed, for example because a string is not UTF-8.

gRPC itself would answer INTERNAL and write a traceback to the log. The interceptor of this module answers
INVALID_ARGUMENT instead, as the service does for other unusable requests, and logs one line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import structlog
from google.protobuf.message import DecodeError

from dumpfilter.printable import printable

log = structlog.get_logger("dumpfilter.master")


@dataclass(frozen=True)
class _Malformed:
    reason: str


class MalformedRequests(grpc.ServerInterceptor):  # type: ignore[type-arg]  # the class is generic only in the type stubs
    """A gRPC interceptor that answers INVALID_ARGUMENT to a request that cannot be parsed.

    The interceptor does not check calls in which the client streams requests.
    """

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[Any, Any] | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = continuation(handler_call_details)
        if handler is None or handler.request_streaming or handler.request_deserializer is None:
            return handler
        method = handler_call_details.method
        parse = _parser(handler.request_deserializer)
        if handler.response_streaming:
            stream = handler.unary_stream
            assert stream is not None

            def answer_stream(request: Any, context: grpc.ServicerContext) -> Any:
                _check(request, context, method)
                return stream(request, context)

            return grpc.unary_stream_rpc_method_handler(answer_stream, parse, handler.response_serializer)
        unary = handler.unary_unary
        assert unary is not None

        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            _check(request, context, method)
            return unary(request, context)

        return grpc.unary_unary_rpc_method_handler(answer, parse, handler.response_serializer)


def _parser(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def parse_or_tell(data: bytes) -> Any:
        try:
            return parse(data)
        except (DecodeError, UnicodeDecodeError) as error:
            return _Malformed(str(error))

    return parse_or_tell


def _check(request: Any, context: grpc.ServicerContext, method: str) -> None:
    if isinstance(request, _Malformed):
        reason = printable(request.reason)
        log.warning("malformed request", peer=context.peer(), method=printable(method), reason=reason)
        context.abort(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"the request is not a message of the contract (a string that is not UTF-8?): {reason}",
        )
