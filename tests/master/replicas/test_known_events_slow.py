"""A replica by file and position that lost its connection gets the rest of the transaction, behind any event."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pymysql
import pytest

from dumpfilter.binlog.events import LOG_EVENT_ARTIFICIAL_F, EventType
from tests.master.replicas.serving import MARIADB, Replica, Serving, entry, header, serving
from tests.master.test_relay_plans import receive
from tests.support import DATA

MARIADB_118 = DATA / "oracle" / "mariadb118-row"
FILTERS = {
    "all": [],
    "shop": ["--replicate-wild-do-table=shop.%"],
    "one": ["--replicate-do-table=shop.orders"],
    "other": ["--replicate-wild-ignore-table=shop.%"],
}
NONE = {"none": ["--replicate-do-table=no.table"]}
ENDS = re.compile(rb"(\0|XA )(COMMIT|ROLLBACK)[^\0]*$")
FILE_AT = 19 + 8

TIMES = (1, 4)
"""The places of one shape at which a test cuts: the first one, and one behind other transactions of this shape."""

Transaction = tuple[bytes, ...]


@pytest.fixture(
    scope="module",
    params=[(MARIADB, False), (MARIADB_118, False), (MARIADB_118, True)],
    ids=["10.11", "11.8", "11.8 at a slave"],
)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    binlogs, is_at_slave = request.param
    if is_at_slave:
        # The slave's own filter drops events inside transactions, too.
        directory = tmp_path_factory.mktemp("relay")
        receive(binlogs.name, directory, ["--replicate-ignore-table=shop.customers"])
        binlogs = directory
    with serving(binlogs, [entry(user, rules) for user, rules in {**FILTERS, **NONE}.items()]) as server:
        yield server


@dataclass
class Place:
    """The position of a replica of MariaDB, as the server's I/O thread computes it."""

    file: str = ""
    position: int = 4

    def receive(self, event: bytes) -> None:
        head = header(event)
        is_artificial = bool(head.flags & LOG_EVENT_ARTIFICIAL_F)
        if head.type == EventType.ROTATE:
            self.file = event[FILE_AT:-4].decode()
            self.position = int.from_bytes(event[FILE_AT - 8 : FILE_AT], "little")
        elif head.type == EventType.FORMAT_DESCRIPTION:
            self.position += head.size if head.end_log_pos else 0
        elif head.type == EventType.GTID_LIST and is_artificial:
            self.position = max(self.position, head.end_log_pos)
        elif head.type != EventType.HEARTBEAT:
            self.position = max(self.position + head.size, head.end_log_pos)


@dataclass
class Received:
    """The events that a replica has queued, as whole transactions."""

    whole: list[Transaction] = field(default_factory=list)
    open: list[bytes] = field(default_factory=list)

    def add(self, *events: bytes) -> Received:
        for event in events:
            head = header(event)
            if head.type == EventType.MARIADB_GTID:
                assert not self.open, "a transaction begins inside another one"
                self.open = [event]
            elif self.open:
                if head.type in (EventType.ROTATE, EventType.FORMAT_DESCRIPTION, EventType.GTID_LIST):
                    continue
                self.open.append(event)
                is_alone = bool(self.open[0][19 + 12] & 1)
                ends = head.type in (EventType.XID, EventType.XA_PREPARE) or (
                    head.type == EventType.QUERY and (is_alone or ENDS.search(event[:-4]))
                )
                if ends:
                    self.whole.append(tuple(self.open))
                    self.open = []
        return self

    @property
    def changes(self) -> list[Transaction]:
        """The transactions without the stand-ins of dropped ones."""
        return [group for group in self.whole if len(group) > 2 or header(group[-1]).type != EventType.XID]


def dump(replica: Replica, place: Place, flags: int = 3) -> list[bytes]:
    replica.dump(place.file, place.position, flags=flags)
    return list(replica.events())


@pytest.mark.parametrize(
    ("user", "flags"), [("all", 3), ("all", 1), ("shop", 1), ("one", 3), ("other", 3)], ids=str
)
def test_a_dump_goes_on_behind_any_event(served: Serving, user: str, flags: int) -> None:
    with served.connect(user).greet(family="mariadb") as replica:
        replica.register(7)
        everything = dump(replica, Place(), flags)
        whole = Received().add(*everything)
        assert not whole.open
        place, before = Place(), Received()
        shapes: Counter[tuple[EventType | int, ...]] = Counter()
        for number, event in enumerate(everything, 1):
            place.receive(event)
            before.add(event)
            if not before.open:
                continue
            # A place has the shape of the open transaction before it, and of the next event.
            shape = tuple(header(each).type for each in (*before.open, everything[number]))
            shapes[shape] += 1
            if shapes[shape] not in TIMES:
                continue
            both = Received(before.whole[:], before.open[:]).add(*dump(replica, place, flags))
            assert not both.open
            assert both.changes == whole.changes, (number, place)
            assert both.whole[-1] == whole.whole[-1]
        assert len(shapes) >= 5


def inside_of(replica: Replica, last: EventType = EventType.TABLE_MAP) -> tuple[Place, list[bytes]]:
    """Return the place of a replica behind the first event of a kind, and the events up to there."""
    place = Place()
    events = []
    for event in dump(replica, Place()):
        place.receive(event)
        events.append(event)
        if header(event).type == last:
            return place, events
    raise AssertionError(last)


def refusal(replica: Replica, place: Place) -> str:
    """Return the text of the error 1236 in place of the transaction's rest."""
    with pytest.raises(pymysql.err.MySQLError) as caught:
        dump(replica, place)
    assert caught.value.args[0] == 1236
    return str(caught.value.args[1])


def test_a_place_that_the_stream_does_not_have_is_refused(served: Serving) -> None:
    with served.connect("all").greet(family="mariadb") as replica:
        replica.register(7)
        place, _ = inside_of(replica)
        before = Place(place.file, place.position - 1)
        assert "MASTER_USE_GTID=slave_pos" in refusal(replica, before)
        assert f" {before.position} of {place.file}" in refusal(replica, before)
    # Another filter drops the transaction that the replica has begun.
    with served.connect("none").greet(family="mariadb") as replica:
        replica.register(7)
        assert "another filter" in refusal(replica, place)


@pytest.mark.parametrize("binlogs", [MARIADB, MARIADB_118], ids=["10.11", "11.8"])
def test_a_program_names_a_position_of_the_binlog(binlogs: Path) -> None:
    with serving(binlogs) as served, served.connect("all").greet(family="mariadb") as program:
        place, events = inside_of(program)
        everything = dump(program, Place())
        assert dump(program, place)[2:] == everything[len(events) :]
        program.dump(place.file, place.position - 1)
        with pytest.raises(pymysql.err.MySQLError, match="no event begins here"):
            program.event()


@pytest.mark.parametrize("binlogs", [MARIADB, MARIADB_118], ids=["10.11", "11.8"])
def test_a_transaction_that_lacks_only_its_end_gets_the_end(binlogs: Path) -> None:
    """A stand-in of which the replica has only the Gtid event has the same position."""
    with serving(binlogs, [entry("none", NONE["none"]), entry("all", [])]) as served:
        with served.connect("all").greet(family="mariadb") as replica:
            replica.register(7)
            place, events = inside_of(replica, EventType.WRITE_ROWS_V1)
        with served.connect("none").greet(family="mariadb") as replica:
            replica.register(7)
            both = Received().add(*events, *dump(replica, place))
    assert not both.open
    (group,) = (group for group in both.changes if events[-1] in group)
    assert group[-2] == events[-1]
    assert header(group[-1]).type == EventType.XID


def test_a_changed_filter_does_not_go_on_inside_a_transaction() -> None:
    """The new filter lets the same events of the transaction through, which the position alone cannot tell."""
    with serving(MARIADB, [entry("r", [])]) as served:
        with served.connect("r").greet(family="mariadb") as replica:
            replica.register(7)
            place, events = inside_of(replica)
            assert dump(replica, place)
        wider = entry("r", ["--replicate-wild-ignore-table=no.%"])
        served.filters.take_over([wider])
        with served.connect("r").greet(family="mariadb") as replica:
            replica.register(7)
            assert "another filter" in refusal(replica, place)
            assert "another filter" in refusal(replica, place)
            # The replica begins again at the transaction.
            at = len(events) - 1
            while header(events[at]).type != EventType.MARIADB_GTID:
                at -= 1
            again = Place(place.file, header(events[at - 1]).end_log_pos)
            assert dump(replica, again)[2] == events[at]
