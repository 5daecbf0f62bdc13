"""Login paths: the file ``~/.mylogin.cnf`` of ``mysql_config_editor``, whose text is an encrypted option file.

The file has 4 unused bytes and 20 bytes of which the key is made. After them each line stands alone: its length in 4
bytes, and its bytes in AES-128-ECB with PKCS #7 padding. The encryption hides nothing from those who can read the file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dumpfilter.errors import OptionError
from dumpfilter.options.small_file import read_small_file

_UNUSED = 4
_KEY_BYTES = 20
_BLOCK = 16
_LONGEST_LINE = 4096
FILE_VARIABLE = "MYSQL_TEST_LOGIN_FILE"
"""The environment variable with which MySQL's programs name another file."""


def login_file() -> Path:
    """Return the path of the file with the login paths."""
    return Path(os.environ.get(FILE_VARIABLE) or "~/.mylogin.cnf").expanduser()


def read_login_file(path: Path) -> str:
    """Return the text of a file with login paths, in the format of an option file. Raises OptionError."""
    try:
        mode = path.stat().st_mode
        data = read_small_file(path)
    except OSError as error:
        raise OptionError(f"{path}: the login paths cannot be read: {error.strerror}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise OptionError(f"{path}: other users may read or write the login paths: chmod 600 {path}")
    return decrypt_login_file(data, str(path))


def decrypt_login_file(data: bytes, file: str) -> str:
    """Return the text of encrypted login paths. ``file`` is the file's name for errors. Raises OptionError."""
    seed = data[_UNUSED : _UNUSED + _KEY_BYTES]
    key = bytearray(_BLOCK)
    for at, byte in enumerate(seed):
        key[at % _BLOCK] ^= byte
    at = _UNUSED + _KEY_BYTES
    lines = []
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "little")
        secret = data[at + 4 : at + 4 + length]
        at += 4 + length
        if not length or length % _BLOCK or length > _LONGEST_LINE or len(secret) < length:
            raise _damaged(file)
        decryptor = Cipher(algorithms.AES(bytes(key)), modes.ECB()).decryptor()
        text = decryptor.update(secret) + decryptor.finalize()
        padding = text[-1]
        if not 1 <= padding <= _BLOCK or text[-padding:] != bytes([padding]) * padding:
            raise _damaged(file)
        lines.append(text[:-padding])
    if len(seed) < _KEY_BYTES:
        raise _damaged(file)
    return b"".join(lines).decode("utf-8", "surrogateescape")


def _damaged(file: str) -> OptionError:
    return OptionError(
        f"{file}: no file of mysql_config_editor, or a damaged one; make it anew with that program"
    )
