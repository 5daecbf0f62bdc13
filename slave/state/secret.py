"""The slave's secret, with which it proves to the master that a registration is its own.

The slave makes the secret once and keeps it in the file ``registration.key`` of the relay directory. Only the file's
owner can read the file.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from dumpfilter.errors import StateCorrupt
from dumpfilter.slave.state import durable

NAME = "registration.key"

_BYTES = 32
_REMOVE = (
    "remove the file, and the slave makes a new secret; the master accepts the new one when the slave's old "
    "connection is gone"
)


def registration_secret(directory: Path) -> bytes:
    """Return the secret in the file ``registration.key`` of ``directory``. If there is no such file, make one.

    Raises StateCorrupt when the file exists and holds no secret.
    """
    path = directory / NAME
    try:
        secret = bytes.fromhex(path.read_text("ascii"))
    except FileNotFoundError:
        secret = secrets.token_bytes(_BYTES)
        durable.replace(path, f"{secret.hex()}\n".encode(), synced=True, mode=0o600)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no hexadecimal digits"
        raise StateCorrupt(f"{path}: cannot be read ({reason}); {_REMOVE}") from None
    if len(secret) != _BYTES:
        raise StateCorrupt(f"{path}: holds {len(secret)} bytes instead of {_BYTES}; {_REMOVE}")
    return secret
