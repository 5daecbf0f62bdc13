"""The reading of configuration files, with a limit on their size."""

from __future__ import annotations

import os
from pathlib import Path

from dumpfilter.base.errors import OptionError

MAX_SIZE = 16 << 20
"""The largest configuration file that is read, bytes. Without a limit, /dev/zero would take all memory."""


def read_small_file(path: Path) -> bytes:
    """Return the content of a file of at most 16 MiB (``MAX_SIZE``). Raises OptionError for a larger file, and OSError
    for a file that cannot be read.
    """
    with open(path, "rb") as file:
        data = file.read(MAX_SIZE + 1)
    if len(data) > MAX_SIZE:
        raise OptionError(f"{path}: has more than the limit of {MAX_SIZE} bytes; name the right file")
    return data


def read_password(path: Path | None, variable: str = "") -> str:
    """Return the password in the first line of a file or, with None for ``path``, in an environment variable.

    Without either the password is empty. No option takes a password itself, because other users of the machine can see
    command lines. Raises OptionError for a file that cannot be read.
    """
    if path is None:
        return os.environ.get(variable, "")
    try:
        lines = read_small_file(path).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OptionError(f"{path}: the password cannot be read: {reason}") from None
    return lines[0] if lines else ""
