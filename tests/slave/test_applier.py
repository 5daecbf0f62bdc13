"""The applier over recordings of real servers."""

from __future__ import annotations

import json
import re

import pytest

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.base import TrustedRows
from dumpfilter.filter.filter import Filter
from dumpfilter.slave.applier import EventApplier, Groups, keyword
from dumpfilter.slave.threads import ChannelMeasurements
from tests.applying import apply_files, read_events

FOLDERS = [
    f"{server}-{kind}"
    for server in ("mysql", "mariadb")
    for kind in ("row", "mixed", "statement", "statement-kinds")
]


class Notes:
    """A target that records the calls that it receives."""

    def __init__(self):
        self.calls = []
        self.open = None

    def begin(self, gtid):
        assert self.open is None
        self.open = gtid

    def commit(self):
        assert self.open is not None
        self.open = None

    def rows(self, database, table, table_map, header, data):
        assert self.open is not None
        self.calls.append((self.open, "rows", database, f"{table}:{header.kind}"))

    def statement(self, database, text):
        assert self.open is not None
        self.calls.append((self.open, "statement", database or "", text.decode()))


def paths(data, folder):
    return [
        data / folder / line.removeprefix("./") for line in (data / folder / "bin.index").read_text().split()
    ]


def kinds_of(data, folder):
    """Return the kinds of the events that the server shows in each transaction."""
    oracle = json.loads((data / folder / "oracle.json").read_text())
    return {
        plain(t["gtid"]): " ".join(kind for kind, _ in t["events"]) for t in oracle["source"]["transactions"]
    }


def plain(told):
    """Return the GTID in the text that ``SHOW BINLOG EVENTS`` shows, for example ``BEGIN GTID 0-11-5 cid=7``."""
    return re.search(r"[0-9a-f]{8}-\S+:\d+|\d+-\d+-\d+", told)[0]


def replay(data, folder, *options, around=lambda rules: rules):
    notes, gtids = Notes(), []
    family = "mariadb" if folder.startswith("mariadb") else "mysql"
    rules = Filter.from_options(list(options), names=NameRules(family))
    apply_files(paths(data, folder), around(rules), notes, on_complete=lambda gtid: gtids.append(str(gtid)))
    assert notes.open is None
    return notes.calls, gtids


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_transaction_is_completed(data, folder):
    kinds_by_gtid = kinds_of(data, folder)
    calls, gtids = replay(data, folder)
    assert gtids == list(kinds_by_gtid)
    for gtid, kind, _, what in calls:
        kinds = kinds_by_gtid[gtid]
        assert ("rows" in kinds.lower() or "payload" in kinds) if kind == "rows" else True, (gtid, what)
    frames = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "XA ")
    assert not [call for call in calls if call[1] == "statement" and call[3].startswith(frames)]
    assert len(calls) > 20


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_transaction_is_counted_once(data, folder):
    """The COMMIT inside a compressed transaction and the end of the payload were counted as two transactions."""
    measured = ChannelMeasurements()
    applier = EventApplier(Filter(), Notes(), measured=measured)
    for path in paths(data, folder):
        for event in read_events(path):
            applier.feed(event, file=str(path))
    assert measured.transactions == len(kinds_of(data, folder))


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_slaves_own_filter_is_in_force(data, folder):
    everything, gtids = replay(data, folder)
    kept, gtids_kept = replay(data, folder, "--replicate-do-db=shop")
    assert gtids_kept == gtids
    assert kept == [call for call in everything if call in kept]
    rows = {(database, table) for _, kind, database, table in kept if kind == "rows"}
    assert all(database == "shop" for database, _ in rows)
    assert len(kept) < len(everything)


def test_rows_in_payloads_are_filtered_even_for_a_slave_that_trusts_its_master(data):
    """A master sends a transaction whole if it is too large to open."""
    kinds = kinds_of(data, "mysql-mixed")
    kept, _ = replay(data, "mysql-mixed", "--replicate-do-db=shop", around=TrustedRows)
    rows = [(gtid, database) for gtid, kind, database, _ in kept if kind == "rows"]
    assert {database for gtid, database in rows if "payload" in kinds[gtid]} == {"shop"}
    assert {database for _, database in rows} > {"shop"}


def test_rewrite(data):
    everything, _ = replay(data, "mysql-row")
    rewritten, _ = replay(data, "mysql-row", "--replicate-rewrite-db=shop->store")
    assert [(g, k, {"shop": "store"}.get(d, d), w) for g, k, d, w in everything] == rewritten
    assert any(d == "store" for _, _, d, _ in rewritten)
    only, _ = replay(
        data, "mysql-row", "--replicate-rewrite-db=shop->store", "--replicate-wild-do-table=store.%"
    )
    assert {d for _, k, d, _ in only if k == "rows"} == {"store"}


def test_mixed_recordings_of_one_workload_say_the_same_rows(data):
    """The mixed recordings have their rows in payloads (MySQL) and compressed events (MariaDB)."""
    for family in ("mysql", "mariadb"):
        calls, _ = replay(data, f"{family}-mixed")
        assert [c for c in calls if c[1] == "rows"]
        assert [c for c in calls if c[1] == "statement" and c[3].startswith("CREATE TABLE")]


def test_rows_without_a_table_map(data, tmp_path, masters):
    events = masters.events_of((data / "mysql-row" / "bin.000001").read_bytes())
    without = [event for event in events if event[4] != 19]
    path = tmp_path / "bin.000001"
    path.write_bytes(b"\xfebin" + b"".join(without))
    with pytest.raises(BinlogCorrupt, match=r"bin.000001: at \d+: rows of table id \d+, which no table map"):
        apply_files([path], Filter(), Notes())


def test_a_flipped_byte(data, tmp_path):
    whole = bytearray((data / "mysql-row" / "bin.000001").read_bytes())
    whole[5000] ^= 1
    path = tmp_path / "bin.000001"
    path.write_bytes(whole)
    with pytest.raises(BinlogCorrupt, match=r"bin.000001: at "):
        apply_files([path], Filter(), Notes())


def test_keywords():
    assert keyword("COMMIT") == "end"
    assert keyword("savepoint `a`") == "inside"
    assert keyword("XA START X'1',X'',1") == "begin"
    assert keyword("XA COMMIT X'1',X'',1") == "inside"
    assert keyword("BEGINNING") is keyword("COMMITTED") is None


def test_groups_without_gtids():
    """MySQL 5.5 writes BEGIN … Xid, statements outside transactions, and context events before them."""
    groups = Groups()
    assert groups.enter(5) is False
    assert groups.inside
    assert groups.enter(2) is True
    assert not groups.inside
    assert groups.enter(2, word="begin") is False
    assert groups.enter(2) is False
    assert groups.enter(19) is False
    assert groups.enter(30, statement_end=True) is False
    assert groups.enter(16) is True
    assert groups.enter(19) is False
    assert groups.enter(30) is False
    assert groups.enter(30, statement_end=True) is True
