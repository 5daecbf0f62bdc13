"""Large transactions that MariaDB 11.7 and later rename into a new binlog (``binlog_large_commit_threshold``).

MariaDB pads the first GTID event of such a binlog to the end of the first page, 4,096 bytes. The recording is stored
compressed, since the threshold is 10 MiB at least.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.reader import iter_events
from dumpfilter.dump.set_pass import filter_set
from dumpfilter.index.fileset import BinlogSet
from tests.oracle import test_recordings_slow
from tests.oracle.recordings import DATA, Recording, filter_of
from tests.oracle.replaying import Server, check
from tests.support import binlogs_in

PACKED = DATA / "recordings" / "mariadb118-large.tar.xz"
CASES = [*json.loads((DATA / "recordings" / "large-cases.json").read_text())]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    directory = tmp_path_factory.mktemp("large")
    with tarfile.open(PACKED) as packed:
        # Python 3.12 demands extractall(filter=…), which Python before 3.11.4 does not know.
        for member in filter(tarfile.TarInfo.isfile, packed):
            content = packed.extractfile(member)
            assert content is not None
            path = directory / "mariadb118-large" / Path(member.name).name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content.read())
    return Recording(directory / "mariadb118-large")


def test_they_have_files_of_their_own(recording: Recording) -> None:
    """Two of three files begin with a large transaction, and smaller transactions follow it."""
    sizes = []
    for path in recording.files:
        with path.open("rb") as file:
            events = list(iter_events(file, file=path.name))
        begins = [event for event in events if event.type == EventType.MARIADB_GTID]
        sizes.append((path.stat().st_size > 10 << 20, begins[0].header.size > 3000, len(begins) > 1))
        large, following = begins[0].offset, events[events.index(begins[0]) + 1].offset
        assert following == (4096 if sizes[-1][1] else large + begins[0].header.size)
    assert sizes == [(False, False, True), (True, True, True), (True, True, True)]


@pytest.mark.parametrize("case", CASES)
def test_the_law_and_the_rows(recording: Recording, case: str) -> None:
    test_recordings_slow.test_the_law_and_the_rows(recording, case)


@pytest.mark.parametrize("case", CASES)
def test_replayed_it_gives_the_replicas_tables(
    recording: Recording, case: str, mariadb: Server, tmp_path: Path
) -> None:
    check(mariadb, recording, case, tmp_path)


def test_a_dropped_large_transaction_leaves_a_small_file(recording: Recording, tmp_path: Path) -> None:
    rules = filter_of(recording, "ignore-table")
    filter_set(BinlogSet.open(recording.path), rules, tmp_path, "bin")
    assert [path.stat().st_size > 1 << 20 for path in binlogs_in(tmp_path)] == [False, False, True]
