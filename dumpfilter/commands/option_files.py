"""The options ``--defaults-file`` and ``--defaults-extra-file``, which read further options from a ``my.cnf``."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Any, cast

import typer

from dumpfilter.base.options.arguments import OptionNames, arguments_of
from dumpfilter.base.options.config_files import GivenOption
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands.sub_command import SubCommand
from dumpfilter.filter.rules import SERVER_RULE_KINDS

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


class OptionFiles(Settings, panel="Option files"):
    """The options ``--defaults-file`` and ``--defaults-extra-file``, which name a ``my.cnf`` with further options of
    the command.
    """

    defaults_file: Path | None = setting(None, metavar="FILE")
    r"""Read options from this my.cnf: its sections \[dumpfilter], \[dumpfilter-slave] or \[dumpfilter-master], and
    those of servers. No file is read unless given."""
    defaults_extra_file: Path | None = setting(None, metavar="FILE")
    """Read this file after --defaults-file. Its options win."""


class OptionFileCommand(SubCommand):
    """A sub-command that also takes its options from a ``my.cnf``, and accepts the spellings of MySQL and MariaDB.

    The command must have :class:`OptionFiles` among its settings.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line ``args`` together with the option files that it names.

        The method reads the files, translates spellings of MySQL and MariaDB into Typer's, and lets Typer parse the
        result. Raises OptionError for a file that cannot be read, and for a wrong option in a file.
        """

        def names(command: str) -> OptionNames:
            # Another command's module is imported only for an option that this command does not have.
            found: Any = self if command == self.name else ctx.parent.command.get_command(ctx, command)
            return cast(OptionNames, found._options())

        arguments = arguments_of(args, str(self.name), names, self._options(SERVER_OPTIONS))
        words = [word for one in arguments for word in ([one] if isinstance(one, str) else self._words(one))]
        try:
            return super().parse_args(ctx, words)
        except typer.BadParameter as error:
            known, given = self._parameters, (one for one in arguments if isinstance(one, GivenOption))
            # The last value counts, which may be that of the command line.
            wrong = [one for one in given if known[one.name] is error.param][-1:]
            if not wrong or not wrong[0].file:
                raise
            raise wrong[0].error(f"{wrong[0].name}: {error.message}") from None

    def _options(self, only: Container[str] | None = None) -> OptionNames:
        """Return the names of this command's options; with ``only``, return just the options that are also in ``only``.

        The section of a server, such as ``[mysqld]``, may set only some of the options.
        """
        parameters = self._parameters.items()
        return OptionNames({name: one.is_flag for name, one in parameters if only is None or name in only})

    def _words(self, named: GivenOption) -> list[str]:
        """Return the words of a command line that give an option its value, such as ``["--port=3306"]``."""
        if isinstance(named.value, bool):
            flag = self._parameters[named.name]
            return list((flag.opts if named.value else flag.secondary_opts)[:1])
        return [f"--{named.name}" if named.value is None else f"--{named.name}={named.value}"]

    @property
    def _parameters(self) -> dict[str, Any]:
        """The options of this command as Typer's parameters, by their names without dashes in front."""
        options = (one for one in self.params if one.param_type_name == "option")
        return {one.opts[0].removeprefix("--"): one for one in options}
