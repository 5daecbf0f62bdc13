"""The slave's ``server_uuid``, made once and kept in ``auto.cnf`` as mysqld does."""

from __future__ import annotations

import configparser
import uuid
from pathlib import Path

from dumpfilter.errors import StateCorrupt
from dumpfilter.slave.state import durable


def server_uuid(directory: Path) -> str:
    """The uuid in the directory's ``auto.cnf``; the file is made when it is not there.

    Raises :class:`StateCorrupt` when the file holds no uuid.
    """
    path = directory / "auto.cnf"
    if path.exists():
        parser = configparser.ConfigParser()
        try:
            parser.read_string(path.read_text("utf-8"), source=str(path))
            return str(uuid.UUID(parser["auto"]["server-uuid"]))
        except (OSError, UnicodeDecodeError, configparser.Error, KeyError, ValueError):
            raise StateCorrupt(
                f"{path}: holds no server-uuid; remove the file and a new one is made"
            ) from None
    made = str(uuid.uuid4())
    durable.replace(path, f"[auto]\nserver-uuid={made}\n".encode(), synced=True)
    return made
