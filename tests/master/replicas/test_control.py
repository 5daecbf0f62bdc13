"""Changes of real replicas' filters while the replicas receive events."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.passwords import StoredPassword
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.rules import FilterClause, FilterSemantics, RuleKind, make_rule
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.config import ReplicaEntry
from dumpfilter.master.register import Register, RegisteredSlave
from dumpfilter.master.replica_filters import ReplicaFilters
from tests.master.replicas.entries import PEER, Own, adopting
from tests.master.replicas.serving import entry


def clause(kind: RuleKind, *values: str) -> FilterClause:
    return FilterClause(kind, tuple(make_rule(kind, value) for value in values))


class Served:
    """A register with real replicas that receive events."""

    def __init__(
        self,
        entries: Sequence[ReplicaEntry],
        own: Own | None = None,
        *,
        most_weight: int = Register.most_dumping_weight,
    ) -> None:
        self.register = Register(Subjects())
        self.register.most_dumping_weight = most_weight
        self.filters = ReplicaFilters(entries, self.register, read=own or Own())

    def dump(
        self, user: str = "r", server_id: int = 7, channel: str = "", port: int = 3306
    ) -> RegisteredSlave:
        peer = replace(
            PEER,
            user=user,
            server_id=server_id,
            channel=channel,
            uuid=str(uuid.UUID(int=server_id)),
            port=port,
        )
        _, chosen = self.filters.filter_for(peer)
        slave = self.register.add(peer, chosen)
        self.register.begin_dump(slave)
        return slave


class Watched:
    """A lock that tells when a thread waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_wanted = threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.is_wanted.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def rules(slave: RegisteredSlave) -> list[str]:
    return [str(rule).removeprefix("--replicate-") for rule in slave.filter.rules]


def test_a_change_concerns_the_replicas_of_one_entry() -> None:
    served = Served([entry("r", [], channel="c"), entry("r", ["--replicate-do-db=a"]), entry("s", [])])
    mine, other, theirs = served.dump(), served.dump(channel="c", server_id=8), served.dump("s", 9)
    slaves, warnings = served.filters.change(
        "r", [clause(RuleKind.IGNORE_DB, "x"), clause(RuleKind.DO_TABLE, "b.t")], channel="c"
    )
    assert not any("passes" in warning for warning in warnings)
    assert slaves == [other]
    assert [rules(slave) for slave in (mine, other, theirs)] == [
        ["do-db=a"],
        ["ignore-db=x", "do-table=b.t"],
        [],
    ]
    slaves, warnings = served.filters.change("r", [clause(RuleKind.IGNORE_DB)], channel="c")
    assert any("the new filter passes" in warning for warning in warnings)
    assert rules(other) == ["do-table=b.t"]
    assert rules(served.dump(channel="c", server_id=10)) == ["do-table=b.t"]


def test_a_statement_must_mean_one_entry() -> None:
    ids = frozenset({7, 8})
    served = Served(
        [entry("r", []), entry("r", [], server_ids=ids), entry("r", [], channel="c", server_ids=ids)]
    )
    change = served.filters.change
    with pytest.raises(OptionError, match=r"several.*replica\[1\] for any replica.*server_ids=7,8"):
        change("r", [])
    with pytest.raises(OptionError, match="has no "):
        change("r", [], channel="d")
    with pytest.raises(OptionError, match="has no "):
        change("r", [], server_id=9)
    with pytest.raises(OptionError, match="there is no"):
        change("x", [])
    for server_id in (None, 7):
        change("r", [clause(RuleKind.DO_DB, f"a{server_id}")], channel="c", server_id=server_id)
        (changed,) = served.filters.changes
        assert (changed.who.channel, changed.rules) == ("c", (f"--replicate-do-db=a{server_id}",))


def test_rules_of_the_wrong_semantics_change_nothing() -> None:
    served = Served([entry("r", [], semantics=FilterSemantics.EFFECTIVE)])
    with pytest.raises(OptionError, match="--replicate-do-db"):
        served.filters.change("r", [clause(RuleKind.DO_DB, "a")])
    assert not served.filters.changes


def test_an_adopted_filter_is_changed_on_the_replica() -> None:
    served = Served([adopting()])
    with pytest.raises(OptionError, match="CHANGE REPLICATION FILTER on the replica"):
        served.filters.change("r", [clause(RuleKind.DO_DB, "a")])


def test_a_configuration_that_is_read_again_changes_running_dumps() -> None:
    served = Served([entry("r", ["--replicate-do-db=a"]), entry("s", []), entry("t", []), entry("u", [])])
    mine, gone, other, adopted = served.dump(), served.dump("s", 8), served.dump("t", 9), served.dump("u", 10)
    version = other.filter_version
    served.filters.take_over([entry("r", ["--replicate-do-db=b"]), entry("t", []), adopting("u")])
    assert rules(mine) == ["do-db=b"]
    assert mine.dump
    assert other.filter_version == version
    assert gone not in served.register.all()
    assert "connect again" in str(gone.ended_by)
    assert adopted not in served.register.all()
    served.filters.take_over([entry("r", ["--replicate-do-db=b"], StoredPassword.plain("new"))])
    assert mine not in served.register.all()


def test_a_change_of_the_console_survives_a_reload() -> None:
    served = Served([entry("r", ["--replicate-do-db=a"])])
    slave = served.dump()
    served.filters.change("r", [clause(RuleKind.DO_DB, "c")])
    served.filters.take_over([entry("r", ["--replicate-do-db=a"]), entry("s", [])])
    assert rules(slave) == ["do-db=c"]
    served.filters.take_over([entry("r", ["--replicate-do-db=d"])])
    assert rules(slave) == ["do-db=d"]


def test_a_filter_that_is_too_large_ends_the_dump() -> None:
    served = Served([entry("r", ["--replicate-do-db=a"])], most_weight=100_000)
    slave, other = served.dump(), served.dump(server_id=8)
    large = clause(RuleKind.DO_DB, *(f"database{number}" for number in range(1000)))
    served.filters.change("r", [large])
    assert slave not in served.register.all()
    assert "the bound" in str(slave.ended_by)
    # The filter of a dump that is alone is never too large.
    assert len(rules(other)) == 1000


def test_a_replica_that_has_just_left_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served([entry("r", [])])
    slave = served.dump()
    listed = served.register.all()
    served.register.remove(slave.slave_id)
    monkeypatch.setattr(served.register, "all", lambda: listed)
    served.filters.change("r", [clause(RuleKind.DO_DB, "a")])
    assert rules(served.dump()) == ["do-db=a"]


@pytest.mark.parametrize("at", ["saving", "changing"])
def test_the_last_of_two_changes_at_the_same_moment_is_saved_and_in_force(
    monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    served = Served([entry("r", [])])
    slave = served.dump()
    monkeypatch.setattr(served.filters, "_lock", watched := Watched())
    saved: list[tuple[str, ...]] = []
    others: list[threading.Thread] = []

    def change(database: str) -> None:
        served.filters.change("r", [clause(RuleKind.DO_DB, database)])

    def change_meanwhile() -> None:
        """Begin another change, which waits for this one or is done when this one goes on."""

        def run() -> None:
            change("second")
            watched.is_wanted.set()

        if not others:
            others.append(threading.Thread(target=run))
            others[0].start()
            watched.is_wanted.wait()

    def save() -> None:
        (changed,) = served.filters.changes
        if at == "saving":
            change_meanwhile()
        saved.append(changed.rules)

    change_filter = served.register.change_filter

    def change_register(slave_id: str, rule_filter: ReplicationFilter) -> RegisteredSlave:
        if at == "changing":
            change_meanwhile()
        return change_filter(slave_id, rule_filter)

    served.filters.on_change.append(save)
    monkeypatch.setattr(served.register, "change_filter", change_register)
    change("first")
    others[0].join()
    assert rules(slave) == ["do-db=second"]
    assert saved[-1] == ("--replicate-do-db=second",)
