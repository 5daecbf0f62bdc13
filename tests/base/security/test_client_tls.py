"""TLS of clients: what each mode verifies, and the names of files that cannot be used."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.client_tls import ClientTls, TlsMode
from dumpfilter.base.security.tls import make_key_pair


@pytest.mark.parametrize(
    ("mode", "verifies", "host"),
    [
        (TlsMode.REQUIRED, ssl.CERT_NONE, False),
        (TlsMode.VERIFY_CA, ssl.CERT_REQUIRED, False),
        (TlsMode.VERIFY_IDENTITY, ssl.CERT_REQUIRED, True),
    ],
)
def test_what_a_mode_verifies(tmp_path: Path, mode: TlsMode, verifies: ssl.VerifyMode, host: bool) -> None:
    made = make_key_pair("localhost")
    (tmp_path / "ca.pem").write_bytes(made.certificate)
    for ca in (tmp_path / "ca.pem", None):
        context = ClientTls(mode, ca).context()
        assert context is not None
        assert (context.verify_mode, context.check_hostname) == (verifies, host)
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert ClientTls(TlsMode.DISABLED).context() is None


def test_a_file_of_cas_may_have_comments_in_any_language(tmp_path: Path) -> None:
    made = make_key_pair("localhost").certificate
    (tmp_path / "ca.pem").write_bytes("# Főtanúsítvány\n".encode() + made)
    context = ClientTls(ca=tmp_path / "ca.pem").context()
    assert context is not None
    assert context.cert_store_stats()["x509"] == 1


@pytest.mark.parametrize("name", ["ca", "cert"])
@pytest.mark.parametrize("text", [None, "no certificate"])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, name: str, text: str | None) -> None:
    file = tmp_path / "x.pem"
    if text is not None:
        file.write_text(text)
    tls = ClientTls(ca=file) if name == "ca" else ClientTls(certificate=file, key=file)
    with pytest.raises(OptionError, match=rf"^{name}=.*x.pem: "):
        tls.context()
