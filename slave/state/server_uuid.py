"""The slave's ``server_uuid``. The slave makes it at its first start and keeps it in ``auto.cnf``, as mysqld does."""

from __future__ import annotations

import configparser
import uuid
from pathlib import Path

from dumpfilter.errors import StateCorrupt
from dumpfilter.slave.state import durable


def server_uuid(directory: Path) -> str:
    """Return the slave's UUID from the file ``auto.cnf`` in ``directory``. If there is no such file, make one.

    Raises StateCorrupt when the file exists and holds no UUID.
    """
    path = directory / "auto.cnf"
    if path.exists():
        parser = configparser.ConfigParser()
        try:
            parser.read_string(path.read_text("utf-8"), source=str(path))
            return str(uuid.UUID(parser["auto"]["server-uuid"]))
        except (OSError, UnicodeDecodeError, configparser.Error, KeyError, ValueError):
            raise StateCorrupt(
                f"{path}: holds no server-uuid; remove the file, and the slave makes a new one"
            ) from None
    made = str(uuid.uuid4())
    durable.replace(path, f"[auto]\nserver-uuid={made}\n".encode(), synced=True)
    return made
