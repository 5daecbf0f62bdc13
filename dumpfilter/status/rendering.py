"""The printing of a status as tables for people."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dumpfilter.printable import printable
from dumpfilter.status.model import ChannelStatus, MasterStatus, SlaveOfMaster, SlaveStatus, Status

_LONGEST = 500
"""The length at which a value is cut on the terminal, characters. GTID sets can be long; --json has them whole."""

_ANY_WIDTH = 1 << 20
"""A width in which every table fits, characters."""


def render_status(status: Status, console: Console) -> None:
    """Print a status: a table of facts, a table of slaves or of each channel, and the problems."""
    if isinstance(status, MasterStatus):
        _render_master(status, console)
    else:
        _render_slave(status, console)
    for problem in status.problems:
        console.print(Text(f"PROBLEM: {printable(problem, _LONGEST)}", style="bold red"), soft_wrap=True)


def _render_master(status: MasterStatus, console: Console) -> None:
    facts: list[tuple[str, Any]] = [("master", status.address or status.console)]
    if status.console and status.address:
        facts.append(("console", status.console))
    # Only --master asks about the health, so that a status of the console alone has no such line.
    facts.append(("health", status.health))
    if status.slaves is not None:
        facts += [
            ("binlog of", status.server_version),
            *_source(status),
            ("binlog ends at", f"{status.file}:{status.position}"),
            ("files", f"{status.files} ({status.bytes:,} bytes)"),
            ("slaves", _numbers(status.slaves)),
        ]
    console.print(_facts(facts))
    if status.slaves:
        rows = [
            [
                str(one.server_id) if one.server_id else one.entry,
                one.channel,
                one.user,
                f"{one.host}:{one.port}" if one.host else "",
                one.shown_state,
                f"{one.file}:{one.position}" if one.file else "",
                _number(one.lag_bytes),
                "" if one.lag_seconds is None else f"{one.lag_seconds:.1f}",
                _number(one.counts.get("bytes_sent")),
                _number(one.counts.get("bytes_dropped")),
                _number(one.counts.get("bytes_gtid") or None),
                "" if one.saved is None else f"{100 * one.saved:.1f} %",
                _number(one.counts.get("events_undecided")),
            ]
            for one in status.slaves
        ]
        heads = ["id", "channel", "user", "host", "state", "position", "lag bytes", "lag s"]
        heads += ["sent", "dropped", "for GTIDs", "saved", "undecided"]
        _print_rows(console, "slave", heads, rows, numeric=(0, 6, 7, 8, 9, 10, 11, 12))
    if status.drains:
        names = ["drained_by", "value", "channel", "reason", "since", "still_dumping"]
        rows = [["" if row.get(name) is None else str(row[name]) for name in names] for row in status.drains]
        _print_rows(console, "drain", [name.replace("_", " ") for name in names], rows)
    for one in status.slaves or ():
        for warning in one.filter_warnings:
            console.print(
                Text(f"warning: {one}: {printable(warning, _LONGEST)}", style="yellow"), soft_wrap=True
            )
    if status.hint:
        console.print(Text(status.hint), soft_wrap=True)


def _numbers(slaves: Sequence[SlaveOfMaster]) -> str:
    """Return the number of slaves, and how many of them are in each state."""
    states = Counter(one.state for one in slaves if one.state)
    return (
        f"{len(slaves)} ({', '.join(f'{count} {state}' for state, count in states.items())})"
        if states
        else "0"
    )


def _source(status: MasterStatus) -> list[tuple[str, Any]]:
    source = status.source
    if source is None:
        return []
    return [("source", f"{source.get('address')} ({source.get('state')})")]


def _render_slave(status: SlaveStatus, console: Console) -> None:
    running = "yes" if status.running else "no"
    if status.process:
        running += f" (process {status.process})"
    console.print(
        _facts(
            [
                ("slave", status.console or status.relay_dir),
                *([("relay directory", status.relay_dir)] if status.console else []),
                ("server uuid", status.server_uuid),
                ("running", running),
            ]
        )
    )
    for channel in status.channels:
        console.print(_facts(_channel_facts(channel), title=channel.shown_name))
    if not status.console and status.running:
        console.print(
            Text("The files do not tell the state of the threads: ask the slave's console with --slave.")
        )


def _channel_facts(channel: ChannelStatus) -> list[tuple[str, Any]]:
    unknown = "unknown (give --slave)"
    counters = channel.counters
    return [
        ("source", channel.source),
        ("filter on", channel.filter_on),
        ("I/O thread", channel.io_running or unknown),
        ("SQL thread", channel.sql_running or unknown),
        ("received", f"{channel.received_file}:{channel.received_position}"),
        ("applied", f"{channel.applied_file}:{channel.applied_position}"),
        ("relay log", f"{channel.relay_file}:{channel.relay_position}"),
        ("not applied", "" if channel.lag_bytes is None else f"{channel.lag_bytes:,} bytes"),
        ("lag", "" if channel.lag_seconds is None else f"{channel.lag_seconds:.1f} s"),
        ("retrieved GTIDs", channel.retrieved_gtids),
        ("executed GTIDs", channel.executed_gtids),
        ("I/O error", channel.io_error),
        ("SQL error", channel.sql_error),
        ("last I/O error", _past(channel.last_io_error, channel.last_io_error_at)),
        ("last SQL error", _past(channel.last_sql_error, channel.last_sql_error_at)),
        ("connections", _number(counters.get("connections"))),
        ("bytes received", _number(counters.get("bytes_received"))),
        (
            "dropped by the master",
            f"{counters.get('bytes_dropped', 0):,} bytes, {counters.get('events_dropped', 0):,} events",
        ),
        ("undecided events", _number(counters.get("events_undecided"))),
        (
            "errors",
            f"{counters.get('io_errors', 0)} of the I/O thread, {counters.get('sql_errors', 0)} of the SQL thread",
        ),
        ("hits", " ".join(f"{kind}={count}" for kind, count in channel.hits.items())),
    ]


def _past(error: str, at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC).isoformat(timespec='seconds')}: {error}" if error else ""


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _facts(facts: Sequence[tuple[str, Any]], title: str | None = None) -> Table:
    table = Table(
        show_header=False, title=None if title is None else Text(printable(title)), title_justify="left"
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        if value not in ("", ":0"):
            table.add_row(Text(name), Text(printable(str(value), _LONGEST)))
    return table


def _print_rows(
    console: Console,
    noun: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: Sequence[int] = (),
) -> None:
    """Print rows as a table, or each row as a block of its own where the table is wider than the terminal.

    People copy numbers and positions, so no value is cropped. A pipe has a width only where COLUMNS gives the width.
    Without COLUMNS, a pipe gets the whole table.
    """
    table = _table(f"{noun}s", heads, rows, numeric)
    width = console.measure(table, options=console.options.update_width(_ANY_WIDTH)).maximum
    if width <= console.width:
        console.print(table)
    elif console.is_terminal or os.environ.get("COLUMNS"):
        for row in rows:
            console.print(_facts(list(zip(heads[1:], row[1:], strict=True)), title=f"{noun} {row[0]}"))
    else:
        Console(file=console.file, width=width, color_system=None, highlight=False).print(table)


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int]) -> Table:
    table = Table(title=title, title_justify="left")
    used = [index for index in range(len(heads)) if any(row[index] for row in rows)]
    for index in used:
        table.add_column(heads[index], justify="right" if index in numeric else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(printable(row[index], _LONGEST)) for index in used))
    return table
