"""Tests of the figures of ``dumpfilter inspect`` against a count in plain Python."""

from __future__ import annotations

from collections import Counter
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from rich.console import Console

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import EventType, event_name
from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.binlog.gtid_sources import add_numbers, empty_set
from dumpfilter.binlog.reader import iter_events
from dumpfilter.errors import BinlogCorrupt
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.inspection import FRAMING, STATEMENTS, Inspection, inspect_set, render_inspection
from dumpfilter.index.subjects import TableSubject
from tests.index.plain_index import index_events
from tests.strategies import MadeBinlog, binlogs
from tests.support import DATA, RECORDED_SETS, recording_id


def _check(found: Inspection, paths: list[Path]) -> None:
    """Compare an inspection with a count of the same files, event by event."""
    events: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    owners: Counter[tuple[str, str]] = Counter()
    bytes_of: Counter[tuple[str, str]] = Counter()
    transactions = 0
    times = []
    gtids = empty_set(found.family)
    prepared: dict[Xid, Any] = {}
    for path in paths:
        with open(path, "rb") as source:
            for event in iter_events(source, file=path.name, start=5):
                events[event.name] += 1
                sizes[event.name] += len(event.raw)
                times.append(event.header.timestamp)
        with open(path, "rb") as source:
            index = index_events(iter_events(source, file=path.name), prepared)
            prepared = index.prepared
        for subject, size in zip(index.subject, index.size, strict=True):
            if isinstance(subject, int | frozenset):
                owner = (FRAMING, "")
            elif isinstance(subject, TableSubject):
                owner = (subject.database, subject.table)
            else:
                owner = (subject.database or subject.current_database or "(no database)", STATEMENTS)
            owners[owner] += 1
            bytes_of[owner] += size
        for transaction in index.transactions:
            transactions += transaction.subject != R.KEPT
            if not isinstance(transaction.source, int):
                add_numbers(gtids, transaction.source, [transaction.number])  # type: ignore[arg-type]
    assert found.events == {name: (events[name], sizes[name]) for name in events}
    assert found.tables == {owner: (n, bytes_of[owner]) for owner, n in owners.items()}
    assert found.transactions == transactions
    assert parse_gtid_set(found.gtids, found.family) == gtids
    times = [time for time in times if time]
    assert (found.first_time, found.last_time) == ((min(times), max(times)) if times else (None, None))
    assert found.files == [(path.name, path.stat().st_size) for path in paths]
    # Every byte after the heads of the files counts for one type of event and for one schema.
    heads = sum(4 + int.from_bytes(path.read_bytes()[13:17], "little") for path in paths)
    total = sum(size for _, size in found.files)
    assert sum(size for _, size in found.events.values()) == total - heads
    assert sum(size for _, size in found.schemas().values()) == total - heads
    assert sum(n for n, _ in found.schemas().values()) == sum(events.values())


@pytest.mark.parametrize("path", RECORDED_SETS, ids=recording_id)
@pytest.mark.every_recording
def test_recordings(path: Path) -> None:
    binlogs_ = BinlogSet.open(path)
    _check(inspect_set(binlogs_), [binlogs_.path(name) for name in binlogs_.names])


@settings(deadline=None, max_examples=60)
@given(made=binlogs())
def test_generated(made: MadeBinlog, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("set") / "made.000001"
    path.write_bytes(made.data)
    _check(inspect_set(BinlogSet.open(path)), [path])


def test_oracle() -> None:
    """The inspection agrees with the server about version, GTIDs and number of transactions."""
    found = inspect_set(BinlogSet.open(DATA / "oracle" / "mysql-row"))
    assert found.server_version.startswith("9.7.4")
    assert found.family == "mysql"
    assert found.transactions == 74
    assert found.purged_gtids == ""
    assert found.gtids.endswith(":1-74")
    assert next(iter(found.events)) == max(found.events, key=lambda name: found.events[name][1])
    assert set(found.events) <= {event_name(kind) for kind in EventType}


def test_as_dict_and_as_text() -> None:
    found = inspect_set(BinlogSet.open(DATA / "oracle" / "mariadb-row"))
    made = found.as_dict()
    assert made["files"][0] == {"name": found.files[0][0], "bytes": found.files[0][1]}
    assert {
        (row["schema"], row["table"]): (row["events"], row["bytes"]) for row in made["tables"]
    } == found.tables
    assert {name: (row["events"], row["bytes"]) for name, row in made["schemas"].items()} == found.schemas()
    assert (made["transactions"], made["gtids"]) == (found.transactions, found.gtids)
    out = StringIO()
    render_inspection(found, Console(file=out, width=120), top=1)
    text = out.getvalue()
    assert "10.11.19-MariaDB" in text
    assert f"transactions: {found.transactions}" in text
    assert "shop" in text
    assert f"and {len(found.tables) - 1} more tables" in text


def test_damage_is_an_error(tmp_path: Path) -> None:
    data = bytearray((DATA / "oracle" / "mysql-row" / "bin.000002").read_bytes())
    data[400] ^= 1
    path = tmp_path / "bin.000002"
    path.write_bytes(data)
    with pytest.raises(BinlogCorrupt, match=r"bin[.]000002"):
        inspect_set(BinlogSet.open(path))
    assert inspect_set(BinlogSet.open(path), verify=False).transactions
