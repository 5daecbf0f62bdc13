"""Who may log in to a console."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from dumpfilter.errors import OptionError

DEFAULT_USER = "root"
"""Where no user is named."""


def check_users(host: str, users: Mapping[str, str]) -> None:
    """Refuse a console that everybody on the network could use: without a password only loopback will do.

    >>> check_users("127.0.0.1", {"root": ""})
    """
    try:
        local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local and not all(users.values()):
        raise OptionError(
            f"{host}: a console that others can reach needs a password: set DUMPFILTER_CONSOLE_PASSWORD"
        )
