"""The servers' own readers of binlogs: mariadb-binlog, and MySQL's mysqlbinlog where it is."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

MYSQLBINLOG = shlex.split(os.environ.get("DUMPFILTER_MYSQLBINLOG", ""))
"""A command that takes mysqlbinlog's arguments; empty when there is none (it is not in Debian)."""

HARMLESS = ("# Warning: this binlog is either in use or was not closed properly.",)


def complaints(files: Sequence[Path], family: str) -> str:
    """What the family's own reader says against these files; empty when it reads them to the end.

    MySQL's files are not looked at where MySQL's reader is not installed: MariaDB's does not know all of their
    events.
    """
    command = ["mariadb-binlog"] if family == "mariadb" else MYSQLBINLOG
    if not command:
        return ""
    done = subprocess.run(
        [*command, "--verify-binlog-checksum", *map(str, files)], capture_output=True, timeout=120
    )
    said = done.stderr.decode(errors="replace").strip()
    if done.returncode or said:
        return f"exit code {done.returncode}: {said}"
    return "" if b"End of log file" in done.stdout else "no end of log file"
