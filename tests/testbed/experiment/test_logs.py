"""The transactions in a log, compared with what the dump counts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.workload import GeneratedSet, generate
from dumpfilter.simulation.plan import FilterKey
from dumpfilter.spark_jobs.engines import ThreadRunner
from dumpfilter.spark_jobs.simulation import read_traffic
from dumpfilter.testbed.binlogs import WatchedSet
from dumpfilter.testbed.errors import TestbedError
from dumpfilter.testbed.experiment import _committed, read_log
from dumpfilter.testbed.values import Place
from tests.support import DATA


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GeneratedSet:
    style: Family = request.param
    return generate(tmp_path_factory.mktemp(style), 300_000, style=style, file_size=100_000)


class GivenFiles(WatchedSet):
    """A log of given files."""

    def __init__(self, *paths: Path) -> None:
        super().__init__(paths[0])
        self._given = paths

    def files(self) -> list[tuple[Path, int]]:
        return [(path, path.stat().st_size) for path in self._given]


def test_a_log_has_the_transactions_and_bytes_that_a_dump_counts(made: GeneratedSet) -> None:
    log = read_log(GivenFiles(*made.files))
    traffic = read_traffic(made.index, [], ThreadRunner())
    assert len(made.files) > 1
    assert len(log[1:]) == len(traffic) == made.transactions
    assert [one.end.position for one in log[1:]] == traffic.end.tolist()
    assert log[0].bytes + sum(one.bytes for one in log[1:]) == traffic.sent(None).bytes.sum()
    assert log[0].events + sum(one.events for one in log[1:]) == traffic.sent(None).events.sum()
    assert len({one.key for one in log[1:]}) == len(log[1:])


def test_a_transaction_is_there_when_its_file_has_its_last_byte(made: GeneratedSet) -> None:
    first = made.files[0]
    last = read_log(GivenFiles(first))[-1].end
    log = GivenFiles(*made.files)
    for at, end in enumerate((0, last.position - 1, last.position), start=1):
        log.note_end(Place(first.name, end), float(at))
    found = read_log(log)[1:]
    own = [one.time for one in found if one.end.file == first.name]
    assert own == [2_000_000] * (len(own) - 1) + [3_000_000]
    assert {one.time for one in found[len(own) :]} == {-1}


def test_a_log_whose_last_event_is_being_written_ends_before_it(made: GeneratedSet, tmp_path: Path) -> None:
    whole = read_log(GivenFiles(made.files[0]))
    cut = tmp_path / made.files[0].name
    cut.write_bytes(made.files[0].read_bytes()[: whole[-1].end.position - 1])
    found = read_log(GivenFiles(cut))
    assert [one.key for one in found[1:]] == [one.key for one in whole[1:]]
    assert found[-1].end < whole[-1].end
    assert found[:-1] == whole[:-1]


def test_a_transaction_that_an_outage_cut_counts_once(made: GeneratedSet, tmp_path: Path) -> None:
    whole = read_log(GivenFiles(made.files[0]))
    first = whole[1]
    cut = tmp_path / made.files[0].name
    cut.write_bytes(made.files[0].read_bytes()[: first.end.position - 1])
    assert read_log(GivenFiles(cut))[1].bytes < first.bytes
    found = read_log(GivenFiles(cut, made.files[0]))
    assert (found[1:], found[0].bytes) == (whole[1:], whole[0].bytes)


def test_transactions_without_gtid_events_are_an_error() -> None:
    """MySQL 5.6 writes none without GTIDs. Their transactions were a KeyError after the whole run."""
    log = WatchedSet(DATA / "recordings" / "mysql56-no-gtid" / "bin.index")
    plan: Any = SimpleNamespace(filters=())
    with pytest.raises(TestbedError, match=r"bin\.index: lacks GTID events; read MySQL 5\.7"):
        _committed(log, plan, 0)


def test_events_before_a_run_are_no_traffic_of_the_run(made: GeneratedSet) -> None:
    """A run that begins with the first transaction has them, also if its filter passes nothing."""
    log = WatchedSet(made.index)
    before, first, *_, last = read_log(log)
    for end, time in ((first.end, 1.0), (last.end, 2.0)):
        log.note_end(end, time)
    rules = [("replicate-do-db=nix",), *((f"replicate-do-db=shop_{number:02}",) for number in range(20))]
    plan: Any = SimpleNamespace(filters=[FilterKey((each,)) for each in rules])
    whole, later = _committed(log, plan, 0).traffic, _committed(log, plan, 1_500_000).traffic
    assert sum(whole.sent(0).outside) > 0 == sum(later.sent(0).outside)
    passed = [each for each in range(1, 21) if not {0}.issuperset(whole.sent(each).transaction[:1])]
    assert passed
    for number in passed:
        assert later.sent(number).bytes.sum() == whole.sent(number).bytes.sum() - before.bytes
        assert later.sent(number).events.sum() == whole.sent(number).events.sum() - before.events
