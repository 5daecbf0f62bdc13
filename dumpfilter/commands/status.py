"""The command ``dumpfilter status``, which shows the state of a master or slave, and whether there is a problem."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from dumpfilter.base import logs
from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import read_password
from dumpfilter.base.options.settings import setting
from dumpfilter.base.printable import printable
from dumpfilter.commands.option_groups import ConsoleLogin, JsonOption, parse_address
from dumpfilter.commands.server_status import model
from dumpfilter.commands.sql import aligned, render, terminal_width
from dumpfilter.slave.options import MASTER_PANEL, SOURCE_VARIABLE, SlaveOptions, TlsOptions

_LONGEST = 500
"""The length to which a value is cut on the terminal, characters. GTID sets can be long; --json prints them whole."""


class AskedOptions(ConsoleLogin):
    """The options that name the master or slave whose status is shown, by an address or a slave's relay directory, and
    the users and passwords for the connections.
    """

    master: str = setting("", metavar="HOST:PORT")
    """The address at which a master serves slaves."""
    relay_dir: Path | None = setting(None, metavar="DIRECTORY")
    """A slave's relay directory, whose files are read whether the slave runs or not."""
    source_user: str = ""
    """A replication user of the master."""
    source_password_file: Path | None = None
    """A file whose first line is the replication user's password. Without it the password is that of the environment
    variable DUMPFILTER_SOURCE_PASSWORD."""
    source_plain_password: bool = setting(False, rich_help_panel=MASTER_PANEL)
    """Send the password to a master on another machine even without TLS."""

    def status(self, tls: TlsOptions) -> model.Record:
        """Return the status record (dictionary) of the named master or slave.

        ``tls`` has the TLS options for a connection to a master's port for slaves. Raises OptionError for wrong
        options, for example unless they name exactly one master, slave or relay directory. Raises other errors if the
        server cannot be asked, such as ConnectionLost when nothing answers.
        """
        if bool(self.master or self.console) + bool(self.slave) + (self.relay_dir is not None) != 1:
            raise OptionError(
                "give one of --master (with or without --console), --console, --slave and --relay-dir"
            )
        if not self.master:
            self.refuse(["source_user"], "needs --master; the user of a console is --user")
        if self.relay_dir is not None:
            from dumpfilter.commands.server_status.of_directory import relay_directory_status

            return relay_directory_status(self.relay_dir)
        from dumpfilter.commands.server_status.of_console import master_status, slave_status

        login = self.login()
        if self.slave and login is not None:
            return slave_status(login)
        told: model.Record = {}
        if self.master:
            # gRPC takes 0.1 s to import.
            from dumpfilter.commands.server_status.of_port import ask_port
            from dumpfilter.slave.connection import Source
            from dumpfilter.slave.state import SourceInfo

            host, port = parse_address("--master", self.master)
            password = read_password(self.source_password_file, SOURCE_VARIABLE) if self.source_user else ""
            info = SourceInfo(host=host, port=port, user=self.source_user, password=password, **tls.members())
            info.check_tls()
            options = SlaveOptions(relay_dir=Path(), server_id=0, plain_password=self.source_plain_password)
            told = ask_port(Source(info, options), whole=login is None)
        return master_status(told, login)


class StatusSettings(JsonOption):
    """The options of ``dumpfilter status`` besides the address: the largest lag that is no problem, and JSON output."""

    max_lag: str = setting("", metavar="LAG")
    """The largest lag that is no problem: a time (30s, 5min, 1h) or bytes (64M, 500). Without it no lag is a problem.
    """


def status_command(
    asked: AskedOptions,
    source_tls: TlsOptions,
    given: StatusSettings,
) -> None:
    """Show the status of a master or slave: health, threads, positions, lag, errors and counters.

    Without a login, a master tells its health only. With its console, or a replication user, it tells more.

    Exit codes: 0 good. 4 reached, with a problem: a thread has stopped, the lag is larger than --max-lag, or the master
    is not serving. 3 nothing answers. 2 a wrong option. 1 another error, such as a wrong password.

    Examples:

        dumpfilter status --master 127.0.0.1:3307
        dumpfilter status --console 127.0.0.1:3308 -p admin.password --max-lag 64M
        dumpfilter status --slave 127.0.0.1:3309 --max-lag 30s --json
        dumpfilter status --relay-dir s1
    """
    logs.configure(logs.Format.TEXT, logs.Level.ERROR)
    most = model.MaxLag.parse(given.max_lag) if given.max_lag else model.MaxLag()
    status = asked.status(source_tls)
    problems = model.judge(status, most)
    given.show(status, lambda: typer.echo("\n".join(status_lines(status, terminal_width()))))
    raise typer.Exit(model.PROBLEM if problems else 0)


_PAIRS = {"file": "position", "host": "port"}
"""The last words of two keys of a status record whose values are shown as one text, such as ``db1:3306`` for host and
port.
"""

_WORDS = {"io": "I/O", "sql": "SQL", "gtid": "GTIDs", "gtids": "GTIDs"}

_SLAVE = (
    *("id", "channel", "user", "host", "state", "gone since", "file", "lag bytes", "lag seconds"),
    *("bytes sent", "bytes dropped", "bytes for GTIDs", "saved", "events undecided"),
)
"""The columns of the table of a master's slaves."""

_NUMBER = re.compile(r"(-?[\d,.]+( %)?)?")


def status_lines(status: model.Record, width: float = math.inf) -> Iterator[str]:
    """Yield the lines that show the status record (dictionary) of a master or slave: its values, a table of slaves or
    the values of each channel, and the problems.

    People copy numbers and positions, so values are not cropped to the terminal's width. A table that is wider than
    ``width`` columns has a line for each value instead. Values of more than ``_LONGEST`` characters are cut.
    """
    known = {} if status.get("file", "?") else {"files": None, "bytes": None}
    yield from _values(_texts(status | known))
    slaves = status.get("slaves") or ()
    states = Counter(slave["state"] for slave in slaves)
    each = ", ".join(f"{count} {state}" for state, count in states.items())
    yield from _rows(
        f"{len(slaves)} slaves ({each})", [_slave_texts(slave) for slave in slaves], _SLAVE, width
    )
    drains = [_texts(drain) for drain in status.get("drains") or ()]
    yield from _rows("drains", drains, list(drains[0]) if drains else (), width)
    for channel in status.get("channels", ()):
        yield from ("", typer.style(printable(model.name_of_channel(channel)), bold=True))
        yield from _values(_texts(channel))
    if remarks := list(_remarks(status)):
        yield from ("", *remarks)


def _remarks(status: model.Record) -> Iterator[str]:
    for slave in status.get("slaves") or ():
        for warning in slave["filter_warnings"]:
            text = f"warning: {printable(model.name_of_slave(slave))}: {printable(warning, _LONGEST)}"
            yield typer.style(text, fg="yellow")
    if status["role"] == "slave" and status["running"] and not status["console"]:
        yield "The files do not tell the state of the threads: ask the slave's console with --slave."
    for problem in status["problems"]:
        yield typer.style(f"PROBLEM: {printable(problem, _LONGEST)}", fg="red", bold=True)


def _texts(record: model.Record) -> dict[str, str]:
    """Return the texts that show the values of a status record (dictionary), by the title of each value, such as "lag
    bytes". The record's counters are included, and lists are left out.
    """
    texts: dict[str, str] = {}
    for name, value in record.items():
        last = name.rpartition("_")[2]
        if name in ("counts", "counters"):
            texts |= _texts(value)
        elif not isinstance(value, list) and last not in _PAIRS.values():
            if last in _PAIRS and value:
                value = f"{value}:{record[name.removesuffix(last) + _PAIRS[last]]}"
            title = " ".join(_WORDS.get(word, word) for word in name.split("_"))
            texts[title] = printable(_text(name, value), _LONGEST)
    return texts


def _slave_texts(slave: model.Record) -> dict[str, str]:
    texts = _texts(slave)
    return texts | {
        "id": str(slave["server_id"] or slave["entry"]),
        "bytes for GTIDs": texts["bytes GTIDs"] if slave["counts"]["bytes_gtid"] else "",
    }


def _text(name: str, value: Any) -> str:
    """Return the text that shows a value of a status record. ``name`` is the value's key in the record. Its suffix,
    such as ``_at``, tells the unit.
    """
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case dict():
            return " ".join(f"{key}={each}" for key, each in value.items())
        case float() | int() if name.endswith("_at"):
            return datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds") if value else ""
        case float():
            return f"{100 * value:.1f} %" if name == "saved" else f"{value:.1f}"
        case int() if name != "process":
            return f"{value:,}"
    return str(value)


def _values(texts: Mapping[str, str]) -> Iterator[str]:
    shown = {name: text for name, text in texts.items() if text}
    return aligned(list(shown), list(shown.values()))


def _rows(title: str, rows: Sequence[Mapping[str, str]], heads: Sequence[str], width: float) -> Iterator[str]:
    """Yield the line of a title, and the lines of a table with the columns ``heads``, without empty columns. Yield
    nothing if all columns are empty.

    Each row has the texts of its cells by column. If the table is wider than ``width`` characters, each cell gets its
    own line.
    """
    heads = [head for head in heads if any(row[head] for row in rows)]
    if heads:
        yield from ("", typer.style(title, bold=True))
        numeric = [all(_NUMBER.fullmatch(row[head]) for row in rows) for head in heads]
        cells = [[row[head] for head in heads] for row in rows]
        yield render(None, heads, numeric, cells, width).rstrip("\n")
