"""The recognition of servers that answer a MySQL client in another protocol."""

from __future__ import annotations

_WRONG_NUMBER = "Packet sequence number wrong"
"""The beginning of PyMySQL's error for a first packet that is not MySQL's. The first bytes of HTTP/2 cause it."""


def speaks_no_mysql(error: Exception) -> bool:
    """Tell whether an error of PyMySQL means that the server does not speak MySQL's protocol."""
    return _WRONG_NUMBER in str(error)
