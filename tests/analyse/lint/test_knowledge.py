"""The pass over a set finds the first events of names, and the events that change definitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.analyse.lint import knowledge as module
from dumpfilter.analyse.lint.knowledge import gather
from dumpfilter.binlog.events import MAGIC, EventType
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.statement import StatementKind
from dumpfilter.binlog.writer import make_event
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.subjects import Subjects, TableSubject
from tests.binlog.encoders import compress
from tests.oracle.recordings import DATA
from tests.strategies import query_body

ROW = DATA / "oracle" / "mariadb-row"
COMPRESSED = DATA / "oracle" / "mysql-mixed"


def places(directory: Path) -> dict[str, set[int]]:
    """Return the offsets of all events of a set by the file's name."""
    found: dict[str, set[int]] = {}
    for _, segment in BinlogSet.open(directory).segments(Subjects(), SourceNumbers()):
        found.setdefault(segment.file, set()).update(segment.offset.tolist())
    return found


@pytest.mark.parametrize("directory", [ROW, COMPRESSED], ids=["mariadb", "compressed"])
def test_every_event_has_its_place_in_order(directory: Path) -> None:
    known, offsets = gather(BinlogSet.open(directory)), places(directory)
    keys = []
    for event in known.events:
        assert event.evidence is not None
        assert event.evidence.position in offsets[event.evidence.file]
        keys.append((event.evidence.file, event.evidence.position, event.evidence.inside or 0))
    assert keys == sorted(keys)


def test_events_in_compressed_transactions_have_an_offset() -> None:
    known = gather(BinlogSet.open(COMPRESSED))
    inside = [event for event in known.events if event.evidence and event.evidence.inside is not None]
    assert inside
    assert {event.subject.table for event in inside if isinstance(event.subject, TableSubject)} >= {
        "orders",
        "audit",
    }


def test_a_changed_table_is_looked_at_again() -> None:
    events = gather(BinlogSet.open(DATA / "oracle" / "mysql-row")).events
    kinds = [
        "rows" if isinstance(event.subject, TableSubject) else event.subject.kind
        for event in events
        if event.evidence
        and ("scratch.t1" in event.evidence.text or "; ALTER TABLE t1" in event.evidence.text)
    ]
    assert kinds.count("rows") == 2
    assert StatementKind.ALTER_TABLE in kinds


def test_the_number_of_events_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gather(BinlogSet.open(ROW)).is_whole
    monkeypatch.setattr(module, "MOST_EVENTS", 5)
    known = gather(BinlogSet.open(ROW))
    assert len(known.events) == 5
    assert not known.is_whole


@pytest.mark.parametrize("kind", [EventType.QUERY, EventType.QUERY_COMPRESSED])
def test_a_statement_that_mariadb_compressed_is_known_to_read(tmp_path: Path, kind: EventType) -> None:
    with BinlogSet.open(ROW).file("bin.000001") as recorded:
        fd = recorded.format_description
    text = b"INSERT INTO shop.a SELECT * FROM logs.audit WHERE name = 'a long text that is worth it'"
    body = query_body(compress(text) if kind == EventType.QUERY_COMPRESSED else text, "shop")
    head = MAGIC + fd.raw
    event = make_event(kind, body, timestamp=1, server_id=1, checksum=fd.checksum)
    (tmp_path / "bin.000001").write_bytes(head + event)
    (event_of,) = gather(BinlogSet.open([tmp_path / "bin.000001"])).events
    assert event_of.facts.body.tables == (TableName("shop", "a"), TableName("logs", "audit"))


def test_a_call_of_a_stored_function_is_looked_at(tmp_path: Path) -> None:
    with BinlogSet.open(ROW).file("bin.000001") as recorded:
        fd = recorded.format_description
    written = MAGIC + fd.raw
    texts = [
        "INSERT INTO a VALUES (1)",
        "CREATE FUNCTION fx(x INT) RETURNS INT BEGIN INSERT INTO b VALUES (x); RETURN 5; END",
        "INSERT INTO a VALUES (2)",
        "INSERT INTO a VALUES (fx(3))",
        "INSERT INTO a VALUES (fx(4))",
        "CREATE OR REPLACE FUNCTION fx(x INT) RETURNS INT BEGIN INSERT INTO c VALUES (x); RETURN 5; END",
        "INSERT INTO a VALUES (Fx(5))",
    ]
    for text in texts:
        body = query_body(text.encode(), "shop")
        event = make_event(EventType.QUERY, body, timestamp=1, server_id=1, checksum=fd.checksum)
        written += event
    (tmp_path / "bin.000001").write_bytes(written)
    events = gather(BinlogSet.open([tmp_path / "bin.000001"])).events
    shown = [event.evidence.text.partition("; ")[2] for event in events if event.evidence is not None]
    assert [text[:20] for text in shown] == [text[:20] for text in (*texts[:2], texts[3], *texts[5:])]
    assert shown[2] == texts[3]
    called = [{name.table.lower() for name in event.facts.body.functions} for event in events]
    assert ["fx" in names for names in called] == [False, False, True, False, True]
