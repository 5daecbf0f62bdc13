"""Imposed filters, the conditions on slaves, and the users of the conditions."""

from __future__ import annotations

import ipaddress
import itertools
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.passwords import StoredPassword
from dumpfilter.binlog.format import NameRules
from dumpfilter.console.sql.grammar import Role
from dumpfilter.filter.base import AllFilters, OnUndecided, ReplicationFilter, Verdict
from dumpfilter.filter.convert import filter_from_proto
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_UNDECIDED_F, TableFlags
from dumpfilter.master.config import Account, MasterConfig, imposed_on, load_config
from dumpfilter.master.server import MasterServer
from dumpfilter.master.service import Access
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import Peer, peer_address
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.client import Client
from tests.master.tables import hashed, imposed_table
from tests.master.test_service import code_of, files_of
from tests.oracle.dumping import dump
from tests.strategies import DIALECTS, T, _Builder, query_body, rows_body, table_map_body
from tests.support import DATA

MYSQL_ROW = DATA / "oracle" / "mysql-row"
STATEMENTS = DATA / "recordings" / "mysql-forms"
NO_LOGS = Filter.from_options(["--replicate-ignore-db=logs"])


@contextmanager
def master(config: MasterConfig, binlogs: Path = MYSQL_ROW) -> Iterator[Client]:
    server = MasterServer(BinlogStore(binlogs), config=config)
    server.start()
    client = Client(server)
    try:
        yield client
    finally:
        client.channel.close()
        server.stop(0)


def imposing(*filters: ReplicationFilter, **conditions: object) -> MasterConfig:
    conditions.setdefault("on_undecided", OnUndecided.SEND)
    return MasterConfig(
        imposed=tuple(imposed_table(f"rule{n}", one, **conditions) for n, one in enumerate(filters))
    )


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("bin.0*"))


@pytest.mark.parametrize("own", [[], ["--replicate-do-db=shop"], ["--replicate-rewrite-db=shop->logs"]])
def test_a_slave_gets_the_intersection(own: list[str]) -> None:
    wanted = dump(files(MYSQL_ROW), AllFilters([Filter.from_options(own), NO_LOGS])).files
    assert wanted != dump(files(MYSQL_ROW), Filter.from_options(own)).files or own == [
        "--replicate-do-db=shop"
    ]
    with master(imposing(NO_LOGS)) as client:
        slave = client.register(own)
        assert files_of(client.dump(slave.slave_id)) == wanted


def test_it_is_told_and_cannot_be_widened() -> None:
    effective = EffectiveFilter.from_options(["--ignore=hr.%"])
    wanted = dump(files(MYSQL_ROW), AllFilters([Filter(), NO_LOGS, effective])).files
    with master(imposing(NO_LOGS, effective)) as client:
        slave = client.register(["--replicate-do-db=shop"])
        assert [one.name for one in slave.imposed] == ["rule0", "rule1"]
        assert [filter_from_proto(one.filter).rules for one in slave.imposed] == [
            NO_LOGS.rules,
            effective.rules,
        ]
        assert [rule.value for rule in slave.filter.rules] == ["shop"]
        wider = ["--replicate-do-db=logs", "--replicate-do-db=shop"]
        for options in (wider, []):
            slave = client.register(options)
            assert [one.name for one in slave.imposed] == ["rule0", "rule1"]
        assert files_of(client.dump(slave.slave_id)) == wanted
        assert files_of(client.dump(client.register(server_id=8).slave_id)) == wanted


def test_what_an_imposed_filter_cannot_decide_is_sent_and_counted() -> None:
    rules = Filter.from_options(["--replicate-ignore-table=nosuch.nosuch"])
    alone = dump(files(STATEMENTS), rules)
    assert alone.counts.events_undecided
    with master(imposing(rules), STATEMENTS) as client:
        chunks = list(client.dump(client.register().slave_id))
    assert files_of(iter(chunks)) == alone.files
    assert sum(chunk.counts.events_undecided for chunk in chunks) == alone.counts.events_undecided


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    """A binlog set with a transaction of each sort that the boundary is about."""
    builder = _Builder(DIALECTS[0])

    def begin(number: int) -> None:
        builder.add(T.GTID, b"\1" + bytes(16) + struct.pack("<q", number) + b"\2" + bytes(16))
        builder.add(T.QUERY, query_body(b"BEGIN", "shop"))

    def rows(number: int, database: str, marker: bytes) -> None:
        builder.add(T.TABLE_MAP, table_map_body(number, database, "t"))
        builder.add(T.WRITE_ROWS, rows_body(DIALECTS[0], T.WRITE_ROWS, number, ends=True, rows=marker))

    begin(1)
    builder.add(T.ROWS_QUERY, b"\0INSERT INTO shop.t SELECT 'SECRET' FROM logs.t", flags=0x80)
    rows(1, "shop", b"PUBLIC")
    rows(2, "logs", b"SECRET")
    builder.add(T.XID, bytes(8))
    begin(2)
    builder.add(T.QUERY, query_body(b"FROBNICATE 'SECRET'", "shop"))
    builder.add(T.XID, bytes(8))
    begin(3)
    rows(1, "shop", b"PUBLIC")
    builder.add(T.XID, bytes(8))
    (tmp_path / "bin.000001").write_bytes(bytes(builder.data))
    (tmp_path / "bin.index").write_text("bin.000001\n")
    return tmp_path


@pytest.mark.parametrize(
    ("on_undecided", "public", "secret", "undecided"),
    [(OnUndecided.DROP, 2, 0, 1), (OnUndecided.SEND, 2, 1, 1)],
)
def test_the_fate_of_an_undecided_statement(
    marked: Path, on_undecided: OnUndecided, public: int, secret: int, undecided: int
) -> None:
    with master(imposing(NO_LOGS, on_undecided=on_undecided), marked) as client:
        chunks = list(client.dump(client.register().slave_id))
    events = b"".join(chunk.events for chunk in chunks)
    assert (events.count(b"PUBLIC"), events.count(b"SECRET")) == (public, secret)
    assert sum(chunk.counts.events_undecided for chunk in chunks) == undecided


def test_a_dump_stops_at_an_undecided_statement(marked: Path) -> None:
    """The slave receives everything before the statement, and learns what to do."""
    with master(imposing(NO_LOGS, on_undecided=OnUndecided.STOP), marked) as client:
        slave = client.register()
        chunks: list[pb.Chunk] = []
        with pytest.raises(grpc.RpcError) as caught:
            chunks.extend(client.dump(slave.slave_id))
        code, details = code_of(caught)
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        events = b"".join(chunk.events for chunk in chunks)
        assert (events.count(b"PUBLIC"), events.count(b"SECRET")) == (1, 0)
        at = (marked / "bin.000001").read_bytes().index(b"FROBNICATE")
        place = chunks[-1].resume_position
        assert 4 < place < at
        position = int(re.search(r"bin.000001: at (\d+): ", details)[1])  # type: ignore[index]
        assert place < position < at
        assert "'rule0' cannot decide about this Query event (statement kind UNKNOWN)" in details
        assert "on_undecided" in details
        assert "SECRET" not in details
        # The next dump stops at the same place.
        request = pb.DumpRequest(slave_id=slave.slave_id, once=True)
        getattr(request, "from").CopyFrom(pb.BinlogPosition(file="bin.000001", position=place))
        with pytest.raises(grpc.RpcError) as again:
            list(client.stub.Dump(request))
        assert code_of(again) == (code, details)


OPTIONS = st.lists(
    st.sampled_from(
        [
            *(f"--replicate-{kind}-db={db}" for kind in ("do", "ignore") for db in ("shop", "logs", "d1")),
            "--replicate-wild-do-table=s%.%",
            "--replicate-wild-ignore-table=%.a%",
            "--replicate-ignore-table=d1.b",
        ]
    ),
    max_size=3,
).map(Filter.from_options)


@pytest.fixture(scope="module")
def statements() -> BinlogStore:
    store = BinlogStore(STATEMENTS)
    for name in store.binlogs.names:
        position = store.first_position(name)
        while (segment := store.segment_at(name, position)) is not None:
            position = segment.end
    return store


@settings(deadline=None)
@given(own=OPTIONS, imposed=st.lists(OPTIONS, min_size=1, max_size=3))
def test_the_flags_are_those_of_all_filters(
    statements: BinlogStore, own: Filter, imposed: list[Filter]
) -> None:
    flags = TableFlags(own, statements.subjects, imposed=imposed)
    array = flags.array()
    for number in range(len(statements.subjects)):
        if statements.subjects.members(number) is not None:
            continue
        verdicts = {one.verdict(statements.subjects[number]) for one in [own, *imposed]}
        assert bool(array[number] & FILTER_BINLOG_SEND_F) == (Verdict.IGNORE not in verdicts)
        undecided = Verdict.UNDECIDED in verdicts and Verdict.IGNORE not in verdicts
        assert bool(array[number] & FILTER_UNDECIDED_F) == undecided
    assert flags.filter is own
    assert flags.is_on == any(one.is_on for one in [own, *imposed])


TEN = ipaddress.ip_network("10.0.0.0/8")


@given(
    ids=st.frozensets(st.integers(1, 3)),
    users=st.frozensets(st.sampled_from(["a", "b"])),
    networks=st.sampled_from([(), (TEN,), (TEN, ipaddress.ip_network("::1/128"))]),
    server_id=st.integers(1, 3),
    user=st.sampled_from(["", "a", "b"]),
    peer=st.sampled_from(["ipv4:10.9.8.7:1", "ipv4:192.0.2.1:1", "ipv6:%5B::1%5D:1", "strange"]),
)
def test_all_conditions_must_hold(
    ids: frozenset[int],
    users: frozenset[str],
    networks: tuple[ipaddress.IPv4Network, ...],
    server_id: int,
    user: str,
    peer: str,
) -> None:
    one = imposed_table("x", NO_LOGS, server_ids=ids, users=users, networks=networks)
    in_network = {"ipv4:10.9.8.7:1": TEN, "ipv6:%5B::1%5D:1": ipaddress.ip_network("::1/128")}.get(peer)
    hold = [
        not ids or server_id in ids,
        not users or user in users,
        not networks or peer == "strange" or in_network in networks,
    ]
    assert imposed_on([one], Peer(user, "", server_id, peer)) == ((one,) if all(hold) else ())


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.1.2.3:5", "10.1.2.3"),
        ("ipv6:[2001:db8::1]:5", "2001:db8::1"),
        ("ipv6:%5B::ffff:10.1.2.3%5D:5", "10.1.2.3"),
        ("ipv6:%5Bfe80::1%25eth0%5D:5", "fe80::1"),
        ("ipv4:nowhere:5", None),
        ("", None),
    ],
)
def test_peers(peer: str, address: str | None) -> None:
    found = peer_address(peer)
    assert (None if found is None else str(found)) == address


def test_by_server_id_and_network_over_the_wire() -> None:
    loopback = (ipaddress.ip_network("127.0.0.0/8"),)
    with master(imposing(NO_LOGS, server_ids=frozenset({7}), networks=loopback)) as client:
        assert len(client.register(server_id=7).imposed) == 1
        assert not client.register(server_id=8).imposed
    with master(imposing(NO_LOGS, networks=(TEN,))) as client:
        assert not client.register(server_id=7).imposed


def test_users() -> None:
    config = MasterConfig(
        user=(hashed("repl", "secret"), Account(name="other", password="geheim")),
        imposed=(imposed_table("no logs", NO_LOGS, users=frozenset({"other"})),),
    )
    with master(config) as client:
        assert not client.register(user="repl", password="secret").imposed
        assert client.register(user="other", password="geheim", server_id=8).imposed
        # Wrong passwords cost time, which this test does not want to wait for.
        client.service.access = Access(lambda: config.users, clock=itertools.count(step=1000).__next__)
        for user, password in [
            ("repl", ""),
            ("repl", "geheim"),
            ("", ""),
            ("nobody", ""),
            ("other", "geheim "),
        ]:
            with pytest.raises(grpc.RpcError) as caught:
                client.register(user=user, password=password, server_id=9)
            code, details = code_of(caught)
            assert code is grpc.StatusCode.UNAUTHENTICATED
            assert f"Access denied for user {user!r}" in details
            assert f"using password: {'YES' if password else 'NO'}" in details
            assert "geheim" not in details
        request = pb.StatusRequest(user="repl", password="secret")
        assert [(slave.server_id, slave.user) for slave in client.stub.Status(request).slaves] == [
            (7, "repl")
        ]


def test_the_answer_has_the_servers_id() -> None:
    with master(MasterConfig()) as client:
        assert client.register().server_id == 11


def write_private(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text)


GOOD = """
[[user]]
name = "repl"
password = "secret"

[[console_user]]
name = "admin"
password = "hush"
role = "replicate-admin"

[[console_user]]
password = "hush, hush"
name = "monitor"

[[imposed]]
name = "no personnel abroad"
networks = ["10.0.0.0/8", "2001:db8::/32"]
users = ["repl"]
server_ids = [101, 102]
rules = ["replicate-ignore-db=hr", "--replicate_wild_ignore_table=%.pii%"]

[[imposed]]
name = "nobody's"
semantics = "effective"
rules = ["ignore=%.pii"]
on_undecided = "drop"
"""


def test_a_configuration_file(tmp_path: Path) -> None:
    write_private(tmp_path / "master.toml", GOOD)
    config = load_config(tmp_path / "master.toml", names=NameRules("mariadb", lower_case_table_names=1))
    assert dict(config.users) == {"repl": StoredPassword.plain("secret")}
    assert dict(config.console_users) == {
        "admin": StoredPassword.plain("hush"),
        "monitor": StoredPassword.plain("hush, hush"),
    }
    assert config.console_roles == {"admin": Role.REPLICATE_ADMIN, "monitor": Role.READ}
    first, second = config.imposed
    assert first.server_ids == {101, 102}
    assert first.users == {"repl"}
    assert list(map(str, first.networks)) == ["10.0.0.0/8", "2001:db8::/32"]
    assert [str(rule) for rule in first.filter.rules] == [
        "--replicate-ignore-db=hr",
        "--replicate-wild-ignore-table=%.pii%",
    ]
    assert first.filter.names == NameRules("mariadb", lower_case_table_names=1)
    assert isinstance(second.filter, EffectiveFilter)
    assert (first.on_undecided, second.on_undecided) == (OnUndecided.STOP, OnUndecided.DROP)
    assert "secret" not in repr(config)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (('name = "repl"\n', 'name = "repl"\nrole = "x"\n'), "user[1].role: there is no such key"),
        (("[[user]]", "[[users]]"), "users: there is no such key; did you mean user?"),
        (('password = "secret"\n', ""), "user[1].password_hash: is missing"),
        (('password = "secret"', 'password = "secret"\npassword_hash = "x"'), "stands beside password"),
        (('password = "secret"', 'password_hash = "secret"'), "user[1].password_hash: is no hash"),
        (('password = "hush"', 'password_hash = "hush"'), "console_user[1].password_hash: is no hash"),
        (('password = "secret"', "password = 5"), "user[1].password: input should be a valid string"),
        (
            ('"10.0.0.0/8"', '"10.0.0.1/8"'),
            "imposed[1].networks[1]: value is not a valid IPv4 or IPv6 network",
        ),
        (("[101, 102]", "[101, 0]"), "imposed[1].server_ids[2]: input should be greater than"),
        (
            ("replicate-ignore-db=hr", "replicate-ignore-table=hr"),
            "imposed[1].rules: 'no personnel abroad': ",
        ),
        (("replicate-ignore-db=hr", "ignore=hr.%"), "unknown option 'ignore' in classic filter semantics"),
        (("replicate-ignore-db=hr", "replicate-rewrite-db=a->b"), "rewritten by the slave alone"),
        (('users = ["repl"]', 'users = ["rpl"]'), "imposed[1].users: 'no personnel abroad': there is no"),
        (('"drop"', '"ignore"'), "imposed[2].on_undecided: input should be 'stop', 'drop' or 'send'"),
        (('"effective"', '"newest"'), "imposed[2].semantics: input should be"),
        (
            ("nobody's", "no personnel abroad"),
            "imposed[2].name: there are two of the name 'no personnel abroad'",
        ),
        (
            ("[[console_user]]\nname", '[[user]]\nname = "repl"\npassword = "y"\n\n[[console_user]]\nname'),
            "user[2]",
        ),
        (("[[user]]", "[[user]"), "at line"),
    ],
)
def test_what_is_wrong_with_it_is_named(tmp_path: Path, change: tuple[str, str], named: str) -> None:
    assert GOOD.count(change[0]) == 1
    write_private(tmp_path / "master.toml", GOOD.replace(*change))
    with pytest.raises(OptionError) as caught:
        load_config(tmp_path / "master.toml", names=NameRules("mysql"))
    assert str(caught.value).startswith(f"{tmp_path / 'master.toml'}: ")
    assert named in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="No such file"):
        load_config(tmp_path / "none.toml", names=NameRules("mysql"))


def test_a_file_that_is_nested_deeply_is_an_error(tmp_path: Path) -> None:
    # Another exception would end a master that reads the file again at SIGHUP.
    write_private(tmp_path / "master.toml", "x = " + "[" * 10_000)
    with pytest.raises(OptionError, match="nested too deeply"):
        load_config(tmp_path / "master.toml")
