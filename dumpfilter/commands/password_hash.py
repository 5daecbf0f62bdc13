"""The command ``dumpfilter password-hash``, which makes the hash of a password for the master's configuration file."""

from __future__ import annotations

import getpass
import sys
from typing import Literal

import typer

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings
from dumpfilter.base.security.passwords import MOST_PASSWORD, Sha2Crypt, native_hash, to_bytes


class HashSettings(Settings):
    """The option of ``dumpfilter password-hash``: the type of hash."""

    plugin: Literal["caching_sha2_password", "mysql_native_password"] = "caching_sha2_password"
    """The authentication plugin of MySQL that has such hashes: MySQL 9's clients know caching_sha2_password alone;
    MariaDB's clients verify the console's certificate with mysql_native_password alone."""


def password_hash_command(given: HashSettings) -> None:
    r"""Print the hash of a password, for password_hash in the master's configuration file.

    The command asks for the password on the terminal, or reads the first line of standard input. No option takes the
    password itself, because other users of the machine can see command lines.

    Examples:

        dumpfilter password-hash

        dumpfilter password-hash --plugin mysql_native_password \
            < admin.password
    """
    password = _read()
    hashed = Sha2Crypt.of if given.plugin == "caching_sha2_password" else native_hash
    typer.echo(str(hashed(password)))


def _read() -> str:
    """Read a password from the terminal or standard input. Raises OptionError for a password that is empty, too long or
    not UTF-8, and for two different ones on the terminal.
    """
    if sys.stdin.isatty():
        password = getpass.getpass("Password: ")
        if getpass.getpass("Once more: ") != password:
            raise OptionError("the two passwords differ: give the command again")
    else:
        try:
            password = sys.stdin.readline().rstrip("\r\n")
        except UnicodeDecodeError:
            raise OptionError("the password on standard input is not UTF-8") from None
    if not password:
        raise OptionError("the password is empty: give one on the terminal or on standard input")
    if len(to_bytes(password)) > MOST_PASSWORD:
        raise OptionError(f"the password is longer than {MOST_PASSWORD} bytes")
    return password
