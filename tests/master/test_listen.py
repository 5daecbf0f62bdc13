"""A master's address: what may be served to whom, and TLS as gRPC's clients meet it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from structlog.testing import capture_logs

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.listening import Exposed
from dumpfilter.base.security.tls import ReloadingTls, TlsFiles
from dumpfilter.filter.convert import filter_to_proto
from dumpfilter.filter.filter import Filter
from dumpfilter.master.config import Account, MasterConfig
from dumpfilter.master.server import ListenAddress, MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc
from tests.certificates import Authority, Issued
from tests.support import DATA

BINLOGS = DATA / "oracle" / "mysql-row"
USERS = {"repl": "secret"}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.fixture
def issued(authority: Authority) -> Issued:
    return authority.issue("master")


def tls_of(issued: Issued, ca: Path | None = None) -> ReloadingTls:
    return ReloadingTls(TlsFiles(issued.certificate, issued.key, ca))


@contextmanager
def serving(listen: ListenAddress) -> Iterator[MasterServer]:
    server = MasterServer(BinlogStore(BINLOGS), listen=listen)
    server.start()
    try:
        yield server
    finally:
        server.stop(0)


def ask(server: MasterServer, ca: Path | None, own: Issued | None = None, host: str = "127.0.0.1") -> str:
    """Register over a new connection, and return the name of gRPC's status."""
    if ca is None:
        channel = grpc.insecure_channel(f"{host}:{server.port}")
    else:
        pair = (own.key.read_bytes(), own.certificate.read_bytes()) if own else (None, None)
        credentials = grpc.ssl_channel_credentials(ca.read_bytes(), *pair)
        channel = grpc.secure_channel(
            f"{host}:{server.port}", credentials, options=[("grpc.use_local_subchannel_pool", 1)]
        )
    with channel:
        try:
            request = pb.RegisterRequest(
                protocol=2, server_id=7, uuid=str(uuid.uuid4()), filter=filter_to_proto(Filter())
            )
            rpc.DumpFilterStub(channel).Register(request, timeout=240)
        except grpc.RpcError as error:
            return error.code().name
    return "OK"


def test_a_server_with_tls_serves_tls_alone(issued: Issued, authority: Authority, tmp_path: Path) -> None:
    with serving(ListenAddress(tls=tls_of(issued))) as server:
        assert ask(server, authority.certificate) == "OK"
        assert ask(server, None) == "UNAVAILABLE"
        assert ask(server, Authority(tmp_path / "other").certificate) == "UNAVAILABLE"


def test_mutual_tls(issued: Issued, authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    tls = tls_of(issued, authority.certificate)
    with serving(ListenAddress(tls=tls, require_slave_certificate=True)) as server:
        assert ask(server, authority.certificate, authority.issue("slave")) == "OK"
        assert ask(server, authority.certificate) == "UNAVAILABLE"
        assert ask(server, authority.certificate, other.issue("stranger")) == "UNAVAILABLE"


def test_a_ca_alone_demands_nothing_of_slaves(issued: Issued, authority: Authority) -> None:
    with serving(ListenAddress(tls=tls_of(issued, authority.certificate))) as server:
        assert ask(server, authority.certificate) == "OK"


def test_a_renewed_certificate_serves_new_connections(
    issued: Issued, authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other")
    with serving(ListenAddress(tls=tls_of(issued))) as server:
        assert ask(server, authority.certificate) == "OK"
        issued.replace(other.issue("renewed"))
        assert ask(server, other.certificate) == "OK"
        assert ask(server, authority.certificate) == "UNAVAILABLE"
        issued.certificate.write_text("broken")
        assert ask(server, other.certificate) == "OK"


def test_another_ca_for_slaves_without_a_restart(
    issued: Issued, authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other")
    ca = tmp_path / "slaves.pem"
    ca.write_bytes(authority.certificate.read_bytes())
    with serving(ListenAddress(tls=tls_of(issued, ca), require_slave_certificate=True)) as server:
        slave = other.issue("slave")
        assert ask(server, authority.certificate, slave) == "UNAVAILABLE"
        ca.write_bytes(other.certificate.read_bytes())
        assert ask(server, authority.certificate, slave) == "OK"


def test_required_certificates_need_a_ca(issued: Issued) -> None:
    with pytest.raises(OptionError, match="--tls-require-slave-cert needs --tls-ca"):
        ListenAddress(tls=tls_of(issued), require_slave_certificate=True)
    with pytest.raises(OptionError, match="--tls-require-slave-cert needs --tls-ca"):
        ListenAddress(require_slave_certificate=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_loopback_needs_nothing(host: str) -> None:
    with serving(ListenAddress(host)) as server:
        assert ask(server, None, host=f"[{host}]" if ":" in host else host) == "OK"


@pytest.mark.parametrize(
    ("make", "users", "lacks"),
    [
        (lambda tls: ListenAddress("0.0.0.0"), {}, ("without TLS", "without a login")),
        (lambda tls: ListenAddress("::"), USERS, ("without TLS",)),
        (lambda tls: ListenAddress("0.0.0.0", tls=tls), {}, ("without a login",)),
        (lambda tls: ListenAddress("0.0.0.0", tls=tls), USERS, ()),
        (lambda tls: ListenAddress("0.0.0.0", tls=tls, require_slave_certificate=True), {}, ()),
    ],
)
def test_other_machines_need_tls_and_a_login(
    issued: Issued,
    authority: Authority,
    make: Callable[[ReloadingTls], ListenAddress],
    users: dict[str, str],
    lacks: tuple[str, ...],
) -> None:
    listen = make(tls_of(issued, authority.certificate))
    if not lacks:
        with capture_logs() as logged:
            listen.check_exposure(users)
        assert not logged
        return
    with pytest.raises(Exposed) as caught:
        listen.check_exposure(users)
    assert all(lack in str(caught.value) for lack in lacks)
    assert ("without TLS" in str(caught.value)) == ("without TLS" in lacks)


def test_the_server_itself_refuses() -> None:
    with pytest.raises(
        Exposed, match=r"--host=0\.0\.0\.0: the master would serve other machines without TLS"
    ):
        MasterServer(
            BinlogStore(BINLOGS),
            listen=ListenAddress("0.0.0.0"),
            config=MasterConfig(user=(Account(name="repl", password="secret"),)),
        )


def test_insecure_is_loud() -> None:
    with capture_logs() as logs, serving(ListenAddress("0.0.0.0", insecure=True)) as server:
        assert ask(server, None) == "OK"
    (line,) = [
        line for line in logs if line.get("reason", "").startswith("INSECURE: the master listens on 0.0.0.0")
    ]
    assert line["log_level"] == "warning"
