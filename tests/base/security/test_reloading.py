"""TLS files that are read again when they change."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.tls import ReloadingTls, TlsFiles
from tests.certificates import YESTERDAY, Authority, Issued


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.fixture
def served(authority: Authority) -> Issued:
    return authority.issue("served")


def test_unchanged_files_are_not_read_again(served: Issued) -> None:
    tls = ReloadingTls(TlsFiles(served.certificate, served.key))
    assert tls.current() is tls.current()


def test_a_renewed_certificate(authority: Authority, served: Issued) -> None:
    tls = ReloadingTls(TlsFiles(served.certificate, served.key))
    before = tls.current()
    renewed = authority.issue("renewed")
    served.replace(renewed)
    with capture_logs() as logs:
        now = tls.current()
    assert now.certificates == renewed.certificate.read_bytes() != before.certificates
    assert now.key == renewed.key.read_bytes()
    assert [(line["event"], line["sha256"]) for line in logs] == [("tls.reloaded", now.fingerprint.hex())]
    assert tls.current() is now


def test_half_a_renewal_keeps_the_pair_from_before(authority: Authority, served: Issued) -> None:
    tls = ReloadingTls(TlsFiles(served.certificate, served.key))
    before = tls.current()
    renewed = authority.issue("renewed")
    served.certificate.write_bytes(renewed.certificate.read_bytes())
    with capture_logs() as logs:
        assert tls.current() is before
        assert tls.current() is before
    (line,) = logs  # one line for one change, however many clients connect
    assert (line["event"], line["log_level"]) == ("tls.not_reloaded", "error")
    assert f"--tls-key={served.key}: is not the key of {served.certificate}" in line["reason"]
    served.key.write_bytes(renewed.key.read_bytes())
    assert tls.current().certificates == renewed.certificate.read_bytes()


@pytest.mark.parametrize("how", ["gone", "damaged", "expired"])
def test_a_broken_file_keeps_the_certificate_from_before(
    authority: Authority, served: Issued, how: str
) -> None:
    tls = ReloadingTls(TlsFiles(served.certificate, served.key))
    before = tls.current()
    if how == "gone":
        served.certificate.unlink()
    elif how == "damaged":
        served.certificate.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    else:
        served.replace(authority.issue("old", begins=YESTERDAY, ends=YESTERDAY))
    with capture_logs() as logs:
        assert tls.current() is before
    assert [line["event"] for line in logs] == ["tls.not_reloaded"]
    served.replace(authority.issue("renewed"))
    assert tls.current() is not before


def test_another_ca(authority: Authority, served: Issued, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.certificate.read_bytes())
    tls = ReloadingTls(TlsFiles(served.certificate, served.key, ca))
    other = Authority(tmp_path / "other").certificate.read_bytes()
    ca.write_bytes(other)
    assert tls.current().ca == other


def test_files_that_cannot_be_used_at_the_start(tmp_path: Path, served: Issued) -> None:
    with pytest.raises(OptionError, match=r"--tls-cert=.*: cannot be read"):
        ReloadingTls(TlsFiles(tmp_path / "none", served.key))
