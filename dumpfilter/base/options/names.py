"""The spellings of an option that MySQL and MariaDB servers allow: underscores, older names, and prefixes such as
``skip-`` and ``loose-``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dumpfilter.base.errors import OptionError

ALIASES = {
    "slave-net-timeout": "replica-net-timeout",
    "master-connect-retry": "connect-retry",
    "master-retry-count": "retry-count",
    "master-verify-checksum": "verify-checksum",
    "source-verify-checksum": "verify-checksum",
    "skip-slave-start": "skip-replica-start",
    "ssl-cert": "tls-cert",
    "ssl-key": "tls-key",
    "ssl-ca": "tls-ca",
    "master-ssl": "source-ssl",
    "master-ssl-ca": "source-ssl-ca",
    "master-ssl-cert": "source-ssl-cert",
    "master-ssl-key": "source-ssl-key",
    "master-ssl-verify-server-cert": "source-ssl-verify-server-cert",
}
"""The names of options in MySQL (before and after 8.0.26) and MariaDB, each with dumpfilter's name of the option."""

_TRUE = frozenset({"1", "on", "true"})
_FALSE = frozenset({"0", "off", "false"})


class UnknownOption(OptionError):
    """An error about an option that does not exist. The text names the most similar option."""


@dataclass(frozen=True)
class Named:
    """An option by its name in dumpfilter, without dashes in front, and the option's value.

    A flag's value is True or False. Another option's value is None when the user gave no value.
    """

    name: str
    value: str | bool | None


class OptionNames:
    """The option names of a command. :meth:`find` finds an option by any spelling that the servers allow.

    An option is a flag, or takes a value. Names have no dashes in front. ``switches`` has, for each flag, the
    command-line words that turn it on, and those that turn it off.

    >>> names = OptionNames(values=["replica-net-timeout"], flags=["verify-checksum"])
    >>> names.find("slave_net_timeout", "60")
    Named(name='replica-net-timeout', value='60')
    >>> names.find("loose-skip-master-verify-checksum", None)
    Named(name='verify-checksum', value=False)
    >>> OptionNames(values=["replicate-do-db"], flags=[]).find("ch1.replicate_do_db", "shop")
    Named(name='replicate-do-db', value='ch1:shop')
    """

    def __init__(
        self,
        values: Iterable[str],
        flags: Iterable[str],
        switches: Mapping[str, tuple[list[str], list[str]]] | None = None,
    ) -> None:
        self._flags = dict.fromkeys(values, False) | dict.fromkeys(flags, True)
        self._switches = switches or {}
        """The words of the command line that turn each flag on, and those that turn it off. The second list may be
        empty.
        """

    def __contains__(self, spelled: str) -> bool:
        """Tell whether the command has an option that can be spelled in this way."""
        try:
            return self.find(spelled, None) is not None
        except UnknownOption:
            return False

    def tokens(self, named: Named) -> list[str]:
        """Return the words of a command line that give the option ``named`` its value, such as ``["--port=3306"]``."""
        if isinstance(named.value, bool):
            on, off = self._switches[named.name]
            return on if named.value else off
        return [f"--{named.name}" if named.value is None else f"--{named.name}={named.value}"]

    def find(self, spelled: str, value: str | None) -> Named | None:
        """Return the option that a server would understand under the spelling ``spelled``, with its value.

        Return None for an unknown option with the prefix ``loose-``, which servers ignore. Dashes and underscores mean
        the same, and so do capital and small letters (as in MariaDB). The prefixes ``skip-`` and ``disable-`` turn a
        flag off, and ``enable-`` turns the flag on. With a value such as 0 these prefixes mean the opposite. In
        MariaDB's spelling ``NAME.replicate-…`` is an option for the channel NAME. Names must not be shortened. (MariaDB
        accepts shortened names with a warning, MySQL refuses them.) Raises UnknownOption, and OptionError for a flag's
        value that is neither on nor off.
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
