"""Effective filters (WL#2516) end to end: master and slave decide as the worklog's steps say."""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from dumpfilter import cli
from dumpfilter.binlog.events import ROWS, EventType
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.rows_events import decode_rows_header, decode_table_map
from dumpfilter.filter.convert import filter_to_proto
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.rules import FilterOn
from dumpfilter.index.subjects import read_statement
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.slave import channels
from dumpfilter.slave.applier import keyword
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as pb_grpc
from tests.filter.plain import Names
from tests.filter.plain_effective import PlainEffectiveFilter
from tests.slave.once import Once
from tests.slave.processes import Launcher

FOLDERS = [
    f"{family}-{kind}" for family in ("mysql", "mariadb") for kind in ("row", "statement", "statement-kinds")
]
CASES = {
    "ignore": ["--ignore=logs.%", "--ignore=%.emp%", "--ignore=d2.%"],
    "exceptions": ["--ignore=%.%", "--do=shop.%", "--do=d1.b%", "--do=%.audit"],
    "escapes": [r"--ignore=a\_b.%", r"--ignore=%.t\_2", r"--ignore=d1.a_"],
    "rewrite": [
        "--rewrite=shop.order%->store.o%",
        "--rewrite=shop.%->outlet.%",
        "--ignore=outlet.%",
        "--ignore=shop.%",
    ],
    "do alone": ["--do=shop.%", "--rewrite=hr.%->people.%"],
    "accounts": ["--ignore=mysql.%", "--ignore=d1.a"],
}


class Notes:
    """A target whose state is the list of the calls that it received."""

    def __init__(self) -> None:
        self.told: list[list[Any]] = []

    def begin(self, gtid: str | None) -> None:
        pass

    def commit(self) -> None:
        pass

    def rows(self, database: str, table: str, table_map: object, header: object, data: bytes) -> None:
        self.told.append(["rows", database, table, len(data)])

    def statement(self, database: str | None, text: bytes) -> None:
        self.told.append(["statement", database, text.decode()])

    def state(self) -> dict[str, Any]:
        return {"told": self.told}

    def restore(self, state: dict[str, Any]) -> None:
        self.told = state.get("told", [])

    def text(self) -> str:
        return str(self.told)


def files_of(folder: Path) -> list[Path]:
    return [folder / Path(line).name for line in (folder / "bin.index").read_text().split()]


def expected(folder: Path, options: list[str]) -> tuple[list[list[Any]], int, int]:
    """Return the calls that a target must receive, and the numbers of undecided statements and dropped events.

    The plain filter decides, which implements the worklog's steps one by one.
    """
    family = folder.name.partition("-")[0]
    plain = PlainEffectiveFilter(EffectiveFilter.from_options(options).rules, Names(family))
    told: list[list[Any]] = []
    undecided = dropped = 0
    for path in files_of(folder):
        tables = {}
        with path.open("rb") as source:
            for event in iter_events(source, file=path.name):
                kind, fd = event.header.type, event.fd
                if kind == EventType.TABLE_MAP:
                    table = decode_table_map(event.body)
                    tables[table.table_id] = (table.database, table.table)
                elif kind in ROWS:
                    header = decode_rows_header(kind, event.body)
                    if plain.rows(*tables[header.table_id]):
                        told.append(["rows", *plain.rewrite_table(*tables[header.table_id])])
                    else:
                        dropped += 1
                elif kind in (EventType.QUERY, EventType.EXECUTE_LOAD_QUERY):
                    statement, _ = read_statement(event.raw, fd)
                    text = _text(event)
                    if kind == EventType.QUERY and keyword(text) is not None:
                        continue
                    verdict = plain.statement(statement)
                    undecided += verdict is None
                    if verdict is False:
                        dropped += 1
                        continue
                    database = statement.current_database
                    told.append(["statement", None if database is None else plain.rewrite_db(database), text])
    return told, undecided, dropped


def _text(event: Any) -> str:
    """Return a statement's text, which follows the default database and its zero byte."""
    body = bytes(event.body)
    start = event.fd.post_header_length(event.header.type) + (body[11] | body[12] << 8) + body[8] + 1
    return body[start:].decode()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Any]:
    servers: list[MasterServer] = []

    def start(folder: Path) -> str:
        servers.append(MasterServer(BinlogStore(folder)))
        servers[-1].start()
        return f"127.0.0.1:{servers[-1].port}"

    yield start
    for server in servers:
        server.stop(0)


def run_slave(address: str, directory: Path, options: list[str], *, on_master: bool) -> tuple[Once, Notes]:
    slave = Once(
        address,
        directory,
        EffectiveFilter.from_options(options).rules,
        server_id=8 + on_master,
        filter_on=FilterOn.BOTH if on_master else FilterOn.SLAVE,
    )
    slave.start()
    slave.wait()
    return slave, slave.target


@pytest.mark.parametrize(("turn", "folder"), list(enumerate(FOLDERS)))
def test_the_law(
    serve, data: Path, tmp_path: Path, turn: int, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target receives the same calls whichever side filters, and these are the calls that the steps demand.

    Each kind of recording has each case, and each recording half of the cases.
    """
    monkeypatch.setattr(channels, "SummaryTarget", Notes)
    address = serve(data / folder)
    any_dropped = 0
    for case, options in list(CASES.items())[turn // 3 :: 2]:
        filtered, filtered_notes = run_slave(address, tmp_path / case / "filtered", options, on_master=True)
        full, full_notes = run_slave(address, tmp_path / case / "full", options, on_master=False)
        assert filtered_notes.told == full_notes.told, case
        for field in ("source_file", "source_position", "executed"):
            assert getattr(filtered.relay_log_info, field) == getattr(full.relay_log_info, field), case
        told, undecided, dropped = expected(data / folder, options)
        assert [what[: 3 if what[0] == "rows" else None] for what in filtered_notes.told] == told, case
        counts = filtered.counters.received
        assert counts["events_undecided"] == undecided, case
        assert counts["events_dropped"] >= dropped, case
        assert (counts["events_dropped"] > 0) == (dropped > 0), case
        assert full.counters.received["events_dropped"] == 0
        any_dropped += dropped
    assert any_dropped > 5


@pytest.fixture
def stub(serve, data: Path) -> Iterator[pb_grpc.DumpFilterStub]:
    with grpc.insecure_channel(serve(data / "mysql-statement-kinds")) as channel:
        yield pb_grpc.DumpFilterStub(channel)


def register(stub: pb_grpc.DumpFilterStub, definition: pb.FilterDefinition) -> pb.RegisterResponse:
    return stub.Register(
        pb.RegisterRequest(protocol=2, server_id=7, uuid=str(uuid.uuid4()), filter=definition)
    )


def test_the_master_shows_the_filter_and_what_it_could_not_decide(stub: pb_grpc.DumpFilterStub) -> None:
    definition = filter_to_proto(EffectiveFilter.from_options(["--ignore=d1.nosuch"]))
    answer = register(stub, definition)
    assert answer.filter == definition
    chunks = list(stub.Dump(pb.DumpRequest(slave_id=answer.slave_id, once=True)))
    undecided = sum(chunk.counts.events_undecided for chunk in chunks)
    assert undecided > 0
    slaves = stub.Status(pb.StatusRequest(slave_id=answer.slave_id)).slaves
    assert [slave.counts.events_undecided for slave in slaves] == [undecided]


def test_a_slave_may_change_semantics(stub: pb_grpc.DumpFilterStub) -> None:
    answer = register(stub, pb.FilterDefinition(rules=[pb.Rule(kind=pb.REPLICATE_DO_DB, value="d1")]))
    assert answer.filter.semantics == pb.CLASSIC
    definition = filter_to_proto(EffectiveFilter.from_options(["--ignore=%.%"]))
    assert register(stub, definition).filter == definition


def test_mixed_rules_are_refused(stub: pb_grpc.DumpFilterStub) -> None:
    mixed = pb.FilterDefinition(semantics=pb.EFFECTIVE, rules=[pb.Rule(kind=pb.REPLICATE_DO_DB, value="d1")])
    with pytest.raises(grpc.RpcError, match="unknown option '--replicate-do-db'") as raised:
        register(stub, mixed)
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ignore", "a.%"], "unknown option '--ignore' in classic filter semantics"),
        (["--filter-semantics", "effective", "--replicate-do-db", "a"], "unknown option '--replicate-do-db'"),
        (
            ["--filter-semantics", "effective", "--do", "a.%", "--replicate-do-table", "a.b"],
            "--replicate-do-table",
        ),
        (["--filter-semantics", "effective", "--do", "a"], "the dot is mandatory"),
    ],
)
def test_what_the_command_refuses(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    options: list[str],
    said: str,
) -> None:
    place = ["--master", "127.0.0.1:1", "--server-id", "9", "--relay-dir", str(tmp_path / "s")]
    monkeypatch.setattr(sys, "argv", ["dumpfilter", "slave", *place, *options])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("summary", ["json", "table"])
def test_the_command(serve, launcher: Launcher, data: Path, summary: str) -> None:
    launcher.start(
        "s",
        *("slave", "--master", serve(data / "mysql-row"), "--once", "--server-id", "9"),
        *("--relay-dir", str(launcher.directory / "s"), "--summary", summary),
        *("--filter-semantics", "effective", "--ignore=%.%", "--do=shop.orders"),
        *("--rewrite=shop.%->store.%", "--do=store.customers"),
    )
    assert launcher.wait("s") == 0, launcher.log("s")
    printed = (launcher.directory / "s.log").read_text()
    if summary == "table":
        assert "store.customers" in printed
        assert re.search(r"^undecided +0 of \d+ events sent", printed, re.MULTILINE)
    else:
        report = json.loads(printed)
        assert set(report["summary"]["tables"]) == {"store.customers"}
        assert report["counts"]["events_undecided"] == 0 < report["counts"]["events_dropped"]
