"""Schedules of a stepped slave: lists of steps that a seed draws, and that replay exactly.

A schedule is data. A step either lets one thread run up to a number of pauses, or something happens: a statement, a
kill, a cut connection, growth of the binlog. A failing test prints the shortest schedule that still fails, and a person
may add the schedule to :data:`RECORDED`. The environment variable ``DUMPFILTER_SCHEDULES`` multiplies the number of
drawn schedules.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from tests.slave.stepped.machine import Machine, Setup, machine
from tests.slave.stepped.model import recording

FACTOR = int(os.environ.get("DUMPFILTER_SCHEDULES", "1"))
"""The factor by which a test takes more schedules than in the suite."""

DATA = Path(__file__).parents[1] / "oracle" / "data" / "oracle"
RECORDINGS = ("mysql-row", "mysql-mixed", "mariadb-row", "mariadb-statement", "mysql-statement-kinds")

Step = tuple[str, str]
"""The kind of a step and its argument."""

OPTIONS = ("", "--replicate-ignore-db=hr", "--replicate-do-db=shop", "--replicate-wild-do-table=s%.o%")
"""The filter option with which a process of the slave starts."""

FILTERS = (
    "REPLICATE_DO_DB = (shop, hr), REPLICATE_IGNORE_DB = ()",
    "REPLICATE_IGNORE_DB = (logs), REPLICATE_DO_DB = ()",
    "REPLICATE_WILD_DO_TABLE = ('s%.%', 'a_b.%')",
    "REPLICATE_WILD_DO_TABLE = (), REPLICATE_IGNORE_TABLE = (hr.emp, shop.orders)",
    "REPLICATE_DO_DB = (nothing)",
)
PAUSES = ("1", "1", "2", "3", "5", "10", "25", "100", "400")
NUMBERS = tuple(map(str, range(1, 75)))
THREADS = ("IO_THREAD", "SQL_THREAD", "")
ACTORS = {"IO": "default-io", "SQL": "default-sql", "OPERATOR": "operator", "TICKER": "slave-io-ticker"}
"""The names of threads that a step lets run."""

STATEMENTS = ("STOP", "BEFORE", "AFTER", "POSITION", "FILTER", "FILTER_ON", "RESET", "MOVE")
"""The kinds of steps that the operator takes, besides START and RESTART."""

KINDS: Mapping[str, tuple[int, Sequence[str]]] = {
    "IO": (30, PAUSES),
    "SQL": (30, PAUSES),
    "DUMP": (15, PAUSES),
    "OPERATOR": (15, PAUSES),
    "TICKER": (4, PAUSES),
    "OTHERS": (2, PAUSES),
    "TIME": (6, ("0.001", "0.02", "0.05", "0.3", "1.1", "61")),
    "PACE": (2, ("0", "0.0001", "0.003", "0.03")),
    "GROW": (10, ("1", "1", "2", "5", "20")),
    "START": (8, THREADS),
    "STOP": (5, THREADS),
    "BEFORE": (4, NUMBERS),
    "AFTER": (2, NUMBERS),
    "POSITION": (3, NUMBERS),
    "FILTER": (5, FILTERS),
    "FILTER_ON": (2, ("MASTER", "SLAVE", "BOTH")),
    "RESET": (1, ("",)),
    "MOVE": (1, NUMBERS),
    "RESTART": (2, OPTIONS),
    "KILL": (4, OPTIONS),
    "POWER": (1, NUMBERS),
    "CUT": (3, ("",)),
    "MASTER": (2, ("",)),
    "SWITCH": (1, ("1", "2")),
    "FAULT": (1, PAUSES),
    "DAMAGE": (3, NUMBERS),
    "DOWN": (1, ("",)),
    "UP": (2, ("",)),
}
"""The weight of each kind of step, and the arguments that it may have."""


@dataclass(frozen=True)
class Schedule:
    """All that a run depends on."""

    recording: str
    setup: Setup
    steps: tuple[Step, ...]


RECORDED: Mapping[str, Schedule] = {
    "nothing": Schedule("mysql-row", Setup(), ()),
    "the file before ends with dropped transactions": Schedule(
        "mysql-row",
        Setup(begin=100),
        (
            ("RESTART", "--replicate-do-db=shop"),
            ("STOP", "SQL_THREAD"),
            ("START", ""),
            ("STOP", "SQL_THREAD"),
            ("START", "IO_THREAD"),
            ("BEFORE", "5"),
            ("QUIET", "SQL"),
            ("FILTER", "REPLICATE_WILD_DO_TABLE = ('s%.%', 'a_b.%')"),
            ("START", "IO_THREAD"),
            ("BEFORE", "53"),
            ("QUIET", "SQL"),
            ("START", "IO_THREAD"),
            ("MASTER", ""),
            ("FILTER_ON", "SLAVE"),
        ),
    ),
    "STOP between two states that the I/O thread recorded": Schedule(
        "mariadb-statement",
        Setup(chunk_size=0, capacity=1, sync=1, begin=20),
        (
            ("KILL", "--replicate-ignore-db=hr"),
            ("START", ""),
            ("POSITION", "8"),
            ("IO", "400"),
            ("POSITION", "9"),
            ("STOP", "IO_THREAD"),
        ),
    ),
    "UNTIL between two states that the I/O thread recorded": Schedule(
        "mysql-mixed",
        Setup(chunk_size=0, capacity=3, sync=1, begin=60),
        (
            ("RESTART", "--replicate-do-db=shop"),
            ("START", "IO_THREAD"),
            ("AFTER", "61"),
            ("IO", "25"),
            ("STOP", "IO_THREAD"),
            ("IO", "25"),
        ),
    ),
    "a change of filter between two states that the I/O thread recorded": Schedule(
        "mysql-mixed",
        Setup(chunk_size=3000, capacity=10, sync=1, begin=60),
        (
            ("START", ""),
            ("BEFORE", "40"),
            ("IO", "5"),
            ("START", "SQL_THREAD"),
            ("START", "IO_THREAD"),
            ("IO", "400"),
            ("SQL", "10"),
            ("FILTER", "REPLICATE_DO_DB = (shop, hr), REPLICATE_IGNORE_DB = ()"),
            ("AFTER", "33"),
            ("START", "IO_THREAD"),
            ("IO", "100"),
        ),
    ),
    "a write fails while the first relay log file begins": Schedule(
        "mysql-mixed",
        Setup(chunk_size=1, capacity=3, sync=5, begin=20),
        (("FAULT", "10"), ("START", "IO_THREAD"), ("AFTER", "15"), ("IO", "100"), ("STOP", "IO_THREAD")),
    ),
    "the first write of relay-log.info fails": Schedule(
        "mariadb-statement",
        Setup(chunk_size=0, capacity=3, sync=1, begin=5),
        (
            ("START", ""),
            ("STOP", "SQL_THREAD"),
            ("IO", "400"),
            ("DUMP", "5"),
            ("IO", "2"),
            ("IO", "10"),
            ("START", "SQL_THREAD"),
            ("IO", "5"),
            ("IO", "2"),
            ("FAULT", "5"),
            ("DOWN", ""),
            ("STOP", ""),
            ("SQL", "400"),
        ),
    ),
    "a kill inside of RESET": Schedule(
        "mariadb-row",
        Setup(chunk_size=0, capacity=1, sync=5, begin=2),
        (
            ("GROW", "5"),
            ("START", "IO_THREAD"),
            ("BEFORE", "65"),
            ("IO", "10"),
            ("POSITION", "35"),
            ("STOP", ""),
            ("MOVE", "58"),
            ("OPERATOR", "25"),
            ("OPERATOR", "3"),
            ("KILL", "--replicate-wild-do-table=s%.o%"),
        ),
    ),
    "the power fails after the first relay log file has begun": Schedule(
        "mariadb-row",
        Setup(chunk_size=0, capacity=3, sync=1, begin=20),
        (
            ("START", ""),
            ("OPERATOR", "25"),
            ("IO", "25"),
            ("DUMP", "100"),
            ("IO", "1"),
            ("MASTER", ""),
            ("IO", "400"),
            ("POWER", "4"),
        ),
    ),
    "RESET and a kill keep COUNTER right": Schedule(
        "mariadb-row",
        Setup(chunk_size=400, capacity=10, sync=5, begin=60),
        (
            ("RESTART", "--replicate-ignore-db=hr"),
            ("START", "IO_THREAD"),
            ("START", ""),
            ("IO", "5"),
            ("IO", "3"),
            ("IO", "2"),
            ("IO", "1"),
            ("POSITION", "36"),
            ("START", ""),
            ("IO", "10"),
            ("IO", "2"),
            ("RESET", ""),
            ("KILL", "--replicate-ignore-db=hr"),
        ),
    ),
    "a change of filter between Register and Dump": Schedule(
        "mysql-row",
        Setup(option="--replicate-do-db=shop"),
        (
            ("START", "IO_THREAD"),
            ("OPERATOR", "400"),
            ("IO", "5"),
            ("FILTER", "REPLICATE_IGNORE_DB = (logs), REPLICATE_DO_DB = ()"),
            ("OPERATOR", "400"),
            ("IO", "25"),
            ("DUMP", "100"),
            ("IO", "400"),
        ),
    ),
    "a change of filter before the first message": Schedule(
        "mysql-row",
        Setup(option="--replicate-do-db=shop"),
        (
            ("START", "IO_THREAD"),
            ("OPERATOR", "400"),
            ("IO", "20"),
            ("FILTER", "REPLICATE_IGNORE_DB = (logs), REPLICATE_DO_DB = ()"),
            ("OPERATOR", "400"),
            ("IO", "25"),
            ("DUMP", "100"),
            ("IO", "400"),
        ),
    ),
    "a kill while the I/O thread writes master.info": Schedule(
        "mysql-row",
        Setup(sync=1),
        (
            ("START", ""),
            ("OPERATOR", "400"),
            ("SQL", "400"),
            ("IO", "25"),
            ("DUMP", "100"),
            ("IO", "20"),
            ("SQL", "400"),
            ("TIME", "1.1"),
            ("SQL", "400"),
            ("KILL", ""),
        ),
    ),
    "another master is lost before its first transaction": Schedule(
        "mysql-row",
        Setup(chunk_size=1, capacity=10, sync=1, auto_position=True, begin=5),
        (
            ("START", ""),
            ("OPERATOR", "5"),
            ("IO", "400"),
            ("POSITION", "48"),
            ("AFTER", "61"),
            ("STOP", "SQL_THREAD"),
            ("SWITCH", "1"),
            ("IO", "400"),
            ("TIME", "0.3"),
            ("IO", "11"),
            ("IO", "5"),
        ),
    ),
    "another master's file has the name of the old one": Schedule(
        "mysql-row",
        Setup(chunk_size=1, capacity=10, sync=1, auto_position=True, begin=5),
        (
            ("START", ""),
            ("OPERATOR", "5"),
            ("IO", "400"),
            ("POSITION", "48"),
            ("AFTER", "61"),
            ("STOP", "SQL_THREAD"),
            ("CUT", ""),
            ("IO", "100"),
            ("SWITCH", "1"),
            ("TIME", "0.3"),
            ("POSITION", "30"),
            ("IO", "10"),
            ("STOP", "IO_THREAD"),
        ),
    ),
    "the slave fetches again from before a failover and a failback": Schedule(
        "mysql-row",
        Setup(chunk_size=400, capacity=10, auto_position=True, begin=20),
        (
            ("SWITCH", "1"),
            ("START", "IO_THREAD"),
            ("BEFORE", "4"),
            ("OPERATOR", "400"),
            *(("IO", "400"), ("DUMP", "400"), ("TIME", "0.3")) * 3,
            ("QUIET", "SQL"),
            ("SWITCH", "2"),
            ("GROW", "10"),
            *(("IO", "400"), ("DUMP", "400"), ("TIME", "0.3")) * 6,
            ("SWITCH", "1"),
            ("GROW", "10"),
            *(("IO", "400"), ("DUMP", "400"), ("TIME", "0.3")) * 6,
            ("FILTER", "REPLICATE_DO_DB = (shop, hr), REPLICATE_IGNORE_DB = ()"),
        ),
    ),
    "the master restarts three times between Register and Dump": Schedule(
        "mysql-statement-kinds",
        Setup(chunk_size=400, sync=1, auto_position=True, begin=20),
        (
            ("START", ""),
            ("OPERATOR", "400"),
            ("IO", "5"),
            ("MASTER", ""),
            ("START", ""),
            ("IO", "10"),
            ("START", "SQL_THREAD"),
            ("BEFORE", "21"),
            ("TIME", "0.3"),
            ("BEFORE", "74"),
            ("MASTER", ""),
            ("START", "SQL_THREAD"),
            ("IO", "400"),
            ("TIME", "0.3"),
            ("IO", "5"),
            ("MASTER", ""),
            ("AFTER", "16"),
            ("START", "SQL_THREAD"),
        ),
    ),
    "the head of the relay log is damaged when the I/O thread connects": Schedule(
        "mariadb-row",
        Setup(chunk_size=3000, capacity=1, begin=20),
        (
            ("START", ""),
            ("OPERATOR", "1"),
            ("AFTER", "63"),
            ("AFTER", "52"),
            ("OPERATOR", "400"),
            ("SQL", "2"),
            ("START", ""),
            ("IO", "14"),
            ("OPERATOR", "400"),
            ("DAMAGE", "2"),
            ("FILTER", "REPLICATE_DO_DB = (nothing)"),
            ("CUT", ""),
            ("IO", "400"),
            ("TIME", "0.3"),
            ("IO", "11"),
        ),
    ),
    "the applied part of the relay log is damaged": Schedule(
        "mysql-mixed",
        Setup(chunk_size=3000, capacity=10, sync=5, begin=60, option="--replicate-do-db=shop"),
        (
            ("START", ""),
            ("POSITION", "55"),
            ("BEFORE", "51"),
            ("BEFORE", "58"),
            ("STOP", ""),
            ("START", ""),
            ("OPERATOR", "400"),
            ("SQL", "1"),
            ("SQL", "1"),
            ("DAMAGE", "34"),
        ),
    ),
    "a relay log file is cut": Schedule(
        "mysql-row",
        Setup(chunk_size=3000, begin=100),
        (
            ("START", "IO_THREAD"),
            ("OPERATOR", "400"),
            ("IO", "25"),
            *(("DUMP", "400"), ("IO", "400")) * 14,
            ("DAMAGE", "3"),
            ("START", "SQL_THREAD"),
            ("OPERATOR", "400"),
            ("SQL", "400"),
        ),
    ),
    "a relay log file before the newest one is cut between two events": Schedule(
        "mysql-row",
        Setup(chunk_size=3000, begin=100),
        (
            ("START", "IO_THREAD"),
            ("OPERATOR", "400"),
            ("IO", "25"),
            *(("DUMP", "400"), ("IO", "400")) * 14,
            ("DAMAGE", "8"),
            ("START", "SQL_THREAD"),
            ("OPERATOR", "400"),
            ("SQL", "400"),
        ),
    ),
    "STOP REPLICA while the SQL thread finds damage": Schedule(
        "mariadb-statement",
        Setup(chunk_size=3000, capacity=1, begin=20),
        (
            ("START", ""),
            ("OPERATOR", "1"),
            ("AFTER", "68"),
            ("AFTER", "52"),
            ("OPERATOR", "400"),
            ("SQL", "2"),
            ("START", ""),
            ("IO", "14"),
            ("AFTER", "66"),
            ("OPERATOR", "400"),
            ("DAMAGE", "2"),
            ("CUT", ""),
            ("IO", "400"),
            ("TIME", "0.3"),
            ("IO", "11"),
        ),
    ),
    "a relay log file is cut inside its head before the applier reads it": Schedule(
        "mysql-statement-kinds",
        Setup(chunk_size=3000, capacity=3, sync=5, begin=20, option="--replicate-wild-do-table=s%.o%"),
        (
            ("START", ""),
            ("START", ""),
            ("IO", "400"),
            ("TIME", "0.3"),
            ("AFTER", "19"),
            ("IO", "400"),
            ("DAMAGE", "71"),
            ("START", "SQL_THREAD"),
        ),
    ),
    "a relay log file is cut inside its head while the applier begins it": Schedule(
        "mariadb-row",
        Setup(chunk_size=3000, capacity=3, begin=20, option="--replicate-do-db=shop"),
        (
            ("FILTER", "REPLICATE_DO_DB = (nothing)"),
            ("START", "IO_THREAD"),
            ("BEFORE", "19"),
            ("BEFORE", "32"),
            ("IO", "400"),
            ("BEFORE", "71"),
            ("START", ""),
            ("TIME", "1.1"),
            ("DAMAGE", "29"),
            ("DAMAGE", "8"),
            ("TICKER", "10"),
            ("SQL", "400"),
        ),
    ),
    "a kill inside of RESET, and the next process has the same filter": Schedule(
        "mysql-row",
        Setup(chunk_size=3000, sync=1, option="--replicate-do-db=shop"),
        (
            ("START", ""),
            ("OPERATOR", "400"),
            *(("IO", "400"), ("SQL", "400"), ("DUMP", "400")) * 12,
            ("TIME", "1.1"),
            ("SQL", "400"),
            ("STOP", ""),
            ("QUIET", "IO"),
            ("RESET", ""),
            ("OPERATOR", "15"),
            ("KILL", "--replicate-do-db=shop"),
        ),
    ),
}
"""Schedules that once failed, or that are worth keeping, by name."""


def drawn(seed: int, length: int = 60) -> Schedule:
    """Return the schedule of a seed. The same seed always draws the same schedule."""
    rng = random.Random(seed)
    setup = Setup(
        chunk_size=rng.choice([1, 400, 3000, 0]),
        capacity=rng.choice([1, 3, 10]),
        sync=rng.choice([0, 1, 5]),
        auto_position=rng.random() < 0.2,
        begin=rng.choice([2, 5, 20, 60]),
        option=rng.choice(OPTIONS),
    )
    # Each schedule prefers some kinds of steps and lacks others, so that kinds meet that would rarely do so.
    weights = [weight * rng.choice((0, 1, 1, 5)) for weight, _ in KINDS.values()]
    kinds = rng.choices(
        list(KINDS), [*map(max, weights, (weight / 50 for weight, _ in KINDS.values()))], k=length
    )
    steps = [("START", "")] if rng.random() < 0.8 else []
    for kind in kinds:
        steps.append((kind, rng.choice(KINDS[kind][1])))
        steps += _following(kind, rng)
    return Schedule(rng.choice(RECORDINGS), setup, tuple(steps))


def _following(kind: str, rng: random.Random) -> list[Step]:
    """Return steps that often follow a kind of step, so that the slave stands at a place where little is safe."""
    chance = rng.random()
    if chance < 0.4:
        return []
    if kind in ("CUT", "MASTER", "SWITCH"):
        steps = [("IO", "400"), ("TIME", "0.3"), ("IO", str(rng.randint(1, 20)))]
        return steps + _change(rng) if chance < 0.7 else steps
    if kind == "START":
        steps = [("OPERATOR", "400"), ("IO", str(rng.randint(1, 20)))]
        return steps + _change(rng) if chance < 0.7 else steps
    if kind == "DAMAGE":
        return [("CUT", ""), ("IO", "400"), ("TIME", "0.3"), ("IO", "25")]
    if kind == "IO" and chance < 0.5:
        # The I/O thread may stand between two files that belong together, and the SQL thread saves its own position.
        here = [("DUMP", "25"), ("IO", str(rng.randint(1, 25)))]
        return [*here, ("SQL", "400"), ("TIME", "1.1"), ("SQL", "400"), ("KILL", rng.choice(OPTIONS))]
    return [("OPERATOR", "400")] if kind in STATEMENTS else []


def _change(rng: random.Random) -> list[Step]:
    """Return a change of filter that ends before the I/O thread goes on, for example between Register and Dump."""
    change = ("FILTER", rng.choice(FILTERS))
    statement = [change, ("OPERATOR", "400"), ("SQL", "400"), ("OPERATOR", "400")]
    return [*statement, ("IO", "25"), ("DUMP", "100"), ("IO", "400")]


def replay(schedule: Schedule) -> tuple[int, int]:
    """Take the steps one after the other. Raises for a broken law.

    Return how often the slave was compared with its model, and the number of pauses.
    """
    with tempfile.TemporaryDirectory() as name, structlog.testing.capture_logs():
        directory = Path(name) / "schedule"
        directory.mkdir()
        found = recording(DATA / schedule.recording / "bin.index")
        with machine(found, directory, schedule.setup) as one:
            one.finish()
            for kind, argument in schedule.steps:
                take(one, kind, argument)
            one.expect_law()
            return one.stops, one.world.pauses


def failure(schedule: Schedule) -> Exception | None:
    """Replay a schedule, and return the error, if any."""
    try:
        replay(schedule)
    except Exception as error:
        return error
    return None


def shrunk(schedule: Schedule) -> Schedule:
    """Return the failing schedule without the steps that its failure does not need."""
    error = failure(schedule)
    steps = list(schedule.steps)
    size = len(steps)
    while size := size // 2:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if type(failure(replace(schedule, steps=tuple(fewer)))) is type(error):
                steps = fewer
            else:
                at += size
    return replace(schedule, steps=tuple(steps))


def expect_law(schedule: Schedule) -> None:
    """Replay a schedule. When it fails, add the shortest failing schedule to the error."""
    try:
        replay(schedule)
    except Exception:
        shortest = shrunk(schedule)
        with printed(shortest):
            replay(shortest)
        raise


@contextmanager
def printed(schedule: object) -> Iterator[None]:
    """Add the schedule to an error that leaves the block, so that the test's report shows it."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"schedule: {schedule!r}")
        raise


def take(one: Machine, kind: str, argument: str) -> None:
    """Take one step."""
    if kind in ACTORS:
        for actor in [actor for actor in one.world.actors if actor.name == ACTORS[kind]]:
            one.world.run(actor, int(argument))
    elif kind in ("DUMP", "OTHERS"):
        dumps = [actor for actor in one.world.actors if actor.name == "dump"]
        for actor in dumps[-1:] if kind == "DUMP" else dumps[:-1]:
            one.world.run(actor, int(argument))
    else:
        TAKE[kind](one, argument)


def _filter(one: Machine, clauses: str) -> None:
    def change() -> None:
        one.stop("SQL_THREAD")
        one.sql(f"CHANGE REPLICATION FILTER {clauses}")

    one.ask(change)


def _filter_on(one: Machine, side: str) -> None:
    def change() -> None:
        one.stop("")
        one.sql(f"CHANGE REPLICATION SOURCE TO FILTER_ON = '{side}'")

    one.ask(change)


def _transaction(one: Machine, number: str) -> int:
    numbers = one.recording.transactions
    return numbers[(int(number) - 1) % len(numbers)]


def _before(one: Machine, number: str) -> None:
    at = _transaction(one, number)
    gtid = one.recording.units[at].gtid
    one.ask(lambda: one.start("SQL_THREAD", f" UNTIL SQL_BEFORE_GTIDS = '{gtid}'", at, gtid))


def _after(one: Machine, number: str) -> None:
    at = _transaction(one, number)
    gtid = one.recording.units[at].gtid
    one.ask(lambda: one.start("SQL_THREAD", f" UNTIL SQL_AFTER_GTIDS = '{gtid}'", at + 1, gtid))


def _position(one: Machine, number: str) -> None:
    at = _transaction(one, number)
    file, position = one.recording.units[at].end
    until = f" UNTIL SOURCE_LOG_FILE = '{file}', SOURCE_LOG_POS = {position - int(number) % 2}"
    one.ask(lambda: one.start("SQL_THREAD", until, at + 1))


def _time(one: Machine, seconds: str) -> None:
    one.world.now += float(seconds)


def _pace(one: Machine, seconds: str) -> None:
    one.world.pace = float(seconds)


def _options(option: str) -> list[str]:
    return [option] if option else []


def _move(one: Machine, number: str) -> None:
    """Go to a transaction that the binlog has already. A slave with SOURCE_AUTO_POSITION has no position."""
    at = _transaction(one, str(int(number) % max(one.binlog.units - 4, 1)))
    if not one.setup.auto_position and at < one.binlog.units:
        one.ask(lambda: one.move(one.recording.units[at].place))


def _power(one: Machine, seed: str) -> None:
    """Cut the power. Only a slave that syncs everything promises to survive."""
    if one.setup.sync == 1:
        one.kill([], random.Random(int(seed)))


def _master(one: Machine, _: str) -> None:
    one.network.stop()
    one.network.start()


def _switch(one: Machine, number: str) -> None:
    """Connect to another master, which finds the position by the GTID set."""
    if one.setup.auto_position:
        one.network.switch(int(number))


def _quiet(one: Machine, thread: str) -> None:
    """Let all threads run until the operator's statement, and this thread, have ended."""
    one.finish()
    one.world.settle(lambda: all(actor.name != ACTORS[thread] for actor in one.world.actors))


TAKE: Mapping[str, Callable[[Machine, str], None]] = {
    "QUIET": _quiet,
    "TIME": _time,
    "PACE": _pace,
    "GROW": lambda one, units: one.grow(int(units)),
    "START": lambda one, threads: one.ask(lambda: one.start(threads)),
    "STOP": lambda one, threads: one.ask(lambda: one.stop(threads)),
    "BEFORE": _before,
    "AFTER": _after,
    "POSITION": _position,
    "FILTER": _filter,
    "FILTER_ON": _filter_on,
    "RESET": lambda one, _: one.ask(one.reset),
    "RESTART": lambda one, option: one.ask(lambda: one.restart(_options(option))),
    "KILL": lambda one, option: one.kill(_options(option)),
    "MOVE": _move,
    "POWER": _power,
    "CUT": lambda one, _: one.network.cut(),
    "MASTER": _master,
    "SWITCH": _switch,
    "FAULT": lambda one, number: one.fail(int(number)),
    "DAMAGE": lambda one, seed: one.damage(random.Random(int(seed))),
    "DOWN": lambda one, _: one.network.stop(),
    "UP": lambda one, _: one.network.start(),
}
"""The function that takes a step, by the kind of step. Threads run in :func:`take`."""
