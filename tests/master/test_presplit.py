"""Dumps from a split: the very stream that filtering gives, wherever it begins, goes on by filtering or is changed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from dumpfilter.binlog.format import DEFAULT_NAMES, Family, NameCollation, NameRules
from dumpfilter.binlog.gtid_sources import empty_set
from dumpfilter.cli import app
from dumpfilter.dump import Counts
from dumpfilter.errors import OutputError
from dumpfilter.filter import Filter, FilterSemantics, make_filter, parse_option
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.master.dump import Dump, DumpOptions
from dumpfilter.master.dump_start import start_of
from dumpfilter.master.imposed import ImposedFilter
from dumpfilter.master.presplit import Presplit
from dumpfilter.master.register import Register
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.slave.channel import Channel, ChannelOptions
from dumpfilter.slave.targets import SummaryTarget
from dumpfilter.slave.threads.gtids import add_runs
from dumpfilter.slave.threads.master_options import MasterOptions
from dumpfilter.spark_jobs.split.job import SplitOptions
from dumpfilter.spark_jobs.split.purge import purge_split
from dumpfilter.spark_jobs.split.specification import NamedBinlog, Specification
from dumpfilter.split_set.manifest import Manifest
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.dump.test_xa import three_files
from tests.master.client import dropped_gtids
from tests.master.inline import InlineReader, one_by_one
from tests.slave.relayed import contents
from tests.spark_jobs.here import split_here
from tests.spark_jobs.walking import ORACLE, RECORDINGS

UUID = "01234567-89ab-cdef-0123-456789abcdef"
SHOP = ("--replicate-do-db=shop",)
WILD = ("--replicate-wild-do-table=shop.o%", "--replicate-wild-ignore-table=%.tmp%")
EFFECTIVE = ("--do=shop.%", "--ignore=%.orders")
SPECIFICATION = Specification(
    (
        NamedBinlog(name="shop", rules=SHOP),
        NamedBinlog(name="wild", rules=WILD),
        NamedBinlog(name="others", rules=("--replicate-ignore-db=shop", "--replicate-rewrite-db=hr->staff")),
        NamedBinlog(name="accents", rules=("--replicate-wild-ignore-table=cafe.%",)),
        NamedBinlog(name="effective", rules=EFFECTIVE, semantics=FilterSemantics.EFFECTIVE),
    ),
    rest="rest",
)
SMALL = SplitOptions(specification=SPECIFICATION, range_size=16384, block_size=4096, max_binlog_size=6000)
"""Many ranges, blocks inside transactions, several files a binlog."""


@dataclass
class Streamed:
    """The stream that a slave receives, by file."""

    events: dict[str, bytearray] = field(default_factory=dict)
    """By file of the source."""
    points: dict[tuple[str, int], tuple[int, str, str, Counts]] = field(default_factory=dict)
    """By place where a chunk ends and the slave may resume: the bytes of the file up to there, and up to there all
    completed and all empty GTIDs, and the counts."""
    chunks: list[pb.Chunk] = field(default_factory=list)
    from_split: int = 0
    """Bytes."""

    @property
    def end(self) -> tuple[str, int]:
        return self.chunks[-1].file, self.chunks[-1].end_position


def filter_of(
    family: Family, options: Sequence[str], names: NameCollation = NameCollation.GENERAL_CI
) -> ReplicationFilter:
    semantics = (
        FilterSemantics.EFFECTIVE
        if options[0].startswith(("--do=", "--ignore="))
        else FilterSemantics.CLASSIC
    )
    given_rules = [parse_option(one, semantics) for one in options]
    return make_filter(semantics, given_rules, names=NameRules(family, names))


class Slave:
    """A slave of a store, with the splits that its master has."""

    def __init__(
        self, store: BinlogStore, given_filter: ReplicationFilter, *splits: Path, **more: object
    ) -> None:
        self.store = store
        self.register = Register(store.subjects)
        self.presplit = Presplit(splits) if splits else None
        self.slave = self.register.add(
            server_id=9,
            uuid="",
            host="",
            port=0,
            channel="",
            rule_filter=given_filter,
            **more,  # type: ignore[arg-type]
        )

    def chunks(
        self, *, chunk_size: int = 1 << 18, before: bool = False, **start: object
    ) -> Iterator[pb.Chunk]:
        request = pb.DumpRequest(**start)
        dump = Dump(
            InlineReader(self.store),
            self.register,
            self.slave,
            start_of(request, self.store),
            DumpOptions(once=True, chunk_size=chunk_size, other_filters_before=before),
            presplit=self.presplit,
        )
        yield from map(pb.Chunk.FromString, one_by_one(dump.messages()))

    def stream(self, **how: object) -> Streamed:
        """Return the whole stream."""
        out = Streamed()
        completed, empty, counts = empty_set(self.store.family), empty_set(self.store.family), Counts()
        with structlog.testing.capture_logs() as logs:
            for chunk in self.chunks(**how):  # type: ignore[arg-type]
                out.chunks.append(chunk)
                data = out.events.setdefault(chunk.file, bytearray())
                resume = len(data) + chunk.resume_bytes
                data += chunk.events
                add_runs(completed, chunk.completed)
                dropped_gtids(empty, chunk)
                counts.add(
                    Counts(
                        **{name: getattr(chunk.counts, name) for name in pb.Counts.DESCRIPTOR.fields_by_name}
                    )
                )
                if chunk.resume_position == chunk.end_position:
                    assert resume == len(data) or not chunk.resume_bytes
                    so_far = Counts()
                    so_far.add(counts)
                    out.points[chunk.file, chunk.end_position] = (
                        len(data),
                        str(completed),
                        str(empty),
                        so_far,
                    )
        out.from_split = sum(one["bytes_sent_from_split"] for one in logs if "bytes_sent_from_split" in one)
        return out


def same(ours: Streamed, filtered: Streamed) -> None:
    """Byte for byte, place for place; GTIDs and counts wherever both may resume."""
    assert filtered.from_split == 0
    assert ours.events == filtered.events
    assert ours.end == filtered.end
    common = ours.points.keys() & filtered.points.keys()
    assert {at: ours.points[at] for at in common} == {at: filtered.points[at] for at in common}
    assert filtered.end in common
    for chunks in (ours.chunks, filtered.chunks):
        places = [(chunk.file, chunk.resume_position) for chunk in chunks]
        assert places == sorted(places)
    announced = [
        [(c.file, c.start_position, c.format_description) for c in chunks if c.format_description]
        for chunks in (ours.chunks, filtered.chunks)
    ]
    assert announced[0] == announced[1]


def grown(folder: Path, size: int) -> Path:
    """Return a copy of a recording from the time when its second file had ``size`` bytes."""
    shutil.copytree(ORACLE / "mysql-row", folder)
    names = BinlogSet.open(folder).names
    (folder / "bin.index").write_text(f"./{names[0]}\n./{names[1]}\n")
    with open(folder / names[1], "r+b") as file:
        file.truncate(size)
    return folder / "bin.index"


def test_where_the_split_ends_it_goes_on_by_filtering(tmp_path: Path) -> None:
    source = RECORDINGS["oracle/mysql-row"]
    store = BinlogStore(source)
    wanted = filter_of("mysql", SHOP)
    filtered = Slave(store, wanted).stream(chunk_size=1)
    second = store.binlogs.names[1]
    places = [position for file, position in filtered.points if file == second]
    served = []
    for number, size in enumerate(places[1::5]):
        made = split_here(grown(tmp_path / f"set{number}", size), tmp_path / f"out{number}", SMALL)
        found = Slave(store, wanted, made.directory).stream(chunk_size=1)
        same(found, filtered)
        served.append(found.from_split)
    assert served == sorted(set(served)), "the more was split, the more comes from there"
    store.close()


def test_where_it_was_purged_it_is_filtered(tmp_path: Path) -> None:
    source = RECORDINGS["oracle/mysql-row"]
    made = split_here(source, tmp_path / "out", SMALL)
    store = BinlogStore(source)
    wanted = filter_of("mysql", ("--replicate-ignore-db=shop", "--replicate-rewrite-db=hr->staff"))
    filtered = Slave(store, wanted).stream()
    slave = Slave(store, wanted, made.directory)
    before = slave.stream()
    parts = made.manifest.binlog("others").parts
    later = [part for part in parts if part.source_start.file != parts[0].source_start.file]
    purge_split(made.directory, "others", later[0].name)
    after = slave.stream()
    for found in (before, after):
        same(found, filtered)
    assert before.from_split > after.from_split > 0
    # gone while it is read: from a file that it had not opened
    chunks = slave.chunks(chunk_size=1)
    some = [next(chunks) for _ in range(3)]
    for part in parts:
        (made.directory / part.name).unlink(missing_ok=True)
    some += chunks
    assert b"".join(chunk.events for chunk in some) == b"".join(map(bytes, filtered.events.values()))
    store.close()


def test_another_split_appears_while_it_is_read(tmp_path: Path) -> None:
    source = RECORDINGS["oracle/mysql-row"]
    made = split_here(source, tmp_path / "out", SMALL)
    other = split_here(source, tmp_path / "other", SplitOptions(specification=SPECIFICATION, range_size=5000))
    store = BinlogStore(source)
    wanted = filter_of("mysql", SHOP)
    filtered = Slave(store, wanted).stream()
    slave = Slave(store, wanted, made.directory)
    chunks = slave.chunks(chunk_size=1)
    some = [next(chunks) for _ in range(3)]
    made.directory.rename(tmp_path / "old")
    other.directory.rename(made.directory)
    some += chunks
    assert b"".join(chunk.events for chunk in some) == b"".join(map(bytes, filtered.events.values()))
    found = slave.stream()  # the next dump is served from the new one
    same(found, filtered)
    assert found.from_split > 0
    store.close()


@pytest.mark.parametrize("changed", range(0, 30, 3))
def test_a_filter_that_changes_while_it_dumps(tmp_path: Path, changed: int) -> None:
    """From where the new filter is in force all is as a dump with it would be that begins there; XA transactions go on
    from file to file."""
    made, _ = three_files()
    index = made.write(tmp_path / "set")
    store = BinlogStore(index)
    options = SplitOptions(specification=SPECIFICATION, range_size=300, block_size=200, max_binlog_size=500)
    parts = split_here(index, tmp_path / "out", options).directory
    old, new = filter_of(store.family, SHOP), filter_of(store.family, ("--replicate-do-db=hr",))
    slave = Slave(store, old, parts)
    chunks = []
    for number, chunk in enumerate(slave.chunks(chunk_size=1)):
        chunks.append(chunk)
        if number == changed:
            slave.register.change_filter(slave.slave.slave_id, new)
    versions = [chunk.filter_version for chunk in chunks]
    assert versions == sorted(versions)
    kept = [chunk for chunk in chunks if chunk.filter_version == 1]
    before = Slave(store, old).stream(chunk_size=1)
    place = (kept[-1].file, kept[-1].resume_position)
    assert place in before.points or kept[-1].end_position == kept[-1].resume_position
    start = {"from": pb.BinlogPosition(file=place[0], position=place[1])}
    rest = Slave(store, new).stream(before=True, chunk_size=1, **start)
    first = b"".join(c.events for c in before.chunks if (c.file, c.end_position) <= place)
    assert b"".join(chunk.events for chunk in kept) == first
    later = [chunk for chunk in chunks if chunk.filter_version == 2]
    assert b"".join(chunk.events for chunk in later) == b"".join(map(bytes, rest.events.values()))
    store.close()


def test_origins(tmp_path: Path) -> None:
    """A dump comes from the split unless the slave ignores a server id that occurs in the binlog."""
    source = RECORDINGS["oracle/mysql-row"]
    made = split_here(source, tmp_path / "out", SMALL)
    store = BinlogStore(source)
    wanted = filter_of("mysql", SHOP)
    writer = store.format_description.header.server_id
    for origin, served in [
        (OriginFilter(own_server_id=9), True),
        (OriginFilter(own_server_id=writer), True),  # the server whose binlog it is
        (OriginFilter(ignore_server_ids=frozenset({9})), True),
        (OriginFilter(ignore_server_ids=frozenset({9, writer})), False),
        (OriginFilter(ignore_domain_ids=frozenset({3})), False),
    ]:
        found = Slave(store, wanted, made.directory, origin=origin).stream()
        same(found, Slave(store, wanted, origin=origin).stream())
        assert (found.from_split > 1000) is served, origin  # file-level events are sent to anybody
    store.close()


def test_whom_it_is_for(tmp_path: Path) -> None:
    source = RECORDINGS["oracle/mysql-row"]
    made = split_here(source, tmp_path / "out", SMALL)
    store = BinlogStore(source)

    def served(slave: Slave, **how: object) -> bool:
        return slave.stream(**how).from_split > 0

    def classic(*options: str, names: NameRules = DEFAULT_NAMES) -> Filter:
        return Filter.from_options(list(options), names=names)

    out = made.directory
    imposed = (ImposedFilter("it", classic("--replicate-ignore-table=shop.orders")),)
    assert served(Slave(store, classic(*SHOP), out))
    assert served(Slave(store, classic(*SHOP, *SHOP), out))
    assert served(Slave(store, classic(*reversed(WILD)), out))
    assert not served(Slave(store, classic("--replicate-do-db=Shop"), out))
    assert not served(Slave(store, classic(*SHOP, "--replicate-do-db=hr"), out))
    assert not served(Slave(store, classic(*SHOP, names=NameRules(lower_case_table_names=1)), out))
    assert not served(Slave(store, classic(*SHOP, names=NameRules("mariadb")), out))
    assert not served(Slave(store, classic(), out))
    assert not served(Slave(store, classic(*SHOP), out, imposed=imposed))
    assert not served(Slave(store, classic(*SHOP), out), before=True)
    written = Slave(store, classic(*SHOP), out)
    written.register.change_write_filter(classic("--replicate-ignore-db=hr"))
    assert not served(written)
    assert served(Slave(store, filter_of("mysql", EFFECTIVE), out))
    assert not served(Slave(store, filter_of("mysql", EFFECTIVE[::-1]), out)), "here the order may tell"
    store.close()


@pytest.mark.parametrize("what", ["another set", "damage", "not verified", "no tables", "an old manifest"])
def test_what_is_not_for_sure_is_filtered(tmp_path: Path, what: str) -> None:
    source = RECORDINGS["oracle/mysql-row"]
    served = RECORDINGS["oracle/mysql-mixed"] if what == "another set" else source
    options = SMALL if what != "not verified" else SplitOptions(specification=SPECIFICATION, verify=False)
    out = split_here(source, tmp_path / "out", options).directory
    manifest = Manifest.load(out)
    if what == "damage":
        for one in manifest.source:
            one.damage = "from 4 on: a bad sector"
    if what == "an old manifest":
        for one in manifest.source:
            one.beginning = ""
    manifest.save(out)
    if what == "no tables":
        for table in (out / "transactions").iterdir():
            table.write_bytes(table.read_bytes()[:40])
    store = BinlogStore(served)
    wanted = filter_of("mysql", SHOP)
    found = Slave(store, wanted, out).stream()
    same(found, Slave(store, wanted).stream())
    assert not found.from_split
    store.close()


def test_a_real_slave_does_not_notice(tmp_path: Path) -> None:
    """Over gRPC, to relay logs and an applier's end state."""
    source = Path(shutil.copytree(ORACLE / "mariadb-row", tmp_path / "set"))
    index = source / "bin.index"
    made = split_here(index, tmp_path / "out", SMALL)
    found = []
    for number, presplit in enumerate([None, Presplit([made.directory])]):
        master = MasterServer(BinlogStore(index), presplit=presplit)
        master.start()
        directory = tmp_path / f"slave{number}"
        with structlog.testing.capture_logs() as logs:
            slave = Channel(
                ChannelOptions(
                    master=MasterOptions(f"127.0.0.1:{master.port}", server_id=7, uuid=UUID, once=True),
                    relay_dir=directory,
                    rules=Filter.from_options(list(SHOP)).rules,
                ),
                SummaryTarget(),
            )
            slave.start()
            slave.wait()
            slave.close()
            master.stop(0)
        assert ("dump from a split" in [one["event"] for one in logs]) is (presplit is not None)
        assert isinstance(slave.target, SummaryTarget)
        info = slave.master_info.model_copy(update={"relay_offset": 0})
        found.append((contents(directory), slave.target.state(), info))
    assert found[0] == found[1]
    assert found[0][1]["tables"]["shop.orders"]


def test_a_directory_without_a_split(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="no split was written here"):
        Presplit([tmp_path])
    done = CliRunner().invoke(app, ["master", str(ORACLE / "mysql-row"), "--split", str(tmp_path)])
    assert isinstance(done.exception, OutputError)
