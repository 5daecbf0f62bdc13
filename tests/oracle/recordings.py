"""Recordings of real servers as test data. Each holds a source's binlogs and the effect of each replica's filter."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import Family, NameCollation, NameRules, name_collation_of
from dumpfilter.binlog.query import decode_query
from dumpfilter.binlog.reader import iter_events
from dumpfilter.filter.filter import Filter

DATA = Path(__file__).parent / "data"

_GTID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}:(?:[a-z_]\w*:)?\d+|\b\d+-\d+-\d+\b")
_MISSING_TABLE = re.compile(r"Error executing row event: 'Table '(.*?)' doesn't exist'")
_DATABASE_STATEMENT = re.compile(r"(use `.*`; )?(CREATE|ALTER|DROP) DATABASE\b", re.IGNORECASE)
_TABLE_MAP = re.compile(r"^\((.*)\)$", re.DOTALL)


@dataclass(frozen=True)
class Replica:
    """The effects of one replica with one filter. GTIDs are texts."""

    name: str
    options: list[str]
    lower_case_table_names: int
    tables: dict[str, set[str]]
    """By GTID, ``db.table`` of the row changes that the replica logged."""
    statements: dict[str, list[str]]
    """By GTID, the statements that the replica logged, without BEGIN, COMMIT, ROLLBACK, SAVEPOINT and XA statements."""
    failed: set[str]
    """GTIDs of transactions in which an event passed the filter and then failed."""
    unsaid: set[str]
    """GTIDs of statements that the replica may have dropped or run. The recording does not tell which."""
    missing_tables: set[str]
    """``db.table`` of row changes that passed the filter and failed, in recordings whose error log names no GTID."""
    until: int
    """The number of the source's transactions that the replica finished. Nothing is known about its later ones."""


@dataclass(frozen=True)
class Recording:
    """One folder with binlogs and their oracle.json."""

    path: Path
    family: Family = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", "mariadb" if "MariaDB" in self.oracle["server"] else "mysql")

    @cached_property
    def oracle(self) -> dict[str, Any]:
        return json.loads((self.path / "oracle.json").read_text())

    @property
    def names(self) -> NameCollation:
        """The collation by which the recorded server compares names."""
        return name_collation_of(self.family, self.oracle["server"])

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def files(self) -> list[Path]:
        return [self.path / name for name in self.oracle["logs"]]

    @cached_property
    def collation(self) -> int:
        """The number of the source's default collation, as its Query events give it in ``collation_server``."""
        for path in self.files:
            with path.open("rb") as source:
                for event in iter_events(source, file=path.name):
                    if event.type == EventType.QUERY:
                        found = decode_query(event.body).status.collation_server
                        if found is not None:
                            return found
        raise AssertionError(f"{self.name}: no Query event has the status variable collation_server")

    @property
    def executed(self) -> str:
        """The source's GTID set. A source may have one even where its replicas went by file and position."""
        return self.oracle.get("executed", self.oracle["gtid"])

    @property
    def rows_v1(self) -> bool:
        """True when MySQL wrote rows events of version 1, which the mysqlbinlog of MySQL 9.7 does not read.

        SHOW BINLOG EVENTS of MySQL 5.5 names such events without the version.
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
        """True when the replicas apply with one thread and name no GTID in their logs, as MySQL before 8.0 does."""
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
        """The GTIDs of the source's transactions, in order. They are empty in a recording without GTIDs."""
        return [_gtid(t["gtid"]) for t in self.oracle["source"]["transactions"]]

    @cache  # noqa: B019 (all_recordings keeps the recordings for good)
    def replica(self, case: str) -> Replica:
        """Return the replica of a case."""
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
            # MySQL logs MY-001237 when it filters a statement out, for the first such statement only.
            if "MY-001237" not in line and "ignored the query because of replicate" not in line
            for gtid in _GTID.findall(line)
        }
        gtids = self.gtids
        until = len(gtids)
        unsaid: set[str] = set()
        missing: set[str] = set()
        if self.single_threaded:
            # The log names no GTID, but the GTID set lacks the transactions that failed. The GTID set of MySQL 5.6
            # also lacks statements about databases that the replica dropped.
            done = _numbers(found["gtid"])
            until = until if found["reached_the_end"] else max(done, default=0)
            failed = {gtid for n, gtid in enumerate(gtids[:until], 1) if gtid and n not in done}
            missing = set(_MISSING_TABLE.findall("\n".join(found["passed_but_failed"])))
            if self.version < (5, 7):
                unsaid = failed & self._database_statements
                failed -= unsaid
        elif found["stopped"] or found["gtid"] != self.oracle["gtid"]:
            # Parallel workers may have skipped ahead. Only the transactions before the first missing one are known.
            until = _complete(found["gtid"], gtids, failed if "reached_the_end" in found else set())
        if found["stopped"] and "died" in found["stopped"]["message"]:
            until = 0  # the replica's process died, and its own binlog may lack the last transactions
        lower = self.oracle.get("lower_case_table_names", 1 if "lower-case" in self.name else 0)
        return Replica(case, found["options"], lower, tables, statements, failed, unsaid, missing, until)


def _gtid(text: str) -> str:
    """Return the GTID in ``text``, or an empty string in a recording without GTIDs."""
    found = _GTID.search(text)
    return found[0] if found else ""


def _is_frame(info: str) -> bool:
    text = re.sub(r"^use `(?:[^`]|``)*`; ", "", info)
    return bool(re.match(r"(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|XA )", text))


def _numbers(executed: str) -> set[int]:
    """Return the transaction numbers in the GTID set ``executed``."""
    numbers: set[int] = set()
    for piece in re.findall(r"(?<=:)\d+(?:-\d+)?(?=[:,\s]|$)|\d+-\d+-\d+", executed):
        bounds = [int(n) for n in piece.split("-")]
        if len(bounds) == 3:
            numbers |= set(range(1, bounds[2] + 1))
        else:
            numbers |= set(range(bounds[0], bounds[-1] + 1))
    return numbers


def _complete(executed: str, gtids: list[str], failed: set[str]) -> int:
    """Return the number of leading ``gtids`` that are in the GTID set ``executed`` or in ``failed``."""
    numbers = _numbers(executed)
    for n, gtid in enumerate(gtids):
        if gtid not in failed and int(re.split(r"[:-]", gtid)[-1]) not in numbers:
            return n
    return len(gtids)


@cache
def all_recordings() -> list[Recording]:
    """Return the recording in every folder with an oracle.json."""
    return [Recording(path.parent) for path in sorted(DATA.glob("*/*/oracle.json"))]


def all_cases() -> list[tuple[Recording, str]]:
    """Return every recording paired with each of its cases."""
    return [(recording, case) for recording in all_recordings() for case in recording.oracle["cases"]]


def covering_cases() -> list[tuple[Recording, str]]:
    """Return every recording paired with the few of its cases that use each of its replicas' filter options once.

    These cases are for tests whose judge is this project's own code or a program that only reads. The decisions of all
    cases are compared with the recorded replicas in ``test_recordings_slow.py`` and ``test_statements.py``.
    """
    return [(recording, case) for recording in all_recordings() for case in _covering(recording)]


def _covering(recording: Recording) -> list[str]:
    options = {case: set(_kinds(found["options"])) for case, found in recording.oracle["cases"].items()}
    missing = set().union(*options.values())
    chosen = []
    while missing:
        chosen.append(max(options, key=lambda case: len(options[case] & missing)))
        missing -= options[chosen[-1]]
    return chosen or list(options)[:1]


def _kinds(options: list[str]) -> list[str]:
    """Return the names of the options, without their values."""
    return [option.partition("=")[0] for option in options]


def filter_of(recording: Recording, case: str) -> Filter:
    """Return the filter of a case's replica."""
    replica = recording.replica(case)
    names = NameRules(recording.family, recording.names, replica.lower_case_table_names)
    return Filter.from_options(replica.options, names=names)
