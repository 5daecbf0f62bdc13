"""The reading of passwords from files or environment variables.

No option takes a password itself, because other users of the machine can see command lines.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from dumpfilter.errors import OptionError
from dumpfilter.options.small_file import read_password_file

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
    return os.environ.get(variable, "") if path is None else read_password_file(path)
