"""The check of a slave's user and password against the master's configuration."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from dumpfilter.errors import DumpfilterError


class AccessDenied(DumpfilterError):
    """The error for an unknown user or a wrong password.

    The text does not say whether the user or the password is wrong, because an attacker could use the answer.
    """


def check_password(users: Mapping[str, str], user: str, password: str, *, peer: str) -> None:
    """Check the user name and password of a slave from address ``peer``. Raises AccessDenied when they are wrong.

    ``users`` maps user names to passwords. Without users, every slave is accepted. The check takes the same time for
    every user and password, so that an attacker cannot learn from the time how much of a guess is right.
    """
    if not users:
        return
    right = hmac.compare_digest(_digest(users.get(user, "")), _digest(password))
    if not (right and user in users):
        used = "YES" if password else "NO"
        raise AccessDenied(f"Access denied for user {user[:64]!r} from {peer} (using password: {used})")


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()
