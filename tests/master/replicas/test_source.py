"""The facts about the server that wrote a binlog set, from recordings of real servers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dumpfilter.master.replicas.answers import Source, gtid_position
from dumpfilter.master.store import BinlogStore
from tests.master.replicas.serving import MARIADB, MYSQL
from tests.support import DATA, binlogs_in


def test_a_mysql_server() -> None:
    source = Source(BinlogStore(MYSQL))
    assert source.family == "mysql"
    assert source.version.startswith("9.7.")
    assert source.has_checksums()
    assert source.gtid_mode() == "ON"
    assert source.row_metadata() == "FULL"
    assert source.variables()["gtid_mode"] == "ON"
    assert "gtid_domain_id" not in source.variables()


def test_a_mariadb_server() -> None:
    source = Source(BinlogStore(MARIADB))
    assert source.family == "mariadb"
    assert source.row_metadata() == "FULL"
    assert source.variables()["gtid_domain_id"] == 0
    assert "gtid_mode" not in source.variables()


@pytest.mark.parametrize(
    ("recording", "gtid_mode", "row_metadata"),
    [("mysql57-no-gtid", "OFF", "MINIMAL"), ("mysql80-row", "ON", "FULL"), ("mysql-types", "ON", "MINIMAL")],
)
def test_the_newest_transactions_tell_the_servers_options(
    recording: str, gtid_mode: str, row_metadata: str
) -> None:
    source = Source(BinlogStore(DATA / "recordings" / recording))
    assert (source.gtid_mode(), source.row_metadata()) == (gtid_mode, row_metadata)


def test_a_set_of_statements_is_not_read_to_its_beginning_for_one_query(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = BinlogStore(MYSQL)
    without_rows = SimpleNamespace(type=np.zeros(1, np.uint8))
    files = iter([without_rows] * 1000)
    source = Source(store)
    monkeypatch.setattr(source, "_first_segments", lambda: files)
    assert source.row_metadata() == "MINIMAL"
    assert sum(1 for _ in files) > 900


def test_mariadbs_gtid_position() -> None:
    store = BinlogStore(MARIADB)
    file = binlogs_in(MARIADB)[0]
    assert gtid_position(store, file.name, 4) == ""
    segment = store.segment_at(file.name, store.first_position(file.name))
    assert segment is not None
    with_gtid = [number for number, source in enumerate(segment.txn_source.tolist()) if source >= 0]
    for number in (with_gtid[0], with_gtid[5], with_gtid[-1]):
        first, last = (int(segment.txn_event[at]) for at in (number, number + 1))
        expected = f"0-11-{segment.txn_number[number]}"
        assert gtid_position(store, file.name, int(segment.offset[first])) != expected
        # As on a server, a transaction counts from its Gtid event on.
        for position in segment.offset[first + 1 : last + 1].tolist():
            assert gtid_position(store, file.name, position) == expected
            assert gtid_position(store, file.name, position - 1) is None
    assert gtid_position(store, "bin.000099", 4) is None


@pytest.mark.parametrize("number", [1, 2])
def test_later_files_begin_with_the_position_of_the_file_before(number: int) -> None:
    store = BinlogStore(MARIADB)
    before, file = binlogs_in(MARIADB)[number - 1 : number + 1]
    assert gtid_position(store, file.name, 4) == gtid_position(store, before.name, before.stat().st_size)
