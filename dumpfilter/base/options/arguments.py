"""The options of a command, from its command line and from option files, in any spelling of MySQL and MariaDB.

The servers allow underscores, older names, and prefixes such as ``skip-`` and ``loose-``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dumpfilter.base.options.config_files import GivenOption, UnknownOption, read_options_file

FILE_OPTIONS = ("defaults-file", "defaults-extra-file")
"""The options that name an option file. The program reads the files in this order."""

WITH_OPTION_FILES = ("master", "slave")
"""The commands that read option files."""

_SECTIONS = ("", "source", *WITH_OPTION_FILES)
"""The parts after ``dumpfilter-`` in the names of option file sections, such as [dumpfilter-master]. The empty text
stands for [dumpfilter]. [dumpfilter-source] has the credentials for a running server.
"""

_SERVER_SECTION = re.compile(r"server|(mysqld|mariadb|mariadbd)(-\d+(\.\d+)?)?")

_SSL_ENDS = ("", "-ca", "-cert", "-key", "-verify-server-cert")

ALIASES = {
    "slave-net-timeout": "replica-net-timeout",
    "master-connect-retry": "connect-retry",
    "master-retry-count": "retry-count",
    "master-verify-checksum": "verify-checksum",
    "source-verify-checksum": "verify-checksum",
    "skip-slave-start": "skip-replica-start",
    **{f"ssl-{file}": f"tls-{file}" for file in ("cert", "key", "ca")},
    **{f"master-ssl{end}": f"source-ssl{end}" for end in _SSL_ENDS},
}
"""The names of options in MySQL (before and after 8.0.26) and MariaDB, each with dumpfilter's name of the option."""

_TRUTH = {"1": True, "on": True, "true": True, "0": False, "off": False, "false": False}


class OptionNames:
    """The option names of a command. :meth:`find` finds an option by any spelling that the servers allow.

    An option is a flag, or takes a value. ``flags`` has the names, without dashes in front, and whether each is a flag.

    >>> names = OptionNames({"replica-net-timeout": False, "verify-checksum": True})
    >>> names.find(GivenOption("slave_net_timeout", "60"))[:2]
    ('replica-net-timeout', '60')
    >>> names.find(GivenOption("loose-skip-master-verify-checksum", None))[:2]
    ('verify-checksum', False)
    >>> OptionNames({"replicate-do-db": False}).find(GivenOption("ch1.replicate_do_db", "shop"))[:2]
    ('replicate-do-db', 'ch1:shop')
    """

    def __init__(self, flags: Mapping[str, bool]) -> None:
        self._flags = flags

    def __contains__(self, spelled: str) -> bool:
        """Tell whether ``spelled`` is an allowed spelling of one of the command's options."""
        try:
            return self.find(GivenOption(spelled, None)) is not None
        except UnknownOption:
            return False

    def find(self, option: GivenOption) -> GivenOption | None:
        """Return the option that a server would understand, under dumpfilter's name and with the value that it means.

        Return None for an unknown option with the prefix ``loose-``, which servers ignore. Dashes and underscores mean
        the same, and so do capital and small letters (as in MariaDB). The prefixes ``skip-`` and ``disable-`` turn a
        flag off, and ``enable-`` turns the flag on. With a value such as 0 these prefixes mean the opposite. In
        MariaDB's spelling ``NAME.replicate-…`` is an option for the channel NAME. Names must not be shortened. MariaDB
        accepts shortened names with a warning, and MySQL refuses them.

        Raises UnknownOption, and OptionError for a flag's value that is neither on nor off, and for an option of a file
        that lacks its value.
        """
        connection, dot, name = option.name.rpartition(".")
        name = name.replace("_", "-").lower()
        loose = name.startswith("loose-")
        name = name.removeprefix("loose-")
        known, value = self._known(name), option.value
        if dot:
            if known is None or not known.startswith("replicate-"):
                raise option.error(f"unknown option {option.name!r}", UnknownOption)
            value = None if value is None else f"{connection}:{value}"
        elif known is None:
            prefix, _, rest = name.partition("-")
            known = self._known(rest)
            if known is None or not self._flags[known] or prefix not in ("skip", "disable", "enable"):
                if loose:
                    return None
                # In a topology a rule stands without this prefix.
                whole = f"replicate-{name}"
                near = [whole] * (whole in self._flags)
                aliases = (alias for alias, known in ALIASES.items() if known in self._flags)
                near += difflib.get_close_matches(name, [*self._flags, *aliases], n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise option.error(f"unknown option {option.name!r}{hint}", UnknownOption)
            value = _truth(option) is (prefix == "enable")
        elif self._flags[known]:
            value = _truth(option)
        if value is None and option.file:
            raise option.error(f"option {option.name!r} requires an argument")
        return option._replace(name=known, value=value)

    def _known(self, name: str) -> str | None:
        return next((one for one in (name, ALIASES.get(name)) if one in self._flags), None)


def _truth(option: GivenOption) -> bool:
    found = _TRUTH.get("on" if option.value is None else str(option.value).lower())
    if found is None:
        raise option.error(f"{option.name}={option.value}: it is on or off")
    return found


def arguments_of(
    typed: Sequence[str], command: str, names: Callable[[str], OptionNames], of_servers: OptionNames
) -> list[GivenOption | str]:
    """Return the arguments of a command. The options from the option files (``my.cnf``) that the command line names
    come first, and the command line's own options and words follow.

    A word of the command line that is no known option is returned unchanged. If a flag is set several times, only its
    last setting is returned.

    ``typed`` has the words of the command line after the name ``command``. ``names`` returns the option names of each
    of :data:`WITH_OPTION_FILES`, since several commands can share one file. ``of_servers`` has the options that
    dumpfilter takes from a server's section, such as ``[mysqld]``. All other options in such a section are ignored.

    Raises OptionError for an unusable option file, an unknown option in a section of dumpfilter, and a wrong value.
    """
    given = list(from_command_line(typed, names(command)))
    values = {one.name: one.value for one in given if isinstance(one, GivenOption)}
    read = [
        named
        for name in FILE_OPTIONS
        if isinstance(file := values.get(name), str) and file
        for option in read_options_file(file)
        if (named := server_option(option, of_servers) or _own_option(option, command, names))
    ]
    # Only the last setting of a flag counts. Typer cannot turn off a flag again that has no opposite argument.
    found = [*read, *given]
    flags = {one.name: one for one in found if isinstance(one, GivenOption) and isinstance(one.value, bool)}
    return [one for one in found if isinstance(one, str) or flags.get(one.name, one) is one]


def server_option(option: GivenOption, known: OptionNames) -> GivenOption | None:
    """Return the option ``option`` of an option file under dumpfilter's name, if it stands in a server's section, such
    as ``[mysqld]``.

    Return None for an option in another section, and for an option that is not in ``known``, the options that
    dumpfilter takes from servers' sections. Raises OptionError for an option with a wrong value or without one.
    """
    try:
        is_of_server = _SERVER_SECTION.fullmatch(option.section.lower())
        return known.find(option) if is_of_server else None
    except UnknownOption:
        return None


def _own_option(option: GivenOption, command: str, names: Callable[[str], OptionNames]) -> GivenOption | None:
    """Return an option of the sections [dumpfilter] and [dumpfilter-COMMAND] of an option file, for the command
    ``command``. Return None for another section, and for an option in [dumpfilter] that only other commands have.

    ``names`` returns the option names of each command. Raises OptionError for an unknown section or option, a wrong or
    missing value, and an option that only the command line may have.
    """
    ours, _, of = option.section.lower().partition("-")
    if not ours.startswith("dumpfilter"):
        return None
    if ours != "dumpfilter" or of not in _SECTIONS:
        sections = ", ".join(f"[dumpfilter-{name}]" for name in WITH_OPTION_FILES)
        raise option.error(f"unknown section [{option.section}]: there are [dumpfilter], {sections}")
    if of not in ("", command):
        return None
    try:
        named = names(command).find(option)
    except UnknownOption:
        if not of and any(option.name in names(each) for each in WITH_OPTION_FILES):
            return None
        raise
    if named is not None and named.name in FILE_OPTIONS:
        raise option.error(f"{option.name} is for the command line; a file has !include")
    return named


def from_command_line(typed: Iterable[str], options: OptionNames) -> Iterator[GivenOption | str]:
    """Yield the options and the other words of a command line, in order. The value of an option may be the next word.

    A word that is no option, or an unknown option, is yielded unchanged, so that the command's parser can report it. An
    unknown option with the prefix ``loose-`` is left out. Raises OptionError for a flag's value that is neither on nor
    off.
    """
    rest = iter(typed)
    for token in rest:
        if token == "--":
            yield from (token, *rest)
            return
        if not token.startswith("--"):
            yield token
            continue
        spelled, equals, value = token.removeprefix("--").partition("=")
        try:
            named = options.find(GivenOption(spelled, value if equals else None))
        except UnknownOption:
            yield token
            continue
        if named is not None and named.value is None:
            named = options.find(GivenOption(spelled, next(rest, None)))
        if named is not None:
            yield named
