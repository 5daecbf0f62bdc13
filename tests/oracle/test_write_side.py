"""The write side, compared with real servers that ran with ``--binlog-do-db`` and ``--binlog-ignore-db``.

A recording (record-write-side) has the binlog of a server without these options. For each case and each event it tells
whether the same server with the case's options wrote the event, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.analyse.explain import XA_END, ExplainedEvent, Filters, explain_events
from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.filter.filter import Filter, WriteFilter
from dumpfilter.filter.rules import WriteRuleKind, WriteSemantics, parse_option_of
from dumpfilter.index.fileset import BinlogSet

DATA = Path(__file__).parent / "data" / "recordings"

CONTEXT = {"Intvar", "RAND", "User_var", "Begin_load_query", "Append_block"}
"""Types of events that precede a statement and mean nothing without it.

Annotate_rows is not among them, since MariaDB writes it before another statement where the first one is not logged.
"""


@dataclass(frozen=True)
class WriteRecording:
    path: Path

    @cached_property
    def record(self) -> dict[str, Any]:
        return json.loads((self.path / "write.json").read_text("utf-8"))

    @property
    def family(self) -> Family:
        return "mariadb" if "MariaDB" in self.record["server"] else "mysql"

    def filters(self, case: str, semantics: WriteSemantics = WriteSemantics.SERVER) -> Filters:
        write = WriteFilter(
            [parse_option_of(option, WriteRuleKind, "") for option in self.record["cases"][case]["options"]],
            semantics=semantics,
            names=NameRules(self.family, lower_case_table_names=self.record["lower_case_table_names"]),
        )
        return Filters(Filter(names=NameRules(self.family)), write)

    def unlike(self, case: str) -> set[int]:
        """Return the positions of events that cannot be compared.

        They follow, in the same section, a statement that failed only on the server with the options.
        """
        statements, events = self.record["statements"], self.record["events"]
        skipped: set[int] = set()
        for failed in self.record["cases"][case]["failed"]:
            section = statements[failed][0]
            for name, _, _, first, end in statements[failed:]:
                if name == section:
                    skipped |= {position for position, _ in events[first:end]}
        return skipped


@cache
def events_of(recording: WriteRecording, case: str) -> list[tuple[ExplainedEvent, bool]]:
    """Return each event of the unfiltered binlog with the dump's decision, and whether the server wrote it, too."""
    found = recording.record["cases"][case]
    written = {
        position: bit == "1"
        for (position, _), bit in zip(recording.record["events"], found["written"], strict=True)
    }
    unlike = recording.unlike(case)
    return [
        (event, written[event.position])
        for event in explain_events(BinlogSet.open(recording.path), recording.filters(case))
        if event.position in written and event.position not in unlike
    ]


RECORDINGS = [WriteRecording(path.parent) for path in sorted(DATA.glob("*/write.json"))]
CASES = [
    pytest.param(recording, case, id=f"{recording.path.name}-{case}")
    for recording in RECORDINGS
    for case in recording.record["cases"]
]


def test_there_are_recordings() -> None:
    assert [r.path.name for r in RECORDINGS] == [
        f"{family}-write-{topic}"
        for family in ("mariadb", "mysql")
        for topic in ("lower-case", "mixed", "row", "statement")
    ]
    assert len(CASES) == 8 * 12
    # Events that cannot be compared are rare.
    events = sum(len(recording.record["events"]) * 12 for recording in RECORDINGS)
    assert sum(len(p.values[0].unlike(p.values[1])) for p in CASES) < events / 100


@pytest.mark.parametrize(("recording", "case"), CASES)
@pytest.mark.every_recording
def test_what_is_written_is_what_the_server_wrote(recording: WriteRecording, case: str) -> None:
    decided = 0
    for event, written in events_of(recording, case):
        if event.decision is not None:
            assert event.decision.verdict.passes == event.sent == written, event
            decided += 1
    assert decided > 100


@pytest.mark.parametrize(("recording", "case"), CASES)
@pytest.mark.every_recording
def test_the_rest_goes_with_it(recording: WriteRecording, case: str) -> None:
    """The context of a statement is sent with the statement, and no empty transaction is sent.

    A server may write an empty transaction.
    """
    for transaction in transactions(events_of(recording, case)):
        for event, written in transaction:
            if event.type in CONTEXT:
                assert event.sent == written, event
        if not any(event.why == XA_END for event, _ in transaction):
            gtid, _ = transaction[0]
            assert gtid.sent == any(written for event, written in transaction if event.decision is not None)


@pytest.mark.parametrize(("recording", "case"), CASES)
@pytest.mark.every_recording
def test_a_prepared_transaction_and_its_end_stay_together(recording: WriteRecording, case: str) -> None:
    """The end of an XA transaction is sent exactly when its prepared part is.

    MySQL decides XA COMMIT by the current database, so that some transactions stay prepared on its replicas for ever.
    """
    sent = {event.position: event.sent for event, _ in events_of(recording, case)}
    prepared: dict[str, bool] = {}
    ended: dict[str, bool] = {}
    for _, text, _, first, end in recording.record["statements"]:
        found = re.fullmatch(r"XA (PREPARE|COMMIT|ROLLBACK) ('\w+')", text)
        if found:
            events = [sent[position] for position, _ in recording.record["events"][first:end]]
            (prepared if found[1] == "PREPARE" else ended)[found[2]] = any(events)
    assert prepared == ended
    assert len(prepared) == 7


def test_mysql_leaves_transactions_prepared() -> None:
    """MySQL, and not MariaDB, left out ends of XA transactions whose prepared part it wrote."""
    lost = [
        recording.path.name
        for recording, case in (p.values for p in CASES)
        for event, written in events_of(recording, case)
        if event.why == XA_END and event.type == "Query" and event.sent and not written
    ]
    assert {name.partition("-")[0] for name in lost} == {"mysql"}


def transactions(
    events: Iterable[tuple[ExplainedEvent, bool]],
) -> Iterator[list[tuple[ExplainedEvent, bool]]]:
    """Yield the events of each transaction, beginning with its Gtid."""
    found: list[tuple[ExplainedEvent, bool]] = []
    for event, written in events:
        if event.type == "Gtid" and found:
            yield found
            found = []
        found.append((event, written))
    yield found


def test_the_worklogs_semantics_differ_where_there_is_no_current_database() -> None:
    differing = set()
    for recording in RECORDINGS:
        for case in recording.record["cases"]:
            server, worklog = recording.filters(case), recording.filters(case, WriteSemantics.WORKLOG)
            assert server.write is not None
            assert worklog.write is not None
            for event, _ in events_of(recording, case):
                if event.subject is None:
                    continue
                answers = [f.write.decide(event.subject).verdict.passes for f in (server, worklog)]
                if answers[0] != answers[1]:
                    assert answers == [True, False]
                    assert event.subject.current_database is None
                    differing.add((recording.family, case))
    # Without a current database MySQL writes a statement under any rule, MariaDB under ignore rules alone.
    assert {case for family, case in differing if family == "mysql"} == set(RECORDINGS[0].record["cases"])
    assert {case for family, case in differing if family == "mariadb"} == {
        "ignore d1",
        "ignore d2 and Dx",
        "ignore dx",
    }
