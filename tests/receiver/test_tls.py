"""TLS to a source: which mode holds, and what each mode verifies."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from dumpfilter.errors import OptionError
from dumpfilter.receiver.tls import TlsMode, TlsOptions, context_of
from dumpfilter.security.tls import make_key_pair

CA = Path("/ca.pem")


@pytest.mark.parametrize(
    ("options", "local", "mode"),
    [
        (TlsOptions(), True, TlsMode.PREFERRED),
        (TlsOptions(), False, TlsMode.REQUIRED),
        (TlsOptions(ca=CA), True, TlsMode.VERIFY_IDENTITY),
        (TlsOptions(TlsMode.VERIFY_CA, CA), False, TlsMode.VERIFY_CA),
        (TlsOptions(TlsMode.DISABLED), False, TlsMode.DISABLED),
    ],
)
def test_the_mode_that_holds(options: TlsOptions, local: bool, mode: TlsMode) -> None:
    assert options.resolved(is_local=local) is mode


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
        context = context_of(TlsOptions(mode, ca), mode, "mysql://h/")
        assert context is not None
        assert (context.verify_mode, context.check_hostname) == (verifies, host)
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context_of(TlsOptions(), TlsMode.DISABLED, "mysql://h/") is None


@pytest.mark.parametrize("name", ["ca", "cert"])
@pytest.mark.parametrize("text", [None, "no certificate"])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, name: str, text: str | None) -> None:
    file = tmp_path / "x.pem"
    if text is not None:
        file.write_text(text)
    options = TlsOptions(ca=file) if name == "ca" else TlsOptions(cert=file, key=file)
    with pytest.raises(OptionError, match=rf"mysql://h/: {name}=.*x.pem: "):
        context_of(options, TlsMode.VERIFY_CA, "mysql://h/")
