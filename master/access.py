"""Who may replicate: the users of the master's configuration."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from dumpfilter.errors import DumpfilterError


class AccessDenied(DumpfilterError):
    """The user is not known, or the password is not theirs; nothing says which."""


def check_password(users: Mapping[str, str], user: str, password: str, *, peer: str) -> None:
    """Raises AccessDenied unless ``users`` is empty or has this user with this password.

    In constant time: neither the length of a password nor whether there is such a user can be told from it.
    """
    if not users:
        return
    right = hmac.compare_digest(_digest(users.get(user, "")), _digest(password))
    if not (right and user in users):
        used = "YES" if password else "NO"
        raise AccessDenied(f"Access denied for user {user[:64]!r} from {peer} (using password: {used})")


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()
