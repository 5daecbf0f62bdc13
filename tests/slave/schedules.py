"""Schedules: lists of steps that an operator and a master take while a slave streams.

A schedule is data. A seed draws one, and :func:`replay` takes its steps. A failing test prints the steps, and a person
may add them to :data:`RECORDED`. The environment variable ``DUMPFILTER_SCHEDULES`` multiplies the number of schedules.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from tests.slave.driven import Driven, Master

FACTOR = int(os.environ.get("DUMPFILTER_SCHEDULES", "1"))
"""The factor by which a test takes more schedules than in the suite."""

UUID = "5a8b8d0a-e543-11f1-9c8d-02fc00000001"
"""The server UUID in the GTIDs of the recording mysql-row, whose transactions have the numbers 1 to 74."""

OLD_OPTION = "--replicate-ignore-db=hr"
"""The filter option with which a slave starts its schedule."""

Step = tuple[str, str]
"""The kind of a step and its argument."""

THREADS = ("IO_THREAD", "SQL_THREAD", "")
FILTERS = (
    "REPLICATE_DO_DB = (shop, hr), REPLICATE_IGNORE_DB = ()",
    "REPLICATE_IGNORE_DB = (logs), REPLICATE_DO_DB = ()",
    "REPLICATE_WILD_DO_TABLE = ('s%.%', 'a_b.%')",
    "REPLICATE_WILD_DO_TABLE = (), REPLICATE_IGNORE_TABLE = (hr.emp, shop.orders)",
)
ARGUMENTS: Mapping[str, Sequence[str]] = {
    "START": THREADS,
    "STOP": THREADS,
    "FILTER": FILTERS,
    "FILTER_ON": ("MASTER", "SLAVE", "BOTH"),
    "UNTIL": [str(number) for number in range(1, 75)],
    "RESTART": ("", OLD_OPTION, "--replicate-do-db=shop"),
    "MASTER": ("",),
}
"""The arguments that each kind of step may have."""

RECORDED: Mapping[str, Sequence[Step]] = {
    "nothing": [],
    "the file before ends with dropped transactions": [
        ("RESTART", "--replicate-do-db=shop"),
        ("STOP", "SQL_THREAD"),
        ("START", ""),
        ("STOP", "SQL_THREAD"),
        ("UNTIL", "5"),
        ("FILTER", "REPLICATE_WILD_DO_TABLE = ('s%.%', 'a_b.%')"),
        ("UNTIL", "53"),
        ("START", "IO_THREAD"),
        ("MASTER", ""),
        ("FILTER_ON", "SLAVE"),
    ],
}
"""Schedules that once failed, or that are worth keeping, by name."""


def drawn(seed: int, steps: int = 10) -> list[Step]:
    """Return the schedule of a seed. The same seed always draws the same schedule."""
    rng = random.Random(seed)
    kinds = list(ARGUMENTS)
    return [(kind, rng.choice(ARGUMENTS[kind])) for kind in rng.choices(kinds, k=steps)]


def replay(schedule: Sequence[Step], slave: Driven, master: Master) -> None:
    """Take the steps one after the other."""
    for kind, argument in schedule:
        TAKE[kind](slave, master, argument)


@contextmanager
def printed(schedule: object) -> Iterator[None]:
    """Add the schedule to an error that leaves the block, so that the test's report shows it."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"schedule: {schedule!r}")
        raise


def apply_before(slave: Driven, number: int) -> None:
    """Apply up to the transaction before this number, and wait until the applier has ended there."""
    slave.sql(f"START REPLICA SQL_THREAD UNTIL SQL_BEFORE_GTIDS = '{UUID}:{number}'")
    slave.stopped()


def _start(slave: Driven, master: Master, threads: str) -> None:
    slave.sql(f"START REPLICA {threads}")


def _stop(slave: Driven, master: Master, threads: str) -> None:
    slave.sql(f"STOP REPLICA {threads}")


def _filter(slave: Driven, master: Master, clauses: str) -> None:
    slave.sql("STOP REPLICA SQL_THREAD")
    slave.sql(f"CHANGE REPLICATION FILTER {clauses}")


def _filter_on(slave: Driven, master: Master, side: str) -> None:
    slave.sql("STOP REPLICA")
    slave.sql(f"CHANGE REPLICATION SOURCE TO FILTER_ON = '{side}'")


def _until(slave: Driven, master: Master, number: str) -> None:
    slave.sql("STOP REPLICA SQL_THREAD")
    slave.sql("START REPLICA IO_THREAD")
    apply_before(slave, int(number))


def _restart(slave: Driven, master: Master, option: str) -> None:
    slave.restart(*[option] if option else [])


def _restart_master(slave: Driven, master: Master, argument: str) -> None:
    master.stop()
    master.start()


TAKE: Mapping[str, Callable[[Driven, Master, str], None]] = {
    "START": _start,
    "STOP": _stop,
    "FILTER": _filter,
    "FILTER_ON": _filter_on,
    "UNTIL": _until,
    "RESTART": _restart,
    "MASTER": _restart_master,
}
"""The function that takes a step, by the kind of step."""
