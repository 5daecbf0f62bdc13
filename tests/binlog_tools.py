"""The servers' own readers of binlogs: mariadb-binlog, and MySQL's mysqlbinlog where it is installed."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

MYSQLBINLOG = shlex.split(os.environ.get("DUMPFILTER_MYSQLBINLOG", ""))
"""A command that takes mysqlbinlog's arguments. It is empty by default, since Debian has no mysqlbinlog of MySQL."""

HARMLESS = ("# Warning: this binlog is either in use or was not closed properly.",)
"""Messages of the readers about files that are good."""


@contextmanager
def local_load_directory() -> Iterator[str]:
    """Yield a reader's option that names a temporary directory for the files of LOAD DATA.

    Without the option a reader leaves files named SQL_LOAD_MB-… in the temporary directory of the machine.
    """
    with tempfile.TemporaryDirectory() as directory:
        yield f"--local-load={directory}"


def complaints(files: Sequence[Path], family: str) -> str:
    """Return the message of the family's own reader about these files.

    The message is empty when the reader comes to the end of the files. Files of MySQL are not checked where mysqlbinlog
    is not installed, since mariadb-binlog does not know all of MySQL's events.
    """
    command = ["mariadb-binlog"] if family == "mariadb" else MYSQLBINLOG
    if not command:
        return ""
    with local_load_directory() as local_load:
        done = subprocess.run(
            [*command, "--verify-binlog-checksum", local_load, *map(str, files)],
            capture_output=True,
            timeout=120,
        )
    message = done.stderr.decode(errors="replace").strip()
    if done.returncode or message:
        return f"exit code {done.returncode}: {message}"
    return "" if b"End of log file" in done.stdout else "no end of log file"
