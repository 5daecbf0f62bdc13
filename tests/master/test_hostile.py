"""Hostile registrations: answered, bounded and logged, and nobody else notices."""

from __future__ import annotations

import cProfile
import uuid
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from dumpfilter.base.printable import LONGEST_IN_LOG
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.limits import MAX_NAME, MAX_RULES, MAX_RULES_TEXT, Overloaded
from dumpfilter.master.register import NotRegistered, Register, RegisteredSlave
from dumpfilter.master.who import Peer
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.client import Client
from tests.master.test_service import code_of, dumping, wait_for
from tests.support import DATA

MYSQL_ROW = DATA / "oracle" / "mysql-row"


def request(rules: list[pb.Rule] = (), **more: Any) -> pb.RegisterRequest:
    more.setdefault("uuid", str(uuid.uuid4()))
    more.setdefault("server_id", 7)
    return pb.RegisterRequest(protocol=2, filter=pb.FilterDefinition(rules=rules), **more)


def but_audit(logs: list[Any]) -> dict[str, Any]:
    """Return the only line of a log besides those of the audit log."""
    (line,) = [dict(one) for one in logs if one["event"] != "audit"]
    return line


def refused(client: Client, message: pb.RegisterRequest) -> tuple[grpc.StatusCode, str, dict[str, Any]]:
    """Return the code and text of a refusal, and its log line, which must be short."""
    with capture_logs() as logs, pytest.raises(grpc.RpcError) as caught:
        client.stub.Register(message, timeout=240)
    line = but_audit(logs)
    assert line["event"] in ("registration refused", "call refused")
    assert line["log_level"] == "warning"
    assert line["peer"].startswith("ipv")
    assert sum(len(str(value)) for value in line.values()) < LONGEST_IN_LOG + 200
    code, details = code_of(caught)
    assert len(details) < 2000
    return code, details, line


def test_as_many_rules_as_may_be(client: Client) -> None:
    rules = [pb.Rule(kind=pb.REPLICATE_DO_DB, value=f"{n:0100}") for n in range(MAX_RULES)]
    assert len(rules) * 100 > 0.9 * MAX_RULES_TEXT
    slave = client.stub.Register(request(rules), timeout=240)
    assert len(slave.filter.rules) == MAX_RULES
    # none of these databases is in the binlog: every transaction is dropped
    chunks = list(client.dump(slave.slave_id))
    assert sum(chunk.counts.transactions_dropped for chunk in chunks)


def test_wild_rules_by_the_thousand_are_answered(client: Client) -> None:
    rules = [pb.Rule(kind=pb.REPLICATE_WILD_IGNORE_TABLE, value=f"%{n}%.%a%b%") for n in range(MAX_RULES)]
    slave = client.stub.Register(request(rules), timeout=240)
    assert list(client.dump(slave.slave_id))[-1].end_of_log


def test_one_more_is_refused(client: Client) -> None:
    rules = [pb.Rule(kind=pb.REPLICATE_DO_DB, value=f"d{n}") for n in range(MAX_RULES + 1)]
    code, details, _ = refused(client, request(rules))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "rules: 10001 elements: at most 10000" in details


@pytest.mark.parametrize("field", ["host", "channel", "user", "rule", "uuid"])
@pytest.mark.parametrize("character", ["x", "\n", "\N{GRINNING FACE}"])
def test_a_name_of_64_kb(client: Client, field: str, character: str) -> None:
    long = character * ((64 << 10) // len(character.encode()))
    if field == "rule":
        message = request([pb.Rule(kind=pb.REPLICATE_DO_DB, value=long)])
    else:
        message = request(**{field: long})
    code, _, line = refused(client, message)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "\n" not in line["reason"]


def test_the_longest_rule_that_is_wrong_is_still_answered(client: Client) -> None:
    """Its text would not fit into gRPC's headers."""
    rule = pb.Rule(kind=pb.REPLICATE_DO_TABLE, value="\N{GRINNING FACE}" * MAX_NAME)
    code, details, _ = refused(client, request([rule]))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert details.startswith("--replicate-do-table=\N{GRINNING FACE}")


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("Register", b"\x08\x07\x12\x04\xff\xfe\xfd\xfc"),  # a uuid that is not UTF-8
        ("Register", b"\x08\x07\x32\x06\x0a\x04\x12\x02\xc3\x28"),  # a name that is not UTF-8, deep in a rule
        ("Register", b"\x12\xff\xff\xff\xff\x0f"),  # a length beyond the end
        ("Unregister", b"\x0a\x02\xc3\x28"),
        ("Dump", b"\x0a\x02\xc3\x28"),
        ("Status", b"\x07"),
    ],
)
def test_a_request_that_is_no_message(client: Client, method: str, body: bytes) -> None:
    kind = client.channel.unary_stream if method == "Dump" else client.channel.unary_unary
    call = kind(f"/dumpfilter.v1.DumpFilter/{method}", request_serializer=None, response_deserializer=None)
    with capture_logs() as logs, pytest.raises(grpc.RpcError) as caught:
        list(call(body, timeout=240))
    code, details = code_of(caught)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "not a message of the contract" in details
    line = but_audit(logs)
    assert line["event"] == ("registration refused" if method == "Register" else "call refused")
    assert line["method"] == f"/dumpfilter.v1.DumpFilter/{method}"
    assert line["peer"].startswith("ipv")
    assert sum(len(str(value)) for value in line.values()) < LONGEST_IN_LOG + 200
    client.register()  # and the service goes on


def test_a_file_whose_number_is_too_long_for_an_integer_is_refused_as_others_are(client: Client) -> None:
    slave_id = client.register().slave_id
    codes = []
    for number in ("000099", "9" * 5000):
        place = pb.BinlogPosition(file=f"bin.{number}", position=4)
        with pytest.raises(grpc.RpcError) as caught:
            list(client.dump(slave_id, **{"from": place}))
        codes.append(caught.value.code())
    assert codes == [grpc.StatusCode.OUT_OF_RANGE] * 2


def test_a_request_larger_than_any_filter(client: Client) -> None:
    rules = [pb.Rule(kind=pb.REPLICATE_DO_DB, value="x" * (17 << 20))]
    with pytest.raises(grpc.RpcError) as caught:
        client.stub.Register(request(rules), timeout=240)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    client.register()


def test_a_second_slave_with_the_server_id_of_one_that_dumps(client: Client) -> None:
    first = client.register(server_id=9)
    stream = client.dump(first.slave_id, once=False)
    next(stream)
    wait_for(lambda: dumping(client, first.slave_id))
    for _ in range(20):
        code, details, _ = refused(client, request(server_id=9))
        assert code is grpc.StatusCode.ALREADY_EXISTS
        assert "give this one another --server-id" in details
    assert dumping(client, first.slave_id)
    next(stream)
    stream.cancel()


def add(register: Register, number: int, options: list[str] = ()) -> RegisteredSlave:
    peer = Peer(server_id=number, uuid=str(uuid.UUID(int=number)))
    return register.add(peer, Filter.from_options(list(options)))


def test_a_flood_of_registrations_is_bounded() -> None:
    register = Register(Subjects())
    register.most_idle = 50
    working = add(register, 1)
    register.begin_dump(working)
    flood = [add(register, number) for number in range(2, 502)]
    slaves = register.all()
    assert slaves == [working, *flood[-50:]]
    with pytest.raises(NotRegistered, match="register again"):
        register.get(flood[0].slave_id)
    assert Register.most_idle == 10_000


def test_and_so_is_what_their_rules_take() -> None:
    rules = [f"--replicate-do-db=d{n}" for n in range(1000)]
    register = Register(Subjects())
    register.most_idle_weight = 10 * add(Register(Subjects()), 1, rules).weight
    flood = [add(register, number, rules) for number in range(1, 31)]
    assert register.all() == flood[-10:]
    alone = Register(Subjects())
    alone.most_idle_weight = 1
    assert alone.all() == [] != [add(alone, 1, rules)] == alone.all()
    assert Register.most_idle_weight == 256 << 20


def test_the_filters_of_slaves_that_dump_are_bounded_together() -> None:
    rules = [f"--replicate-do-db=d{n}" for n in range(100)]
    weight = add(Register(Subjects()), 1, rules).weight
    register = Register(Subjects())
    register.most_dumping_weight = 2 * weight
    slaves = [add(register, number, rules) for number in (1, 2, 3)]
    dumps = [register.begin_dump(slave) for slave in slaves[:2]]
    with pytest.raises(Overloaded, match=r"give the slave fewer rules \(it has 100\)"):
        register.begin_dump(slaves[2])
    register.begin_dump(slaves[1])  # a dump that takes over weighs nothing more
    with pytest.raises(Overloaded):
        register.change_filter(slaves[1].slave_id, Filter.from_options([*rules, "--replicate-do-db=x"]))
    register.end_dump(slaves[0], dumps[0])
    assert register.begin_dump(slaves[2])


def test_a_dump_begins_without_a_look_at_each_rule() -> None:
    """A dump begins in the master's loop, where thousands of rules would delay all other slaves."""
    register = Register(Subjects())
    calls = {}
    for number in (1, 10_000):
        slave = add(register, number, [f"--replicate-do-db=d{n}" for n in range(number)])
        with cProfile.Profile() as profile:
            register.end_dump(slave, register.begin_dump(slave))
        calls[number] = sum(entry.callcount for entry in profile.getstats())
    assert calls[10_000] <= calls[1] + 10


def test_long_rules_and_lists_of_ids_have_their_weight() -> None:
    register = Register(Subjects())
    light = add(register, 1, ["--replicate-do-db=d"]).weight
    long = add(register, 2, ["--replicate-do-db=" + "d" * 1000]).weight
    assert long > light + 3000
    slave = register.add(Peer(), Filter(), origin=OriginFilter(ignore_server_ids=frozenset(range(1000))))
    assert slave.weight > add(register, 3).weight + 60 * 1000


def test_a_registration_in_the_flood_can_begin_its_dump(client: Client) -> None:
    for number in range(100, 400):
        client.register(server_id=number)
    slave = client.register(server_id=1)
    assert list(client.dump(slave.slave_id))[-1].end_of_log


def test_control_characters_do_not_reach_the_log(client: Client) -> None:
    with capture_logs() as logs:
        client.register(channel="a\n2026-01-01 [error] all is lost\x1b[2J")
    assert not any("\n" in str(value) or "\x1b" in str(value) for one in logs for value in one.values())
    line = but_audit(logs)
    assert line["channel"] == "a\\n2026-01-01 [error] all is lost\\x1b[2J"
