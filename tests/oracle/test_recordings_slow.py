"""The law, and the real replicas' decisions about rows, in every recorded case of both server families.

The judge is oracle.json, the record of a real replica's work. By GTID it names the tables whose rows the replica
changed and the statements that it logged. It also quotes the replica's error log about events that passed the filter
and then failed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path

import pytest

from dumpfilter.analyse.lint.linting import RememberingFilter
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.binlog.reader import Event
from dumpfilter.dump.chunk import Counts
from dumpfilter.filter.filter import Filter
from dumpfilter.slave import applier
from dumpfilter.slave.targets import SummaryTarget
from tests.applying import apply_events, read_events
from tests.oracle.dumping import Stream, dump
from tests.oracle.recordings import Recording, all_cases, filter_of

CASES = [pytest.param(recording, case, id=f"{recording.name}-{case}") for recording, case in all_cases()]
COUNTS: dict[tuple[str, str], Counts] = {}
"""The counts of each dumped recording and case."""
ROW_CASES = [p for p in CASES if p.values[0].row_format]


@pytest.fixture(scope="module", autouse=True)
def _decoding_once() -> Iterator[None]:
    """Decode each event of a recording once for the filters of all its replicas."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("decode_gtid", "decode_statement_event", "statement_of"):
            patch.setattr(applier, name, lru_cache(4096)(getattr(applier, name)))
        yield


@lru_cache(maxsize=4)
def _events(path: Path) -> list[Event]:
    return list(read_events(path))


def test_there_are_recordings() -> None:
    names = {p.values[0].name for p in ROW_CASES}
    assert {"mysql-row", "mariadb-row", "mysql-names", "mariadb-databases"} <= names
    assert len(CASES) >= 80


@pytest.mark.parametrize(("recording", "case"), CASES)
def test_the_law_and_the_rows(recording: Recording, case: str) -> None:
    """A slave ends with the same state, position and GTID set, whether its stream is filtered or not.

    The rows that survive are those of the real replica.
    """
    rules = filter_of(recording, case)
    filtered = dump(recording.files, rules)
    full = everything(recording)
    observer, target = Observer(), SummaryTarget()
    deciding = RememberingFilter(rules)
    apply_events(filtered.events(), deciding, observer)
    # The full stream holds the same events as the recording's own files.
    apply_events(((path.name, _events(path)) for path in recording.files), deciding, target)
    assert observer.state() == target.state()
    assert filtered.position == full.position
    assert filtered.completed == full.completed == parse_gtid_set(recording.executed, recording.family)
    counts = COUNTS[recording.name, case] = filtered.counts
    assert counts.events_read == counts.events_sent + counts.events_dropped
    assert counts.bytes_read == counts.bytes_sent + counts.bytes_dropped
    check_rows(recording, case, observer)


def test_tightness(record_property: Callable[[str, object], None]) -> None:
    """The master counts under 1 % of all recorded events as undecided."""
    events = undecided = sent = 0
    for recording, case in all_cases():
        counts = (
            COUNTS.get((recording.name, case)) or dump(recording.files, filter_of(recording, case)).counts
        )
        events += counts.events_read
        sent += counts.events_sent
        undecided += counts.events_undecided
    record_property(
        "said",
        f"tightness: {len(CASES)} recorded cases, {events} events, {sent} sent, {undecided} of them undecided "
        f"({undecided / events:.2%})",
    )
    assert undecided < 0.01 * events


@cache
def everything(recording: Recording) -> Stream:
    """Return a recording's full stream, which is the recording itself."""
    full = dump(recording.files, Filter(names=NameRules(recording.family, recording.names)))
    assert full.files == {path.name: _in_use_cleared(path.read_bytes()) for path in recording.files}
    return full


def check_rows(recording: Recording, case: str, observer: Observer) -> None:
    replica, rules = recording.replica(case), filter_of(recording, case)
    fold = str.lower if replica.lower_case_table_names else str
    gtids = recording.gtids[: replica.until]
    mapped = {
        gtid: {info.strip("()") for kind, info in transaction["events"] if kind == "Table_map"}
        for transaction, gtid in zip(recording.oracle["source"]["transactions"], recording.gtids, strict=True)
    }
    logged_as_rows = {gtid for gtid, tables in mapped.items() if tables}
    changed = changed_tables(recording)
    for gtid in gtids:
        tables = observer.tables.get(gtid, set()) if gtid else set().union(*observer.tables.values())
        ours = {fold(name) for name in tables}
        # MySQL 9.7 also maps the tables that a foreign key may change. A replica may change them without row events.
        theirs = {fold(name) for name in replica.tables.get(gtid, ())}
        for name in mapped.get(gtid, set()) - set(changed[gtid]):
            database, _, table = name.partition(".")
            # The replica, too, maps the tables of a MERGE table, under their own names.
            theirs -= {fold(name), fold(".".join(rules.rewrite_table(database, table)))}
        if gtid in logged_as_rows:
            assert theirs <= ours, gtid
            failed = ours if gtid in replica.failed else replica.missing_tables
            assert ours - theirs <= failed, gtid
        else:
            assert not ours


@cache
def changed_tables(recording: Recording) -> dict[str, set[str]]:
    """Return the tables whose rows the source changed, by GTID.

    A recording without GTIDs has all tables under the empty text.
    """
    observer = Observer()
    apply_events(everything(recording).events(), Filter(names=NameRules(recording.family)), observer)
    if not recording.gtids[0]:
        observer.tables[""] = set().union(*observer.tables.values())
    return observer.tables


def _in_use_cleared(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[21] &= 0xFE
    return bytes(changed)


class Observer(SummaryTarget):
    """A target that also keeps the tables changed by row events, by GTID."""

    def __init__(self) -> None:
        super().__init__()
        self.gtid = ""
        self.tables: dict[str, set[str]] = defaultdict(set)

    def begin(self, gtid: str | None) -> None:
        super().begin(gtid)
        self.gtid = str(gtid or "")

    def rows(self, database, table, table_map, header, data) -> None:
        super().rows(database, table, table_map, header, data)
        self.tables[self.gtid].add(f"{database}.{table}")
