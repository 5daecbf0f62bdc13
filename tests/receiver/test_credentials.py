"""Users and passwords: from which place they come, and that they are never shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dumpfilter.errors import OptionError
from dumpfilter.receiver.credentials import find_credentials
from dumpfilter.receiver.login_path import FILE_VARIABLE, decrypt_login_file
from dumpfilter.receiver.tls import TlsMode
from dumpfilter.receiver.url import parse_source_url

OF_MYSQL = bytes.fromhex(
    "000000001a1d171c040405060f08120b141f1c0811170b0b100000003fd43ea690ce95dc172c1fb1fa63530f1000000072bc8206e55984ce"
    "8e340d9dca7a77592000000072bff0a1944d5620b9d3e3e6d09bb503264c86cc1423ddd7e66a37f5b1352235100000003a20941c4385fefc"
    "6996367fca908dd3"
)
"""The file that mysql_config_editor of MySQL 9.7 wrote for a user and a password with spaces and quotes."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DUMPFILTER_SOURCE_PASSWORD", raising=False)
    return tmp_path


def encrypted(text: str) -> bytes:
    """Return login paths as mysql_config_editor writes them."""
    seed = bytes(range(20))
    key = bytearray(16)
    for at, byte in enumerate(seed):
        key[at % 16] ^= byte
    made = bytes(4) + seed
    for line in text.encode().splitlines(keepends=True):
        padding = 16 - len(line) % 16
        encryptor = Cipher(algorithms.AES(bytes(key)), modes.ECB()).encryptor()
        data = encryptor.update(line + bytes([padding]) * padding) + encryptor.finalize()
        made += len(data).to_bytes(4, "little") + data
    return made


def test_the_places_in_their_order(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".my.cnf").write_text(
        "[client]\nuser=c\npassword=from-cnf\nssl-mode=VERIFY_CA\nssl-ca=/ca\n[mysqld]\nuser=x\n"
    )
    login = home / ".mylogin.cnf"
    login.write_bytes(encrypted('[prod]\nuser = "l"\npassword = "from-login"\n'))
    login.chmod(0o600)
    (home / "pw").write_text("from-file\nmore\n")

    found = find_credentials(parse_source_url("mysql://h/"))
    assert (found.user, found.password, found.tls.mode) == ("c", "from-cnf", TlsMode.VERIFY_CA)
    found = find_credentials(parse_source_url("mysql://h/?login-path=prod"))
    assert (found.user, found.password) == ("l", "from-login")
    monkeypatch.setenv("DUMPFILTER_SOURCE_PASSWORD", "from-environment")
    found = find_credentials(parse_source_url("mysql://u@h/?login-path=prod&tls=required"))
    assert (found.user, found.password, found.tls.mode) == ("u", "from-environment", TlsMode.REQUIRED)
    found = find_credentials(parse_source_url(f"mysql://u@h/?password-file={home / 'pw'}"))
    assert (found.user, found.password) == ("u", "from-file")
    assert "from-file" not in repr(found)


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
        ("login-path=prod", "login paths cannot be read"),
    ],
)
def test_a_missing_file_is_an_error(options: str, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        find_credentials(parse_source_url(f"mysql://u@h/?{options}"))


def test_the_file_of_mysql_config_editor_is_read(home: Path) -> None:
    login = home / ".mylogin.cnf"
    login.write_bytes(OF_MYSQL)
    login.chmod(0o600)
    found = find_credentials(parse_source_url("mysql://h/?login-path=prod"))
    assert (found.user, found.password) == ("re pl", "s3 cr#t'x")


def test_an_unknown_login_path_is_an_error(home: Path) -> None:
    login = home / ".mylogin.cnf"
    login.write_bytes(encrypted("[prod]\nuser=a\n[test]\nuser=b\n"))
    login.chmod(0o600)
    with pytest.raises(OptionError, match="it has prod, test"):
        find_credentials(parse_source_url("mysql://u@h/?login-path=dev"))


def test_login_paths_that_others_may_read_are_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    login = home / "elsewhere"
    login.write_bytes(encrypted("[prod]\nuser=a\n"))
    login.chmod(0o640)
    monkeypatch.setenv(FILE_VARIABLE, str(login))
    with pytest.raises(OptionError, match="chmod 600"):
        find_credentials(parse_source_url("mysql://u@h/?login-path=prod"))


WHOLE = encrypted("[prod]\nuser=a\n")


@pytest.mark.parametrize(
    "data", [b"", WHOLE[:10], WHOLE[:-1], WHOLE[:24] + b"\xff\xff\xff\xff", bytes(24) + WHOLE[24:]]
)
def test_damaged_login_paths_are_an_error(data: bytes) -> None:
    with pytest.raises(OptionError, match="mysql_config_editor"):
        decrypt_login_file(data, "x")
