"""A bare gRPC server that streams bytes in chunks of given sizes. It is the floor for grpc_end_to_end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

METHOD = "/bench.Raw/Stream"


class _Handler(grpc.GenericRpcHandler):
    def __init__(self) -> None:
        self.data = os.urandom(1 << 20) * 8

    def service(self, details: Any) -> Any:
        return grpc.unary_stream_rpc_method_handler(self.stream) if details.method == METHOD else None

    def stream(self, request: bytes, context: Any) -> Iterator[bytes]:
        """Yield raw bytes without a message around them. ``request`` is a text of the chunks' sizes."""
        for size in map(int, request.split()):
            yield self.data[:size]


def main() -> None:
    server = grpc.server(
        ThreadPoolExecutor(2), handlers=(_Handler(),), options=[("grpc.max_receive_message_length", -1)]
    )
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(0)


if __name__ == "__main__":
    main()
