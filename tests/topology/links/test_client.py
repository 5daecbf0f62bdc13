"""Links in their process, between real sockets."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from dumpfilter.base.errors import LinkError
from dumpfilter.topology.links.client import LinkProcess
from dumpfilter.topology.links.proxy import Link
from dumpfilter.topology.links.shape import PLAIN, LinkShape, Outage

PATIENCE = 240.0
"""The longest time for a state to come, seconds."""


@pytest.fixture(scope="module")
def links() -> Iterator[LinkProcess]:
    with LinkProcess() as process:
        yield process


class Source:
    """A server that sends the same bytes to each connection, and then sends back what it receives."""

    def __init__(self, greeting: bytes = b"") -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._greeting = greeting
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._connections.append(connection)
                threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.sendall(self._greeting)
            while data := connection.recv(65536):
                connection.sendall(data)

    def close(self) -> None:
        # A thread that waits in accept keeps the port until the socket is shut down.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def source() -> Iterator[Source]:
    server = Source()
    yield server
    server.close()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def echoed(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return received(connection, len(data))


def received(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count and (data := connection.recv(count - len(found))):
        found += data
    return found


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the state did not come"
        time.sleep(0.005)


def test_a_slow_line_does_not_hold_back_the_end_of_a_small_message(links: LinkProcess) -> None:
    """A round takes 70 ms. Nagle's algorithm would wait 40 ms more for a delayed acknowledgement."""
    source = Source()
    port = links.open("small", source.port, LinkShape(rate=64_000, delay=0.03))

    def seconds_of_a_round() -> float:
        begin = time.monotonic()
        connection.sendall(bytes(40))
        connection.recv(40, socket.MSG_WAITALL)
        return time.monotonic() - begin

    with socket.create_connection(("127.0.0.1", port)) as connection:
        # A busy machine delays many rounds, but not all.
        assert any(seconds_of_a_round() < 0.09 for _ in range(400))
    source.close()


def test_a_plain_link_counts_the_bytes_of_both_directions(links: LinkProcess, source: Source) -> None:
    port = links.open("count", source.port)
    with connect(port) as connection:
        assert echoed(connection, b"hello") == b"hello"
        counters = links.counters()["count"]
        assert (counters.up, counters.down, counters.connections, counters.open) == (5, 5, 1, 1)
    wait_for(lambda: links.counters()["count"].open == 0)
    history = links["count"].history
    assert [one.kind for one in history] == ["opened", "connected", "ended"]
    assert all(abs(one.time - time.time()) < 3600 for one in history)


@pytest.mark.parametrize(
    "shape",
    [LinkShape(), LinkShape(2_000_000), LinkShape(None, 0.01), LinkShape(2_000_000, 0.01, 0.005)],
    ids=["plain", "rate", "delay", "all"],
)
def test_large_answers_pass_unchanged(links: LinkProcess, source: Source, shape: LinkShape) -> None:
    data = os.urandom(50_000)
    name = f"large-{shape}"
    with connect(links.open(name, source.port, shape)) as connection, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(received, connection, len(data))
        connection.sendall(data)
        assert answer.result() == data


def test_the_end_of_one_direction_leaves_the_other_one_open(links: LinkProcess, source: Source) -> None:
    with connect(links.open("half", source.port, LinkShape(None, 0.01))) as connection:
        connection.sendall(b"last words")
        connection.shutdown(socket.SHUT_WR)
        assert received(connection, 100) == b"last words"
    wait_for(lambda: links.counters()["half"].open == 0)


def test_a_cut_resets_connections_and_refuses_new_ones(links: LinkProcess, source: Source) -> None:
    port = links.open("cut", source.port)
    with connect(port) as connection:
        assert echoed(connection, b"a") == b"a"
        links["cut"].cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(port)
    assert links.counters()["cut"].state == "cut"
    links["cut"].heal()
    with connect(port) as connection:
        assert echoed(connection, b"b") == b"b"
    links["cut"].cut(0.01)
    wait_for(lambda: links.counters()["cut"].state == "up")
    with connect(port) as connection:
        assert echoed(connection, b"c") == b"c"


def test_a_cut_drops_the_bytes_under_way(links: LinkProcess, source: Source) -> None:
    port = links.open("drop", source.port, LinkShape(None, 0.001))
    with connect(port) as connection:
        assert echoed(connection, b"a") == b"a"
        links["drop"].reshape(LinkShape(None, 3600.0))
        connection.sendall(b"never")
        wait_for(lambda: links.counters()["drop"].waiting == 5)
        links["drop"].cut()
    counters = links.counters()["drop"]
    assert (counters.waiting, counters.open) == (0, 0)


@pytest.mark.parametrize("shape", [LinkShape(), LinkShape(20_000_000, 0.001)], ids=["plain", "shaped"])
def test_a_planned_cut_lets_exactly_its_bytes_pass(
    links: LinkProcess, source: Source, shape: LinkShape
) -> None:
    name = f"planned-{shape}"
    sent = b"0123456789" * 1000
    port = links.open(name, source.port, shape)
    links[name].cut_after(4321)
    found = b""
    # The target speaks first: a reset that comes before connect() has returned would be connect()'s error.
    with connect(port) as connection, suppress(ConnectionResetError):
        connection.sendall(sent)
        while data := connection.recv(10_000):
            found += data
    assert found == sent[:4321], (links.counters()[name], links[name].history)
    assert links.counters()[name].down == 4321
    wait_for(lambda: links.counters()[name].state == "cut")
    links[name].heal()
    with connect(port) as connection:
        assert echoed(connection, sent) == sent


def test_a_cut_that_is_planned_during_a_cut_does_not_prolong_it(links: LinkProcess, source: Source) -> None:
    port = links.open("twice", source.port)
    links["twice"].cut(0.2)
    links["twice"].cut_after(4)
    wait_for(lambda: links.counters()["twice"].state == "up")
    with connect(port) as connection, suppress(ConnectionResetError):
        connection.sendall(b"12345678")
        connection.recv(100)
    wait_for(lambda: links.counters()["twice"].state == "cut")
    assert links.counters()["twice"].down == 4


def test_a_silence_ends_a_cut(links: LinkProcess, source: Source) -> None:
    """The silence cancelled the end of the cut, and the link refused connections until it was healed by hand."""
    port = links.open("cut, then silent", source.port)
    links["cut, then silent"].cut(3600)
    links["cut, then silent"].silence(0.2)
    assert links.counters()["cut, then silent"].state == "silent"
    with connect(port) as connection:
        assert echoed(connection, b"after the silence") == b"after the silence"


def test_a_planned_cut_waits_for_a_target_that_reads_late(links: LinkProcess) -> None:
    source = Source(bytes(80_000))
    port = links.open("late-target", source.port)
    links["late-target"].cut_after(60_000)
    found = 0
    with socket.socket() as connection, suppress(ConnectionResetError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", port))
        wait_for(lambda: links.counters()["late-target"].down == 60_000)
        while data := connection.recv(4096):
            found += len(data)
    assert found == 60_000
    wait_for(lambda: links.counters()["late-target"].state == "cut")
    source.close()


def test_a_planned_cut_loses_nothing_for_a_target_that_sends_meanwhile(links: LinkProcess) -> None:
    """Clients of gRPC send while they receive. A socket that is closed with unread bytes discards what it must send."""
    source = Source(bytes(2_000_000))
    port = links.open("talking-target", source.port)
    links["talking-target"].cut_after(1_500_000)
    found = 0
    with connect(port) as connection:
        wait_for(lambda: links["talking-target"].counters.down > 0)
        while data := connection.recv(16_384):
            found += len(data)
            connection.sendall(b"more")
            time.sleep(0.002)
        connection.sendall(b"after the end")
    assert found == 1_500_000
    assert links["talking-target"].counters.waiting == 0
    source.close()


def test_a_planned_cut_during_a_handshake_costs_no_later_connection(
    links: LinkProcess, source: Source
) -> None:
    """The link has accepted the target, and has not reached the source yet."""
    delay = 0.2
    port = links.open("half-open", source.port, LinkShape(delay=delay))
    with connect(port) as target:
        time.sleep(2.5 * delay)
        links["half-open"].cut_after(0)
        assert target.recv(1) == b""
        links["half-open"].heal()
        for _ in range(3):
            with connect(port) as later:
                assert echoed(later, b"later") == b"later"


def test_a_reset_accepts_new_connections_at_once(links: LinkProcess, source: Source) -> None:
    port = links.open("reset", source.port)
    with connect(port) as connection:
        assert echoed(connection, b"a") == b"a"
        links["reset"].drop_connections()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with connect(port) as connection:
        assert echoed(connection, b"b") == b"b"


def test_a_reset_of_a_full_line_leaves_room_for_new_connections(links: LinkProcess) -> None:
    source = Source(bytes(1 << 20))
    port = links.open("full", source.port, LinkShape(rate=2_000_000))
    with connect(port) as connection:
        received(connection, 50_000)
        links["full"].drop_connections()
    with connect(port) as connection:
        assert len(received(connection, 50_000)) == 50_000
    source.close()


def test_in_silence_no_byte_passes_and_nothing_is_reset(links: LinkProcess, source: Source) -> None:
    port = links.open("silence", source.port)
    with connect(port) as connection:
        assert echoed(connection, b"a") == b"a"
        links["silence"].silence()
        connection.sendall(b"held")
        connection.settimeout(0.05)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        assert links.counters()["silence"].state == "silent"
        links["silence"].heal()
        connection.settimeout(PATIENCE)
        assert received(connection, 4) == b"held"
        assert links.counters()["silence"].state == "up"


def test_a_silence_delays_the_bytes_under_way(links: LinkProcess, source: Source) -> None:
    port = links.open("later", source.port, LinkShape(None, 0.1))
    with connect(port) as connection:
        assert echoed(connection, b"a") == b"a"
        begin = time.monotonic()
        connection.sendall(b"b")
        wait_for(lambda: links["later"].counters.waiting == 1)
        links["later"].silence(0.3)
        assert received(connection, 1) == b"b"
        assert time.monotonic() - begin >= 0.5


def test_in_silence_no_connection_reaches_the_source(links: LinkProcess, source: Source) -> None:
    port, other = (links.open(name, source.port) for name in ("no handshake", "handshake"))
    links["no handshake"].silence()
    with connect(port) as connection:
        wait_for(lambda: links["no handshake"].counters.connections == 1)
        # The source accepts connections in the order in which the process has made them.
        with connect(other) as later:
            assert echoed(later, b"a") == b"a"
        assert len(source._connections) == 1
        links["no handshake"].heal()
        assert echoed(connection, b"b") == b"b"


def test_overlapping_outages_end_with_the_last_one(links: LinkProcess, source: Source) -> None:
    outages = (Outage(0.0, 0.4), Outage(0.05, 0.1))
    begin = time.monotonic()
    links.open("both", source.port, LinkShape(outages=outages))
    wait_for(lambda: links["both"].counters.state == "cut")
    wait_for(lambda: links["both"].counters.state == "up")
    assert time.monotonic() - begin >= 0.4


def test_an_outage_ends_a_silence_that_began_before_it(links: LinkProcess, source: Source) -> None:
    links.open("silent, then out", source.port)
    links["silent, then out"].silence()
    links["silent, then out"].reshape(LinkShape(outages=(Outage(0.0, 0.1),)))
    wait_for(lambda: links["silent, then out"].counters.state == "up")


def test_an_outage_does_not_shorten_a_cut(links: LinkProcess, source: Source) -> None:
    for name, seconds in (("cut until healed", None), ("long cut", 60.0), ("short cut", 0.1)):
        links.open(name, source.port, LinkShape(outages=(Outage(0.05, 0.3),)))
        links[name].cut(seconds)
    wait_for(lambda: links["short cut"].counters.state == "up")
    ends = [one.kind for one in links["short cut"].history]
    assert ends == ["opened", "cut", "cut", "healed"]
    assert {links[name].counters.state for name in ("cut until healed", "long cut")} == {"cut"}


def test_an_outage_leaves_a_planned_cut(links: LinkProcess, source: Source) -> None:
    port = links.open("planned", source.port, LinkShape(outages=(Outage(0.1, 0.2),)))
    links["planned"].cut_after(4)
    wait_for(lambda: links["planned"].history[-1].kind == "healed")
    with connect(port) as connection:
        connection.sendall(b"12345678")
        assert connection.recv(100) == b"1234"
        assert connection.recv(100) == b""
    assert links["planned"].counters.state == "cut"


def test_scheduled_outages_come_and_go(links: LinkProcess, source: Source) -> None:
    port = links.open("schedule", source.port, LinkShape(outages=(Outage(0.0, 0.05), Outage(0.1, None))))
    wait_for(lambda: links["schedule"].history[-1].detail == "as scheduled")
    wait_for(lambda: len(links["schedule"].history) >= 4)
    assert [one.kind for one in links["schedule"].history] == ["opened", "cut", "healed", "cut"]
    links["schedule"].heal()
    with connect(port) as connection:
        assert echoed(connection, b"a") == b"a"
    links["schedule"].reshape(LinkShape(outages=(Outage(0.0, None), Outage(0.2, None))))
    wait_for(lambda: links["schedule"].counters.state == "cut")
    links["schedule"].reshape(LinkShape())
    links["schedule"].heal()
    time.sleep(0.3)
    assert links["schedule"].counters.state == "up"


def test_a_change_of_the_rate_leaves_outages_as_they_are(links: LinkProcess, source: Source) -> None:
    outages = (Outage(0.0, None),)
    links.open("kept", source.port, LinkShape(outages=outages))
    wait_for(lambda: links["kept"].counters.state == "cut")
    links["kept"].heal()
    links["kept"].reshape(LinkShape(1_000_000, outages=outages))
    assert links.counters()["kept"].state == "up"
    assert [one.kind for one in links["kept"].history] == ["opened", "cut", "healed", "shape"]


def test_a_shorter_delay_frees_the_bytes_under_way(links: LinkProcess, source: Source) -> None:
    port = links.open("free", source.port, LinkShape(None, 0.001))
    with connect(port) as connection:
        assert echoed(connection, b"a") == b"a"
        links["free"].reshape(LinkShape(None, 3600.0))
        connection.sendall(b"b")
        wait_for(lambda: links.counters()["free"].waiting == 1)
        links["free"].reshape(LinkShape())
        assert received(connection, 1) == b"b"


def test_a_source_that_does_not_listen_resets_the_target(links: LinkProcess) -> None:
    source = Source()
    port = links.open("nobody", source.port)
    source.close()
    with suppress(ConnectionResetError), connect(port) as connection:
        assert connection.recv(1) == b""
    wait_for(lambda: any(one.kind == "failed" for one in links["nobody"].history))
    other = Source(b"moved")
    links["nobody"].retarget(other.port)
    with connect(port) as connection:
        assert received(connection, 5) == b"moved"
    other.close()


def test_a_target_that_gives_up_while_the_link_connects_is_no_open_connection(
    links: LinkProcess, source: Source
) -> None:
    port = links.open("early", source.port, LinkShape(None, 0.05))
    with connect(port) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_for(lambda: links.counters()["early"].connections == 1)
    wait_for(lambda: links.counters()["early"].open == 0)
    assert links["early"].history[-1].kind == "ended"


def test_a_source_that_ends_ends_the_connection(links: LinkProcess) -> None:
    source = Source(b"x")
    with connect(links.open("ends", source.port)) as connection:
        assert received(connection, 1) == b"x"
        source.close()
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""


def test_each_connection_of_a_full_link_gets_bytes(links: LinkProcess) -> None:
    """The first connection took all free bytes of the link each time, and another one got none."""
    source = Source(bytes(20_000_000))
    port = links.open("shared", source.port, LinkShape(2_000_000))
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(port)) for _ in range(4)]
        got = [0] * len(connections)
        deadline = time.monotonic() + 20
        while min(got) < 50_000 and time.monotonic() < deadline:
            for number in range(len(connections)):
                with suppress(BlockingIOError):
                    got[number] += len(connections[number].recv(1 << 20, socket.MSG_DONTWAIT))
            time.sleep(0.01)
        links["shared"].cut()
    assert min(got) >= 50_000
    source.close()


def test_a_reader_that_reads_nothing_holds_its_source_back(links: LinkProcess) -> None:
    size = 64 << 20
    source = Source(bytes(size))
    with connect(links.open("slow-reader", source.port)) as connection:
        wait_for(lambda: links.counters()["slow-reader"].down > 0)
        before = -1
        while (passed := links.counters()["slow-reader"].down) != before:
            before = passed
            time.sleep(0.05)
        assert passed < size
        assert len(received(connection, size)) == size
    source.close()


def test_errors_name_the_call_or_the_cure(links: LinkProcess, source: Source) -> None:
    links.open("only", source.port)
    with pytest.raises(LinkError, match=r"'ony', 'cut'"):
        links["ony"].cut()
    for delay in (-1.0, math.inf, math.nan):
        with pytest.raises(LinkError, match="give seconds, 0 or more"):
            links["only"].reshape(LinkShape(delay=delay))
    with pytest.raises(LinkError, match="cut after -1 bytes"):
        links["only"].cut_after(-1)


def test_a_callers_mistake_of_any_kind_is_an_answer(links: LinkProcess, source: Source) -> None:
    # Without an answer the caller would wait for a minute, and then kill the process with all its links.
    links.open("mistaken", source.port)
    for fault in (links["mistaken"].cut, links["mistaken"].silence):
        with pytest.raises(LinkError, match="'2s' is no length of a fault: give seconds"):
            fault("2s")  # type: ignore[arg-type]
    with pytest.raises(LinkError, match="TypeError"):
        links["mistaken"].cut_after("64K")  # type: ignore[arg-type]
    assert links.counters()["mistaken"].state == "up"


def test_a_text_that_is_no_name_of_a_host_ends_the_connection(links: LinkProcess) -> None:
    port = links.open("no name", 3306, host="db..example")
    with pytest.raises(ConnectionResetError), connect(port) as connection:
        connection.recv(1)
    assert [one.kind for one in links["no name"].history] == ["opened", "connected", "failed", "ended"]


def test_a_source_is_reached_at_any_of_its_addresses(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        refusing: int = closed.getsockname()[1]

    async def addresses(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        kind = socket.AF_INET, socket.SOCK_STREAM, 0, ""
        return [(*kind, ("127.0.0.1", one)) for one in (refusing, port)]

    async def run() -> bytes:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses)
        link = Link("any", ("source", source.port), PLAIN)
        reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
        writer.write(b"a")
        answer = await asyncio.wait_for(reader.read(1), PATIENCE)
        writer.close()
        link.cut()
        return answer

    assert asyncio.run(run()) == b"a"


def test_many_threads_may_ask_at_once(links: LinkProcess, source: Source) -> None:
    def use(number: int) -> bytes:
        with connect(links.open(f"thread-{number}", source.port)) as connection:
            return echoed(connection, b"%d" % number)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(use, range(16))) == [b"%d" % number for number in range(16)]


def test_the_process_ends_when_it_is_closed() -> None:
    links = LinkProcess()
    assert links.process.poll() is None
    links.close()
    links.close()
    assert links.process.poll() is not None
    with pytest.raises(LinkError, match="was closed"):
        links.counters()


def test_a_killed_process_is_told(tmp_path: Path) -> None:
    with LinkProcess(tmp_path / "log") as links:
        links.counters()
        os.kill(links.process.pid, signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(LinkError, match="the process of the links ended") as caught:
                links.counters()
            # Python 3.13 reports an ignored exception when it collects the request's buffer as garbage.
            assert caught.value.__context__ is None


def test_the_process_ends_with_a_caller_that_is_killed() -> None:
    code = (
        "import sys\n"
        "from dumpfilter.topology.links.client import LinkProcess\n"
        "links = LinkProcess()\n"
        "links.counters()\n"
        "print(links.process.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as caller:
        assert caller.stdout is not None
        pid = int(caller.stdout.readline())
        caller.kill()
    wait_for(
        lambda: not Path(f"/proc/{pid}").exists() or "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    )
