"""The certificate that a slave makes for its console and keeps."""

from __future__ import annotations

import datetime
import shutil
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dumpfilter.base.errors import OptionError
from dumpfilter.slave.process import CERTIFICATE, KEY, kept_tls
from tests.certificates import Authority

HOST = "127.0.0.1"


def test_made_once(tmp_path: Path) -> None:
    with capture_logs() as logs:
        first = kept_tls(tmp_path, HOST, None)
        assert kept_tls(tmp_path, "another.example", None).fingerprint == first.fingerprint
    assert logs == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [CERTIFICATE, KEY]
    assert stat.S_IMODE((tmp_path / KEY).stat().st_mode) == 0o600
    assert (tmp_path / CERTIFICATE).read_bytes() == first.certificates
    assert b"PRIVATE KEY" not in first.certificates


@pytest.mark.parametrize("lost", [CERTIFICATE, KEY])
def test_one_of_the_two_is_lost(tmp_path: Path, lost: str) -> None:
    first = kept_tls(tmp_path, HOST, None)
    (tmp_path / lost).unlink()
    second = kept_tls(tmp_path, HOST, None)
    assert second.fingerprint != first.fingerprint
    assert kept_tls(tmp_path, HOST, None).fingerprint == second.fingerprint


def test_crash_between_the_two(tmp_path: Path) -> None:
    """A crash after the new key and before the new certificate leaves an old certificate that does not fit."""
    kept_tls(tmp_path, HOST, None)
    other = tmp_path / "other"
    other.mkdir()
    kept_tls(other, HOST, None)
    shutil.copy(other / KEY, tmp_path / KEY)
    with capture_logs() as logs:
        made = kept_tls(tmp_path, HOST, None)
    (line,) = logs
    assert line["log_level"] == "warning"
    assert line["event"] == "the slave makes a new certificate"
    assert line["file"] == str(tmp_path / KEY)
    assert line["reason"] == f"is not the key of {tmp_path / CERTIFICATE}, whose first certificate counts"
    assert kept_tls(tmp_path, HOST, None).fingerprint == made.fingerprint


def test_expired(tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    old = Authority(tmp_path / "ca").issue(
        "old", begins=now - datetime.timedelta(2), ends=now - datetime.timedelta(1)
    )
    shutil.copy(old.certificate, tmp_path / CERTIFICATE)
    shutil.copy(old.key, tmp_path / KEY)
    with capture_logs() as logs:
        made = kept_tls(tmp_path, HOST, None)
    assert logs[0]["file"] == str(tmp_path / CERTIFICATE)
    assert "expired on 20" in logs[0]["reason"]
    assert made.certificates != old.certificate.read_bytes()


def test_ca_that_cannot_be_used_leaves_the_certificate(tmp_path: Path) -> None:
    first = kept_tls(tmp_path, HOST, None)
    with pytest.raises(OptionError, match=r"^--tls-ca=.*/none: cannot be read"):
        kept_tls(tmp_path, HOST, tmp_path / "none")
    assert kept_tls(tmp_path, HOST, None).fingerprint == first.fingerprint
