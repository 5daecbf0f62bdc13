"""A TCP proxy whose connections a test cuts or slows down, also in the middle of a transaction."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

_PIECE = 1 << 16
_SLOW_STEPS = 20
"""Pieces a second of a slow connection."""


class Proxy:
    """Forwards connections from ``port`` to ``target``, a port of loopback that can change."""

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.target = target
        self.speed = 0
        """Bytes a second from the target to the client, or 0 for as many as possible."""
        self.forwarded = 0
        """Bytes from the target to clients so far."""
        self._cut_at: int | None = None
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Cut all connections."""
        with self._lock:
            pairs = list(self._pairs)
            self._cut_at = None
        for pair in pairs:
            _close(pair)

    def cut_after(self, length: int) -> None:
        """Cut all connections when ``length`` further bytes have gone to the clients, wherever in a packet that is."""
        with self._lock:
            self._cut_at = self.forwarded + length

    @property
    def cut_is_due(self) -> bool:
        """Whether the length of :meth:`cut_after` is not reached yet."""
        with self._lock:
            return self._cut_at is not None

    def close(self) -> None:
        """Cut all connections and take no more."""
        # A thread that waits in accept() keeps a closed socket open.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self.target), timeout=10)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = (client, server)
        with self._lock:
            self._pairs.add(pair)
        up = threading.Thread(target=self._pump, args=(client, server, pair, False), daemon=True)
        up.start()
        self._pump(server, client, pair, True)
        up.join()
        with self._lock:
            self._pairs.discard(pair)
        client.close()
        server.close()

    def _pump(
        self,
        source: socket.socket,
        sink: socket.socket,
        pair: tuple[socket.socket, socket.socket],
        counted: bool,
    ) -> None:
        """Forward until one side ends, then end both."""
        with contextlib.suppress(OSError):
            while True:
                speed = self.speed if counted else 0
                data = source.recv(max(1, min(_PIECE, speed // _SLOW_STEPS)) if speed else _PIECE)
                if not data:
                    break
                if counted:
                    data, ends = self._count(data)
                    sink.sendall(data)
                    if ends:
                        self.cut()
                    if speed:
                        time.sleep(len(data) / speed)
                else:
                    sink.sendall(data)
        _close(pair)

    def _count(self, data: bytes) -> tuple[bytes, bool]:
        """Count bytes for a client. Return the part before the cut, and whether the cut is reached."""
        with self._lock:
            ends = self._cut_at is not None and self.forwarded + len(data) >= self._cut_at
            if ends:
                assert self._cut_at is not None
                data = data[: self._cut_at - self.forwarded]
            self.forwarded += len(data)
            return data, ends


def _close(pair: tuple[socket.socket, socket.socket]) -> None:
    for one in pair:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
