"""The master warns of filters, over real gRPC and on its console, and refuses none of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dumpfilter.analyse.lint.findings import FilterWarning
from dumpfilter.filter.filter import Filter
from dumpfilter.index.subjects import Subjects, TableSubject
from dumpfilter.master import service
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.server import MasterServer
from dumpfilter.master.service import MOST_RULES, FilterWarnings
from dumpfilter.master.store import BinlogStore
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.client import Client
from tests.oracle.recordings import DATA


@pytest.fixture
def server() -> Iterator[MasterServer]:
    server = MasterServer(BinlogStore(DATA / "oracle" / "mysql-statement"))
    server.start()
    yield server
    server.stop(0)


def test_a_slave_is_warned_at_its_registration(client: Client) -> None:
    answer = client.register(["--replicate-do-db=shop,hr"])
    (warning,) = answer.filter_warnings
    assert warning.startswith("comma: --replicate-do-db=shop,hr: ")


def test_the_master_knows_what_it_has_scanned(server: MasterServer, client: Client) -> None:
    first = client.register(["--replicate-do-db=shop"])
    assert not first.filter_warnings
    list(client.dump(first.slave_id))
    again = client.register(["--replicate-do-db=shop", "--replicate-do-db=hr"], server_id=102)
    codes = [warning.partition(":")[0] for warning in again.filter_warnings]
    assert codes == ["unwanted-statement", "lost-statement"]
    table = MasterConsole(server.service).tables["dumpfilter", "filter_warnings"]()
    rows = [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows]
    assert [row["code"] for row in rows if row["server_id"] == 102] == [
        "unwanted-statement",
        "lost-statement",
    ]
    (slave,) = client.stub.Status(pb.StatusRequest(slave_id=again.slave_id)).slaves
    assert list(slave.filter_warnings) == list(again.filter_warnings)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_checks_of_many_filters_take_a_share_of_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, processor = Clock(), Clock()
    checked: list[Filter] = []

    def check(rule_filter: Filter, subjects: object) -> tuple[FilterWarning, ...]:
        checked.append(rule_filter)
        processor.now += 0.2
        return ()

    monkeypatch.setattr(service, "_checked", check)
    monkeypatch.setattr(service.time, "thread_time", processor)
    warnings = FilterWarnings(Subjects(), clock)
    filters = [Filter.from_options([f"--replicate-do-db=db{number}"]) for number in range(200)]
    for each in filters[:100]:
        warnings.of(each)
    assert len(checked) == pytest.approx(5, abs=1), "1 s at once"
    assert len(warnings._checked) == len(checked), "a stranger's filters take no memory"
    for each in filters[100:]:
        clock.now += 1
        warnings.of(each)
    assert len(checked) == pytest.approx(55, abs=2), "a tenth of a second in each second"


def test_a_check_is_repeated_when_the_index_knows_more() -> None:
    subjects, clock = Subjects(), Clock()
    warnings = FilterWarnings(subjects, clock)
    rule_filter = Filter.from_options(["--replicate-wild-do-table=a_b.%"])
    assert warnings.of(rule_filter) == ()
    subjects.number_of(TableSubject("a_b", "t"))
    subjects.number_of(TableSubject("axb", "t"))
    assert warnings.of(rule_filter) == ()
    clock.now += 3600
    assert [warning.code.value for warning in warnings.of(rule_filter)] == ["underscore"]


def test_a_filter_of_many_rules_is_not_checked() -> None:
    rules = [f"--replicate-do-db=a,{number}" for number in range(MOST_RULES + 1)]
    assert FilterWarnings(Subjects()).of(Filter.from_options(rules)) == ()
    assert len(FilterWarnings(Subjects()).of(Filter.from_options(rules[:2]))) == 2
