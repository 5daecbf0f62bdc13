"""``--defaults-file`` and ``--defaults-extra-file``: options from a ``my.cnf``, and the servers' spellings.

What files give is put before what the command line gives, as the servers do it: of a single value the last
counts, which is the command line's, and repeatable rules add up (asked of a real MySQL 9.7).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from dumpfilter.errors import OptionError
from dumpfilter.filter.rules import SERVER_RULE_KINDS
from dumpfilter.options.my_cnf import FileOption, read_options_file
from dumpfilter.options.names import Named, OptionNames, UnknownOption

_PANEL = "Option files"
DefaultsFile = Annotated[
    str | None,
    typer.Option(
        "--defaults-file",
        help=r"Read options from this my.cnf: its sections \[dumpfilter], \[dumpfilter-slave] or "
        r"\[dumpfilter-master], and those of servers. No file is read unless given.",
        metavar="FILE",
        rich_help_panel=_PANEL,
    ),
]
DefaultsExtraFile = Annotated[
    str | None,
    typer.Option(
        "--defaults-extra-file",
        help="Read this one too, after it: what it says wins.",
        metavar="FILE",
        rich_help_panel=_PANEL,
    ),
]
_FILES = ("defaults-file", "defaults-extra-file")

SERVER_OPTIONS = frozenset(
    {
        *(kind.option for kind in SERVER_RULE_KINDS),
        *("lower-case-table-names", "server-id", "report-host", "report-port"),
        *("replica-net-timeout", "connect-retry", "retry-count", "sync-relay-log", "sync-master-info"),
        *("verify-checksum", "skip-replica-start"),
    }
)
"""What a server's section may set: options that mean the same there. Its ``port`` and ``user`` are its own."""

_SERVERS = re.compile(r"server|(mysqld|mariadb|mariadbd)(-\d+(\.\d+)?)?")


class OptionFileCommand(TyperCommand):
    """A sub-command whose options may stand in a my.cnf and be spelled as a server spells them.

    Its function has the parameters ``defaults_file: DefaultsFile`` and ``defaults_extra_file: DefaultsExtraFile``.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Typer's, after the servers' spellings are Typer's and the files are read. Raises OptionError."""
        parameters = _Parameters(self)
        typed = list(_typed(args, parameters))
        files = [
            given.value
            for name in _FILES
            for given in [_last(typed, name)]
            if given and given.value is not None
        ]
        others = {
            str(command.name): _Parameters(command)
            for command in getattr(getattr(ctx.parent, "command", None), "commands", {}).values()
            if isinstance(command, OptionFileCommand)
        }
        read = [
            argument
            for file in files
            for argument in _from_file(
                read_options_file(file), str(self.name), others | {str(self.name): parameters}
            )
        ]
        arguments = _settled([*read, *typed])
        try:
            return super().parse_args(ctx, [token for argument in arguments for token in argument.tokens])
        except typer.BadParameter as error:
            last = _last(arguments, parameters.names_by_parameter.get(getattr(error.param, "name", None), ""))
            if last is None or last.origin is None:
                raise
            raise last.origin.error(f"{last.origin.name}: {error.message}") from None


class _Parameters:
    """The options of a command, as Typer knows them."""

    def __init__(self, command: TyperCommand) -> None:
        self.names_by_parameter: dict[str | None, str] = {}
        self.switches: dict[str, tuple[list[str], list[str]]] = {}
        """What turns each flag on, and what off; a flag that is only ever turned on is off without a word."""
        values: list[str] = []
        for parameter in command.params:
            if parameter.param_type_name != "option":
                continue
            name = parameter.opts[0].removeprefix("--")
            self.names_by_parameter[parameter.name] = name
            if getattr(parameter, "is_flag", False):
                self.switches[name] = (parameter.opts[:1], parameter.secondary_opts[:1])
            else:
                values.append(name)
        self.known = OptionNames(values, self.switches)


@dataclass(frozen=True)
class _Argument:
    """An option, or what is none (without a name), as Typer is to see it."""

    tokens: list[str]
    name: str = ""
    value: str | None = None
    flag: bool = False
    origin: FileOption | None = None


def _argument(named: Named, parameters: _Parameters, origin: FileOption | None = None) -> _Argument:
    if isinstance(named.value, bool):
        on, off = parameters.switches[named.name]
        return _Argument(on if named.value else off, named.name, flag=True, origin=origin)
    tokens = [f"--{named.name}" if named.value is None else f"--{named.name}={named.value}"]
    return _Argument(tokens, named.name, named.value, origin=origin)


def _typed(args: Iterable[str], parameters: _Parameters) -> Iterator[_Argument]:
    """The arguments of the command line; what is not known is left for Typer to judge."""
    rest = iter(args)
    for token in rest:
        if token == "--":
            yield _Argument([token, *rest])
            return
        if not token.startswith("--"):
            yield _Argument([token])
            continue
        spelled, equals, value = token.removeprefix("--").partition("=")
        try:
            named = parameters.known.find(spelled, value if equals else None)
        except UnknownOption:
            yield _Argument([token])
            continue
        if named is None:
            continue
        if named.value is None:
            named = replace(named, value=next(rest, None))
        yield _argument(named, parameters)


def _from_file(
    options: Iterable[FileOption], command: str, commands: Mapping[str, _Parameters]
) -> Iterator[_Argument]:
    """The arguments that an option file gives to one of the commands that may have one."""
    parameters = commands[command]
    for option in options:
        section = option.section.lower()
        ours, _, whose = section.partition("-")
        of_server = _SERVERS.fullmatch(section) is not None
        if ours == "dumpfilter" and whose not in ("", *commands):
            sections = ", ".join(f"[dumpfilter-{name}]" for name in sorted(commands))
            raise option.error(f"unknown section [{option.section}]: there are [dumpfilter], {sections}")
        if not of_server and (ours != "dumpfilter" or whose not in ("", command)):
            continue
        try:
            named = parameters.known.find(option.name, option.value)
        except UnknownOption as error:
            if of_server or (not whose and any(option.name in other.known for other in commands.values())):
                continue
            raise option.error(str(error)) from None
        except OptionError as error:
            raise option.error(str(error)) from None
        if named is None or (of_server and named.name not in SERVER_OPTIONS):
            continue
        if named.name in _FILES:
            raise option.error(f"{option.name} is for the command line; a file has !include")
        if named.value is None:
            raise option.error(f"option {option.name!r} requires an argument")
        yield _argument(named, parameters, option)


def _settled(arguments: list[_Argument]) -> list[_Argument]:
    """Of each flag only the last: Typer knows no word to take back one that has no opposite."""
    last = {argument.name: at for at, argument in enumerate(arguments) if argument.flag}
    return [
        argument for at, argument in enumerate(arguments) if not argument.flag or last[argument.name] == at
    ]


def _last(arguments: list[_Argument], name: str) -> _Argument | None:
    return next((argument for argument in reversed(arguments) if name and argument.name == name), None)
