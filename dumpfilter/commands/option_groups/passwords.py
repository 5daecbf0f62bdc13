"""The reading of passwords from files or environment variables.

No option takes a password itself, because other users of the machine can see command lines.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from dumpfilter.errors import OptionError
from dumpfilter.options.small_file import read_small_file

CONSOLE_VARIABLE = "DUMPFILTER_CONSOLE_PASSWORD"
SOURCE_VARIABLE = "DUMPFILTER_SOURCE_PASSWORD"


_RANDOM_BYTES = 18


def make_password(path: Path) -> bool:
    """Make a file with a random password, unless the file exists. Return whether the file was made.

    Only the owner can read the new file. Raises OptionError for a file that cannot be made.
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
    if path is None:
        return os.environ.get(variable, "")
    try:
        lines = read_small_file(path).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OptionError(f"{path}: the password cannot be read: {reason}") from None
    return lines[0] if lines else ""
