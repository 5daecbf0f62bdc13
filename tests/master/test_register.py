"""The register of slaves: who holds a UUID and a server id, and what a registration costs."""

from __future__ import annotations

import gc
import sys
import uuid
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dumpfilter.filter.filter import Filter
from dumpfilter.index.subjects import Subjects, TableSubject
from dumpfilter.master.register import (
    AlreadyRegistered,
    CounterBook,
    NotRegistered,
    Register,
    RegisteredSlave,
)
from dumpfilter.master.who import Peer
from tests.master.tables import imposed_table

EVERYTHING = Filter()
MINE, THEIRS = b"m" * 32, b"t" * 32


def add(register: Register, number: int = 1, server_id: int = 0, **more: Any) -> RegisteredSlave:
    peer = Peer(
        more.pop("user", ""),
        more.pop("channel", ""),
        server_id or number,
        uuid=str(uuid.UUID(int=number)),
        host="replica-1",
        port=3306,
    )
    return register.add(peer, EVERYTHING, **more)


@pytest.fixture
def register() -> Register:
    return Register(Subjects())


def test_ids_cannot_be_guessed_and_are_not_shown(register: Register) -> None:
    ids = {add(register, number).slave_id for number in range(100)}
    assert len(ids) == 100
    assert min(map(len, ids)) >= 43  # 32 bytes in base64
    slave = add(register, secret=MINE)
    assert slave.slave_id not in repr(slave)
    assert slave.owner.hex() not in repr(slave)
    with pytest.raises(NotRegistered) as caught:
        register.get("guess")
    assert "guess" not in str(caught.value)


def test_only_user_and_secret_take_over(register: Register) -> None:
    first = add(register, secret=MINE, user="a")
    register.begin_dump(first)
    for more in ({"secret": THEIRS}, {"secret": b""}):
        with pytest.raises(
            AlreadyRegistered, match=r"server id 1, uuid .* replica-1:3306.*UNREGISTER REPLICA"
        ):
            add(register, user="a", **more)
    assert register.holds(first, first.dump)
    second = add(register, secret=MINE, user="a")
    assert not register.holds(first, first.dump)
    assert register.all() == [second]


def test_a_slave_without_a_secret_waits_for_its_own_old_dump(register: Register) -> None:
    first = add(register)
    dump = register.begin_dump(first)
    with pytest.raises(AlreadyRegistered):
        add(register)
    register.end_dump(first, dump)
    register.begin_dump(add(register))


def test_a_dump_that_is_notified_sees_that_its_slave_is_gone(register: Register) -> None:
    """The dump looks in another thread, at any moment after the notice. It would miss an end that came later."""
    slave = add(register)
    seen: list[bool] = []
    register.begin_dump(slave, lambda: seen.append(register.holds(slave, slave.dump)))
    register.remove(slave.slave_id)
    assert seen == [False]


def test_users_do_not_block_each_other(register: Register) -> None:
    """A user who knows another one's UUID and server id neither ends nor delays the other one's dump."""
    theirs = add(register, secret=THEIRS, user="b")
    register.begin_dump(theirs)
    mine = add(register, secret=MINE, user="a")
    register.begin_dump(mine)
    assert register.holds(mine, mine.dump)
    assert register.holds(theirs, theirs.dump)
    assert [slave.peer.user for slave in register.all()] == ["b", "a"]


def test_who_does_not_dump_blocks_nobody_and_is_not_pushed_out(register: Register) -> None:
    mine = add(register, secret=MINE)
    theirs = add(register, secret=THEIRS)
    same_id = add(register, 2, server_id=1, secret=THEIRS)
    assert register.all() == [mine, theirs, same_id]
    register.begin_dump(mine)
    for late in (theirs, same_id):
        with pytest.raises(AlreadyRegistered):
            register.begin_dump(late)
    assert register.holds(mine, mine.dump)
    register.end_dump(mine, mine.dump)
    register.begin_dump(same_id)
    with pytest.raises(AlreadyRegistered, match="--server-id"):
        add(register, secret=MINE)
    add(register, secret=MINE, channel="other")


def operations_of(register: Register, number: int) -> int:
    """Return the number of bytecode operations of one registration, begin and end of a dump, and its removal."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    # A garbage collection calls the callbacks of test libraries, whose operations would be counted.
    before = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        slave = add(register, number, secret=MINE)
        register.end_dump(slave, register.begin_dump(slave))
        register.remove(slave.slave_id)
    finally:
        sys.settrace(before)
        gc.enable()
    return count


@pytest.mark.parametrize("dumping", [False, True])
def test_a_registration_costs_the_same_among_ten_and_among_thousands(dumping: bool) -> None:
    costs = []
    for others in (10, 5000):
        register = Register(Subjects())
        register.most_idle = others
        for number in range(1, others + 1):
            slave = add(register, number)
            if dumping:
                register.begin_dump(slave)
        costs.append(operations_of(register, 1_000_000))
    assert costs[1] <= costs[0] + 5


@given(st.lists(st.sampled_from([1, 2, 3]), max_size=20), st.integers(1, 5))
def test_the_idle_ones_are_forgotten_in_the_order_of_their_last_dump(dumps: list[int], most: int) -> None:
    register = Register(Subjects())
    register.most_idle = most
    slaves: dict[int, RegisteredSlave] = {}
    order: list[int] = []
    for number in dumps:
        slave = slaves.get(number)
        if slave is None or number not in order:
            slave = slaves[number] = add(register, number, secret=MINE)
        register.end_dump(slave, register.begin_dump(slave))
        order = ([one for one in order if one != number] + [number])[-most:]
    assert {slave.peer.server_id for slave in register.all()} == set(order)


class Registrations(RuleBasedStateMachine):
    """Slaves register, dump and leave in any order. The register's tables stay consistent."""

    @initialize()
    def begin(self) -> None:
        self.register = Register(Subjects())
        self.register.most_idle = 4
        self.known: list[RegisteredSlave] = []

    @rule(
        number=st.integers(1, 3),
        server_id=st.integers(1, 3),
        user=st.sampled_from("ab"),
        secret=st.sampled_from([b"", MINE, THEIRS]),
    )
    def add(self, number: int, server_id: int, user: str, secret: bytes) -> None:
        try:
            self.known.append(add(self.register, number, server_id, user=user, secret=secret))
        except AlreadyRegistered:
            holders = [slave for slave in self.register.all() if slave.dump and slave.peer.user == user]
            assert any(
                slave.peer.server_id == server_id or slave.peer.uuid.endswith(str(number))
                for slave in holders
            )

    @rule(data=st.data(), what=st.sampled_from(["begin", "end", "remove", "change"]))
    def act(self, data: st.DataObject, what: str) -> None:
        if not self.known:
            return
        slave = data.draw(st.sampled_from(self.known))
        try:
            match what:
                case "begin":
                    self.register.begin_dump(slave)
                case "end":
                    self.register.end_dump(slave, slave.dump)
                case "remove":
                    self.register.remove(slave.slave_id)
                case "change":
                    self.register.change_filter(slave.slave_id, EVERYTHING)
        except (NotRegistered, AlreadyRegistered):
            pass

    @invariant()
    def one_dump_for_each_uuid_and_server_id(self) -> None:
        slaves = self.register.all()
        dumping = [slave for slave in slaves if self.register.holds(slave, slave.dump) and slave.dump]
        assert len({slave.peer.key for slave in dumping}) == len(dumping)
        assert len({slave.peer.identity for slave in dumping}) == len(dumping)
        assert len(slaves) - len(dumping) <= 4
        weights = self.register._idle
        assert (len(weights), sum(weights.values())) == (
            len(slaves) - len(dumping),
            sum(slave.weight for slave in slaves if not slave.dump),
        )
        for weights in (self.register._idle, self.register._dumping):
            assert weights.total == sum(weights.values())


TestRegistrations = Registrations.TestCase


@pytest.mark.parametrize(("rule", "sent"), [("do-db=a", None), ("do-db=b", (True, True))])
def test_a_filter_that_changed_before_the_start_of_the_master_is_noticed(
    rule: str, sent: tuple[bool, bool] | None
) -> None:
    """The end of an XA transaction that was prepared before the change is sent, since its filter is not known."""

    def registered(register: Register, rule: str) -> RegisteredSlave:
        rules = Filter.from_options([f"--replicate-{rule}"])
        return register.add(Peer("r", server_id=1, uuid=str(uuid.UUID(int=1))), rules)

    subjects = Subjects()
    table = subjects.number_of(TableSubject("logs", "t"))
    before, after = Register(subjects), Register(subjects)
    slave = registered(before, "do-db=a")
    before.begin_dump(slave)
    before.progress(slave, "bin.000002", 100, None)
    after.counters = CounterBook(before.counters.records())
    files = ["bin.000001", "bin.000002"]
    found = after.earlier(registered(after, rule), files, ("bin.000002", 4))
    told = found and (found.filters[0].sends(table), found.has("bin.000001", 999))
    assert told == sent
    assert found is None or not found.has("bin.000002", 100)


def test_the_filter_before_imposed_filters_changed_decides_about_the_ends_of_xa_transactions() -> None:
    """The master ends the registration, and the slave registers again."""
    subjects = Subjects()
    register = Register(subjects)
    shop, logs = (subjects.number_of(TableSubject(database, "t")) for database in ("shop", "logs"))
    rules = Filter.from_options(["--replicate-do-db=shop"])
    peer = Peer("r", server_id=1, uuid=str(uuid.UUID(int=1)))
    slave = register.add(peer, rules, secret=MINE)
    dump = register.begin_dump(slave)
    register.progress(slave, "bin.000002", 100, None)
    register.imposed = (imposed_table("no shop", Filter.from_options(["--replicate-ignore-db=shop"])),)
    ended = register.remove_all(lambda slave: NotRegistered("the filters imposed on this slave have changed"))
    assert ended == [slave]
    assert not register.holds(slave, dump)
    with pytest.raises(NotRegistered):
        register.get(slave.slave_id)
    again = register.add(peer, rules, secret=MINE)
    assert register.all() == [again]
    found = register.earlier(again, ["bin.000001", "bin.000002"], ("bin.000002", 100))
    assert found is not None
    assert [found.filters[0].sends(table) for table in (shop, logs)] == [True, False]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("changed_by", ["registration", "operator"])
def test_a_registration_without_a_dump_does_not_forget_the_filter_before(
    restarted: bool, changed_by: str
) -> None:
    """The slave registers again, and its dump fails before it begins. Then the filter changes. An XA transaction that
    the filter of the first dump sent still needs its end.
    """
    subjects = Subjects()
    table = subjects.number_of(TableSubject("a", "t"))
    old, new = (Filter.from_options([f"--replicate-do-db={database}"]) for database in "ab")
    peer = Peer("r", server_id=1, uuid=str(uuid.UUID(int=1)))
    register = Register(subjects)
    slave = register.add(peer, old, secret=MINE)
    dump = register.begin_dump(slave)
    register.progress(slave, "bin.000001", 100, None)
    register.end_dump(slave, dump)
    if restarted:
        records = register.counters.records()
        register = Register(subjects)
        register.counters = CounterBook(records)
    slave = register.add(peer, old, secret=MINE)
    assert register.earlier(slave, ["bin.000001"], ("bin.000001", 100)) is None
    if changed_by == "operator":
        register.change_filter(slave.slave_id, new)
    else:
        slave = register.add(peer, new, secret=MINE)
    found = register.earlier(slave, ["bin.000001"], ("bin.000001", 100))
    assert found is not None
    assert any(each.sends(table) for each in found.older)
    assert (found.file, found.position) == ("bin.000001", 100)


def test_a_full_register_ends_all_registrations_whose_filters_changed(register: Register) -> None:
    """The copy of the dumping slave's registration displaces the idle one, which is ended next."""
    register.most_idle = 1
    dumping = add(register, 1, secret=MINE)
    register.begin_dump(dumping)
    idle = add(register, 2, secret=MINE)
    ended = register.remove_all(lambda slave: NotRegistered("the filters imposed on this slave have changed"))
    assert ended == [dumping]
    for slave in (dumping, idle):
        with pytest.raises(NotRegistered):
            register.get(slave.slave_id)
    (kept,) = register.all()
    assert kept.peer == dumping.peer
