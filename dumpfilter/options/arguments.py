"""Arguments of a command from the command line and from option files, in the spelling that the command knows.

The servers put the options of files before those of the command line, and so does :func:`arguments_of`. The last of
several single values wins, which is the command line's. Repeatable rules add up. MySQL 9.7 was asked for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dumpfilter.errors import OptionError
from dumpfilter.options.my_cnf import FileOption, read_options_file
from dumpfilter.options.names import Named, OptionNames, UnknownOption

FILE_OPTIONS = ("defaults-file", "defaults-extra-file")
"""The options that name an option file, in the order in which the files are read."""

_SERVER_SECTION = re.compile(r"server|(mysqld|mariadb|mariadbd)(-\d+(\.\d+)?)?")


@dataclass(frozen=True)
class Switch:
    """The arguments that turn a flag on and off. ``off`` is empty when no argument turns the flag off."""

    on: list[str]
    off: list[str]


class CommandOptions:
    """The options of one command, by name without dashes in front."""

    def __init__(self, values: Iterable[str], switches: Mapping[str, Switch]) -> None:
        self.switches = switches
        self.known = OptionNames(values, switches)


@dataclass(frozen=True)
class Argument:
    """An option in the command's spelling, or an argument that is no option: then ``name`` is empty."""

    tokens: list[str]
    name: str = ""
    value: str | None = None
    is_flag: bool = False
    origin: FileOption | None = None
    """The place in an option file; None for the command line."""


def arguments_of(
    typed: Sequence[str], command: str, commands: Mapping[str, CommandOptions], server_options: frozenset[str]
) -> list[Argument]:
    """Return the arguments of the option files that ``typed`` names, then those of ``typed``.

    ``commands`` has the options of every command that may read a file. A server's section of a file may set only
    ``server_options``. Raises OptionError.
    """
    options = commands[command]
    given = list(_from_command_line(typed, options))
    files = [
        argument.value
        for name in FILE_OPTIONS
        for argument in [last_of(given, name)]
        if argument and argument.value is not None
    ]
    read = [
        argument
        for file in files
        for argument in _from_file(read_options_file(file), command, commands, server_options)
    ]
    return _last_flags([*read, *given])


def last_of(arguments: Sequence[Argument], name: str) -> Argument | None:
    """Return the last argument for an option; None when there is none."""
    return next((argument for argument in reversed(arguments) if name and argument.name == name), None)


def _from_command_line(typed: Iterable[str], options: CommandOptions) -> Iterator[Argument]:
    """Yield the typed arguments. An unknown option stays as it is, so that the command's parser reports the option."""
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
            named = options.known.find(spelled, value if equals else None)
        except UnknownOption:
            yield Argument([token])
            continue
        if named is None:
            continue
        if named.value is None:
            named = replace(named, value=next(rest, None))
        yield _argument(named, options)


def _from_file(
    file_options: Iterable[FileOption],
    command: str,
    commands: Mapping[str, CommandOptions],
    server_options: frozenset[str],
) -> Iterator[Argument]:
    """Yield the arguments for ``command``. Skip options for other commands."""
    options = commands[command]
    for option in file_options:
        section = option.section.lower()
        ours, _, section_command = section.partition("-")
        of_server = _SERVER_SECTION.fullmatch(section) is not None
        if ours == "dumpfilter" and section_command not in ("", *commands):
            sections = ", ".join(f"[dumpfilter-{name}]" for name in sorted(commands))
            raise option.error(f"unknown section [{option.section}]: there are [dumpfilter], {sections}")
        if not of_server and (ours != "dumpfilter" or section_command not in ("", command)):
            continue
        try:
            named = options.known.find(option.name, option.value)
        except UnknownOption as error:
            is_shared = not section_command and any(option.name in each.known for each in commands.values())
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
        yield _argument(named, options, option)


def _argument(named: Named, options: CommandOptions, origin: FileOption | None = None) -> Argument:
    if isinstance(named.value, bool):
        switch = options.switches[named.name]
        return Argument(switch.on if named.value else switch.off, named.name, is_flag=True, origin=origin)
    tokens = [f"--{named.name}" if named.value is None else f"--{named.name}={named.value}"]
    return Argument(tokens, named.name, named.value, origin=origin)


def _last_flags(arguments: list[Argument]) -> list[Argument]:
    """Return the arguments with the last of each flag only. Typer cannot take back a flag that has no opposite."""
    last = {argument.name: at for at, argument in enumerate(arguments) if argument.is_flag}
    return [
        argument for at, argument in enumerate(arguments) if not argument.is_flag or last[argument.name] == at
    ]
