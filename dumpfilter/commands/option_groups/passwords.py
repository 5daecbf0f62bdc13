"""The reading of passwords from files or environment variables.

No option takes a password itself, because other users of the machine can see command lines.
"""

from __future__ import annotations

import os
from pathlib import Path

from dumpfilter.errors import OptionError
from dumpfilter.options.small_file import read_small_file

CONSOLE_VARIABLE = "DUMPFILTER_CONSOLE_PASSWORD"
SOURCE_VARIABLE = "DUMPFILTER_SOURCE_PASSWORD"


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
