"""``--defaults-file`` and ``--defaults-extra-file``: options from a ``my.cnf``, in the servers' spellings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from dumpfilter.commands.option_groups.group import OptionGroup
from dumpfilter.filter.rules import SERVER_RULE_KINDS
from dumpfilter.options.arguments import CommandOptions, Switch, arguments_of, last_of

_PANEL = "Option files"

SERVER_OPTIONS = frozenset(kind.option for kind in SERVER_RULE_KINDS) | frozenset(
    [
        "lower-case-table-names",
        "server-id",
        "report-host",
        "report-port",
        "replica-net-timeout",
        "connect-retry",
        "retry-count",
        "sync-relay-log",
        "sync-master-info",
        "verify-checksum",
        "skip-replica-start",
    ]
)
"""The options that a server's section may set, because they mean the same there. A server's ``port`` and ``user`` are
its own."""


@dataclass(frozen=True)
class OptionFiles(OptionGroup):
    """The options that name option files. :class:`OptionFileCommand` reads the files before the command runs."""

    defaults_file: Annotated[
        str | None,
        typer.Option(
            "--defaults-file",
            help=r"Read options from this my.cnf: its sections \[dumpfilter], \[dumpfilter-slave] or "
            r"\[dumpfilter-master], and those of servers. No file is read unless given.",
            metavar="FILE",
            rich_help_panel=_PANEL,
        ),
    ] = None
    defaults_extra_file: Annotated[
        str | None,
        typer.Option(
            "--defaults-extra-file",
            help="Read this file after --defaults-file. Its options win.",
            metavar="FILE",
            rich_help_panel=_PANEL,
        ),
    ] = None


class OptionFileCommand(TyperCommand):
    """A sub-command whose options may stand in a my.cnf and be spelled as a server spells them.

    The command has an :class:`OptionFiles` among its option groups.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the option files, translate the servers' spellings, and let Typer parse the result.

        Raises OptionError.
        """
        commands = {
            str(command.name): command.options
            for command in getattr(getattr(ctx.parent, "command", None), "commands", {}).values()
            if isinstance(command, OptionFileCommand)
        } | {str(self.name): self.options}
        arguments = arguments_of(args, str(self.name), commands, SERVER_OPTIONS)
        try:
            return super().parse_args(ctx, [token for argument in arguments for token in argument.tokens])
        except typer.BadParameter as error:
            parameter = getattr(error.param, "name", None)
            name = next((_name(each) for each in self._parameters if each.name == parameter), "")
            last = last_of(arguments, name)
            if last is None or last.origin is None:
                raise
            raise last.origin.error(f"{last.origin.name}: {error.message}") from None

    @property
    def options(self) -> CommandOptions:
        """The command's options, by Typer's parameters."""
        values, switches = [], {}
        for parameter in self._parameters:
            if getattr(parameter, "is_flag", False):
                switches[_name(parameter)] = Switch(parameter.opts[:1], parameter.secondary_opts[:1])
            else:
                values.append(_name(parameter))
        return CommandOptions(values, switches)

    @property
    def _parameters(self) -> list[Any]:
        return [parameter for parameter in self.params if parameter.param_type_name == "option"]


def _name(parameter: Any) -> str:
    return str(parameter.opts[0]).removeprefix("--")
