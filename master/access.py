"""The check of a slave's user and password against the master's configuration."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from dumpfilter.errors import DumpfilterError


class AccessDenied(DumpfilterError):
    """The user is unknown or the password is wrong. The text does not say which of both."""


def check_password(users: Mapping[str, str], user: str, password: str, *, peer: str) -> None:
    """Raise AccessDenied unless ``users`` is empty or has this user with this password.

    The check takes the same time for every user and password, so that the time tells an attacker nothing.
    """
    if not users:
        return
    right = hmac.compare_digest(_digest(users.get(user, "")), _digest(password))
    if not (right and user in users):
        used = "YES" if password else "NO"
        raise AccessDenied(f"Access denied for user {user[:64]!r} from {peer} (using password: {used})")


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()
