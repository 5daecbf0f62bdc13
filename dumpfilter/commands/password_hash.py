"""The command ``dumpfilter password-hash``, which makes the hash of a password for the master's configuration file."""

from __future__ import annotations

import enum
from pathlib import Path

import typer

from dumpfilter.base.options.settings import Settings


class Scheme(enum.StrEnum):
    """The supported password hashes.

    SCRYPT is for users who replicate. The other schemes, named like MySQL's authentication plugins, are for users of a
    console.
    """

    SCRYPT = "scrypt"
    CACHING_SHA2 = "caching_sha2_password"
    NATIVE = "mysql_native_password"


class HashSettings(Settings):
    """The options of ``dumpfilter password-hash``."""

    plugin: Scheme = Scheme.SCRYPT
    """scrypt makes the hash for a [[user]], who replicates. The other two are for a [[console_user]]: MySQL 9's clients
    know caching_sha2_password alone; MariaDB's clients verify the console's certificate with mysql_native_password
    alone."""
    file: Path | None = None
    """A file whose first line is the password. Without it the command asks on the terminal, or reads the first line of
    standard input."""


def password_hash_command(given: HashSettings) -> None:
    r"""Print the hash of a password, for password_hash in the master's configuration file.

    No option takes the password itself, because other users of the machine can see command lines.

    Examples:

        dumpfilter password-hash

        dumpfilter password-hash --plugin caching_sha2_password \
            --file admin.password
    """
    from dumpfilter.base.security.passwords import ScryptHash, Sha2Crypt, native_hash

    password = _read(given.file)
    match given.plugin:
        case Scheme.SCRYPT:
            typer.echo(str(ScryptHash.of(password)))
        case Scheme.CACHING_SHA2:
            typer.echo(str(Sha2Crypt.of(password)))
        case Scheme.NATIVE:
            typer.echo(native_hash(password))


def _read(file: Path | None) -> str:
    """Read a password from a file or, with None, from the terminal or standard input. Raises OptionError if it cannot
    be used.
    """
    import getpass
    import sys

    from dumpfilter.base.errors import OptionError
    from dumpfilter.base.security.passwords import MOST_PASSWORD, to_bytes
    from dumpfilter.commands.option_groups.logins import read_password

    if file is not None:
        password = read_password(file, "")
    elif sys.stdin.isatty():
        password = getpass.getpass("Password: ")
        if getpass.getpass("Once more: ") != password:
            raise OptionError("the two passwords differ: give the command again")
    else:
        try:
            password = sys.stdin.readline().rstrip("\r\n")
        except UnicodeDecodeError:
            raise OptionError("the password on standard input is not UTF-8") from None
    if not password:
        raise OptionError("the password is empty: give one on the terminal, on standard input or with --file")
    if len(to_bytes(password)) > MOST_PASSWORD:
        raise OptionError(f"the password is longer than {MOST_PASSWORD} bytes")
    return password
