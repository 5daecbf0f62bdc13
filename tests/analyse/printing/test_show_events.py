"""SHOW BINLOG EVENTS shows the rows that MySQL 9.7 and MariaDB 10.11 show of the same files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dumpfilter.analyse.printing import show_events as module
from dumpfilter.analyse.printing.show_events import show_events
from dumpfilter.binlog.format import Family
from dumpfilter.console.sql.server_errors import SqlError
from tests.support import DATA

SHOWN = sorted((Path(__file__).parent / "data" / "show-binlog-events").glob("*.jsonl"))
MYSQL = DATA / "oracle" / "mysql-row" / "bin.000002"
MARIADB = DATA / "oracle" / "mariadb-row" / "bin.000002"


def family_of(path: Path) -> Family:
    return "mariadb" if path.stem.startswith("mariadb") else "mysql"


def show(path: Path, family: Family, **clauses: int | None) -> list[list[object]]:
    return [list(row) for row in show_events(path, family, **clauses).rows]


@pytest.mark.parametrize("shown", SHOWN, ids=lambda path: path.stem)
def test_every_row_is_the_servers(shown: Path) -> None:
    expected = [json.loads(line) for line in shown.read_text().splitlines()]
    (directory,) = DATA.glob(f"*/{shown.stem}")
    found = [row for path in sorted(directory.glob("bin.0*")) for row in show(path, family_of(shown))]
    assert len(found) == len(expected)
    in_another_charset = 0
    for ours, servers in zip(found, expected, strict=True):
        if any("\udc80" <= c <= "\udcff" for c in servers[5]):
            # the server sends the statement's bytes, this console sends characters
            in_another_charset += 1
            ours, servers = ours[:5], servers[:5]
        assert ours == servers
    assert in_another_charset == (3 if shown.stem == "mysql-tagged" else 0)


def test_all_kinds_of_events_were_shown() -> None:
    kinds = {json.loads(line)[2] for path in SHOWN for line in path.read_text().splitlines()}
    assert len(SHOWN) == 14
    assert len(kinds) >= 30


@pytest.mark.parametrize(
    ("clauses", "first", "count"),
    [
        ({}, 4, 138),
        ({"position": 0}, 4, 138),
        ({"position": 5}, 127, 137),
        ({"position": 198}, 198, 136),
        ({"offset": 2, "count": 3}, 198, 3),
        ({"position": 198, "offset": 1, "count": 1}, 275, 1),
        ({"count": 0}, 4, 138),
        ({"position": 10278}, None, 0),
        ({"position": 100_000}, None, 0),
        *(({"position": 2**bits}, None, 0) for bits in (31, 44, 63)),
        ({"position": 2**64 - 1}, None, 0),
        ({"offset": 2**63}, None, 0),
        ({"offset": 2**64 - 1, "count": 2**64 - 1}, None, 0),
    ],
)
def test_from_and_limit_of_mysql(clauses: dict[str, int], first: int | None, count: int) -> None:
    rows = show(MYSQL, "mysql", **clauses)
    assert len(rows) == count
    assert (rows[0][1] if rows else None) == first


def test_limit_0_of_mariadb_is_one_row() -> None:
    assert len(show(MARIADB, "mariadb", count=0)) == 1


@pytest.mark.parametrize(("path", "position"), [(MYSQL, 300), (MYSQL, 343), (MYSQL, 10277), (MARIADB, 300)])
def test_a_position_without_an_event_is_an_error(path: Path, position: int) -> None:
    family: Family = "mariadb" if path is MARIADB else "mysql"
    with pytest.raises(SqlError) as caught:
        show(path, family, position=position)
    assert (caught.value.number, caught.value.sqlstate) == (1220, "HY000")
    assert caught.value.message.startswith(
        f"Error when executing command SHOW BINLOG EVENTS: Error reading Log_event at position {position}: Failed "
    )


@pytest.mark.parametrize("position", range(199, 400))
def test_only_places_of_events_are_taken(position: int) -> None:
    if position == 275:
        assert show(MYSQL, "mysql", position=position)[0][1] == position
    else:
        with pytest.raises(SqlError):
            show(MYSQL, "mysql", position=position)


def test_damage_is_told_and_where(tmp_path: Path) -> None:
    data = bytearray(MYSQL.read_bytes())
    data[600] ^= 1
    (tmp_path / "bin.000002").write_bytes(data)
    with pytest.raises(SqlError, match="at position 511: "):
        show(tmp_path / "bin.000002", "mysql")
    assert [row[1] for row in show(tmp_path / "bin.000002", "mysql", count=5)] == [4, 127, 198, 275, 434]


def test_an_event_that_is_being_written_ends_it(tmp_path: Path) -> None:
    (tmp_path / "bin.000002").write_bytes(MYSQL.read_bytes()[:440])
    assert len(show(tmp_path / "bin.000002", "mysql")) == 4


def test_the_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 10)
    result = show_events(MYSQL, "mysql")
    assert len(result.rows) == 10
    (note,) = result.notes
    following = int(note.message.rpartition(" ")[2])
    assert show(MYSQL, "mysql", position=following, count=1)[0][1] == following
    assert not show_events(MYSQL, "mysql", count=10).notes
