"""Users and passwords: from which place they come, and that they are never shown."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import NoReturn

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.client_tls import TlsMode
from dumpfilter.receiver.login import find_credentials
from dumpfilter.receiver.url import parse_source_url


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DUMPFILTER_SOURCE_PASSWORD", raising=False)
    return tmp_path


def test_the_places_in_their_order(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".my.cnf").write_text(
        "[client]\nuser=c\npassword=from-cnf\nssl-mode=VERIFY_CA\nssl-ca=/ca\n[mysqld]\nuser=x\n"
    )
    (home / "pw").write_text("from-file\nmore\n")

    found = find_credentials(parse_source_url("mysql://h/"))
    assert (found.user, found.password, found.tls.mode) == ("c", "from-cnf", TlsMode.VERIFY_CA)
    monkeypatch.setenv("DUMPFILTER_SOURCE_PASSWORD", "from-environment")
    found = find_credentials(parse_source_url("mysql://u@h/?tls=required"))
    assert (found.user, found.password, found.tls.mode) == ("u", "from-environment", TlsMode.REQUIRED)
    found = find_credentials(parse_source_url(f"mysql://u@h/?password-file={home / 'pw'}"))
    assert (found.user, found.password) == ("u", "from-file")
    assert "from-file" not in repr(found)


def test_a_password_that_is_not_utf_8_is_an_error_without_the_password(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home / ".my.cnf"
    file.write_bytes(b"[client]\npassword=caf\xe9\n")
    with pytest.raises(OptionError, match=f"^{file}: the password is not UTF-8") as refused:
        find_credentials(parse_source_url("mysql://u@h/"))
    assert "caf" not in str(refused.value)
    monkeypatch.setenv("DUMPFILTER_SOURCE_PASSWORD", os.fsdecode(b"caf\xe9"))
    with pytest.raises(
        OptionError, match=r"^DUMPFILTER_SOURCE_PASSWORD: the password cannot be read"
    ) as refused:
        find_credentials(parse_source_url("mysql://u@h/"))
    assert "caf" not in str(refused.value)


def test_the_section_of_dumpfilter_wins(home: Path) -> None:
    file = home / "own.cnf"
    file.write_text("[dumpfilter-source]\npassword = 'mine'\n[client]\nuser=c\npassword=theirs\n")
    found = find_credentials(parse_source_url(f"mysql://h/?defaults-file={file}"))
    assert (found.user, found.password) == ("c", "mine")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("password-file=~/none", "password cannot be read"),
        ("defaults-file=~/none", "cannot read the option file"),
        ("password-file=~nobody-has-this-name/pw", "~nobody-has-this-name/pw: the password cannot be read"),
        ("source-public-key=~nobody-has-this-name/k", "~nobody-has-this-name/k: cannot be read"),
    ],
)
def test_a_missing_file_is_an_error(options: str, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        find_credentials(parse_source_url(f"mysql://u@h/?{options}"))


def test_a_process_of_a_user_id_without_name_and_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)

    def unknown(number: int) -> NoReturn:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert find_credentials(parse_source_url("mysql://u@h/")).user == "u"
    with pytest.raises(OptionError, match="the user is missing"):
        find_credentials(parse_source_url("mysql://h/"))


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        ("mysql://127.0.0.1/", TlsMode.PREFERRED),
        ("mysql://h/", TlsMode.REQUIRED),
        ("mysql://127.0.0.1/?ca=/ca.pem", TlsMode.VERIFY_IDENTITY),
        ("mysql://h/?ca=/ca.pem&tls=verify-ca", TlsMode.VERIFY_CA),
        ("mysql://h/?tls=DISABLED", TlsMode.DISABLED),
    ],
)
def test_the_tls_mode_that_holds(url: str, mode: TlsMode) -> None:
    assert find_credentials(parse_source_url(url)).tls.mode is mode
