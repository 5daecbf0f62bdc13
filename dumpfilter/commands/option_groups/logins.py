"""The parsing of the addresses of masters and consoles, and the reading of passwords.

No option takes a password itself, because other users of the machine can see command lines.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.small_file import read_password_file

CONSOLE_VARIABLE = "DUMPFILTER_CONSOLE_PASSWORD"
SOURCE_VARIABLE = "DUMPFILTER_SOURCE_PASSWORD"


_RANDOM_BYTES = 18


def make_password(path: Path) -> bool:
    """Create a file with a random password, unless the file exists. Return whether the file was created.

    Only the owner can read the new file. Raises OptionError for a file that cannot be created.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        raise OptionError(
            f"{path}: the password file cannot be made: {error.strerror}; name a file in a directory that you may "
            "write to"
        ) from None
    with open(descriptor, "w", encoding="utf-8") as new:
        new.write(secrets.token_urlsafe(_RANDOM_BYTES) + "\n")
    return True


def read_password(path: Path | None, variable: str) -> str:
    """Return the password in the first line of a file or, with None for ``path``, in an environment variable.

    Without either the password is empty. Raises OptionError for a file that cannot be read.
    """
    return os.environ.get(variable, "") if path is None else read_password_file(path)


def parse_address(option: str, value: str) -> tuple[str, int]:
    """Parse the value ``HOST:PORT`` of an option, and return host and port. Raises OptionError for another form.

    >>> parse_address("--slave", "[::1]:3308")
    ('::1', 3308)
    """
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port[:6]) < 65536:
        raise OptionError(f"{option}={value}: it is HOST:PORT")
    return host.strip("[]"), int(port)


def parse_masters(masters: Sequence[str], channel: str) -> list[tuple[str, str, int]]:
    """Parse the values ``[CHANNEL=]HOST:PORT`` of ``--master``, and return channel, host and port of each.

    ``channel`` is the channel of a value that names none. Raises OptionError for another form, and for two masters of
    one channel.

    >>> parse_masters(["127.0.0.1:3307", "m2=[::1]:3308"], "")
    [('', '127.0.0.1', 3307), ('m2', '::1', 3308)]
    """
    from dumpfilter.filter.channels import GROUP_REPLICATION_CHANNELS, fold_channel, is_channel_name

    found: list[tuple[str, str, int]] = []
    for master in masters:
        name, equals, address = master.rpartition("=")
        host, colon, port = address.rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and int(port[:6]) <= 65535):
            raise OptionError(f"--master={master}: write [CHANNEL=]HOST:PORT")
        name = fold_channel(name if equals else channel)
        if name in GROUP_REPLICATION_CHANNELS or not is_channel_name(name):
            raise OptionError(f"--master={master}: no channel can have the name {name!r}")
        if any(name == other for other, _, _ in found):
            raise OptionError(
                f"--master={master}: there is another one for channel {name!r}; give each a name"
            )
        found.append((name, host.removeprefix("[").removesuffix("]"), int(port)))
    return found
