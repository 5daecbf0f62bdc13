"""Recordings of real servers as test data: what the source wrote, what each replica made of it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.query import decode_query
from dumpfilter.binlog.reader import iter_events

DATA = Path(__file__).parent / "data"

_GTID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}:\d+|\b\d+-\d+-\d+\b")
_TABLE_MAP = re.compile(r"^\((.*)\)$", re.DOTALL)


@dataclass(frozen=True)
class Replica:
    """What one replica with one filter did, by GTID text."""

    name: str
    options: list[str]
    lower_case_table_names: int
    tables: dict[str, set[str]]
    """``db.table`` of the row changes it logged."""
    statements: dict[str, list[str]]
    """The statements it logged (without BEGIN, COMMIT and their like)."""
    failed: set[str]
    """GTIDs of transactions of which something passed the filter and then failed."""
    until: int
    """How many of the source's transactions it got through; what comes after says nothing."""


@dataclass(frozen=True)
class Recording:
    """One folder with binlogs and oracle.json."""

    path: Path
    family: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", "mariadb" if "MariaDB" in self.oracle["server"] else "mysql")

    @cached_property
    def oracle(self) -> dict[str, Any]:
        return json.loads((self.path / "oracle.json").read_text())

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def files(self) -> list[Path]:
        return [self.path / name for name in self.oracle["logs"]]

    @cached_property
    def collation(self) -> int:
        """The number of the source's default collation, which its sessions have as ``collation_server``."""
        for path in self.files:
            with path.open("rb") as source:
                for event in iter_events(source, file=path.name):
                    if event.type == EventType.QUERY:
                        found = decode_query(event.body).status.collation_server
                        if found is not None:
                            return found
        raise AssertionError(f"{self.name}: no statement tells the collation")

    @property
    def row_format(self) -> bool:
        return self.oracle["binlog_format"] == "row"

    @property
    def gtids(self) -> list[str]:
        """The source's GTIDs, in order."""
        return [_gtid(t["gtid"]) for t in self.oracle["source"]["transactions"]]

    def replica(self, case: str) -> Replica:
        """One case's replica."""
        found = self.oracle["cases"][case]
        tables: dict[str, set[str]] = {}
        statements: dict[str, list[str]] = {}
        for transaction in found["transactions"]:
            gtid = _gtid(transaction["gtid"])
            for kind, info in transaction["events"]:
                if kind == "Table_map":
                    tables.setdefault(gtid, set()).add(_TABLE_MAP.match(info)[1])
                elif kind == "Query" and not _is_frame(info):
                    statements.setdefault(gtid, []).append(info)
        failed = {
            gtid
            for line in found["passed_but_failed"]
            # MySQL notes with this number that the statement was filtered out, and only the first time
            if "MY-001237" not in line and "ignored the query because of replicate" not in line
            for gtid in _GTID.findall(line)
        }
        gtids = self.gtids
        until = len(gtids)
        if found["stopped"] or found["gtid"] != self.oracle["gtid"]:
            # parallel workers may have gone further in places: only what is complete says something
            until = _complete(found["gtid"], gtids)
        if found["stopped"] and "died" in found["stopped"]["message"]:
            until = 0  # the replica's process died: its own binlog is not whole either
        lower = 1 if "lower-case" in self.name else 0
        return Replica(case, found["options"], lower, tables, statements, failed, until)


def _gtid(text: str) -> str:
    return _GTID.search(text)[0]


def _is_frame(info: str) -> bool:
    text = re.sub(r"^use `(?:[^`]|``)*`; ", "", info)
    return bool(re.match(r"(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|XA )", text))


def _complete(executed: str, gtids: list[str]) -> int:
    """How many of ``gtids``, from the first on, are in the set ``executed``."""
    numbers: set[int] = set()
    for piece in re.findall(r"(?<=:)\d+(?:-\d+)?(?=[:,\s]|$)|\d+-\d+-\d+", executed):
        bounds = [int(n) for n in piece.split("-")]
        if len(bounds) == 3:
            numbers |= set(range(1, bounds[2] + 1))
        else:
            numbers |= set(range(bounds[0], bounds[-1] + 1))
    for n, gtid in enumerate(gtids):
        if int(re.split(r"[:-]", gtid)[-1]) not in numbers:
            return n
    return len(gtids)


def all_recordings() -> list[Recording]:
    """Every folder with an oracle.json."""
    return [Recording(path.parent) for path in sorted(DATA.glob("*/*/oracle.json"))]


def all_cases() -> list[tuple[Recording, str]]:
    """Every recording with each of its cases."""
    return [(recording, case) for recording in all_recordings() for case in recording.oracle["cases"]]
