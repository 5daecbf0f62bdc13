"""The trial handshake of a slave with its master, and what the slave says when both cannot agree."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from structlog.testing import capture_logs

from dumpfilter.base.errors import TlsError
from dumpfilter.base.security.client_tls import ClientTls, TlsFileError
from dumpfilter.base.security.tls import ReloadingTls, TlsFiles
from dumpfilter.filter.convert import filter_to_proto
from dumpfilter.filter.filter import Filter
from dumpfilter.master.server import ListenAddress, MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.slave import connection
from dumpfilter.slave.connection import Unreachable, agree, open_channel, speaks_tls
from dumpfilter.slave.state import SourceInfo
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc
from tests.certificates import YESTERDAY, Authority, Issued
from tests.slave.once import source_of
from tests.support import DATA

BINLOGS = DATA / "oracle" / "mysql-row"


@pytest.fixture(autouse=True)
def _without_a_wait_for_a_greeting(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a refusal a slave waits two seconds for the greeting of a MySQL server, which no peer here is."""
    monkeypatch.setattr(connection, "_GREETING_SECONDS", 0.05)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.fixture
def stranger(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "stranger")


@contextmanager
def master(issued: Issued | None, slaves: Authority | None = None) -> Iterator[int]:
    """Serve with a certificate, or without TLS, and yield the port. With ``slaves`` demand its certificates."""
    tls = None
    if issued is not None:
        tls = ReloadingTls(TlsFiles(issued.certificate, issued.key, slaves.certificate if slaves else None))
    listen = ListenAddress(tls=tls, require_slave_certificate=slaves is not None)
    server = MasterServer(BinlogStore(BINLOGS), listen=listen)
    server.start()
    try:
        yield server.port
    finally:
        server.stop(0)


def source_tls(
    ca: str = "", certificate: str = "", key: str = "", *, verify_host: bool | None = None
) -> dict[str, Any]:
    """Return members of SourceInfo."""
    files = {"ssl_ca": ca, "ssl_cert": certificate, "ssl_key": key}
    return {"ssl": True, "ssl_verify_server_cert": verify_host, **files}


def tls_of(ca: str) -> ClientTls:
    tls = SourceInfo(**source_tls(ca)).tls
    assert tls is not None
    return tls


def register(port: int, tls: dict[str, Any] | None, host: str = "127.0.0.1", **options: object) -> None:
    """Register over a channel of the slave's."""
    where = source_of(host, port, uuid="u", **({} if tls is None else tls), **options)
    request = pb.RegisterRequest(
        protocol=2, server_id=7, uuid=str(uuid.uuid4()), filter=filter_to_proto(Filter())
    )
    with open_channel(where, lambda: False) as channel:
        rpc.DumpFilterStub(channel).Register(request, timeout=240)


def ca(authority: Authority) -> str:
    return str(authority.certificate)


def test_verified(authority: Authority) -> None:
    with master(authority.issue("m")) as port:
        register(port, source_tls(ca(authority)))


def test_the_master_s_own_certificate_as_the_ca(authority: Authority) -> None:
    """A copy of the master's certificate is as good as its CA, whoever signed it."""
    issued = authority.issue("m")
    with master(issued) as port:
        register(port, source_tls(str(issued.certificate)))


@pytest.mark.parametrize("verify_host", [True, None])
def test_another_host(authority: Authority, verify_host: bool | None) -> None:
    with master(authority.issue("m", address="10.9.8.7")) as port:
        with pytest.raises(TlsError, match=r"refused \(IP address mismatch.*SOURCE_SSL_VERIFY_SERVER_CERT=0"):
            register(port, source_tls(ca(authority), verify_host=verify_host))
        with pytest.raises(TlsError, match=r"refused \(Hostname mismatch.*name the host"):
            register(port, source_tls(ca(authority), verify_host=verify_host), host="localhost")


def test_the_host_need_not_match(authority: Authority, stranger: Authority) -> None:
    """As MySQL's VERIFY_CA: any certificate of the CA will do, and no other."""
    with master(authority.issue("m", address="10.9.8.7")) as port:
        register(port, source_tls(ca(authority), verify_host=False))
        with pytest.raises(TlsError, match=r"refused.*is SOURCE_SSL_CA=.* the CA that signed"):
            register(port, source_tls(ca(stranger), verify_host=False))


def test_no_ca_verifies_nothing(stranger: Authority) -> None:
    """As MySQL's REQUIRED: encrypted, with whatever certificate the master has."""
    with master(stranger.issue("m", address="10.9.8.7")) as port, capture_logs() as logs:
        register(port, source_tls())
        register(port, source_tls(verify_host=False))
    said = "the connection is encrypted, but the master's certificate is not verified"
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == [said] * 2


def test_another_ca(authority: Authority, stranger: Authority) -> None:
    with (
        master(authority.issue("m")) as port,
        pytest.raises(TlsError, match=r"unable to get local issuer certificate\): is SOURCE_SSL_CA="),
    ):
        register(port, source_tls(ca(stranger)))


@pytest.mark.parametrize("verified", [True, False])
def test_an_expired_certificate(
    authority: Authority, verified: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A master does not start with an expired certificate. This one expired while the master ran.
    monkeypatch.setattr("dumpfilter.base.security.tls._now", lambda: YESTERDAY.replace(microsecond=0))
    with (
        master(authority.issue("m", ends=YESTERDAY, begins=YESTERDAY)) as port,
        pytest.raises(TlsError, match=r"expired.*renew the certificate on the master"),
    ):
        register(port, source_tls(ca(authority) if verified else ""))


def test_mutual(authority: Authority, stranger: Authority) -> None:
    own, foreign = authority.issue("slave"), stranger.issue("slave")
    with master(authority.issue("m"), slaves=authority) as port:
        register(port, source_tls(ca(authority), str(own.certificate), str(own.key)))
        register(port, source_tls("", str(own.certificate), str(own.key)))
        with pytest.raises(
            TlsError, match="it probably demands a certificate of the slave: give SOURCE_SSL_CERT"
        ):
            register(port, source_tls(ca(authority)))
        with pytest.raises(TlsError, match=r"the master refuses SOURCE_SSL_CERT=.*signed by the CA"):
            register(port, source_tls(ca(authority), str(foreign.certificate), str(foreign.key)))


def test_tls_at_a_master_without_tls(authority: Authority) -> None:
    with master(None) as port:
        for tls in (source_tls(), source_tls(ca(authority))):
            with pytest.raises(TlsError, match=r"does not speak TLS.*--tls-cert.*SOURCE_SSL=0"):
                register(port, tls)


def test_a_master_with_tls_is_recognized(authority: Authority) -> None:
    with master(authority.issue("m")) as port:
        assert speaks_tls("127.0.0.1", port, lambda: False)
    with master(authority.issue("m2"), slaves=authority) as port:
        assert speaks_tls("127.0.0.1", port, lambda: False)
    with master(None) as port:
        assert not speaks_tls("127.0.0.1", port, lambda: False)
    assert not speaks_tls("127.0.0.1", port, lambda: False)  # nobody listens any more


def test_nobody_listens(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable, match="Connection refused"):
        register(port, source_tls(ca(authority)))
    for host, number in (
        ("no.such.host.invalid", 1),
        ("127.0.0.1", 4_294_967_295),
        ("x" * 300, 1),
        (".x", 1),
    ):
        with pytest.raises(Unreachable):
            register(number, source_tls(), host=host)


def test_a_silent_server_does_not_hold_up_the_end_of_the_slave(authority: Authority) -> None:
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stopper = threading.Timer(0.1, stop.set)
        stopper.start()
        with pytest.raises(Unreachable, match="the slave stops"):
            agree(tls_of(ca(authority)), "127.0.0.1", listener.getsockname()[1], stop.is_set)
        stopper.join()


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Answer the first bytes of one connection, and yield the port."""

    def serve() -> None:
        with listener.accept()[0] as connection:
            connection.recv(10_000)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_a_server_that_hangs_up(authority: Authority) -> None:
    with answering(b"") as port, pytest.raises(Unreachable):
        agree(tls_of(ca(authority)), "127.0.0.1", port, lambda: False)


def test_a_refusal_is_an_answer_in_tls(authority: Authority) -> None:
    """A server of TLS 1.2 sends an alert when it misses a certificate."""
    handshake_failure = b"\x15\x03\x03\x00\x02\x02\x28"
    with answering(handshake_failure) as port:
        assert speaks_tls("127.0.0.1", port, lambda: False)
    with (
        answering(handshake_failure) as port,
        pytest.raises(TlsError, match="probably demands a certificate of the slave: give SOURCE_SSL_CERT"),
    ):
        agree(tls_of(ca(authority)), "127.0.0.1", port, lambda: False)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda own, none: source_tls(none), r"SOURCE_SSL_CA=.*/none: cannot be read"),
        (
            lambda own, none: source_tls(str(own.key)),
            r"SOURCE_SSL_CA=.*-key.pem: holds no certificate in PEM",
        ),
        (lambda own, none: source_tls("", none, str(own.key)), r"SOURCE_SSL_CERT=.*/none: cannot be read"),
        (
            lambda own, none: source_tls("", str(own.certificate), str(own.certificate)),
            r"SOURCE_SSL_CERT=.*: is no PEM certificate with its unencrypted private key in /",
        ),
    ],
)
def test_files_that_cannot_be_used(authority: Authority, tmp_path: Path, make, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TlsError, match=said):
        register(1, make(authority.issue("own"), str(tmp_path / "none")))


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1(), None])
def test_kinds_of_keys(authority: Authority, curve: ec.EllipticCurve | None) -> None:
    """RSA and two curves suit gRPC. Another key of the slave, or of the master, is an error before the handshake."""
    key = ed25519.Ed25519PrivateKey.generate() if curve is None else ec.generate_private_key(curve)
    own = authority.issue("own", key=key)
    files = source_tls(ca(authority), str(own.certificate), str(own.key))
    tls = TlsFiles(own.certificate, own.key)
    with master(authority.issue("m"), slaves=authority) as port:
        if curve is not None and curve.key_size <= 384:
            register(port, files)
            with master(own) as second:
                register(second, source_tls(ca(authority)))
            ReloadingTls(tls, for_grpc=True)
            return
        with pytest.raises(
            TlsError, match=r"SOURCE_SSL_KEY=.*of a kind that gRPC cannot use: give an RSA key"
        ):
            register(port, files)
        with pytest.raises(
            TlsFileError, match=r"--tls-key=.*of a kind that gRPC cannot use: give an RSA key"
        ):
            ReloadingTls(tls, for_grpc=True)
        ReloadingTls(tls)


def test_a_certificate_without_a_name(authority: Authority) -> None:
    with master(authority.issue("", address=None)) as port:
        for verified in (source_tls(), source_tls(ca(authority), verify_host=False)):
            with pytest.raises(TlsError, match="names no host"):
                register(port, verified)


def test_an_encrypted_key_asks_nobody(authority: Authority) -> None:
    own = authority.issue("own", password=b"hush")
    with pytest.raises(TlsError, match="unencrypted private key"):
        register(1, source_tls("", str(own.certificate), str(own.key)))
