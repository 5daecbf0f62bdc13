"""TLS on the console: what clients and strangers meet, and the proof that the certificate is the server's."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import itertools
import re
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pymysql
import pytest
import uvloop
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pymysql.constants import CLIENT
from structlog.testing import capture_logs

from dumpfilter.base.security.listening import Endpoint
from dumpfilter.base.security.passwords import StoredPassword
from dumpfilter.base.security.tls import ReloadingTls, ServerTls, TlsFiles, load_tls, make_key_pair
from dumpfilter.console import auth, connection
from dumpfilter.console.connection import ConsoleServer
from dumpfilter.console.wire import ClientGone, PacketStream, greet, open_stream
from tests.certificates import Authority, client_context
from tests.console.programs import dumpfilter_sql
from tests.console.scrambles import native_scramble
from tests.console.small_executor import SmallExecutor
from tests.console.test_console_slow import Raw, answer
from tests.slave.driven import wait_until

USERS = {"root": "secret", "empty": ""}


@dataclass(frozen=True)
class Served:
    """A console, and a file with its certificate."""

    server: ConsoleServer
    tls: ServerTls
    certificate: Path

    @property
    def port(self) -> int:
        return self.server.port


def self_signed(directory: Path) -> TlsFiles:
    """Write a new pair."""
    made = make_key_pair("127.0.0.1")
    files = directory / "cert.pem", directory / "key.pem"
    files[0].write_bytes(made.certificate)
    files[1].write_bytes(made.key)
    return TlsFiles(*files)


@contextlib.contextmanager
def serving(files: TlsFiles) -> Iterator[Served]:
    executor = SmallExecutor()
    executor.release.set()
    tls = load_tls(files)
    assert files.certificate is not None
    with ConsoleServer(executor, Endpoint(tls=tls), USERS, denial_seconds=0).running() as server:
        yield Served(server, tls, files.certificate)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(self_signed(tmp_path_factory.mktemp("tls"))) as served:
        yield served


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """Make a certificate that no server uses."""
    found = self_signed(tmp_path).certificate
    assert found is not None
    return found


# Programs and libraries

CIPHER = "SHOW STATUS LIKE 'Ssl_cipher'"
CLIENT_VERSION = tuple(
    int(number)
    for number in re.findall(
        r"(\d+)\.(\d+)\.\d+-MariaDB",
        subprocess.run(["mariadb", "--version"], capture_output=True, text=True, timeout=240).stdout,
    )[0]
)


def mariadb(
    port: int, *options: str, host: str = "127.0.0.1", password: str = "secret", sql: str = CIPHER
) -> subprocess.CompletedProcess[str]:
    address = ["--protocol=tcp", f"-h{host}", f"-P{port}", "-uroot", f"-p{password}"]
    return subprocess.run(
        ["mariadb", "--no-defaults", *address, *options, "-N", "-e", sql],
        capture_output=True,
        text=True,
        timeout=240,
    )


# these clients take a certificate on 127.0.0.1 as it is, and verify it on "localhost"
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("options", [[], ["--ssl"], ["--ssl-verify-server-cert", "--ssl-ca"], ["--ssl-ca"]])
def test_mariadb_encrypts(console: Served, options: list[str], host: str) -> None:
    if options[-1:] == ["--ssl-ca"]:
        options = [*options[:-1], f"--ssl-ca={console.certificate}"]
    done = mariadb(console.port, *options, host=host)
    assert done.stderr == ""
    assert done.stdout.split("\t")[1].strip()


def test_mariadb_without_tls(console: Served) -> None:
    done = mariadb(console.port, "--skip-ssl")
    assert (done.stdout, done.stderr) == ("Ssl_cipher\t\n", "")


def test_mariadb_with_the_wrong_password(console: Served) -> None:
    done = mariadb(console.port, "--ssl", password="wrong")
    assert done.stderr == (
        "ERROR 1045 (28000): Access denied for user 'root'@'localhost' (using password: YES)\n"
    )


def test_mariadb_refuses_a_strangers_certificate(console: Served, stranger: Path) -> None:
    with capture_logs() as logs:
        done = mariadb(console.port, "--ssl-verify-server-cert", f"--ssl-ca={stranger}")
        # older clients break off the handshake, newer ones end it and leave
        assert len(reasons(logs)) == 1
    assert done.stdout == ""
    assert done.stderr.startswith("ERROR 2026 (HY000): TLS/SSL error: ")


def test_mariadb_refuses_a_man_in_the_middle(console: Served, stranger: Path) -> None:
    """The man in the middle has a certificate of his own and passes on all else, also the server's proof."""
    with man_in_the_middle(console, stranger) as (port, passed_on):
        done = mariadb(port, host="localhost", sql="SELECT 'hush'")
    # without a CA older clients verify nothing
    verifies = CLIENT_VERSION >= (11, 4)
    assert done.stdout == ("" if verifies else "hush\n")
    assert done.stderr.startswith("ERROR 2026 (HY000): TLS/SSL error: " if verifies else "")
    assert any(re.search(rb"\x01[0-9A-F]{64}$", packet) for packet in passed_on)
    assert any(b"hush" in packet for packet in passed_on) != verifies


@contextlib.contextmanager
def man_in_the_middle(console: Served, certificate: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Listen on a port, pass on the packets, and yield the port and these packets."""
    theirs = load_tls(TlsFiles(certificate, certificate.with_name("key.pem")))
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    passed_on: list[bytes] = []

    def packet(source: socket.socket) -> bytes:
        header = source.recv(4, socket.MSG_WAITALL)
        return header + source.recv(int.from_bytes(header[:3], "little"), socket.MSG_WAITALL)

    def serve() -> None:
        server = socket.create_connection(("127.0.0.1", console.port))
        client, _ = listener.accept()
        client.sendall(packet(server))  # the greeting
        server.sendall(packet(client))  # the request for TLS
        with contextlib.suppress(OSError):
            client = theirs.context.wrap_socket(client, server_side=True)
            server = unverified.wrap_socket(server)
            # One thread, because two must not use an encrypted socket of Python at the same time.
            for source, target in itertools.cycle(((client, server), (server, client))):
                source.settimeout(0.01)
                with contextlib.suppress(TimeoutError):
                    if not (data := source.recv(1 << 16)):
                        break
                    passed_on.append(data)
                    target.settimeout(60)
                    target.sendall(data)
        for one in (client, server):
            one.close()

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1], passed_on
    thread.join(60)
    assert not thread.is_alive()


def connect(port: int, context: ssl.SSLContext | None) -> pymysql.Connection:
    return pymysql.connect(
        host="127.0.0.1", port=port, user="root", password="secret", ssl=context, autocommit=None
    )


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_pymysql(console: Served, version: ssl.TLSVersion) -> None:
    context = client_context(console.certificate)
    context.maximum_version = context.minimum_version = version
    with connect(console.port, context) as client:
        assert answer(client, "SHOW STATUS LIKE 'Ssl_version'") == (
            ("Ssl_version", version.name.replace("_", ".")),
        )
        assert answer(client, "SELECT @@have_ssl") == (("YES",),)
        # a statement, and a row, of several TLS records; many rows
        assert answer(client, f"SELECT '{'é' * 16_000}'") == (("é" * 16_000,),)
        digits = " CROSS JOIN ".join(
            f"(SELECT 0 AS d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) d{i}" for i in range(8)
        )
        assert len(answer(client, f"SELECT REPEAT('x', 100) FROM {digits}")) == 4**8  # type: ignore[arg-type]


def reasons(logs: Sequence[Mapping[str, object]]) -> list[object]:
    """Return why handshakes failed, once one has."""

    def found() -> list[object]:
        return [line["reason"] for line in logs if line["event"] == "client.tls_failed"]

    wait_until(found)
    return found()


def test_pymysql_refuses_a_strangers_certificate(console: Served, stranger: Path) -> None:
    with capture_logs() as logs:
        with pytest.raises(pymysql.err.OperationalError, match="CERTIFICATE_VERIFY_FAILED"):
            connect(console.port, client_context(stranger))
        assert reasons(logs) == ["tlsv1 alert unknown ca"]


def test_dumpfilter_sql(console: Served, stranger: Path, tmp_path: Path) -> None:
    given = ["--format=tsv", "-e", "SHOW STATUS LIKE 'Ssl_version'"]
    for options in ([], ["--tls-ca", str(console.certificate)]):
        assert (
            dumpfilter_sql(console.port, *options, *given).stdout
            == "Variable_name\tValue\nSsl_version\tTLSv1.3\n"
        )
    refused = dumpfilter_sql(console.port, "--tls-ca", str(stranger), *given)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "CERTIFICATE_VERIFY_FAILED" in refused.stderr
    missing = dumpfilter_sql(console.port, "--tls-ca", str(tmp_path / "none"), *given)
    assert missing.returncode == 2
    assert f"--tls-ca={tmp_path / 'none'}: cannot be read: No such file" in missing.stderr


# Clients' certificates


def test_clients_certificates(tmp_path: Path) -> None:
    ours, other = Authority(tmp_path / "ours"), Authority(tmp_path / "other")
    server = ours.issue("server")
    with serving(TlsFiles(server.certificate, server.key, ours.certificate)) as console:
        context = client_context(ours.certificate)
        connect(console.port, context).close()
        shown = ours.issue("client")
        context.load_cert_chain(shown.certificate, shown.key)
        connect(console.port, context).close()
        shown = other.issue("client")
        context.load_cert_chain(shown.certificate, shown.key)
        with pytest.raises(pymysql.err.OperationalError):
            connect(console.port, context)


# The proof of the certificate


class Encrypted(Raw):
    """A client that sends what it likes, encrypted."""

    CAPABILITIES = Raw.CAPABILITIES | CLIENT.SSL

    def __init__(self, console: Served) -> None:
        super().__init__(console.server)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    def greet(self) -> None:
        super().greet()
        self.send(struct.pack("<IIB23x", self.CAPABILITIES, 1 << 24, 45))
        self._socket = self._context.wrap_socket(self._socket)


def proof(password: str, nonce: bytes, certificate: Path) -> bytes:
    """Return the proof as MariaDB's client computes it, from the certificate that it sees."""
    fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.read_text())).digest()
    stored = hashlib.sha1(hashlib.sha1(password.encode()).digest()).digest()
    return b"\x01" + hashlib.sha256(stored + nonce + fingerprint).hexdigest().upper().encode()


def test_proof_for_who_has_proved_the_password(console: Served) -> None:
    with Encrypted(console) as client:
        client.greet()
        reply = client.respond("root", "secret", auth.NATIVE)
        expected = proof("secret", client.nonce, console.certificate)
        assert reply == b"\0\0\0\2\0\0\0" + bytes([len(expected)]) + expected


@pytest.mark.parametrize("plugin", [auth.NATIVE, auth.CACHING_SHA2, "client_ed25519"])
@pytest.mark.parametrize(
    ("user", "password"), [("root", "wrong"), ("root", ""), ("nobody", "secret"), ("empty", "x")]
)
def test_no_proof_for_a_stranger(console: Served, user: str, password: str, plugin: str) -> None:
    with Encrypted(console) as client:
        client.greet()
        replies = [client.respond(user, password, plugin)]
        if replies[0][:1] == b"\xfe":
            client.send(native_scramble(password, client.nonce))
            replies.append(client.receive())
        assert replies[-1][:3] == b"\xff" + struct.pack("<H", 1045)
        assert client.receive() == b""
        assert not any(re.search(rb"[0-9A-F]{64}", reply) for reply in replies)


@pytest.mark.parametrize(
    ("user", "password", "plugin"),
    [("empty", "", auth.NATIVE), ("root", "secret", auth.CACHING_SHA2), ("empty", "", auth.CACHING_SHA2)],
)
def test_no_proof_that_no_client_could_verify(console: Served, user: str, password: str, plugin: str) -> None:
    with Encrypted(console) as client:
        client.login(user, password, plugin=plugin)
        assert client.query("SELECT 1") == "rows"
    with Raw(console.server) as unencrypted:
        unencrypted.greet()
        assert unencrypted.respond("root", "secret", auth.NATIVE) == b"\0\0\0\2\0\0\0"


@given(
    password=st.text(min_size=1),
    other=st.text(),
    nonce=st.binary(min_size=20, max_size=20),
    fingerprint=st.binary(),
)
def test_another_password_is_another_proof(
    password: str, other: str, nonce: bytes, fingerprint: bytes
) -> None:
    ours = auth.certificate_proof(StoredPassword.plain(password), auth.NATIVE, nonce, fingerprint)
    assert (auth.certificate_proof(StoredPassword.plain(other), auth.NATIVE, nonce, fingerprint) == ours) == (
        other == password
    )
    assert (
        auth.certificate_proof(StoredPassword.plain(password), auth.NATIVE, nonce, fingerprint + b"x") != ours
    )


# Strangers


TLS_REQUEST = struct.pack("<IIB23x", Encrypted.CAPABILITIES, 1 << 24, 45)


def alive(console: Served) -> bool:
    with connect(console.port, client_context(console.certificate)) as client:
        return answer(client, "SELECT 1") == ((1,),)


def test_client_that_leaves_during_the_handshake(console: Served) -> None:
    with capture_logs() as logs:
        with Raw(console.server) as client:
            client.greet()
            client.send(TLS_REQUEST)
            # closing with a reset instead of an end
            client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert reasons(logs) == ["the client left"]


@settings(deadline=None)
@given(data=st.binary(max_size=200))
@example(b"\x16\x03\x01\x00\xf4\x01\x00\x00\xf0\x03\x03")
@example(b"")
def test_any_bytes_instead_of_a_handshake(console: Served, data: bytes) -> None:
    with Raw(console.server) as client:
        client.greet()
        with contextlib.suppress(ConnectionError):
            client.send(TLS_REQUEST)
            client.bytes(data)
            client._socket.shutdown(socket.SHUT_WR)
        while client.receive():
            pass
    assert alive(console)


def test_what_was_sent_before_the_handshake_is_no_login(console: Served) -> None:
    """Text that a man in the middle puts behind the request for TLS must not count as encrypted."""
    with Raw(console.server) as client, capture_logs() as logs:
        client.greet()
        client.send(TLS_REQUEST)
        reply = client.respond("root", "secret", auth.NATIVE)
        assert not reply.startswith((b"\0", b"\xfe"))
        while client.receive():
            pass
        assert len(reasons(logs)) == 1
    assert "client.connected" not in {line["event"] for line in logs}
    assert alive(console)


def test_request_for_tls_within_tls(console: Served) -> None:
    with Encrypted(console) as client:
        client.greet()
        client.send(TLS_REQUEST)
        assert client.receive()[:3] == b"\xff" + struct.pack("<H", 1043)
        assert client.receive() == b""


def test_tls_1_1_is_refused(console: Served) -> None:
    hello = b"\x03\x02" + bytes(32) + b"\0" + b"\0\x02\xc0\x09" + b"\x01\0"
    handshake = b"\x01" + len(hello).to_bytes(3, "big") + hello
    with Raw(console.server) as client:
        client.greet()
        client.send(TLS_REQUEST)
        client.bytes(b"\x16\x03\x01" + len(handshake).to_bytes(2, "big") + handshake)
        assert client.receive() == b""
    assert alive(console)


def test_handshake_that_stops_half_way(console: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LOGIN_SECONDS", 0.2)
    with Raw(console.server) as client, capture_logs() as logs:
        client.greet()
        client.send(TLS_REQUEST)
        client.bytes(b"\x16\x03\x01\x00\xf4\x01\x00\x00\xf0\x03\x03")
        assert client.receive() == b""
    assert "client.login_timeout" in {line["event"] for line in logs}


# Between packets and bytes


def packet(number: int, payload: bytes) -> bytes:
    return struct.pack("<I", len(payload) | number << 24) + payload


class InPieces:
    """A relay between a client and a server, which passes the client's bytes on in pieces of the given sizes."""

    def __init__(self, sizes: list[int]) -> None:
        self._sizes = sizes
        self.client, self._near = socket.socketpair()
        self._far, self.server = socket.socketpair()
        self._far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        threading.Thread(target=self._to_server, daemon=True).start()
        threading.Thread(target=self._to_client, daemon=True).start()

    def _to_server(self) -> None:
        with contextlib.suppress(OSError):
            for size in itertools.cycle(self._sizes):
                while data := self._near.recv(1 << 20):
                    for at in range(0, min(len(data), MANY * size), size):
                        self._far.sendall(data[at : at + size])
                    self._far.sendall(data[MANY * size :])
                    break
                else:
                    break
            self._far.shutdown(socket.SHUT_WR)

    def _to_client(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._far.recv(1 << 20):
                self._near.sendall(data)
            self._near.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for one in (self.client, self._near, self._far, self.server):
            one.close()


MANY = 1000
"""Pieces after which the rest is sent at once."""


@settings(deadline=None, max_examples=25)
@given(
    sizes=st.lists(st.integers(1, 40_000), min_size=1, max_size=6),
    lengths=st.lists(st.sampled_from([1, 100, 16_383, 16_384, 70_000]), max_size=4),
)
@example(sizes=[36], lengths=[1])  # the request for TLS, then the rest
@example(sizes=[100_000], lengths=[1])  # the request and the ClientHello at once
@example(sizes=[1], lengths=[100])
def test_however_the_bytes_arrive(sizes: list[int], lengths: list[int], console: Served) -> None:
    async def admit(expected: int, number: int, length: int) -> None:
        assert (number, length) == (0, expected)

    async def server(relay: InPieces) -> None:
        relay.server.setblocking(False)
        assert await greet(relay.server, b"hello") == TLS_REQUEST
        stream = await open_stream(relay.server, 2, console.tls.context)
        for length in lengths:
            number, data = await stream.read_command(functools.partial(admit, length))
            await stream.send(data[::-1] + bytes([number]))
        await stream.left
        await stream.close()

    def client(relay: InPieces) -> None:
        # The request for TLS and the ClientHello are sent at once, before the greeting comes.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        from_server, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(from_server, to_server)
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        relay.client.sendall(packet(1, TLS_REQUEST) + to_server.read())
        greeting = b""
        while len(greeting) < 9:
            greeting += relay.client.recv(9 - len(greeting))
        assert greeting == packet(0, b"hello")

        def run(step: Callable[[], bytes | None]) -> bytes:
            while True:
                try:
                    return step() or b""
                except ssl.SSLWantReadError:
                    relay.client.sendall(to_server.read())
                    from_server.write(relay.client.recv(1 << 16))

        run(tls.do_handshake)
        for length in lengths:
            payload = bytes(number % 251 for number in range(length))
            tls.write(packet(0, payload))
            relay.client.sendall(to_server.read())
            got = b""
            while len(got) < 4 + length:
                got += run(lambda: tls.read(1 << 16))
            assert got == packet(1, payload[::-1])
        relay.client.sendall(to_server.read())
        relay.client.shutdown(socket.SHUT_WR)

    async def both() -> None:
        relay = InPieces(sizes)
        try:
            await asyncio.gather(server(relay), asyncio.to_thread(client, relay))
        finally:
            relay.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(both(), 60))


async def encrypted(console: Served) -> tuple[PacketStream, ssl.SSLSocket]:
    """Connect both ends of an encrypted connection."""
    near, far = socket.socketpair()
    far.setblocking(False)
    context = client_context(console.certificate)
    wrapping = asyncio.to_thread(context.wrap_socket, near, server_hostname="127.0.0.1")
    stream, client = await asyncio.gather(open_stream(far, 2, console.tls.context), wrapping)
    return stream, client


def test_slow_reader_holds_back_the_writer(console: Served) -> None:
    block = bytes(1 << 16)
    blocks = 1000

    async def both() -> None:
        stream, client = await encrypted(console)
        written = 0

        async def write() -> None:
            nonlocal written
            for _ in range(blocks):
                await stream.send_framed(memoryview(block), 0)
                written += 1
            await stream.close()

        task = asyncio.create_task(write())
        before = -1
        while written != before:  # until nothing moves any more
            before = written
            for _ in range(100):
                await asyncio.sleep(0)
        assert written < blocks
        assert stream._writer.transport.get_write_buffer_size() < 4 * len(block)

        def read() -> int:
            length = 0
            while data := client.recv(1 << 16):
                length += len(data)
            return length

        # the end is close_notify: without it the client would see an error
        assert await asyncio.to_thread(read) == blocks * len(block)
        await task
        client.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(both(), 60))


@pytest.mark.parametrize("is_orderly", [True, False])
def test_client_that_leaves(console: Served, is_orderly: bool) -> None:
    async def both() -> None:
        stream, client = await encrypted(console)
        client.sendall(b"abc")
        if is_orderly:
            leaving = asyncio.create_task(asyncio.to_thread(client.unwrap))
        else:
            client.close()
        with pytest.raises(ClientGone):
            await stream.read_reply()
        await stream.left
        await stream.close()
        if is_orderly:
            await leaving
            client.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(both(), 60))


# Certificates that change, and clients of other machines


def fingerprint_of(port: int) -> str:
    """Return the SHA-256 digest of the certificate that a new client is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with connect(port, context) as client:
        return hashlib.sha256(client._sock.getpeercert(binary_form=True)).hexdigest()


def test_a_renewed_certificate_serves_new_clients(tmp_path: Path) -> None:
    issued = Authority(tmp_path / "ca").issue("console")
    renewed = Authority(tmp_path / "other").issue("renewed")
    executor = SmallExecutor()
    executor.release.set()
    tls = ReloadingTls(TlsFiles(issued.certificate, issued.key))
    with ConsoleServer(executor, Endpoint(tls=tls), USERS, denial_seconds=0).running() as server:
        before = tls.current().fingerprint.hex()
        with connect(server.port, client_context(tmp_path / "ca" / "ca.pem")) as old:
            assert fingerprint_of(server.port) == before
            issued.replace(renewed)
            assert fingerprint_of(server.port) == tls.current().fingerprint.hex() != before
            issued.certificate.write_text("broken")
            assert fingerprint_of(server.port) == tls.current().fingerprint.hex() != before
            assert answer(old, "SELECT 1") == ((1,),)


@pytest.mark.parametrize("demand_tls", [True, False])
def test_other_machines_must_use_tls(monkeypatch: pytest.MonkeyPatch, demand_tls: bool) -> None:
    """Clients of this machine stand for clients of another one."""
    monkeypatch.setattr(connection, "is_loopback", lambda host: False)
    executor = SmallExecutor()
    executor.release.set()
    with (
        ConsoleServer(executor, Endpoint(insecure=not demand_tls), USERS).running() as server,
        capture_logs() as logs,
    ):
        fingerprint_of(server.port)
        login = {"host": "127.0.0.1", "port": server.port, "user": "root", "password": "secret"}
        if not demand_tls:
            pymysql.connect(**login, ssl_disabled=True).close()
            return
        with pytest.raises(pymysql.err.OperationalError) as caught:
            pymysql.connect(**login, ssl_disabled=True)
        assert caught.value.args[0] == 3159
        assert "client.tls_demanded" in {line["event"] for line in logs}


def test_clients_of_this_machine_need_no_tls(console: Served) -> None:
    with pymysql.connect(
        host="127.0.0.1", port=console.port, user="root", password="secret", ssl_disabled=True
    ) as client:
        assert answer(client, "SELECT 1") == ((1,),)
