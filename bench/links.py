"""The accuracy of links: the achieved rate, the added delay, and the throughput of a link without a shape."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from contextlib import suppress
from statistics import median

from bench._common import Options, Report, percentiles
from dumpfilter.topology.links.client import LinkProcess
from dumpfilter.topology.links.shape import PLAIN, LinkShape

RATES = (64_000, 512_000, 2_000_000, 10_000_000, 100_000_000, 1_000_000_000)
"""The rates of the links, bits per second."""
SECONDS = 3.0
"""The time for which a link of each rate is busy."""
DELAYS = (0.001, 0.01, 0.05, 0.25)
"""The delays of the links, seconds."""
ROUND_TRIPS = 20
"""The measured round trips of each link and run."""
PLAIN_BYTES = 1 << 30
"""The bytes that pass a link without a shape."""

RATE_TOLERANCE = 0.03
DELAY_TOLERANCE_MS = 2.0

BLOCK = bytes(64 << 10)
BUFFER = bytearray(1 << 20)


class _Answer(socketserver.StreamRequestHandler):
    """A handler that sends as many bytes as a request says."""

    disable_nagle_algorithm = True

    def handle(self) -> None:
        with suppress(OSError):
            for request in self.rfile:
                left = int(request)
                while left > 0:
                    left -= self.connection.send(BLOCK[:left])


def _ask(connection: socket.socket, count: int) -> float:
    """Return the time from a request to its last byte, seconds."""
    start = time.perf_counter()
    connection.sendall(b"%d\n" % count)
    while count > 0:
        if not (got := connection.recv_into(BUFFER)):
            raise SystemExit("the link closed the connection")
        count -= got
    return time.perf_counter() - start


def _transfer(port: int, count: int) -> float:
    """Return the bits per second of a transfer over a new connection."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        return 8 * count / _ask(connection, count)


def _round_trips(port: int) -> list[float]:
    """Return the times of round trips of one byte, seconds."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The first round trip has TCP's handshake in it.
        return [_ask(connection, 1) for _ in range(ROUND_TRIPS)][1:]


def run(report: Report, options: Options) -> None:
    """Measure rates and delays of links, beside the bare loopback in the same run."""
    turns = range(options.runs)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Answer) as peer, LinkProcess() as links:
        peer.daemon_threads = True
        threading.Thread(target=peer.serve_forever, daemon=True).start()
        port_of_peer = peer.server_address[1]
        plain = links.open("plain", port_of_peer, PLAIN)
        for rate in RATES:
            port = links.open(f"rate {rate}", port_of_peer, LinkShape(rate))
            ratio = median(_transfer(port, int(rate / 8 * SECONDS)) / rate for _ in turns)
            report.row(f"rate {rate:,} bit/s", ratio, "{:.4f} of the rate")
            report.limit(f"error of {rate:,} bit/s", abs(ratio - 1), RATE_TOLERANCE)
        for delay in DELAYS:
            port = links.open(f"delay {delay}", port_of_peer, LinkShape(None, delay))
            pairs = [(_round_trips(port_of_peer), _round_trips(port)) for _ in turns]
            floor = median(took for bare, _ in pairs for took in bare)
            added = [((took - floor) / 2 - delay) * 1e3 for _, shaped in pairs for took in shaped]
            p50, p99 = median(added), percentiles(added)[99]
            text = f"{{:+.2f}} ms in the median, {p99:+.2f} ms at p99, each way"
            report.row(f"delay {delay * 1e3:g} ms", p50, text)
            report.limit(f"ms added to {delay * 1e3:g} ms", abs(p50), DELAY_TOLERANCE_MS)
        direct = median(_transfer(port_of_peer, PLAIN_BYTES) for _ in turns)
        through = median(_transfer(plain, PLAIN_BYTES) for _ in turns)
        text = f"{through / 1e9:.1f} Gbit/s, {direct / 1e9:.1f} directly"
        report.row("a link without a shape", through / direct, text)
        trips = [median(_round_trips(plain)) - median(_round_trips(port_of_peer)) for _ in turns]
        report.row("… its round trip", median(trips) * 1e3, "{:.3f} ms longer")
        peer.shutdown()
    report.note("a rate counts from the request to the last byte, so the first round trip is in it")
