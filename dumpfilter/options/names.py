"""The servers' spellings of options: underscores, older names, and prefixes that change an option's meaning."""

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
"""The servers' names of some options, with the name here: MySQL's before and after 8.0.26, and MariaDB's."""

_TRUE = frozenset({"1", "on", "true"})
_FALSE = frozenset({"0", "off", "false"})


class UnknownOption(OptionError):
    """An option that does not exist. The text names the most similar option."""


@dataclass(frozen=True)
class Named:
    """An option that was found: its name, without dashes in front, and its value.

    A flag's value is True or False. Another option's value is None when none was given.
    """

    name: str
    value: str | bool | None


class OptionNames:
    """The options of a command, in two groups: flags, and options with a value. Names have no dashes in front.

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
        """Tell whether :meth:`find` finds the option."""
        try:
            return self.find(spelled, None) is not None
        except UnknownOption:
            return False

    def find(self, spelled: str, value: str | None) -> Named | None:
        """Return the option that a server would understand, or None for an unknown option with the prefix ``loose-``.

        Dashes and underscores are alike, and so are capitals and small letters (as in MariaDB). ``skip-`` and
        ``disable-`` turn a flag off, ``enable-`` turns it on. With a value that means off they do the opposite. In
        MariaDB's spelling a connection's name and a dot before a ``replicate-`` option give the channel. Names must not
        be shortened. (MariaDB accepts shortened names with a warning, MySQL refuses them.) Raises UnknownOption, and
        OptionError for a flag's value that is neither on nor off.
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
