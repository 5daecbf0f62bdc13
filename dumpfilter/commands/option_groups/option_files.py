"""The options ``--defaults-file`` and ``--defaults-extra-file``, which read further options from a ``my.cnf``."""

from __future__ import annotations

from typing import Any

import typer

from dumpfilter.base.options.arguments import arguments_of, last_of
from dumpfilter.base.options.names import OptionNames
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands.sub_command import SubCommand
from dumpfilter.filter.rules import SERVER_RULE_KINDS

_PANEL = "Option files"

WITH_OPTION_FILES = ("master", "slave")
"""The commands that read a ``my.cnf``."""

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
        "verify-checksum",
        "skip-replica-start",
    ]
)
"""The options that dumpfilter takes from a server's section of ``my.cnf``, because they mean the same for dumpfilter.

Options such as ``port`` and ``user`` are not among them, because in that section they are about the server itself.
"""


class OptionFiles(Settings, panel=_PANEL):
    """The options ``--defaults-file`` and ``--defaults-extra-file``, which name a ``my.cnf`` with further options of
    the command.
    """

    defaults_file: str | None = setting(None, metavar="FILE")
    r"""Read options from this my.cnf: its sections \[dumpfilter], \[dumpfilter-slave] or \[dumpfilter-master], and
    those of servers. No file is read unless given."""
    defaults_extra_file: str | None = setting(None, metavar="FILE")
    """Read this file after --defaults-file. Its options win."""


class OptionFileCommand(SubCommand):
    """A sub-command that also takes its options from a ``my.cnf``, and accepts the spellings of MySQL and MariaDB.

    The command must have :class:`OptionFiles` among its settings.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line together with the option files.

        The method reads the files, translates spellings of MySQL and MariaDB into Typer's, and lets Typer parse the
        result. Raises OptionError.
        """
        commands = {str(self.name): self.options}
        if ctx.parent is not None:
            group = ctx.parent.command
            commands |= {name: group.get_command(ctx, name).options for name in WITH_OPTION_FILES}
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
    def options(self) -> OptionNames:
        """The names of this command's options. An option file may set these options only."""
        switches = {
            _name(each): (each.opts[:1], each.secondary_opts[:1])
            for each in self._parameters
            if getattr(each, "is_flag", False)
        }
        names = map(_name, self._parameters)
        return OptionNames((name for name in names if name not in switches), switches, switches)

    @property
    def _parameters(self) -> list[Any]:
        return [parameter for parameter in self.params if parameter.param_type_name == "option"]


def _name(parameter: Any) -> str:
    return str(parameter.opts[0]).removeprefix("--")
