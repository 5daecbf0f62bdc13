"""The bandwidth job: every figure against the bytes that the dump sends over gRPC and that a split writes."""

from __future__ import annotations

import functools
import tempfile
import uuid
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.analyse.report.measures import Audience
from dumpfilter.base.errors import BinlogCorrupt, OptionError
from dumpfilter.binlog.events import LOG_EVENT_ARTIFICIAL_F, EventType
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.reader import iter_events
from dumpfilter.dump.stream.message import PROTOCOL
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.convert import filter_to_proto, origin_to_proto
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.spark_jobs.bandwidth.results import Results, SlaveFigures
from dumpfilter.spark_jobs.options import BandwidthOptions
from dumpfilter.topology.slaves_file import SlaveDefinition
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.client import Client
from tests.master.test_encodings import streamed
from tests.spark_jobs.here import bandwidth, shuffled, split_here
from tests.spark_jobs.walking import FILE_LEVEL, RECORDINGS
from tests.strategies import MadeBinlog, binlogs, rules

SMALL = BandwidthOptions(audience=Audience.SLAVES, range_size=9000, block_size=5000, bucket_seconds=1)

CLASSIC, EFFECTIVE = FilterSemantics.CLASSIC, FilterSemantics.EFFECTIVE

SLAVES = [
    SlaveDefinition("all", (), CLASSIC, 0),
    SlaveDefinition("shop", ("--replicate-do-db=shop",), CLASSIC, 0, 901),
    SlaveDefinition(
        "no hr", ("--replicate-ignore-db=hr", "--replicate-ignore-table=shop.orders"), CLASSIC, 0
    ),
    SlaveDefinition(
        "wild", ("--replicate-wild-do-table=shop.%", "--replicate-wild-do-table=h_.%"), CLASSIC, 0
    ),
    SlaveDefinition("effective", ("--do=shop.%", "--ignore=%.customers"), EFFECTIVE, 0),
    SlaveDefinition("nothing", ("--replicate-do-db=nowhere",), CLASSIC, 0),
    SlaveDefinition("other origin", (), CLASSIC, 0, 902, OriginFilter(frozenset({1, 11}))),
    SlaveDefinition("no accents", ("--replicate-wild-do-table=cafe.%",), CLASSIC, 0),
]


@functools.cache
def measured(name: str) -> Results:
    """Return the results for a recording and SLAVES, measured once."""
    return bandwidth(RECORDINGS[name], SLAVES, shuffled, SMALL)


class Sent:
    """The stream that the master sent to a slave over gRPC."""

    def __init__(self, client: Client, definition: SlaveDefinition, family: str) -> None:
        wanted = filter_to_proto(definition.filter(NameRules(family)))  # type: ignore[arg-type]
        wanted.names = pb.NAME_COLLATION_UNSPECIFIED  # the collation of the server that wrote the binlog
        if definition.origin is not None:
            wanted.origin.CopyFrom(origin_to_proto(definition.origin))
        request = pb.RegisterRequest(
            server_id=definition.server_id or 777, filter=wanted, uuid=str(uuid.uuid4())
        )
        # A slave that names no version compares names as release 0.1.0 did.
        request.protocol = PROTOCOL
        registered = client.stub.Register(request)
        counts: Counter[str] = Counter()
        self.bytes = 0
        for chunk in client.dump(registered.slave_id, **{"from": pb.BinlogPosition()}):
            self.bytes += len(chunk.events)
            counts.update({field.name: value for field, value in chunk.counts.ListFields()})
        self.events = counts["events_sent"]
        self.undecided = counts["events_undecided"]
        self.dropped = counts["transactions_dropped"]
        self.transactions = counts["transactions_read"] - self.dropped


@pytest.mark.parametrize(("number", "name"), list(enumerate(list(RECORDINGS)[::3])))
def test_the_figures_are_what_the_master_then_sends(number: int, name: str) -> None:
    """Every third recording is sent to every fourth slave, in turn.

    tests/analyse/traffic/test_tally.py compares all recordings with dumps.
    """
    found = measured(name)
    server = MasterServer(BinlogStore(RECORDINGS[name]))
    server.start()
    client = Client(server)
    unfiltered: dict[tuple[object, ...], int] = {}
    try:
        for definition, figures in list(zip(SLAVES, found.slaves, strict=True))[number % 4 :: 4]:
            sent = Sent(client, definition, found.source.family)
            assert figures.name == definition.name
            assert figures.master_side.bytes == sent.bytes
            assert figures.master_side.events == sent.events
            assert figures.undecided_events == sent.undecided
            if definition.rules:
                # Without rules the master sends empty transactions. The figures count no transaction for
                # them.
                assert figures.master_side.transactions == sent.transactions
            check_real_replica(definition, figures, sent, found)
            without = SlaveDefinition("without", (), CLASSIC, 0, definition.server_id, definition.origin)
            key = (without.server_id, without.origin)
            if key not in unfiltered:
                unfiltered[key] = Sent(client, without, found.source.family).bytes
            assert figures.no_filter.bytes == unfiltered[key]
            for saving, k in zip(figures.rule_savings, range(len(definition.rules)), strict=True):
                rest = tuple(rule for j, rule in enumerate(definition.rules) if j != k)
                less = SlaveDefinition("less", rest, definition.semantics, 0, definition.server_id)
                assert saving.bytes_without == Sent(client, less, found.source.family).bytes, saving.rule
    finally:
        client.channel.close()
        server.stop(0)


def check_real_replica(
    definition: SlaveDefinition, figures: SlaveFigures, sent: Sent, found: Results
) -> None:
    """Check the figures for a real replica by what a slave of dumpfilter is sent."""
    real, source = figures.real_replica, found.source
    if real is None:
        assert definition.rules
        assert source.family == "mysql"
        return
    assert real.bytes_from_source == sum(found.series.no_filter) + 5 * source.events
    if not definition.rules:
        assert real.bytes == real.bytes_from_source
        assert real.bytes_gtid == real.stand_ins == 0
        return
    if definition.server_id is not None:
        # The slave ignores its own transactions, and a real replica is sent these.
        return
    of_stand_in = 3 if source.family == "mysql" else 2
    assert real.bytes == sent.bytes + real.bytes_gtid + 5 * (sent.events + of_stand_in * real.stand_ins)
    if source.family == "mysql":
        assert real.stand_ins <= sent.dropped
        assert real.bytes_gtid >= real.stand_ins * (19 + 25 + 38 + 27)
    else:
        assert real.bytes_gtid in (real.stand_ins * 73, real.stand_ins * 65)
        assert real.stand_ins <= sent.dropped


def test_real_replicas_need_gtids() -> None:
    def stand_ins(name: str) -> dict[str, int | None]:
        return {one.name: one.real_replica and one.real_replica.stand_ins for one in measured(name).slaves}

    assert stand_ins("oracle/mysql-row") | {"all": 0} == stand_ins("oracle/mysql-row")
    assert stand_ins("oracle/mysql-row")["nothing"] == 74
    without = stand_ins("recordings/mysql57-no-gtid")
    assert without == dict.fromkeys(without) | {"all": 0, "other origin": 0}


@pytest.mark.parametrize(
    "name",
    ["oracle/mysql-row", "recordings/mysql-tagged", "oracle/mariadb-mixed", "recordings/mariadb118-current"],
)
def test_a_real_replica_gets_the_bytes_of_the_figure(name: str) -> None:
    """The figures have no events of a file's beginning, and 5 bytes of the protocol for each other event.

    MariaDB's figures are an upper bound.
    """
    slaves = [one for one in SLAVES if one.server_id is None and one.semantics == CLASSIC]
    found = bandwidth(RECORDINGS[name], slaves, shuffled)
    for definition, figures in zip(slaves, found.slaves, strict=True):
        sent = [
            header.size + 5
            for header, _ in streamed(Path(RECORDINGS[name]), *definition.rules)
            if header.type != EventType.FORMAT_DESCRIPTION and not header.flags & LOG_EVENT_ARTIFICIAL_F
        ]
        assert figures.real_replica is not None
        if found.source.family == "mysql" or not figures.master_side.transactions:
            assert figures.real_replica.bytes == sum(sent), definition.name
        else:
            assert figures.real_replica.bytes >= sum(sent), definition.name


@pytest.mark.parametrize("name", ["oracle/mysql-row", "recordings/mysql-tagged", "oracle/mariadb-mixed"])
def test_a_report_for_real_replicas_adds_up(name: str) -> None:
    """Sums, series, peaks and savings of rules are bytes of MySQL's protocol, with stand-ins."""
    found = bandwidth(RECORDINGS[name], SLAVES, shuffled, SMALL.model_copy(update={"audience": None}))
    assert found.audience is Audience.REPLICAS
    is_exact = found.source.family == "mysql"
    for one in found.slaves:
        real = one.real_replica
        assert real is not None
        assert sum(found.series.no_filter) == real.bytes_from_source
        series = found.series.slaves[one.name]
        assert sum(series) == pytest.approx(real.bytes, rel=0 if is_exact else 0.05)
        assert one.peak is not None
        assert one.peak.bytes == max(series)
        for saving in one.rule_savings:
            assert saving.saving == saving.bytes_without - real.bytes
        assert real.compressed <= real.bytes
        assert real.compressed_from_source <= real.bytes_from_source
    replicas = [one.real_replica for one in found.slaves if not one.nothing_passes]
    assert found.totals.bytes == found.totals.of_replicas
    assert found.totals.bytes.filter == sum(one.bytes for one in replicas if one is not None)
    slaves = measured(name).totals
    assert slaves.bytes == slaves.of_slaves == found.totals.of_slaves
    assert slaves.of_replicas == found.totals.of_replicas


def test_without_gtids_the_report_is_for_slaves() -> None:
    no_gtids = RECORDINGS["recordings/mysql57-no-gtid"]
    found = bandwidth(no_gtids, SLAVES, shuffled)
    assert found.audience is Audience.SLAVES
    assert any("The binlogs have no GTIDs" in remark for remark in found.remarks)
    with pytest.raises(OptionError, match="use --for slaves"):
        bandwidth(no_gtids, SLAVES, shuffled, BandwidthOptions(audience=Audience.REPLICAS))


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_figures_add_up(name: str) -> None:
    found = measured(name)
    check_sums(found)
    whole = 0
    for path in [BinlogSet.open(RECORDINGS[name]).path(n) for n in BinlogSet.open(RECORDINGS[name]).names]:
        with open(path, "rb") as file:
            whole += sum(len(event.raw) for event in list(iter_events(file, file=path.name))[1:])
    assert sum(found.series.no_filter) == whole == sum(one.bytes for one in found.tables)


def check_sums(found: Results) -> None:
    for one in found.slaves:
        assert sum(share.bytes for share in one.tables) == one.master_side.bytes
        assert sum(found.series.slaves[one.name]) == one.master_side.bytes
        assert one.compressed <= one.master_side.bytes
        assert one.compressed_no_filter <= one.no_filter.bytes
        if one.peak is not None:
            assert one.peak.bytes == max(found.series.slaves[one.name])
            assert found.series.slaves[one.name][found.bucket_starts.index(one.peak.start)] == one.peak.bytes
        for saving in one.rule_savings:
            assert saving.saving == saving.bytes_without - one.master_side.bytes


@pytest.mark.parametrize("name", [name for name in RECORDINGS if name.startswith("oracle/")])
def test_the_split_figure_is_what_a_split_writes(name: str, tmp_path: Path) -> None:
    found = measured(name)
    made = split_here(RECORDINGS[name], tmp_path / "out")
    sizes = {}
    for one, described in zip(made.sets, made.manifest.binlogs, strict=True):
        sizes[described.schema_name or "@rest"] = sum(
            len(event.raw)
            for path in one.files
            for event in iter_events(open(path, "rb"), file=path.name)  # noqa: SIM115 (a few small files)
            if event.type not in FILE_LEVEL
        )
    for figures in found.slaves:
        assert figures.split == sum(sizes[schema] for schema in figures.split_sets)
    by_name = {one.name: one for one in found.slaves}
    assert by_name["all"].split_sets == tuple(sizes)
    assert len(by_name["nothing"].split_sets) < len(sizes)


@settings(max_examples=20, deadline=None)
@given(
    made=binlogs(), given_rules=st.lists(rules(), min_size=1, max_size=3), range_size=st.integers(100, 5000)
)
def test_made(made: MadeBinlog, given_rules: list[list[object]], range_size: int) -> None:
    slaves = [
        SlaveDefinition(
            f"s{k}",
            tuple(f"--{rule.kind.value}={rule.value}" for rule in some),
            CLASSIC,
            0,  # type: ignore[attr-defined]
        )
        for k, some in enumerate(given_rules)
    ]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "made.000001"
        source.write_bytes(made.data)
        options = BandwidthOptions(range_size=range_size, block_size=700, audience=Audience.SLAVES)
        found = bandwidth(source, slaves, shuffled, options)
        check_sums(found)
        server = MasterServer(BinlogStore([source]))
        server.start()
        client = Client(server)
        try:
            for definition, figures in zip(slaves, found.slaves, strict=True):
                assert figures.master_side.bytes == Sent(client, definition, found.source.family).bytes
        finally:
            client.channel.close()
            server.stop(0)


@pytest.mark.parametrize("name", ["oracle/mysql-row", "oracle/mariadb-mixed", "recordings/mysql-payloads"])
def test_the_same_whatever_the_ranges(name: str) -> None:
    def figures(options: BandwidthOptions) -> list[SlaveFigures]:
        found = bandwidth(RECORDINGS[name], SLAVES, shuffled, options)
        return [one.model_copy(update=without_estimates(one)) for one in found.slaves]

    def without_estimates(one: SlaveFigures) -> dict[str, object]:
        real = one.real_replica
        if real is not None:
            real = real.model_copy(update={"compressed": 0, "compressed_from_source": 0})
        is_bound = real is not None and real.is_upper_bound
        return {"compressed": 0, "compressed_no_filter": 0, "real_replica": None if is_bound else real}

    assert figures(SMALL) == figures(BandwidthOptions(bucket_seconds=1, audience=Audience.SLAVES))
    assert figures(SMALL) == figures(SMALL.model_copy(update={"most_units": 0}))


def test_a_damaged_file_among_several(tmp_path: Path) -> None:
    source = BinlogSet.open(RECORDINGS["oracle/mysql-row"])
    paths = [source.path(name) for name in source.names]
    data = bytearray(paths[0].read_bytes())
    data[len(data) // 2] ^= 1
    damaged = tmp_path / paths[0].name
    damaged.write_bytes(data)
    files = [str(damaged), *(str(path) for path in paths[1:])]
    with pytest.raises(BinlogCorrupt, match="checksum mismatch") as caught:
        bandwidth(files, SLAVES, shuffled, SMALL)
    assert caught.value.file == damaged.name
    found = bandwidth(files, SLAVES, shuffled, BandwidthOptions(on_corrupt="skip"))
    (skipped,) = found.skipped
    assert skipped.file == damaged.name
    assert "checksum mismatch" in skipped.reason
    assert 0 < sum(found.series.no_filter) < sum(path.stat().st_size for path in paths)
