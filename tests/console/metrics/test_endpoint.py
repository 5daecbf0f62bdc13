"""The HTTP endpoint that Prometheus scrapes: formats, addresses, certificates, and clients that misbehave."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security import listening
from dumpfilter.base.security.listening import Exposed
from dumpfilter.base.security.tls import ServerTls, TlsFiles, load_tls
from dumpfilter.console import metrics as module
from dumpfilter.console.facts import Facts, metric
from dumpfilter.console.metrics import MAX_SCRAPES, CommonCollector, MetricsEndpoint, serving_metrics
from tests.certificates import Authority


class Visits(Collector):
    """A collector that counts its scrapes, and waits in them while ``gate`` is closed."""

    def __init__(self) -> None:
        self.count = 0
        self.at_once = 0
        self.most_at_once = 0
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)

    def collect(self) -> Iterator[Metric]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.count += 1
        self.entered.release()
        self.gate.wait(240)
        self.at_once -= 1
        yield from VisitFacts.families([self])


class VisitFacts(Facts[Visits]):
    """The metric of a collector of visits."""

    visits_total = metric("count")
    """Visits."""


def get(url: str, accept: str = "", context: ssl.SSLContext | None = None) -> tuple[str, str]:
    """Return the body and the content type."""
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=240, context=context) as answer:
        return answer.read().decode(), answer.headers["Content-Type"]


def test_prometheus_reads_the_metrics(tmp_path: Path) -> None:
    note = tmp_path / "port"
    with serving_metrics(MetricsEndpoint(port_file=note), lambda: [CommonCollector("1.2"), Visits()]) as url:
        assert url == f"http://127.0.0.1:{int(note.read_text())}/metrics"
        text, kind = get(url)
        assert kind.startswith("text/plain; version=0.0.4")
        found = {one.name: one for one in text_string_to_metric_families(text)}
        assert found["visits"].samples[0].value == 1
        assert found["dumpfilter_build_info"].samples[0].labels["version"] == "1.2"
        assert found["process_resident_memory_bytes"].samples[0].value > 1e6
        text, kind = get(url, "application/openmetrics-text; version=1.0.0")
        assert kind.startswith("application/openmetrics-text; version=1.0.0")
        assert text.endswith("# EOF\n")
        text, _ = get(f"{url}?name[]=visits_total&name[]=process_open_fds")
        assert {one.name for one in text_string_to_metric_families(text)} == {"visits", "process_open_fds"}
    with pytest.raises(urllib.error.URLError):
        get(url)


def test_without_an_endpoint_nothing_is_made() -> None:
    with serving_metrics(None, lambda: pytest.fail("no collector is needed")) as url:
        assert url is None


def test_a_taken_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = rf"cannot serve metrics on 127\.0\.0\.1:{port}: .* --metrics-address and --metrics-port"
        with pytest.raises(OptionError, match=text), serving_metrics(MetricsEndpoint(port=port), list):
            pass


def test_an_address_of_another_machine() -> None:
    with (
        pytest.raises(OptionError, match=r"cannot serve metrics on 192\.0\.2\.1:0"),
        serving_metrics(MetricsEndpoint("192.0.2.1", insecure=True), list),
    ):
        pass
    with (
        pytest.raises(OptionError, match=r"cannot serve metrics on xxx.*:0"),
        serving_metrics(MetricsEndpoint("x" * 70, insecure=True), list),
    ):
        pytest.fail("nothing can listen on this name")


def test_ipv6() -> None:
    with contextlib.suppress(OptionError), serving_metrics(MetricsEndpoint("::1"), lambda: [Visits()]) as url:
        assert url is not None
        assert url.startswith("http://[::1]:")
        assert "visits_total 1.0" in get(url)[0]


def test_one_scrape_at_a_time() -> None:
    visits = Visits()
    visits.gate.clear()
    with serving_metrics(MetricsEndpoint(), lambda: [visits]) as url:
        assert url is not None
        threads = [threading.Thread(target=get, args=(url,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert visits.entered.acquire(timeout=240)
        visits.gate.set()
        for thread in threads:
            thread.join(240)
    assert (visits.count, visits.most_at_once) == (3, 1)


def test_silent_clients_do_not_keep_prometheus_out() -> None:
    with serving_metrics(MetricsEndpoint(), lambda: [Visits()]) as url, contextlib.ExitStack() as stack:
        assert url is not None
        port = int(url.split(":")[2].split("/")[0])
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(MAX_SCRAPES)
        ]
        for number in (1, 2):
            assert f"visits_total {number}.0" in get(url)[0]
        # The oldest one made room.
        silent[0].settimeout(240)
        with contextlib.suppress(ConnectionResetError):
            assert silent[0].recv(1) == b""


def test_clients_that_read_nothing_do_not_keep_prometheus_out() -> None:
    """The answer is larger than the buffers of both sockets."""
    most = int(Path("/proc/sys/net/ipv4/tcp_wmem").read_text().split()[2])

    class Large(Visits):
        def collect(self) -> Iterator[Metric]:
            yield from super().collect()
            yield Metric("large", "x" * (most + (1 << 20)), "gauge")

    visits = Large()
    with (
        mock.patch.object(module, "SCRAPE_SECONDS", 1000),
        serving_metrics(MetricsEndpoint(), lambda: [visits]) as url,
        contextlib.ExitStack() as stack,
    ):
        assert url is not None
        port = int(url.split(":")[2].split("/")[0])
        for _ in range(MAX_SCRAPES):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", port))
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert visits.entered.acquire(timeout=240)
        assert f"visits_total {MAX_SCRAPES + 1}.0" in get(url)[0]


def test_a_silent_client_is_closed_after_a_while() -> None:
    with (
        mock.patch.object(module, "SCRAPE_SECONDS", 0.1),
        serving_metrics(MetricsEndpoint(), lambda: [Visits()]) as url,
    ):
        assert url is not None
        client = socket.create_connection(("127.0.0.1", int(url.split(":")[2].split("/")[0])), 240)
        with client, contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""


def test_a_client_that_sends_slowly_is_closed_after_a_while() -> None:
    with (
        mock.patch.object(module, "SCRAPE_SECONDS", 0.1),
        serving_metrics(MetricsEndpoint(), lambda: [Visits()]) as url,
    ):
        assert url is not None
        client = socket.create_connection(("127.0.0.1", int(url.split(":")[2].split("/")[0])), 240)
        client.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        deadline = time.monotonic() + 60
        with client, pytest.raises(ConnectionError):
            _send_slowly(client, deadline)


def _send_slowly(client: socket.socket, deadline: float) -> None:
    while time.monotonic() < deadline:
        client.sendall(b"x")
        time.sleep(0.01)


def test_strangers_on_the_network_need_a_permit() -> None:
    with pytest.raises(
        Exposed,
        match=r"--metrics-address=0\.0\.0\.0: .* without TLS and without a login: .*--metrics-insecure",
    ):
        MetricsEndpoint("0.0.0.0").check()
    MetricsEndpoint("0.0.0.0", insecure=True).check()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.fixture
def tls(authority: Authority) -> ServerTls:
    issued = authority.issue("master")
    return load_tls(TlsFiles(issued.certificate, issued.key, authority.certificate))


def test_a_certificate_without_a_ca_is_no_login(authority: Authority) -> None:
    issued = authority.issue("master")
    only_tls = load_tls(TlsFiles(issued.certificate, issued.key))
    with pytest.raises(Exposed, match="other machines without a login: give --tls-ca"):
        MetricsEndpoint("0.0.0.0", tls=only_tls).check()


def test_other_machines_must_show_a_certificate(authority: Authority, tls: ServerTls) -> None:
    shown = ssl.create_default_context(cafile=str(authority.certificate))
    none = ssl.create_default_context(cafile=str(authority.certificate))
    for context in (shown, none):
        # As Python 3.13 does by itself.
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    prometheus = authority.issue("prometheus")
    shown.load_cert_chain(prometheus.certificate, prometheus.key)
    # The address is on loopback, and the endpoint must take it for an exposed one.
    with (
        mock.patch.object(listening, "is_loopback", return_value=False),
        serving_metrics(MetricsEndpoint(tls=tls), lambda: [Visits()]) as url,
    ):
        assert url is not None
        assert url.startswith("https://127.0.0.1:")
        port = int(url.split(":")[2].split("/")[0])
        # A client that never begins the handshake holds up nobody.
        with socket.create_connection(("127.0.0.1", port)):
            assert "visits_total 1.0" in get(url, context=shown)[0]
            with pytest.raises(OSError):
                get(url, context=none)
            with pytest.raises(OSError):
                get(url.replace("https", "http"))
            assert "visits_total 2.0" in get(url, context=shown)[0]
