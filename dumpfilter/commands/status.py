"""The command ``dumpfilter status``, which shows the state of a master or slave, and whether there is a problem."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from dumpfilter.analyse.report.terminal import print_json
from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.base.printable import for_terminal
from dumpfilter.commands.option_groups.asked import AskedOptions
from dumpfilter.slave.options import TlsOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from dumpfilter.commands.server_status.model import Record


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
    ask = _question(asked, source_tls)
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


def _question(asked: AskedOptions, source_tls: TlsOptions) -> Callable[[], Record]:
    """Return the function that reads the status of the master or slave that the options name. Raises OptionError."""
    directory = asked.relay_dir
    if directory is not None:
        from dumpfilter.commands.server_status.of_directory import relay_directory_status

        return lambda: relay_directory_status(directory)
    login = asked.login()
    if asked.slave and login is not None:
        from dumpfilter.commands.server_status.of_console import slave_status

        return lambda: slave_status(login)
    from dumpfilter.commands.server_status.of_console import master_status

    source = asked.source(source_tls)
    return lambda: master_status(source, login)


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
