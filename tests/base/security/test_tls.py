"""Certificates and keys that are made, and errors about files that cannot be used."""

from __future__ import annotations

import datetime
import hashlib
import re
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.tls import TlsFiles, load_tls, make_key_pair, temporary_tls
from tests.certificates import Authority, client_context

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::", "10.1.2.3", "db.example", "дб.example"])
def test_made_certificate_names_where_the_server_listens(host: str) -> None:
    made = x509.load_pem_x509_certificate(make_key_pair(host).certificate)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "localhost" in names.get_values_for_type(x509.DNSName)
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert addresses == {"127.0.0.1", "::1"} | ({"10.1.2.3"} if host == "10.1.2.3" else set())
    assert ("db.example" in names.get_values_for_type(x509.DNSName)) == (host == "db.example")
    assert made.not_valid_before_utc < NOW < made.not_valid_after_utc


def test_each_is_another() -> None:
    assert temporary_tls("127.0.0.1").fingerprint != temporary_tls("127.0.0.1").fingerprint


def test_the_key_of_a_made_certificate_is_never_in_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process that is killed at this moment would leave the key there.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    assert temporary_tls("127.0.0.1").context.cert_store_stats()["x509"] == 0


def test_certificate_of_an_authority(authority: Authority) -> None:
    issued = authority.issue("server")
    chain = issued.certificate.read_bytes() + authority.certificate.read_bytes()
    issued.certificate.write_bytes(chain)
    tls = load_tls(TlsFiles(issued.certificate, issued.key))
    der = ssl.PEM_cert_to_DER_cert(
        issued.certificate.read_text().split("-----END")[0] + "-----END CERTIFICATE-----\n"
    )
    assert tls.fingerprint.hex() == hashlib.sha256(der).hexdigest()
    assert (tls.certificates, tls.key, tls.ca) == (chain, issued.key.read_bytes(), None)
    assert tls.context.verify_mode is ssl.CERT_NONE
    with_ca = load_tls(TlsFiles(issued.certificate, issued.key, authority.certificate))
    assert with_ca.context.verify_mode is ssl.CERT_OPTIONAL
    assert b"PRIVATE" not in repr(tls).encode()


def _missing(authority: Authority, directory: Path) -> TlsFiles:
    return TlsFiles(directory / "none", authority.issue("a").key)


def _directory(authority: Authority, directory: Path) -> TlsFiles:
    return TlsFiles(authority.issue("a").certificate, directory)


def _only_key(authority: Authority, directory: Path) -> TlsFiles:
    return TlsFiles(None, authority.issue("a").key)


def _only_certificate(authority: Authority, directory: Path) -> TlsFiles:
    return TlsFiles(authority.issue("a").certificate)


def _swapped(authority: Authority, directory: Path) -> TlsFiles:
    return TlsFiles(authority.issue("a").key, authority.issue("a").certificate)


def _no_key(authority: Authority, directory: Path) -> TlsFiles:
    issued = authority.issue("a")
    return TlsFiles(issued.certificate, issued.certificate)


def _other_key(authority: Authority, directory: Path) -> TlsFiles:
    return TlsFiles(authority.issue("a").certificate, authority.issue("b").key)


def _encrypted(authority: Authority, directory: Path) -> TlsFiles:
    issued = authority.issue("a", password=b"hush")
    return TlsFiles(issued.certificate, issued.key)


def _expired(authority: Authority, directory: Path) -> TlsFiles:
    issued = authority.issue("a", begins=NOW - datetime.timedelta(2), ends=NOW - datetime.timedelta(1))
    return TlsFiles(issued.certificate, issued.key)


def _not_yet(authority: Authority, directory: Path) -> TlsFiles:
    issued = authority.issue("a", begins=NOW + datetime.timedelta(1), ends=NOW + datetime.timedelta(2))
    return TlsFiles(issued.certificate, issued.key)


def _ca_is_a_key(authority: Authority, directory: Path) -> TlsFiles:
    issued = authority.issue("a")
    return TlsFiles(issued.certificate, issued.key, issued.key)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (_missing, r"--tls-cert=.*/none: cannot be read: No such file or directory"),
        (_directory, r"--tls-key=.*: cannot be read: Is a directory"),
        (_only_key, r"--tls-key needs --tls-cert: "),
        (_only_certificate, r"--tls-cert needs --tls-key: "),
        (_swapped, r"--tls-cert=.*/a-key.pem: holds no certificate in PEM"),
        (_no_key, r"--tls-key=.*/a.pem: holds no private key in PEM"),
        (_other_key, r"--tls-key=.*/b-key.pem: is not the key of .*/a.pem"),
        (_encrypted, r"--tls-key=(.*/a-key.pem): is encrypted.*: openssl pkey -in \1 -out FILE"),
        (_expired, r"--tls-cert=.*/a.pem: expired on 20\d\d-.* UTC: get a new one, or leave out"),
        (_not_yet, r"--tls-cert=.*/a.pem: is not valid before 20\d\d-.* UTC: is this machine's clock right"),
        (_ca_is_a_key, r"--tls-ca=.*/a-key.pem: holds no certificate in PEM"),
    ],
)
def test_files_that_cannot_be_used(
    authority: Authority, tmp_path: Path, files: Callable[[Authority, Path], TlsFiles], said: str
) -> None:
    with pytest.raises(OptionError) as caught:
        load_tls(files(authority, tmp_path))
    assert re.match(said, str(caught.value))
    assert "\n" not in str(caught.value)


def test_client_trusts_one_authority(authority: Authority, tmp_path: Path) -> None:
    context = client_context(authority.certificate)
    assert len(context.get_ca_certs()) == 1
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    with pytest.raises(OptionError, match=r"--tls-ca=.*: cannot be read"):
        client_context(tmp_path / "none")
