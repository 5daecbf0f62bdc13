"""The judge: real replicas with the filters of recorded ones, at real sources and behind dumpfilter.

The recorded result of a case is the end of a replica that had the filter itself, at the real source. Each replica of
the judge has to end alike.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import name_collation_of
from dumpfilter.binlog.reader import iter_events
from dumpfilter.testbed.values import Place
from tests.mariadb import mariadb_version
from tests.oracle.recordings import Recording, all_recordings
from tests.oracle.replaying import NEEDS, comparable
from tests.real.server import RealServer, ReplicaStatus, Servers, State

SETTLED = 30.0
"""A replica that changed nothing for this long has come to its end, seconds."""

FILTERED_XA = 3898
"""MySQL's error at an XA transaction that the replica's own filter drops whole. It is a limit of that server."""

REPLICA_OPTIONS = {
    "mariadb": ("--binlog-format=mixed", "--slave-skip-errors=all"),
    "mysql": ("--binlog-format=mixed", "--replica-skip-errors=all"),
}
"""Options of the recorded replicas."""


@dataclass(frozen=True)
class Case:
    """A recording with the filter of one of its replicas."""

    recording: Recording
    name: str

    @property
    def rules(self) -> list[str]:
        """The replica's filter."""
        return list(self.recorded["options"])

    @property
    def recorded(self) -> dict[str, Any]:
        """The entry of oracle.json."""
        found: dict[str, Any] = self.recording.oracle["cases"][self.name]
        return found

    @property
    def lower_case_table_names(self) -> int:
        """The recorded replica's setting."""
        return int(
            self.recording.oracle.get(
                "lower_case_table_names", 1 if "lower-case" in self.recording.name else 0
            )
        )

    @property
    def with_gtids(self) -> bool:
        """True when the recorded replica went by GTID."""
        return bool(self.recording.oracle["gtid"])

    @property
    def databases(self) -> list[str]:
        """The databases that the recorder made first, so that tables that pass the filter have a database."""
        return [*self.recording.oracle["source"]["state"], "store", "people"]

    def __str__(self) -> str:
        return f"{self.recording.name}/{self.name}"


@dataclass(frozen=True)
class Ended:
    """A replica's end."""

    state: State
    gtids: str | None
    read: Place | None
    executed: Place | None
    sql_error: tuple[int, str]
    """The error at which the SQL thread stopped, or ``(0, "")``."""
    io_error: tuple[int, str]


def cases(family: str) -> Iterator[Case]:
    """Yield the recorded cases of a family that the installed server can take, by recording."""
    for recording in all_recordings():
        if recording.family != family or "cases" not in recording.oracle:
            continue
        if family == "mariadb" and NEEDS.get(recording.name, (0,)) > mariadb_version():
            continue
        for name in recording.oracle["cases"]:
            yield Case(recording, name)


def same_names(recording: Recording) -> bool:
    """Tell whether the installed MariaDB compares names as the recorded one, where a recording asks for that."""
    asks = any(word in recording.name for word in ("names", "weights", "lower-case"))
    return not asks or recording.names == name_collation_of("mariadb", ".".join(map(str, mariadb_version())))


def recorded_end(case: Case) -> Ended:
    """Return the recorded end of a case.

    The recording holds no positions. The GTID set of a replica that stopped is not known either, since the recorder may
    have read it before the stop.
    """
    found = case.recorded
    stopped = found["stopped"] or {"errno": 0, "message": ""}
    return Ended(
        found["state"],
        None if found["stopped"] else found["gtid"].replace("\n", ""),
        None,
        None,
        (stopped["errno"], stopped["message"]),
        (0, ""),
    )


def set_end(recording: Recording) -> Place:
    """Return the place to which a recording's binlog set leads. A Rotate event at the end leads to the next file."""
    path = recording.files[-1]
    with path.open("rb") as file:
        *_, last = iter_events(file, file=path.name)
    if last.type == EventType.ROTATE:
        body = bytes(last.body)
        return Place(body[8:].decode(), int.from_bytes(body[:8], "little"))
    return Place(path.name, path.stat().st_size)


def real_source(servers: Servers, recording: Recording, name: str = "source") -> RealServer:
    """Start a real server whose binlogs are the recording's, followed by an empty one of its own."""
    options = []
    if recording.family == "mysql" and not recording.oracle["gtid"]:
        options = ["--gtid-mode=OFF"]
    server = servers.new(name, 11, *options)
    for file in recording.files:
        shutil.copy(file, server.data / file.name)
        (server.data / file.name).chmod(0o660)
    (server.data / "bin.index").write_text("".join(f"./{file.name}\n" for file in recording.files))
    server.start()
    return server


class Replicas:
    """The replicas, one for each set of options that only a start of the server can set."""

    def __init__(self, servers: Servers, *options: str) -> None:
        self._servers = servers
        self._options = options
        self._made: dict[tuple[str, ...], RealServer] = {}
        self.version: tuple[int, ...] = ()
        """The replicas' version."""

    def for_case(self, case: Case) -> RealServer:
        """Return a running replica with the options of the recorded one."""
        options = [*REPLICA_OPTIONS[self._servers.family], *self._options]
        if case.lower_case_table_names:
            options.append("--lower-case-table-names=1")
        if self._servers.family == "mysql" and not case.with_gtids:
            options.append("--gtid-mode=OFF")
        key = tuple(options)
        if key not in self._made:
            self._made[key] = self._servers.new(f"replica{len(self._made)}", 22, *options)
        if not self._made[key].is_running:
            self._made[key].start()
            self.version = tuple(map(int, re.findall(r"\d+", self._made[key].value("VERSION()"))[:3]))
        return self._made[key]


@dataclass(frozen=True)
class Upstream:
    """A place from which a replica takes its stream."""

    port: int
    user: str
    password: str
    end: Place
    """The end of the binlog set."""


def run(
    replica: RealServer,
    upstream: Upstream,
    case: Case,
    own: Sequence[str],
    *,
    by_file: bool = False,
    settled: float = SETTLED,
) -> Ended:
    """Empty the replica, give it its own filter, and let it follow an upstream to its end."""
    replica.empty(case.databases, case.recording.collation)
    replica.set_filter(own)
    start = Place(case.recording.files[0].name, 4) if by_file or not case.with_gtids else None
    replica.follow(upstream.port, upstream.user, upstream.password, start=start)
    replica.control("START")
    status = _wait_for_end(replica, upstream.end, settled)
    ended = Ended(
        replica.state(),
        replica.applied_gtids(),
        status.read,
        status.executed,
        (0, "") if status.sql_running else status.sql_error,
        (0, "") if status.io_running == "Yes" else status.io_error,
    )
    replica.control("STOP")
    return ended


def _wait_for_end(replica: RealServer, end: Place, settled: float) -> ReplicaStatus:
    """Wait until the replica is at the end of the set, or stopped, or changes nothing any more."""
    before: Any = None
    changed = time.monotonic()
    while True:
        status = replica.status()
        assert status is not None
        if not status.sql_running and status.sql_error[0]:
            return status
        if status.io_running == "No" and status.io_error[0]:
            return status
        if status.read == status.executed == end:
            return status
        now = (status.read, status.executed, status.retrieved)
        if now != before:
            before, changed = now, time.monotonic()
        if time.monotonic() - changed > settled:
            return status
        time.sleep(0.02)


def differences(case: Case, want: Ended, got: Ended) -> list[str]:
    """Return the differences of a replica's end from the expected end. A position ``None`` in ``want`` is unknown."""
    found = []
    expected, actual = _comparable(case, want.state), _comparable(case, got.state)
    for database in sorted({*expected, *actual}):
        tables = expected.get(database), actual.get(database)
        if None in tables:
            found.append(f"database {database}: expected {tables[0]}, got {tables[1]}")
            continue
        assert tables[0] is not None
        assert tables[1] is not None
        found += [
            f"table {database}.{name}: expected {tables[0].get(name)}, got {tables[1].get(name)}"
            for name in sorted({*tables[0], *tables[1]})
            if tables[0].get(name) != tables[1].get(name)
        ]
    pairs = [
        ("stop", want.sql_error[0], got.sql_error[0]),
        ("I/O error", want.io_error[0], got.io_error[0]),
    ]
    if want.read is not None and not want.sql_error[0]:
        pairs.append(("read position", str(want.read), str(got.read)))
    if want.gtids is not None:
        pairs.append(("GTIDs", str(want.gtids), str(got.gtids)))
    if want.executed is not None:
        pairs.append(("executed position", str(want.executed), str(got.executed)))
    for name, one, other in pairs:
        if one != other:
            text = f"{name}: expected {one}, got {other}"
            if name == "stop":
                text += f" ({want.sql_error[1] or got.sql_error[1]})"
            if name == "I/O error":
                text += f" ({want.io_error[1] or got.io_error[1]})"
            found.append(text)
    return found


def _comparable(case: Case, state: State) -> State:
    return comparable(state) if case.recording.family == "mariadb" else state


def kept_on_replica(rules: Sequence[str]) -> list[str]:
    """Return the rules that a replica needs although the master filters for it: a master renames no database."""
    return [rule for rule in rules if rule.startswith("--replicate-rewrite-db=")]


def rule_kinds(rules: Sequence[str]) -> set[str]:
    """Return the kinds of the rules."""
    return {re.sub(r"^--replicate-|=.*", "", rule) for rule in rules}


def sample(asked: Sequence[Case]) -> list[Case]:
    """Return the fewest cases of a recording that have each kind of rule of its cases, in their order."""
    missing = set().union(*(rule_kinds(case.rules) for case in asked))
    chosen: list[Case] = []
    while missing:
        best = max(asked, key=lambda case: len(missing & rule_kinds(case.rules)))
        missing -= rule_kinds(best.rules)
        chosen.append(best)
    return [case for case in asked if case in chosen]
