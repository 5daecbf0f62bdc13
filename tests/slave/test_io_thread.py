"""The I/O thread against a gRPC server in this process that fails on request."""

from __future__ import annotations

import threading
import time
from concurrent import futures
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest

from dumpfilter.base.errors import (
    BinlogCorrupt,
    ConnectionLost,
    DumpTakenOver,
    IdentityTaken,
    OutputError,
    PositionError,
    ProtocolMismatch,
    RegistrationRefused,
    StreamError,
)
from dumpfilter.dump.stream.message import Received
from dumpfilter.slave.io_thread import IoThread
from dumpfilter.slave.options import MOST_TIMEOUT
from dumpfilter.slave.receiver import Receiver
from dumpfilter.slave.relay_log import RelayLog
from dumpfilter.slave.threads import ChannelCounters, RelayEnd
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc
from tests.slave.driven import wait_until
from tests.slave.once import source_of
from tests.slave.relayed import contents

SHAPE = [[(True, [20, 30, 40]), (False, [5]), (True, [1])], [(True, [50, 50])] * 5]


class Servicer(rpc.DumpFilterServicer):
    """A master whose dumps follow ``plays``. A play is a number of chunks, and the action after them."""

    def __init__(self, master, plays=()):
        self.master = master
        self.plays = iter(plays)
        self.requests: list[pb.DumpRequest] = []
        self.registered: list[pb.RegisterRequest] = []
        self.unregistered: list[str] = []
        self.refuse: list[tuple[grpc.StatusCode, str]] = []
        self.uuid = "master"
        self.protocol = 2
        self.reason = ""
        self.ids = count(1)
        self.sent = 0

    def Register(self, request, context):
        self.registered.append(request)
        if self.refuse:
            context.abort(*self.refuse.pop(0))
        return pb.RegisterResponse(
            slave_id=str(next(self.ids)),
            family=pb.MYSQL,
            master_uuid=self.uuid,
            protocol=self.protocol,
        )

    def Unregister(self, request, context):
        self.unregistered.append(request.slave_id)
        return pb.UnregisterResponse()

    def Dump(self, request, context):
        self.requests.append(request)
        limit, then = next(self.plays, (10**9, "end"))
        start = getattr(request, "from")
        for number, chunk in enumerate(self.master.chunks(start.file, start.position, [40])):
            if number == limit:
                break
            self.sent += 1
            yield chunk
        if then == "silence":
            while context.is_active():
                time.sleep(0.01)
        elif then == "heartbeats":
            while context.is_active():
                yield self.master.heartbeat()
                time.sleep(0.02)
        elif isinstance(then, grpc.StatusCode):
            context.abort(then, self.reason or f"because of {then.name}")


@pytest.fixture
def served(masters):
    servers = []

    def serve(plays=(), files=None):
        servicer = Servicer(masters.FakeMaster(files or masters.synthetic(SHAPE)), plays)
        server = grpc.server(futures.ThreadPoolExecutor(4))
        rpc.add_DumpFilterServicer_to_server(servicer, server)
        servicer.port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        servers.append(server)
        return servicer

    yield serve
    for server in servers:
        server.stop(None).wait()


def owner_of(receiver, directory):
    """Return what an I/O thread needs of its channel."""
    return SimpleNamespace(
        receiver=receiver,
        counters=ChannelCounters(directory),
        connected=lambda answer: None,
        discard_damaged=lambda damage, finder: False,
        ended=lambda thread: None,
    )


def make_thread(directory, port, **options) -> IoThread:
    directory.mkdir(exist_ok=True)
    receiver = Receiver(RelayLog(directory), RelayEnd())
    options = {"once": True, "connect_retry": 0.05, "net_timeout": 5.0, **options}
    source = source_of("127.0.0.1", port, server_id=101, uuid="me", **options)
    return IoThread(owner_of(receiver, directory), source)


relayed = contents


@pytest.fixture
def whole(served, tmp_path):
    servicer = served()
    make_thread(tmp_path / "whole", servicer.port).run()
    return relayed(tmp_path / "whole")


def test_once(served, tmp_path, whole):
    servicer = served()
    options = {"channel": "c", "report_host": "h", "report_port": 9, "chunk_size": 7}
    thread = make_thread(tmp_path / "s", servicer.port, **options)
    thread.run()
    assert relayed(tmp_path / "s") == whole
    request = servicer.registered[0]
    assert (request.server_id, request.uuid, request.channel, request.host, request.port) == (
        101,
        "me",
        "c",
        "h",
        9,
    )
    assert servicer.requests[0].once
    assert servicer.requests[0].chunk_size == 7
    assert servicer.unregistered == ["1"]
    assert thread.counters.received["connections"] == 1
    assert thread.counters.received["bytes_received"] == sum(
        t.size for f in servicer.master.files for t in f.transactions if t.kept
    )


@pytest.mark.parametrize(
    "then",
    [
        "end",
        "silence",
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.UNKNOWN,
    ],
    ids=str,
)
def test_lost_connections_are_taken_up_again(served, tmp_path, whole, then):
    servicer = served([(n, then) for n in range(6)])
    if then == grpc.StatusCode.NOT_FOUND:
        servicer = served([(0, then), (0, then), (3, "end"), (0, then), (0, then)])
    thread = make_thread(tmp_path / "s", servicer.port, net_timeout=0.2 if then == "silence" else 5.0)
    thread.run()
    assert relayed(tmp_path / "s") == whole
    assert len(servicer.registered) == len(servicer.requests) == thread.counters.received["connections"] >= 5


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, PositionError),
        (grpc.StatusCode.OUT_OF_RANGE, PositionError),
        (grpc.StatusCode.DATA_LOSS, BinlogCorrupt),
        (grpc.StatusCode.ABORTED, DumpTakenOver),
        (grpc.StatusCode.PERMISSION_DENIED, StreamError),
    ],
)
def test_errors_that_no_other_attempt_mends(served, tmp_path, code, error):
    servicer = served([(2, code)])
    with pytest.raises(error, match=rf"master 127.0.0.1:\d+: .*because of {code.name}"):
        make_thread(tmp_path / "s", servicer.port).run()
    assert len(servicer.requests) == 1


def test_a_master_that_forgets_the_slave_again_and_again_counts_as_unreachable(served, tmp_path):
    servicer = served([(0, grpc.StatusCode.NOT_FOUND)] * 10)
    with pytest.raises(ConnectionLost, match=r"after 5 attempts .*because of NOT_FOUND"):
        make_thread(tmp_path / "s", servicer.port, retry_count=5).run()
    assert len(servicer.registered) == 5


def test_a_refused_registration(served, tmp_path):
    servicer = served()
    servicer.refuse = [(grpc.StatusCode.UNAVAILABLE, "starting")]
    make_thread(tmp_path / "s", servicer.port).run()
    assert len(servicer.registered) == 2
    servicer.refuse = [(grpc.StatusCode.INVALID_ARGUMENT, "rule 'x' has no dot")]
    with pytest.raises(RegistrationRefused, match="rule 'x' has no dot") as caught:
        make_thread(tmp_path / "s", servicer.port).run()
    assert caught.value.exit_code == 2
    servicer.refuse = [(grpc.StatusCode.ALREADY_EXISTS, "the server id 101 is in use")]
    with pytest.raises(IdentityTaken, match="the server id 101 is in use") as taken:
        make_thread(tmp_path / "s", servicer.port).run()
    assert taken.value.exit_code == 1


@pytest.mark.parametrize("protocol", [0, 1, 3])
def test_a_master_that_speaks_another_protocol(served, tmp_path, protocol):
    servicer = served()
    servicer.protocol = protocol
    with pytest.raises(
        ProtocolMismatch, match=r"master 127.0.0.1:\d+: .*the slave \(dumpfilter .* speaks version 2,"
    ):
        make_thread(tmp_path / "s", servicer.port).run()
    assert len(servicer.registered) == len(servicer.unregistered) == 1
    assert not servicer.requests


def test_a_master_that_refuses_the_slave_s_protocol(served, tmp_path):
    servicer = served()
    servicer.refuse = [(grpc.StatusCode.FAILED_PRECONDITION, "no protocol version in common")]
    with pytest.raises(ProtocolMismatch, match=r"master 127.0.0.1:\d+: no protocol version in common"):
        make_thread(tmp_path / "s", servicer.port).run()
    (request,) = servicer.registered
    assert request.protocol == 2
    assert request.program_version


def test_nobody_there(tmp_path):
    thread = make_thread(tmp_path / "s", 1, retry_count=3)
    with pytest.raises(
        ConnectionLost, match=r"127.0.0.1:1 cannot be reached after 3 attempts .*--serve-port"
    ) as caught:
        thread.run()
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("then", ["silence", "heartbeats"])
def test_stop(served, tmp_path, whole, then):
    servicer = served([(10**9, then)])
    thread = make_thread(tmp_path / "s", servicer.port, once=False)
    running = threading.Thread(target=thread.run)
    running.start()
    wait_until(lambda: servicer.sent and thread.counters.received["chunks"] >= servicer.sent)
    # No chunk follows, and the ticker saves the file.
    path = tmp_path / "s" / "master.info"
    end = str(servicer.master.files[1].end)
    wait_until(lambda: "bin.000002" in path.read_text() and end in path.read_text())
    thread.stop()
    running.join(240)
    assert not running.is_alive()
    assert servicer.unregistered == ["1"]
    assert relayed(tmp_path / "s") == whole


def connections(port):
    """Return the number of open connections to a port of this machine."""
    # gRPC uses IPv6 sockets for IPv4 addresses, too.
    rows = [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()]
    return sum(local.endswith(f":{port:04X}") and state == "01" for _, local, _, state, *_ in rows)


@pytest.mark.parametrize(
    "ending", ["stop", "error of the slave", "unstored registration", "unreadable message"]
)
def test_a_stream_that_the_slave_ends_leaves_no_connection(served, tmp_path, monkeypatch, ending):
    servicer = served([(10**9, "silence")])
    thread = make_thread(tmp_path / "s", servicer.port, once=False, retry_count=1)
    if ending == "unreadable message":
        # gRPC turns each error into the status INTERNAL.
        monkeypatch.setattr(Received, "parse", lambda message: 1 / 0)
    elif ending == "unstored registration":
        monkeypatch.setattr(thread._owner, "connected", lambda answer: 1 / 0)
    elif ending != "stop":
        monkeypatch.setattr(thread.counters, "count_chunk", lambda *chunk: 1 / 0)
    else:
        threading.Thread(target=lambda: (wait_until(lambda: servicer.sent), thread.stop())).start()
    with pytest.raises((ZeroDivisionError, ConnectionLost)) if ending != "stop" else nullcontext():
        thread.run()
    wait_until(lambda: not connections(servicer.port))


def test_stop_while_nobody_is_there(tmp_path):
    thread = make_thread(tmp_path / "s", 1, connect_retry=60.0)
    running = threading.Thread(target=thread.run)
    running.start()
    wait_until(lambda: thread.failure)
    thread.stop()
    running.join(240)
    assert not running.is_alive()


def test_where_a_dump_begins(served, tmp_path):
    def first_request(directory, **options):
        servicer = served([(0, grpc.StatusCode.DATA_LOSS)])
        with pytest.raises(BinlogCorrupt):
            make_thread(tmp_path / directory, servicer.port, **options).run()
        return servicer.requests[0]

    request = first_request("a")
    assert request.WhichOneof("start") == "from"
    assert (getattr(request, "from").file, getattr(request, "from").position) == ("", 4)
    request = first_request("a", log_file="bin.000002", log_pos=300)
    assert (getattr(request, "from").file, getattr(request, "from").position) == ("bin.000002", 300)
    request = first_request("a", auto_position=True)
    assert request.WhichOneof("start") == "gtid_set"

    servicer = served()
    make_thread(tmp_path / "b", servicer.port).run()
    end = (servicer.master.files[1].name, servicer.master.files[1].end)
    request = first_request("b", log_file="bin.000001", log_pos=4)
    assert (getattr(request, "from").file, getattr(request, "from").position) == end
    request = first_request("b", auto_position=True)
    assert request.WhichOneof("start") == "from"
    other = served([(0, grpc.StatusCode.DATA_LOSS)] * 2)
    other.uuid = "another"
    for _ in range(2):
        with pytest.raises(BinlogCorrupt):
            make_thread(tmp_path / "b", other.port, auto_position=True).run()
    assert [r.gtid_set[-4:] for r in other.requests] == [":1-8"] * 2


def test_a_full_disk_stops_it(served, tmp_path, monkeypatch):
    servicer = served()
    thread = make_thread(tmp_path / "s", servicer.port)
    from dumpfilter.base import files

    real = files.write

    def write(path, fd, data):
        if path.name == "relay-bin.000002":
            raise OutputError(f"{path}: cannot be written: No space left on device")
        real(path, fd, data)

    monkeypatch.setattr(files, "write", write)
    with pytest.raises(OutputError, match=r"relay-bin.000002: cannot be written"):
        thread.run()


def test_a_disk_that_is_full_between_two_connections_stops_it(served, tmp_path):
    """The helper thread cannot save the position, and the I/O thread meets the error when it begins the stream."""
    thread = make_thread(tmp_path / "s", served([(1, grpc.StatusCode.UNAVAILABLE)]).port)
    real, waits = thread._receiver._save, []

    def save(*, synced):
        if waits:
            raise OutputError("master.info: cannot be written: No space left on device")
        real(synced=synced)

    thread._receiver._save = save
    thread._stop.wait = waits.append
    with pytest.raises(OutputError, match=r"master.info: cannot be written"):
        thread.run()


def test_a_slow_disk_holds_the_master_back(served, masters, tmp_path):
    """Flow control bounds the chunks in memory, however long the stream."""
    files = masters.synthetic([[(True, [60_000])] * 400])
    servicer = served(files=files)
    servicer.master.chunks = lambda file, position, cuts, real=servicer.master.chunks: real(
        file, position, [60_000]
    )
    sent_meanwhile = []

    def hold(chunk):
        """Hold the first chunk until the master has stopped sending."""
        while not sent_meanwhile:
            before = servicer.sent
            threading.Event().wait(0.2)
            if servicer.sent == before:
                sent_meanwhile.append(before)

    thread = make_thread(tmp_path / "s", servicer.port)
    receive = thread._receiver.receive
    thread._receiver.receive = lambda chunk, events: (receive(chunk, events), hold(chunk))
    thread.run()
    assert sent_meanwhile[0] < 200
    assert thread.counters.received["chunks"] >= 400


def test_a_masters_refusal_is_one_line_without_commands(served, tmp_path):
    servicer = served()
    servicer.refuse = [(grpc.StatusCode.NOT_FOUND, "x\ndumpfilter: all is well\u202e\x1b[2J")]
    with pytest.raises(RegistrationRefused, match=r"x\\ndumpfilter: all is well\\u202e\\x1b\[2J$"):
        make_thread(tmp_path / "s", servicer.port).run()
    servicer.plays = iter([(0, grpc.StatusCode.DATA_LOSS)])
    servicer.reason = "y\nz"
    with pytest.raises(BinlogCorrupt, match=r"y\\nz$"):
        make_thread(tmp_path / "s", servicer.port).run()


def test_an_endless_message_is_refused(served, tmp_path):
    servicer = served()
    servicer.master.chunks = lambda *_: [pb.Chunk(previous_file="x" * (64 << 20))]
    with pytest.raises(ConnectionLost, match="larger than max"):
        make_thread(tmp_path / "s", servicer.port, retry_count=1).run()


def test_the_longest_timeout_of_the_command_line(served, tmp_path, whole):
    """The request to the master, and gRPC, have 32 bits for the milliseconds."""
    servicer = served()
    options = {"net_timeout": float(MOST_TIMEOUT), "heartbeat_period": MOST_TIMEOUT - 1.0}
    make_thread(tmp_path / "s", servicer.port, **options).run()
    assert relayed(tmp_path / "s") == whole
    assert servicer.requests[0].net_timeout_ms == MOST_TIMEOUT * 1000


class Call:
    """A gRPC call that notes whether it was cancelled."""

    is_cancelled = False

    def cancel(self):
        self.is_cancelled = True


def test_the_silence_of_a_call_does_not_cancel_the_next_one(tmp_path):
    """The helper thread has read the time limit of the old call, and the I/O thread begins the next call."""
    reading, begins = threading.Event(), threading.Event()

    class Slow(IoThread):
        @property
        def _silent_until(self):
            limit = self.limit
            if threading.current_thread().name == "ticker":
                reading.set()
                begins.wait(0.1)
            return limit

        @_silent_until.setter
        def _silent_until(self, limit):
            self.limit = limit

    directory = tmp_path / "s"
    directory.mkdir()
    receiver = Receiver(RelayLog(directory), RelayEnd())
    thread = Slow(owner_of(receiver, directory), source_of("127.0.0.1", 1, server_id=101, uuid="me"))
    old, new, done = Call(), Call(), threading.Event()
    thread._watch(old, -1.0)
    ticker = threading.Thread(target=thread._tick, args=[done], name="ticker")
    ticker.start()
    assert reading.wait(60)
    thread._watch(new, 60.0)
    begins.set()
    done.set()
    ticker.join()
    assert not new.is_cancelled
