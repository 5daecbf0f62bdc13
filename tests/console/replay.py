"""The recordings of real servers' answers, asked of our own consoles, and how the two differ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumpfilter.console.connection import ConsoleServer
from dumpfilter.filter.channels import ChannelFilters, split_channel
from dumpfilter.filter.rules import RuleKind, make_rule
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.slave.channels import Slave
from dumpfilter.slave.console import SlaveConsole
from dumpfilter.slave.options import SlaveOptions
from tests.console.record import Connection, Step, ask

DATA = Path(__file__).parent / "data"

_CLASSES = {
    **dict.fromkeys(("STRING", "VAR_STRING", "VARCHAR", "BLOB", "LONG_BLOB", "ENUM", "NULL"), "text"),
    **dict.fromkeys(("TINY", "SHORT", "LONG", "LONGLONG", "INT24", "YEAR"), "integer"),
    **dict.fromkeys(("DOUBLE", "FLOAT", "DECIMAL", "NEWDECIMAL"), "number"),
    **dict.fromkeys(("TIMESTAMP", "DATETIME"), "timestamp"),
}

_SHAPES = (
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\b2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\b"), "TIME"),
    (re.compile(r"^\d{6} \d\d:\d\d:\d\d$"), "TIME"),
)
"""Values that vary from run to run. They are compared by their shapes."""

_SOURCE_PORT = 33152
"""The source's in the recordings."""


@dataclass(frozen=True)
class Deviation:
    """One way in which our answer to one statement is not the recorded one."""

    scenario: str
    sql: str
    aspect: str
    """``error``, ``warnings``, ``affected``, ``columns``, ``rows`` (their number), or the column of a value."""
    recorded: Any
    ours: Any


def load(name: str) -> dict[str, Any]:
    """Load a recording."""
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


@contextmanager
def our_slave(
    directory: Path, options: list[str] | tuple[str, ...] = (), server_id: int = 51
) -> Iterator[Console]:
    """Run a slave in this process on a new or used directory, and yield its console."""
    filters = ChannelFilters()
    for option in options:
        name, _, value = option.removeprefix("--").partition("=")
        if name in {kind.value for kind in RuleKind}:
            channel, rule = split_channel(value)
            filters.startup(channel, [make_rule(RuleKind(name), rule)])
    slave = Slave(SlaveOptions(relay_dir=directory, server_id=server_id, alone=True), filters)
    try:
        with ConsoleServer(SlaveConsole(slave), users={"root": "secret"}).running() as server:
            yield Console(server.port, slave.warnings, slave)
    finally:
        slave.close()


@contextmanager
def our_master(binlogs: Path) -> Iterator[Console]:
    """Run a master in this process on these binlogs, and yield its console."""
    master = MasterServer(BinlogStore(binlogs))
    try:
        master.start()
        with ConsoleServer(
            MasterConsole(master.service, port=master.port), users={"root": "secret"}
        ).running() as server:
            yield Console(server.port, [])
    finally:
        master.stop(0)


@contextmanager
def serving(binlogs: Path) -> Iterator[int]:
    """Run a master in this process on these binlogs, and yield its port for slaves."""
    master = MasterServer(BinlogStore(binlogs))
    try:
        master.start()
        yield master.port
    finally:
        master.stop(0)


@dataclass
class Console:
    """A console to connect to."""

    port: int
    warnings: list[str]
    """About filters that were discarded at the start."""
    slave: Slave | None = None

    def connect(self) -> Connection:
        return Connection(
            host="127.0.0.1",
            port=self.port,
            user="root",
            password="secret",
            charset="utf8mb4",
            autocommit=True,
        )

    def ask(self, sql: str, until: str = "") -> dict[str, Any]:
        """Send one statement over a new connection, and return the answer in the form of a recording."""
        connection = self.connect()
        try:
            return ask(connection, Step(sql, until))
        finally:
            connection.close()

    def rows(self, sql: str) -> list[list[Any]]:
        """Return the rows of one statement. Fails when the console refuses the statement."""
        answer = self.ask(sql)
        assert "rows" in answer, answer
        return answer["rows"]  # type: ignore[no-any-return]

    def do(self, sql: str) -> None:
        """Carry out one statement. Fails when the console refuses the statement."""
        answer = self.ask(sql)
        assert "error" not in answer, answer


def replay(
    recording: dict[str, Any],
    console: Console,
    *,
    source_port: int = _SOURCE_PORT,
    undo: dict[str, str] | None = None,
) -> list[Deviation]:
    """Ask every statement of the recording in its order. ``undo``: what to ask after a statement that did what it
    should not have done, so that the statements after it find what they found on the real server."""
    found: list[Deviation] = []
    connection = console.connect()
    for step in recording["steps"]:
        sql = step["sql"].replace(str(_SOURCE_PORT), str(source_port))
        ours = ask(connection, Step(sql, step.get("until", "")))
        found += compare(recording["scenario"], step, ours, source_port)
        if undo and step["sql"] in undo:
            ask(connection, Step(undo[step["sql"]]))
    connection.close()
    return found


def compare(
    scenario: str, recorded: dict[str, Any], ours: dict[str, Any], source_port: int
) -> Iterator[Deviation]:
    """Yield the deviations of one answer from the recording."""

    def deviation(aspect: str, theirs: Any, here: Any) -> Deviation:
        return Deviation(scenario, recorded["sql"], aspect, theirs, here)

    def plain(value: Any) -> Any:
        if value == source_port:
            return _SOURCE_PORT
        if isinstance(value, list):
            return [plain(one) for one in value]
        if isinstance(value, str):
            value = value.replace(f":{source_port}", f":{_SOURCE_PORT}")
            for shape, name in _SHAPES:
                value = shape.sub(name, value)
        return value

    for aspect in ("error", "affected", "warnings"):
        theirs, here = plain(recorded.get(aspect)), plain(ours.get(aspect))
        if theirs != here:
            yield deviation(aspect, theirs, here)
    if "columns" not in recorded or "columns" not in ours:
        return
    theirs = [[name, _CLASSES[kind]] for name, kind in recorded["columns"]]
    here = [[name, _CLASSES[kind]] for name, kind in ours["columns"]]
    if theirs != here:
        yield deviation("columns", theirs, here)
        return
    if len(recorded["rows"]) != len(ours["rows"]):
        yield deviation("rows", plain(recorded["rows"]), plain(ours["rows"]))
        return
    for number, (their_row, our_row) in enumerate(zip(recorded["rows"], ours["rows"], strict=True)):
        for (name, kind), left, right in zip(theirs, their_row, our_row, strict=True):
            a, b = plain(left), plain(right)
            if kind == "integer" and name.upper() == "THREAD_ID":
                a, b = a is None, b is None
            if a != b:
                yield deviation(f"{name}", f"row {number}: {a!r}", f"row {number}: {b!r}")
