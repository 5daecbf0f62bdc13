"""Translation of the command line and of option files (``my.cnf``) into the arguments that a command's Typer parser
knows.

Like the servers, :func:`arguments_of` puts the options of files before those of the command line. If an option with one
value is given several times, the last value wins. So the command line overrides files. Repeatable options such as
filter rules add up. MySQL 9.7 behaves in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.my_cnf import FileOption, read_options_file
from dumpfilter.base.options.names import Named, OptionNames, UnknownOption

FILE_OPTIONS = ("defaults-file", "defaults-extra-file")
"""The options that name an option file. The program reads the files in this order."""

_SOURCE_SECTION = "source"
"""The end of the section [dumpfilter-source], which has the credentials for a running server as source."""

_SERVER_SECTION = re.compile(r"server|(mysqld|mariadb|mariadbd)(-\d+(\.\d+)?)?")


@dataclass(frozen=True)
class Argument:
    """One option or positional argument of a command, from the command line or from an option file.

    ``tokens`` are the words to give to Typer's parser, such as ``["--port=3306"]``.
    """

    tokens: list[str]
    named: Named | None = None
    """The option by dumpfilter's name, with its value. None for an argument that is no option."""
    origin: FileOption | None = None
    """The option's line in an option file, for errors. None for an option of the command line."""

    @property
    def flag(self) -> str:
        """The name of the flag (on/off option) that the argument sets. Empty for an option with a value, and for an
        argument that is no option.
        """
        return self.named.name if self.named and isinstance(self.named.value, bool) else ""


def arguments_of(
    typed: Sequence[str], command: str, commands: Mapping[str, OptionNames], server_options: frozenset[str]
) -> list[Argument]:
    """Return the arguments of a command: first those from the option files that the command line names, then those of
    the command line.

    ``typed`` has the words of the command line after the name ``command``. ``commands`` has the option names of every
    command that may read an option file, since several commands can share one file. A server's section, such as
    ``[mysqld]``, may set only ``server_options``. Raises OptionError.
    """
    options = commands[command]
    given = list(_from_command_line(typed, options))
    files = [last.named.value for name in FILE_OPTIONS if (last := last_of(given, name)) and last.named]
    read = [
        argument
        for file in files
        if isinstance(file, str)
        for argument in _from_file(read_options_file(file), command, commands, server_options)
    ]
    # Only the last setting of a flag counts. Typer cannot turn off a flag again that has no opposite argument.
    found = [*read, *given]
    last_flags = {argument.flag: argument for argument in found}
    return [argument for argument in found if not argument.flag or last_flags[argument.flag] is argument]


def last_of(arguments: Sequence[Argument], name: str) -> Argument | None:
    """Return the last argument that sets the option ``name``, or None when no argument sets it."""
    return next((each for each in reversed(arguments) if each.named and each.named.name == name), None)


def server_options(
    file_options: Iterable[FileOption], known: OptionNames
) -> Iterator[tuple[FileOption, Named]]:
    """Yield the options in the servers' sections of an option file, such as ``[mysqld]``, as far as ``known`` contains
    them.

    Each result has the option as the file spells it, and the option's name in dumpfilter with the value. The order is
    the file's. Options that ``known`` does not contain, and other sections, are skipped. Raises OptionError for an
    option with a wrong value or without one.
    """
    for option in file_options:
        if _SERVER_SECTION.fullmatch(option.section.lower()) is None:
            continue
        try:
            named = known.find(option.name, option.value)
        except UnknownOption:
            continue
        except OptionError as error:
            raise option.error(str(error)) from None
        if named is None:
            continue
        if named.value is None:
            raise option.error(f"option {option.name!r} requires an argument")
        yield option, named


def _from_command_line(typed: Iterable[str], options: OptionNames) -> Iterator[Argument]:
    # An unknown option stays unchanged, so that the command's parser reports the option.
    rest = iter(typed)
    for token in rest:
        if token == "--":
            yield Argument([token, *rest])
            return
        if not token.startswith("--"):
            yield Argument([token])
            continue
        spelled, equals, value = token.removeprefix("--").partition("=")
        try:
            named = options.find(spelled, value if equals else None)
        except UnknownOption:
            yield Argument([token])
            continue
        if named is None:
            continue
        if named.value is None:
            named = replace(named, value=next(rest, None))
        yield Argument(options.tokens(named), named)


def _from_file(
    file_options: Iterable[FileOption],
    command: str,
    commands: Mapping[str, OptionNames],
    server_options: frozenset[str],
) -> Iterator[Argument]:
    options = commands[command]
    for option in file_options:
        section = option.section.lower()
        ours, _, section_command = section.partition("-")
        of_server = _SERVER_SECTION.fullmatch(section) is not None
        if ours == "dumpfilter" and section_command not in ("", _SOURCE_SECTION, *commands):
            sections = ", ".join(f"[dumpfilter-{name}]" for name in sorted(commands))
            raise option.error(f"unknown section [{option.section}]: there are [dumpfilter], {sections}")
        if not of_server and (ours != "dumpfilter" or section_command not in ("", command)):
            continue
        try:
            named = options.find(option.name, option.value)
        except UnknownOption as error:
            is_shared = not section_command and any(option.name in each for each in commands.values())
            if of_server or is_shared:
                continue
            raise option.error(str(error)) from None
        except OptionError as error:
            raise option.error(str(error)) from None
        if named is None or (of_server and named.name not in server_options):
            continue
        if named.name in FILE_OPTIONS:
            raise option.error(f"{option.name} is for the command line; a file has !include")
        if named.value is None:
            raise option.error(f"option {option.name!r} requires an argument")
        yield Argument(options.tokens(named), named, option)
