"""The places that a replica's GTIDs tell, in a recording of a real server."""

from __future__ import annotations

import itertools
from pathlib import Path

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.gtid_events import decode_mariadb_gtid
from dumpfilter.binlog.reader import iter_events
from dumpfilter.testbed.binlogs import Files, WatchedSet, applied_place, end_of
from dumpfilter.testbed.values import NOWHERE, Place

RECORDING = Path(__file__).parents[1] / "oracle" / "data" / "oracle" / "mariadb-row"


def transactions(files: Files) -> list[tuple[str, Place]]:
    """Return the GTIDs and the places of all transactions."""
    found = []
    for path, _ in files:
        with path.open("rb") as file:
            for event in iter_events(file, file=path.name):
                if event.type == EventType.MARIADB_GTID:
                    gtid = decode_mariadb_gtid(event.body, event.header.server_id).gtid
                    found.append((str(gtid), Place(path.name, event.offset)))
    return found


def test_an_old_position_does_not_hide_what_is_applied() -> None:
    watched = WatchedSet(RECORDING)
    files = watched.files()
    all_of = transactions(files)
    assert len(all_of) > 2
    beginning = Place(files[0][0].name, 4)
    # Without any GTID the first transaction is the oldest one.
    assert applied_place(files, beginning, "") == all_of[0][1]
    assert applied_place(files, NOWHERE, "") == all_of[0][1]
    known = "", NOWHERE
    for (gtid, _), (_, following) in itertools.pairwise(all_of):
        assert applied_place(files, beginning, gtid) == following
        assert applied_place(files, beginning, gtid, known) == following
        known = gtid, following
    assert applied_place(files, beginning, all_of[-1][0], known) == end_of(files)
    # The replica's data may have gone back.
    assert applied_place(files, beginning, all_of[0][0], (all_of[-1][0], end_of(files))) == all_of[1][1]


def test_a_newer_position_wins_over_older_gtids() -> None:
    watched = WatchedSet(RECORDING)
    files = watched.files()
    all_of = transactions(files)
    assert applied_place(files, all_of[2][1], all_of[0][0]) == all_of[2][1]


def test_a_place_of_another_set_is_not_told() -> None:
    watched = WatchedSet(RECORDING)
    assert applied_place(watched.files(), Place("other.000009", 4), "0-1-1") is None
    assert applied_place([], NOWHERE, "0-1-1") == NOWHERE


def test_an_event_that_is_just_being_written_is_not_applied(tmp_path: Path) -> None:
    watched = WatchedSet(RECORDING)
    path, size = watched.files()[0]
    torn = tmp_path / path.name
    torn.write_bytes(path.read_bytes()[: size - 1])
    with path.open("rb") as file:
        last = max(event.offset for event in iter_events(file, file=path.name))
    gtid = transactions([(path, size)])[-1][0]
    found = applied_place([(torn, size - 1)], Place(path.name, 4), gtid)
    assert found == Place(path.name, last)
