"""The command ``dumpfilter status``, which shows the state of a master or slave, and whether there is a problem."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dumpfilter.analyse.report.terminal import print_json
from dumpfilter.base.errors import DumpfilterError, OptionError
from dumpfilter.base.options.config_files import read_password
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.base.printable import for_terminal
from dumpfilter.commands.option_groups.asked import ConsoleLogin, parse_address
from dumpfilter.slave.options import MASTER_PANEL, SOURCE_VARIABLE, TlsOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from dumpfilter.commands.server_status.model import Record
    from dumpfilter.slave.threads.connection import Source


class AskedOptions(ConsoleLogin):
    """The options that name the master or slave whose status is shown, by an address or a slave's relay directory, and
    the logins.
    """

    master: str = setting("", metavar="HOST:PORT")
    """A master's address for slaves."""
    relay_dir: Path | None = setting(None, metavar="DIRECTORY")
    """A slave's relay directory, read as it is, also without a slave."""
    source_user: str = ""
    """A replication user of the master."""
    source_password_file: Path | None = None
    """A file whose first line is the replication user's password. Without it the password is that of the environment
    variable DUMPFILTER_SOURCE_PASSWORD."""
    source_plain_password: bool = setting(False, rich_help_panel=MASTER_PANEL)
    """Send the password to a master on another machine even without TLS."""

    def check(self) -> None:
        """Check that the options name exactly one master, slave or relay directory. Raises OptionError."""
        asked = [bool(self.master or self.console), bool(self.slave), self.relay_dir is not None]
        if sum(asked) != 1:
            raise OptionError(
                "give one of --master (with or without --console), --console, --slave and --relay-dir"
            )
        if self.source_user and not self.master:
            raise OptionError("--source-user needs --master; the user of a console is --user")

    def question(self, tls: TlsOptions) -> Callable[[], Record]:
        """Return the function that reads the status of the named master or slave. Raises OptionError."""
        directory = self.relay_dir
        if directory is not None:
            from dumpfilter.commands.server_status.of_directory import relay_directory_status

            return lambda: relay_directory_status(directory)
        from dumpfilter.commands.server_status.of_console import master_status, slave_status

        login = self.login()
        if self.slave and login is not None:
            return lambda: slave_status(login)
        source = self._source(tls)
        return lambda: master_status(source, login)

    def _source(self, tls: TlsOptions) -> Source | None:
        """Return the settings of a connection to the master's gRPC port for slaves, or None without ``--master``.
        Raises OptionError.
        """
        members = tls.members()
        if not self.master:
            return None
        from dumpfilter.slave.options import SlaveOptions
        from dumpfilter.slave.state.infos import SourceInfo
        from dumpfilter.slave.threads.connection import Source

        host, port = parse_address("--master", self.master)
        password = read_password(self.source_password_file, SOURCE_VARIABLE) if self.source_user else ""
        info = SourceInfo(host=host, port=port, user=self.source_user, password=password, **members)
        info.check_tls()
        options = SlaveOptions(relay_dir=Path(), server_id=0, plain_password=self.source_plain_password)
        return Source(info, options)


class StatusSettings(Settings):
    """The options of ``dumpfilter status`` besides the address: the largest lag that is no problem, JSON output, and
    repetition.
    """

    max_lag: str = setting("", metavar="LAG")
    """The largest lag that is no problem: a time (30s, 5min, 1h) or bytes (64M, 500). Without it no lag is one."""
    as_json: bool = setting(False, "--json")
    """Print JSON instead of tables."""
    watch: float | None = setting(None, min=0.1, max=86_400, metavar="SECONDS")
    """Show the status again after so many seconds, until Ctrl-C. JSON is then one line each time."""


def status_command(
    asked: AskedOptions,
    source_tls: TlsOptions,
    given: StatusSettings,
) -> None:
    """Show the status of a master or slave: health, threads, positions, lag, errors and counters.

    A master tells strangers its health only. Its console, or a replication user, tells more.

    Exit codes: 0 good. 4 reached, with a problem: a thread has stopped, the lag is larger than --max-lag, or the master
    is not serving. 3 nothing answers. 2 a wrong option. 1 another error, such as a wrong password.

    Examples:

        dumpfilter status --master 127.0.0.1:3307
        dumpfilter status --console 127.0.0.1:3308 -p admin.password --max-lag 64M
        dumpfilter status --slave 127.0.0.1:3309 --max-lag 30s --json
        dumpfilter status --relay-dir s1 --watch 2
    """
    from dumpfilter.base import logs
    from dumpfilter.commands.server_status.model import PROBLEM, MaxLag, judge

    logs.configure(logs.Format.TEXT, logs.Level.ERROR)
    asked.check()
    most = MaxLag.parse(given.max_lag) if given.max_lag else MaxLag()
    ask = asked.question(source_tls)
    while True:
        try:
            status = ask()
        except DumpfilterError as error:
            if given.watch is None:
                raise
            # A watched master or slave may be starting again.
            _show_error(error, as_json=given.as_json)
        else:
            problems = judge(status, most)
            _show(status, as_json=given.as_json, again=given.watch is not None)
            if given.watch is None:
                raise typer.Exit(PROBLEM if problems else 0)
        time.sleep(given.watch)


def _show(status: Record, *, as_json: bool, again: bool) -> None:
    if as_json:
        print_json(status, indent=None if again else 1)
        return
    from rich.console import Console

    from dumpfilter.commands.server_status.rendering import render_status

    terminal = Console(highlight=False)
    if again and terminal.is_terminal:
        terminal.clear()
    render_status(status, terminal)


def _show_error(error: DumpfilterError, *, as_json: bool) -> None:
    if as_json:
        print_json({"error": str(error), "exit_code": error.exit_code}, indent=None)
    else:
        typer.echo(for_terminal(f"dumpfilter: {error}"), err=True)
