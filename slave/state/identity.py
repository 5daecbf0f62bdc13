"""The slave's identity: its ``server_uuid``, and the secret with which it proves to its master that a registration is
its own.

The slave makes both at its first start. The UUID is in ``auto.cnf``, as in mysqld's data directory. The secret is in
``registration.key``, which only the file's owner can read.
"""

from __future__ import annotations

import re
import secrets
import uuid
from pathlib import Path

from dumpfilter.base import files
from dumpfilter.base.errors import StateCorrupt

_BYTES = 32
_REMOVE = (
    "remove the file, and the slave makes a new secret; the master accepts the new one when the slave's old "
    "connection is gone"
)


def server_uuid(directory: Path) -> str:
    """Return the slave's UUID from the file ``auto.cnf`` in ``directory``. If there is no such file, make a new UUID
    and write the file.

    Raises StateCorrupt when the file has no UUID, and OutputError when it cannot be written.
    """
    path = directory / "auto.cnf"
    if path.exists():
        try:
            found = re.search(r"^\s*server-uuid\s*=\s*(\S+)", path.read_text("utf-8"), re.MULTILINE)
            return str(uuid.UUID(found and found[1]))
        except (OSError, ValueError, TypeError):
            raise StateCorrupt(
                f"{path}: holds no server-uuid; remove the file, and the slave makes a new one"
            ) from None
    made = str(uuid.uuid4())
    files.replace(path, f"[auto]\nserver-uuid={made}\n".encode())
    return made


def registration_secret(directory: Path) -> bytes:
    """Return the secret (32 bytes) in the file ``registration.key`` of ``directory``. If there is no such file, make a
    new secret and write the file.

    Raises StateCorrupt when the file has no secret, and OutputError when it cannot be written.
    """
    path = directory / "registration.key"
    try:
        secret = bytes.fromhex(path.read_text("ascii"))
    except FileNotFoundError:
        secret = secrets.token_bytes(_BYTES)
        files.replace(path, f"{secret.hex()}\n".encode(), mode=0o600)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no hexadecimal digits"
        raise StateCorrupt(f"{path}: cannot be read ({reason}); {_REMOVE}") from None
    if len(secret) != _BYTES:
        raise StateCorrupt(f"{path}: holds {len(secret)} bytes instead of {_BYTES}; {_REMOVE}")
    return secret
