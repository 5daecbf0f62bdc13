"""Recordings of real servers as test data: what the source wrote, what each replica made of it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import Family, NameCollation, name_collation_of
from dumpfilter.binlog.query import decode_query
from dumpfilter.binlog.reader import iter_events

DATA = Path(__file__).parent / "data"

_GTID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}:(?:[a-z_]\w*:)?\d+|\b\d+-\d+-\d+\b")
_MISSING_TABLE = re.compile(r"Error executing row event: 'Table '(.*?)' doesn't exist'")
_DATABASE_STATEMENT = re.compile(r"(use `.*`; )?(CREATE|ALTER|DROP) DATABASE\b", re.IGNORECASE)
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
    unsaid: set[str]
    """GTIDs of statements that the replica may have dropped or run: the recording does not say."""
    missing_tables: set[str]
    """``db.table`` of row changes that passed the filter and failed, where the log names no GTID."""
    until: int
    """How many of the source's transactions it got through; what comes after says nothing."""


@dataclass(frozen=True)
class Recording:
    """One folder with binlogs and oracle.json."""

    path: Path
    family: Family = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", "mariadb" if "MariaDB" in self.oracle["server"] else "mysql")

    @cached_property
    def oracle(self) -> dict[str, Any]:
        return json.loads((self.path / "oracle.json").read_text())

    @property
    def names(self) -> NameCollation:
        """The collation for names of the server that made the recording."""
        return name_collation_of(self.family, self.oracle["server"])

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
    def executed(self) -> str:
        """The source's GTID set. It may have some even where the replicas went by file and position."""
        return self.oracle.get("executed", self.oracle["gtid"])

    @property
    def rows_v1(self) -> bool:
        """Whether MySQL wrote rows events of version 1, which the mysqlbinlog of MySQL 9.7 does not read.

        SHOW BINLOG EVENTS of MySQL 5.5 names them without the version.
        """
        kinds = {kind for one in self.oracle["source"]["transactions"] for kind, _ in one["events"]}
        return self.family == "mysql" and (self.version < (5, 6) or "Write_rows_v1" in kinds)

    @property
    def row_format(self) -> bool:
        return self.oracle["binlog_format"] == "row"

    @property
    def version(self) -> tuple[int, ...]:
        return tuple(map(int, re.findall(r"\d+", self.oracle["server"])[:2]))

    @property
    def single_threaded(self) -> bool:
        """Whether the replicas apply with one thread and name no GTID in their logs (MySQL before 8.0)."""
        return self.family == "mysql" and self.version < (8, 0)

    @cached_property
    def _database_statements(self) -> set[str]:
        return {
            _gtid(transaction["gtid"])
            for transaction in self.oracle["source"]["transactions"]
            if any(_DATABASE_STATEMENT.match(info) for _, info in transaction["events"])
        }

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
        unsaid: set[str] = set()
        missing: set[str] = set()
        if self.single_threaded:
            # The log names no GTID, but what failed is missing in the GTID set. MySQL 5.6 also leaves out
            # statements about databases that it dropped.
            done = _numbers(found["gtid"])
            until = until if found["reached_the_end"] else max(done, default=0)
            failed = {gtid for n, gtid in enumerate(gtids[:until], 1) if gtid and n not in done}
            missing = set(_MISSING_TABLE.findall("\n".join(found["passed_but_failed"])))
            if self.version < (5, 7):
                unsaid = failed & self._database_statements
                failed -= unsaid
        elif found["stopped"] or found["gtid"] != self.oracle["gtid"]:
            # parallel workers may have gone further in places: only what is complete says something
            until = _complete(found["gtid"], gtids, failed if "reached_the_end" in found else set())
        if found["stopped"] and "died" in found["stopped"]["message"]:
            until = 0  # the replica's process died: its own binlog is not whole either
        lower = self.oracle.get("lower_case_table_names", 1 if "lower-case" in self.name else 0)
        return Replica(case, found["options"], lower, tables, statements, failed, unsaid, missing, until)


def _gtid(text: str) -> str:
    """The GTID in ``text``; empty in a recording without GTIDs."""
    found = _GTID.search(text)
    return found[0] if found else ""


def _is_frame(info: str) -> bool:
    text = re.sub(r"^use `(?:[^`]|``)*`; ", "", info)
    return bool(re.match(r"(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|XA )", text))


def _numbers(executed: str) -> set[int]:
    """The transaction numbers in the set ``executed``."""
    numbers: set[int] = set()
    for piece in re.findall(r"(?<=:)\d+(?:-\d+)?(?=[:,\s]|$)|\d+-\d+-\d+", executed):
        bounds = [int(n) for n in piece.split("-")]
        if len(bounds) == 3:
            numbers |= set(range(1, bounds[2] + 1))
        else:
            numbers |= set(range(bounds[0], bounds[-1] + 1))
    return numbers


def _complete(executed: str, gtids: list[str], failed: set[str]) -> int:
    """How many of ``gtids``, from the first on, are in the set ``executed`` or failed."""
    numbers = _numbers(executed)
    for n, gtid in enumerate(gtids):
        if gtid not in failed and int(re.split(r"[:-]", gtid)[-1]) not in numbers:
            return n
    return len(gtids)


def all_recordings() -> list[Recording]:
    """Every folder with an oracle.json."""
    return [Recording(path.parent) for path in sorted(DATA.glob("*/*/oracle.json"))]


def all_cases() -> list[tuple[Recording, str]]:
    """Every recording with each of its cases."""
    return [(recording, case) for recording in all_recordings() for case in recording.oracle["cases"]]
