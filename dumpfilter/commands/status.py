"""The command ``dumpfilter status``, which shows the state of a master or slave, and whether there is a problem."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from dumpfilter.commands.option_groups.source_tls import SourceTlsOptions
from dumpfilter.commands.option_groups.status import AskedOptions
from dumpfilter.errors import DumpfilterError
from dumpfilter.printable import for_terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from dumpfilter.status.model import Status


def status_command(
    asked: AskedOptions,
    source_tls: SourceTlsOptions,
    max_lag: Annotated[
        str,
        typer.Option(
            help="The largest lag that is no problem: a time (30s, 5min, 1h) or bytes (64M, 500). Without it no lag "
            "is one.",
            metavar="LAG",
        ),
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    watch: Annotated[
        float | None,
        typer.Option(
            help="Show the status again after so many seconds, until Ctrl-C. JSON is then one line each time.",
            min=0.1,
            metavar="SECONDS",
        ),
    ] = None,
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
    from dumpfilter import logs
    from dumpfilter.status.model import ExitCode, MaxLag

    logs.configure(level=logs.Level.ERROR)
    asked.check()
    most = MaxLag.parse(max_lag) if max_lag else MaxLag()
    if most.is_odd(max_lag):
        typer.echo(f"dumpfilter: --max-lag {max_lag} is bytes; seconds are {max_lag}s", err=True)
    ask = _question(asked, source_tls)
    while True:
        try:
            status = ask()
        except DumpfilterError as error:
            if watch is None:
                raise
            # A watched master or slave may be starting again.
            _show_error(error, json=json)
        else:
            status.judge(most)
            _show(status, json=json, again=watch is not None)
            if watch is None:
                raise typer.Exit(ExitCode.PROBLEM if status.problems else ExitCode.GOOD)
        time.sleep(watch)


def _question(asked: AskedOptions, source_tls: SourceTlsOptions) -> Callable[[], Status]:
    """Return the function that asks for the status. Raises OptionError."""
    from dumpfilter.status.of_slave import relay_directory_status, slave_status

    login = asked.console_login()
    directory = asked.relay_dir
    if directory is not None:
        return lambda: relay_directory_status(directory)
    if asked.slave and login is not None:
        return lambda: slave_status(login)
    # gRPC takes 0.1 s to import.
    from dumpfilter.status.of_master import MasterToAsk, master_status

    master = MasterToAsk(asked.source(source_tls), login)
    return lambda: master_status(master)


def _show(status: Status, *, json: bool, again: bool) -> None:
    import json as json_module

    from rich.console import Console

    from dumpfilter.status.rendering import render_status

    if json:
        typer.echo(json_module.dumps(status.as_dict(), indent=None if again else 1))
        return
    terminal = Console(highlight=False)
    if again and terminal.is_terminal:
        terminal.clear()
    render_status(status, terminal)


def _show_error(error: DumpfilterError, *, json: bool) -> None:
    import json as json_module

    if json:
        typer.echo(json_module.dumps({"error": str(error), "exit_code": error.exit_code}))
    else:
        typer.echo(for_terminal(f"dumpfilter: {error}"), err=True)
