"""``python -m tests.real.stops record|judge|recordings mariadb|mysql``: replicas stop where lint says so.

*record*: a real source runs random statements, and a real replica follows with each of several filters, and with each
rule that ``dumpfilter suggest`` prints. A directory keeps the binlogs and the ends of the replicas.

*judge*: the kept ends are compared with lint, which takes seconds and needs no server.

*recordings*: replicas run the recorded sets with all rules that suggest prints for them.
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pymysql

from dumpfilter.analyse.lint.findings import Code, Item
from dumpfilter.analyse.lint.knowledge import SetKnowledge, gather
from dumpfilter.analyse.lint.linting import dropped_xa
from dumpfilter.analyse.lint.replica import ReplicaWalk
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.binlog.reader import iter_events
from dumpfilter.filter.filter import Filter
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.spark_jobs.engines import ThreadRunner
from dumpfilter.spark_jobs.suggest.job import NOBODY, suggest
from dumpfilter.spark_jobs.suggest.search import BREAKING
from dumpfilter.testbed.errors import StartFailed
from dumpfilter.testbed.values import Place
from tests.oracle.recordings import all_recordings
from tests.real.judging import real_source
from tests.real.random_sets import SWITCH, Workload, rule_sets
from tests.real.server import RealServer, Servers, ports_from

WAIT = 240.0
"""The longest wait for a replica, seconds. The machine may be busy with other tests."""

SERVER_OPTIONS = ("--log-bin-trust-function-creators=1", "--automatic-sp-privileges=0")
"""A replica gives the DEFINER of a new routine rights on it, unlike its source and a client of all rights."""
REPLICA_OPTIONS = {"mysql": ("--replica-parallel-workers=0",), "mariadb": ()}
WRONG = frozenset({"missed", "false alarm", "elsewhere", "another error"})
"""The verdicts about lint that are no agreement: a stop that lint missed, a predicted stop that did not come, and
stops at another event or with another error."""

MOST_HELP = 5
"""The most times that a replica starts anew with one more table or database."""

_LACKED = re.compile(r"Table '(\w+)\.(\w+)' doesn't exist|Unknown database '(\w+)'")
_GTIDS = frozenset({EventType.GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID})


@dataclass(frozen=True)
class End:
    """The end of a replica with a filter."""

    rules: list[str]
    errno: int
    """The error at which the replica stopped; 0 for a replica that ran to the end."""
    position: int
    """The position of the transaction at which the replica stopped."""
    message: str
    suggested: bool = False
    """Whether ``dumpfilter suggest`` prints these rules."""
    made_before: list[str] = field(default_factory=list)
    """Statements that ran at the replica before it followed its source."""
    has: dict[str, str] = field(default_factory=dict)
    """The objects of a replica that ran to the end, with definition and rows."""


class Pair:
    """A source and a replica, which take one workload after the other."""

    def __init__(self, servers: Servers, *, lower_case: bool = False) -> None:
        """Start the servers. ``lower_case`` gives both lower_case_table_names=1."""
        self.family = servers.family
        self.lower_case = lower_case
        options = (*SERVER_OPTIONS, *(["--lower-case-table-names=1"] if lower_case else []))
        self.source = servers.new("source", 1, *options)
        self.replica = servers.new("replica", 2, *options, *REPLICA_OPTIONS[self.family])
        self.source.start()
        self.replica.start()

    def run(self, seed: int, most: int) -> list[str]:
        """Run a workload at the source, and return the statements that succeeded."""
        workload = Workload(seed, self.family, lower_case=self.lower_case)
        done: list[str] = []
        number = 0
        with self._sessions(workload.format) as sessions:
            for text, succeeded in workload.statements(most):
                if text == SWITCH:
                    number = 1 - number
                    continue
                try:
                    with sessions[number].cursor() as cursor:
                        cursor.execute(text)
                        cursor.fetchall()
                except pymysql.Error:
                    continue
                succeeded()
                done.append(f"{number}: {text}")
        return done

    def run_statements(self, statements: Sequence[str]) -> None:
        """Run statements at the source, of which each must succeed."""
        with self._sessions("ROW") as (session, _):
            for statement in statements:
                session.cursor().execute(statement)

    @contextmanager
    def _sessions(self, binlog_format: str) -> Iterator[list[Any]]:
        """Empty the source, and give two sessions."""
        self.empty(self.source)
        sessions = [self.source.connect(), self.source.connect()]
        for session in sessions:
            # A statement must not wait for locks of the other session, which never goes on meanwhile.
            waits = "lock_wait_timeout = 1, innodb_lock_wait_timeout = 1"
            session.cursor().execute(f"SET SESSION binlog_format = '{binlog_format}', {waits}")
        yield sessions
        for session in sessions:
            session.close()

    def end(
        self,
        rules: Sequence[str],
        source: RealServer | None = None,
        start: Place | None = None,
        made_before: Sequence[str] = (),
    ) -> End:
        """Let an empty replica with these rules follow the source, and return where it ends."""
        replica, source = self.replica, source or self.source
        made = list(made_before)
        self.empty(replica)
        if made:
            replica.sql("SET SESSION sql_log_bin = 0", *made, "SET SESSION sql_log_bin = 1")
        replica.set_filter(rules)
        replica.follow(source.port, start=start)
        replica.control("START")
        end = source.binlog_end()
        deadline = time.monotonic() + WAIT
        while True:
            status = replica.status()
            assert status is not None
            if status.sql_error[0] and not status.sql_running:
                errno, message = status.sql_error
                return End(list(rules), errno, status.executed.position, message, made_before=made)
            if status.io_error[0] and status.io_running == "No":
                return End(list(rules), status.io_error[0], 0, status.io_error[1], made_before=made)
            if status.executed == end:
                return End(list(rules), 0, 0, "", made_before=made, has=replica.objects())
            assert time.monotonic() < deadline, status
            time.sleep(0.01)

    def helped(self, end: End) -> Iterator[End]:
        """Yield the ends of a stopped replica for which each table or database that it lacked is made before."""
        for _ in range(MOST_HELP):
            lacked = _LACKED.search(self._message(end))
            if lacked is None:
                return
            database, table = lacked[1] or lacked[3], lacked[2]
            more = [f"CREATE DATABASE IF NOT EXISTS {database}"]
            if table and re.fullmatch(r"s\d", table):
                more.append(f"CREATE SEQUENCE {database}.{table}")
            elif table:
                more.append(f"CREATE TABLE {database}.{table} (id INT PRIMARY KEY, v INT)")
            if more[-1] in end.made_before:
                return
            end = self.end(end.rules, made_before=[*end.made_before, *more])
            yield end

    def _message(self, end: End) -> str:
        """Return the whole message of the replica's last end. A coordinator of MySQL names its workers only."""
        if self.family == "mariadb":
            return end.message
        workers = "SELECT last_error_message FROM performance_schema.replication_applier_status_by_worker"
        return " ".join(message for (message,) in self.replica.sql(workers))

    @property
    def binlog(self) -> Path:
        """The source's binlog."""
        return self.source.data / "bin.000001"

    def empty(self, server: RealServer) -> None:
        """Remove all that earlier workloads left at a server."""
        server.empty()
        server.sql("SET SESSION sql_log_bin = 0")
        if self.family == "mariadb":
            for (role,) in server.sql("SELECT user FROM mysql.user WHERE is_role = 'Y' AND user <> 'PUBLIC'"):
                server.sql(f"DROP ROLE {role}")
        else:
            spaces = "SELECT name FROM information_schema.innodb_tablespaces WHERE name LIKE 'ts%'"
            for (space,) in server.sql(spaces):
                server.sql(f"DROP TABLESPACE {space}")
        server.sql("SET SESSION sql_log_bin = 1")


@contextmanager
def one_pair(family: Family, first_port: int, *, lower_case: bool = False) -> Iterator[tuple[Pair, Servers]]:
    """Start a source and a replica in a temporary directory."""
    with (
        tempfile.TemporaryDirectory(prefix="dumpfilter-stops-") as name,
        Servers(family, Path(name), ports_from(first_port)) as servers,
    ):
        yield Pair(servers, lower_case=lower_case), servers


def suggested_sets(binlogs: Sequence[Path], *, lower_case: bool = False) -> list[list[str]]:
    """Return the lists of rules that ``dumpfilter suggest`` prints for a set."""
    files = list(binlogs)
    slaves = [replace(NOBODY, lower_case_table_names=1)] if lower_case else []
    found = suggest(files, slaves, ThreadRunner(1), None, lambda: gather(BinlogSet.open(files)))
    steps = [step.rule for plan in found.plans for step in plan.steps]
    return [steps[: number + 1] for number in range(len(steps))]


def record(pair: Pair, seed: int, directory: Path, *, sets: int, most: int) -> list[End]:
    """Record a workload in a directory, with the ends of replicas that have random and suggested rules.

    Nothing is recorded of a workload at which a replica without rules stops. A fault of the source can cause this.
    MariaDB logs DROP TABLE IF EXISTS for a CREATE OR REPLACE that a foreign key has stopped before the drop.
    """
    done = pair.run(seed, most)
    if pair.end([]).errno:
        return []
    directory.mkdir(parents=True, exist_ok=True)
    binlog = directory / "bin.000001"
    shutil.copy(pair.binlog, binlog)
    ends, helped = [], []
    for rules in rule_sets(seed, sets):
        ends.append(pair.end(rules))
        helped += [*pair.helped(ends[-1])][-1:]
    ends += [
        replace(pair.end(rules), suggested=True)
        for rules in suggested_sets([binlog], lower_case=pair.lower_case)
    ]
    found = {
        "family": pair.family,
        "lower_case": pair.lower_case,
        "seed": seed,
        "statements": done,
        "ends": [asdict(one) for one in ends],
        "helped": [asdict(one) for one in helped],
    }
    (directory / "ends.json").write_text(json.dumps(found, indent=1))
    return ends


def judge_recordings(family: Family, first_port: int) -> collections.Counter[str]:
    """Run replicas with all rules that suggest prints for the recordings of a family, and count their ends."""
    counts: collections.Counter[str] = collections.Counter()
    with one_pair(family, first_port) as (pair, servers):
        for recording in all_recordings():
            if recording.family != family or "lower-case" in recording.name:
                continue
            try:
                source = real_source(servers, recording, f"source-{recording.name}")
            except StartFailed:
                counts["no server reads the recording"] += 1
                continue
            start = None if recording.oracle["gtid"] else Place(recording.files[0].name, 4)
            lists = suggested_sets(recording.files)
            if pair.end([], source, start).errno:
                counts["a replica without rules stops"] += 1
                lists = []
            for rules in lists:
                if family == "mariadb" and any("," in rule for rule in rules):
                    continue  # No system variable of MariaDB can hold such a name.
                found = pair.end(rules, source, start)
                counts["suggested, stops" if found.errno else "suggested, runs"] += 1
                if found.errno:
                    print(f"{recording.name} {' '.join(rules)}: {found.errno} {found.message}", flush=True)
            source.kill()
            shutil.rmtree(source.directory)
    return counts


def expected(directory: Path) -> Iterator[tuple[End, str, Item | None]]:
    """Yield the end of each recorded replica, the verdict about lint, and the fault that lint expects.

    The verdict is ``runs`` or ``stops`` where lint and the replica agree, ``unknown`` where lint warns and claims no
    stop, and else one of ``WRONG``.
    """
    found = json.loads((directory / "ends.json").read_text())
    knowledge = gather(BinlogSet.open([directory / "bin.000001"]))
    places = _places(directory / "bin.000001")
    names = NameRules(found["family"], lower_case_table_names=int(found.get("lower_case", False)))
    for one in found["ends"]:
        end = End(**one)
        rule_filter = Filter.from_options(end.rules, names=names)
        yield end, *_compared(end, rule_filter, knowledge, places)


def _places(path: Path) -> dict[int, tuple[int, int]]:
    """Return for each event's position the event's end and the position of the event's transaction."""
    found = {}
    group = 0
    with path.open("rb") as file:
        for event in iter_events(file, file=path.name):
            if event.type in _GTIDS:
                group = event.offset
            found[event.offset] = event.offset + len(event.raw), group
    return found


def _compared(
    end: End, rule_filter: Filter, knowledge: SetKnowledge, places: dict[int, tuple[int, int]]
) -> tuple[str, Item | None]:
    items = [*ReplicaWalk(rule_filter).walk(knowledge), *dropped_xa(rule_filter, knowledge)]
    sure = [one for one in items if one.is_sure]
    if not sure:
        warned = [one for one in items if one.code in BREAKING | {Code.XA_DROPPED, Code.MERGED}]
        return ("unknown", warned[0]) if warned else ("missed" if end.errno else "runs", None)
    at = min(map(_position, sure))
    first = [one for one in sure if _position(one) == at]
    if not end.errno:
        return "false alarm", first[0]
    group = places[at][1]
    in_message = re.search(r"end_log_pos (\d+)", end.message)
    where = dict(places.values())[int(in_message[1])] if in_message else end.position
    if where != group:
        earlier = [one for one in items if not one.is_sure and _position(one) < at]
        return ("unknown", earlier[0]) if earlier and where < group else ("elsewhere", first[0])
    return ("stops" if any(end.errno in one.errors for one in first) else "another error"), first[0]


def _position(item: Item) -> int:
    evidence = item.events[-1].evidence
    assert evidence is not None
    return evidence.position


def judge(directory: Path, family: str, *, shown: int = 30) -> collections.Counter[str]:
    """Compare the ends of all recorded replicas with lint, print the differences, and return the counts."""
    counts: collections.Counter[str] = collections.Counter()
    for path in sorted(directory.glob(f"{family}-*/ends.json")):
        for end, verdict, item in expected(path.parent):
            counts[verdict] += 1
            if end.suggested:
                counts["suggested, stops" if end.errno else "suggested, runs"] += 1
            if verdict in WRONG and shown:
                shown -= 1
                print(f"{verdict}: {path.parent.name} {' '.join(end.rules)}: {end.errno} {end.message[:400]}")
                if item is not None:
                    print(f"    {item.code.value} {item.name}: {[str(one.evidence) for one in item.events]}")
    return counts


def main() -> None:
    """Run the part of the judge that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.real.stops", description="Real replicas judge lint."
    )
    parser.add_argument("part", choices=("record", "judge", "recordings"))
    parser.add_argument("family", choices=("mariadb", "mysql"))
    parser.add_argument("--directory", type=Path, default=Path("stops"), help="default: stops")
    parser.add_argument("--seeds", default="1-50", help="default: 1-50")
    parser.add_argument("--sets", type=int, default=6, help="the lists of random rules for each seed")
    parser.add_argument("--most", type=int, default=40, help="the most statements for each seed")
    parser.add_argument("--lower-case", action="store_true", help="servers with lower_case_table_names=1")
    parser.add_argument("--shown", type=int, default=30, help="the most differences that judge prints")
    parser.add_argument("--first-port", type=int, default=0, help="the first of a hundred ports to use")
    options = parser.parse_args()
    if options.part == "record":
        first, _, last = options.seeds.partition("-")
        with one_pair(options.family, options.first_port, lower_case=options.lower_case) as (pair, _):
            for seed in range(int(first), int(last or first) + 1):
                directory = options.directory / f"{options.family}-{seed}"
                ends = record(pair, seed, directory, sets=options.sets, most=options.most)
                print(f"{options.family} {seed}: {[one.errno for one in ends]}", flush=True)
        return
    if options.part == "judge":
        counts = judge(options.directory, options.family, shown=options.shown)
    else:
        counts = judge_recordings(options.family, options.first_port)
    for verdict, count in sorted(counts.items()):
        print(f"{verdict:30} {count:5}")


if __name__ == "__main__":
    # The servers must end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
