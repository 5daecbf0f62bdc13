"""The command ``dumpfilter status``, which shows the state of a master or slave, and whether there is a problem."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table
from rich.text import Text

from dumpfilter.analyse.report.terminal import print_json, table
from dumpfilter.base import logs
from dumpfilter.base.errors import DumpfilterError, OptionError
from dumpfilter.base.options.config_files import read_password
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.base.printable import for_terminal, printable
from dumpfilter.commands.option_groups.asked import ConsoleLogin, parse_address
from dumpfilter.slave.options import MASTER_PANEL, SOURCE_VARIABLE, TlsOptions

if TYPE_CHECKING:
    from rich.console import Console

    from dumpfilter.commands.server_status.model import Record
    from dumpfilter.slave.connection import Source

_LONGEST = 500
"""The length to which a value is cut on the terminal, characters. GTID sets can be long; --json prints them whole."""

_ANY_WIDTH = 1 << 20
"""A console width in which every table fits, characters."""


class AskedOptions(ConsoleLogin):
    """The options that name the master or slave whose status is shown, by an address or a slave's relay directory, and
    the logins.
    """

    master: str = setting("", metavar="HOST:PORT")
    """The address at which a master serves slaves."""
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
        from dumpfilter.slave.connection import Source
        from dumpfilter.slave.options import SlaveOptions
        from dumpfilter.slave.state import SourceInfo

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

    terminal = Console(highlight=False)
    if again and terminal.is_terminal:
        terminal.clear()
    render_status(status, terminal)


def _show_error(error: DumpfilterError, *, as_json: bool) -> None:
    if as_json:
        print_json({"error": str(error), "exit_code": error.exit_code}, indent=None)
    else:
        typer.echo(for_terminal(f"dumpfilter: {error}"), err=True)


def render_status(status: Record, console: Console) -> None:
    """Print the status record (dictionary) of a master or slave: a table of values, a table of slaves or of each
    channel, and the problems.
    """
    if status["role"] == "master":
        _render_master(status, console)
    else:
        _render_slave(status, console)
    for problem in status["problems"]:
        _say(console, f"PROBLEM: {printable(problem, _LONGEST)}", "bold red")


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)


def _render_master(status: Record, console: Console) -> None:
    from dumpfilter.commands.server_status.model import name_of_slave

    slaves, source = status["slaves"], status["source"]
    console.print(
        _facts(
            [
                ("master", status["address"] or status["console"]),
                ("console", status["console"] if status["address"] else ""),
                ("health", status["health"]),
                ("binlog of", status["server_version"]),
                ("source", "" if source is None else f"{source['address']} ({source['state']})"),
                ("binlog ends at", f"{status['file']}:{status['position']}" if status["file"] else ""),
                ("files", "" if slaves is None else f"{status['files']} ({status['bytes']:,} bytes)"),
                ("slaves", "" if slaves is None else _numbers(slaves)),
            ]
        )
    )
    if slaves:
        _print_rows(console, "slave", list(_SLAVE), list(map(_cells, slaves)), _NUMERIC)
    if status["drains"]:
        names = ["drained_by", "value", "channel", "reason", "since", "still_dumping"]
        rows = [
            ["" if row.get(name) is None else str(row[name]) for name in names] for row in status["drains"]
        ]
        _print_rows(console, "drain", [name.replace("_", " ") for name in names], rows)
    for slave in slaves or ():
        for warning in slave["filter_warnings"]:
            _say(console, f"warning: {name_of_slave(slave)}: {printable(warning, _LONGEST)}", "yellow")
    if status["hint"]:
        _say(console, status["hint"])


def _numbers(slaves: Sequence[Record]) -> str:
    """Return the number of slaves, followed by the number of slaves in each state."""
    states = Counter(one["state"] for one in slaves if one["state"])
    each = ", ".join(f"{count} {state}" for state, count in states.items())
    return f"{len(slaves)} ({each})" if states else "0"


def _state(slave: Record) -> str:
    state, since = slave["state"], slave["gone_since"]
    return f"{state if state == 'gone' else f'{state}, gone'} since {since}" if since else state


def _place(record: Record, prefix: str = "") -> str:
    file = record[f"{prefix}file"]
    return f"{file}:{record[f'{prefix}position']}" if file else ""


def _shown(name: str, value: Any) -> str:
    """Return the text for a value of a status record. The suffix of ``name``, such as ``_at``, tells its unit."""
    match value:
        case None | "":
            return ""
        case dict():
            return " ".join(f"{key}={each}" for key, each in value.items())
        case float() | int() if name.endswith("_at"):
            return datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds") if value else ""
        case float():
            return f"{100 * value:.1f} %" if name == "saved" else f"{value:.1f}"
        case int():
            return f"{value:,}"
    return str(value)


_SLAVE: Mapping[str, str | Callable[[Record], str]] = {
    "id": lambda slave: str(slave["server_id"] or slave["entry"]),
    "channel": "channel",
    "user": "user",
    "host": lambda slave: f"{slave['host']}:{slave['port']}" if slave["host"] else "",
    "state": _state,
    "position": _place,
    "lag bytes": "lag_bytes",
    "lag s": "lag_seconds",
    "sent": "bytes_sent",
    "dropped": "bytes_dropped",
    "for GTIDs": lambda slave: _shown("", slave["counts"].get("bytes_gtid") or None),
    "saved": "saved",
    "undecided": "events_undecided",
}
"""The columns of the table of slaves, each with the record's member or the function that makes the cell."""

_NUMERIC = ("id", "lag bytes", "lag s", "sent", "dropped", "for GTIDs", "saved", "undecided")
"""The columns that are aligned to the right."""


def _cells(slave: Record) -> list[str]:
    facts = {**slave, **slave["counts"]}
    return [_shown(of, facts.get(of)) if isinstance(of, str) else of(slave) for of in _SLAVE.values()]


def _render_slave(status: Record, console: Console) -> None:
    from dumpfilter.commands.server_status.model import name_of_channel

    running = "yes" if status["running"] else "no"
    if status["process"]:
        running += f" (process {status['process']})"
    console.print(
        _facts(
            [
                ("slave", status["console"] or status["relay_dir"]),
                ("relay directory", status["relay_dir"] if status["console"] else ""),
                ("server uuid", status["server_uuid"]),
                ("running", running),
            ]
        )
    )
    for channel in status["channels"]:
        console.print(_facts(_channel_facts(channel), title=name_of_channel(channel)))
    if not status["console"] and status["running"]:
        _say(console, "The files do not tell the state of the threads: ask the slave's console with --slave.")


_PLACES = ("received", "applied", "relay")
_TOLD_BEFORE = {
    *("channel", "source", "io_running", "sql_running", "counters"),
    *(f"{name}_{part}" for name in _PLACES for part in ("file", "position")),
}
"""The members of a channel's record that have rows in another form, and are not printed with the rest."""


_WORDS = {"io": "I/O", "sql": "SQL", "gtids": "GTIDs"}


def _title(name: str) -> str:
    return " ".join(_WORDS.get(word, word) for word in name.split("_"))


def _channel_facts(channel: Record) -> list[tuple[str, str]]:
    unknown = "unknown (give --slave)"
    rest = {**channel, **channel["counters"]}
    return [
        ("source", channel["source"]),
        ("I/O thread", channel["io_running"] or unknown),
        ("SQL thread", channel["sql_running"] or unknown),
        *((name, _place(channel, f"{name}_")) for name in _PLACES),
        *((_title(name), _shown(name, rest[name])) for name in rest if name not in _TOLD_BEFORE),
    ]


def _facts(facts: Iterable[tuple[str, Any]], title: str = "") -> Table:
    shown = [(name, printable(str(value), _LONGEST)) for name, value in facts if value]
    made = table(("", ""), shown, title=title)
    made.show_header = False
    made.columns[0].no_wrap = True
    return made


def _print_rows(
    console: Console,
    noun: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[str] = (),
) -> None:
    """Print rows as a table, or each row as a block of lines if the table is wider than the terminal.

    People copy numbers and positions, so no value is cropped. A pipe has a width only if COLUMNS is set. Otherwise a
    pipe gets the whole table.
    """
    from rich.console import Console

    used = [at for at in range(len(heads)) if any(row[at] for row in rows)]
    whole = table(
        [heads[at] for at in used],
        [[printable(row[at], _LONGEST) for at in used] for row in rows],
        title=f"{noun}s",
        numbers=numbers,
    )
    width = console.measure(whole, options=console.options.update_width(_ANY_WIDTH)).maximum
    if width <= console.width:
        console.print(whole)
    elif console.is_terminal or os.environ.get("COLUMNS"):
        for row in rows:
            console.print(_facts(list(zip(heads[1:], row[1:], strict=True)), title=f"{noun} {row[0]}"))
    else:
        Console(file=console.file, width=width, color_system=None, highlight=False).print(whole)
