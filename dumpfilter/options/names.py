"""The servers' spellings of options: underscores, older names, and the prefixes that change an option's meaning."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from dumpfilter.errors import OptionError

ALIASES = {
    "slave-net-timeout": "replica-net-timeout",
    "master-connect-retry": "connect-retry",
    "master-retry-count": "retry-count",
    "sync-source-info": "sync-master-info",
    "master-verify-checksum": "verify-checksum",
    "source-verify-checksum": "verify-checksum",
    "skip-slave-start": "skip-replica-start",
    "ssl-cert": "tls-cert",
    "ssl-key": "tls-key",
    "ssl-ca": "tls-ca",
}
"""Names that servers have for options of ours: MySQL's before and after 8.0.26, MariaDB's."""

_TRUE = frozenset({"1", "on", "true"})
_FALSE = frozenset({"0", "off", "false"})


class UnknownOption(OptionError):
    """No option of ours is meant; the text names the nearest one."""


@dataclass(frozen=True)
class Named:
    """An option of ours as it was spelled: its name without dashes in front, and what the prefixes say.

    Of a flag ``value`` is whether it is on, of another option its value or None if there was none.
    """

    name: str
    value: str | bool | None


class OptionNames:
    """The options of a command: which are flags, which take a value. Names are ours, without dashes in front.

    >>> names = OptionNames(values=["replica-net-timeout"], flags=["verify-checksum"])
    >>> names.find("slave_net_timeout", "60")
    Named(name='replica-net-timeout', value='60')
    >>> names.find("loose-skip-master-verify-checksum", None)
    Named(name='verify-checksum', value=False)
    >>> OptionNames(values=["replicate-do-db"], flags=[]).find("ch1.replicate_do_db", "shop")
    Named(name='replicate-do-db', value='ch1:shop')
    """

    def __init__(self, values: Iterable[str], flags: Iterable[str]) -> None:
        self._flags = dict.fromkeys(values, False) | dict.fromkeys(flags, True)

    def __contains__(self, spelled: str) -> bool:
        """Whether :meth:`find` would find it."""
        try:
            return self.find(spelled, None) is not None
        except UnknownOption:
            return False

    def find(self, spelled: str, value: str | None) -> Named | None:
        """The option that a server would take this for; None when there is none and that is to be ignored (``loose-``).

        Dashes and underscores are alike, capitals and small letters too (as in MariaDB). ``skip-`` and ``disable-``
        turn a flag off, ``enable-`` on; with a value that means off they do the opposite. A connection's name and a dot
        before a ``replicate-`` option is MariaDB's way to write its channel. Beginnings of names do not count (MariaDB
        takes them and warns, MySQL does not). Raises UnknownOption, and OptionError for a flag's value that is neither
        on nor off.
        """
        connection, dot, name = spelled.rpartition(".")
        name = name.replace("_", "-").lower()
        loose = name.startswith("loose-")
        name = name.removeprefix("loose-")
        known = self._known(name)
        if dot:
            if known is None or not known.startswith("replicate-"):
                raise UnknownOption(f"unknown option {spelled!r}")
            return Named(known, None if value is None else f"{connection}:{value}")
        if known is not None:
            return Named(known, _truth(spelled, value) if self._flags[known] else value)
        prefix, _, rest = name.partition("-")
        known = self._known(rest)
        if known is not None and self._flags[known] and prefix in ("skip", "disable", "enable"):
            return Named(known, _truth(spelled, value) is (prefix == "enable"))
        if loose:
            return None
        raise UnknownOption(f"unknown option {spelled!r}{self._nearest(name)}")

    def _known(self, name: str) -> str | None:
        if name in self._flags:
            return name
        alias = ALIASES.get(name)
        return alias if alias in self._flags else None

    def _nearest(self, name: str) -> str:
        near = difflib.get_close_matches(name, [*self._flags, *ALIASES], n=1)
        return f"; did you mean {near[0]!r}?" if near else ""


def _truth(spelled: str, value: str | None) -> bool:
    if value is None or value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise OptionError(f"{spelled}={value}: it is on or off")
