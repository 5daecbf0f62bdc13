"""The SQL functions of the console that wait for an applier, such as SOURCE_POS_WAIT and WAIT_FOR_EXECUTED_GTID_SET.

Values, errors and warnings are those of MySQL 9.7. On a channel with MariaDB's binlogs, MASTER_POS_WAIT acts as in
MariaDB 10.11. MASTER_GTID_WAIT is MariaDB's function.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from dumpfilter.base.errors import GtidError
from dumpfilter.base.options.values import FIRST_EVENT
from dumpfilter.binlog.gtid import GtidSet, MariadbGtidSet, MysqlGtidSet, parse_gtid_set
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.functions import number_of
from dumpfilter.console.sql.interruption import running_interrupt
from dumpfilter.filter.channels import fold_channel
from dumpfilter.slave.channel import Channel
from dumpfilter.slave.facts import views
from dumpfilter.slave.slave import Slave
from dumpfilter.slave.threads.until import UntilPosition

_MOST_SECONDS = 10_000_000.0
"""The longest timeout, seconds. A longer one counts as no timeout."""

_NO_GTIDS = MysqlGtidSet()

S = TypeVar("S", bound=GtidSet)

Value = int | float | str | None
"""The type of an argument of an SQL function."""


def wait_functions(slave: Slave) -> Mapping[str, Callable[..., int | None]]:
    """Return the SQL functions that wait until ``slave`` has applied a position or GTID set, such as SOURCE_POS_WAIT,
    by name in lower case. They raise SqlError.
    """
    return {
        "source_pos_wait": partial(_source_pos_wait, slave),
        "master_pos_wait": partial(_master_pos_wait, slave),
        "wait_for_executed_gtid_set": partial(_wait_for_executed_gtid_set, slave),
        "master_gtid_wait": partial(_master_gtid_wait, slave),
    }


def _master_pos_wait(
    slave: Slave, file: Value, position: Value, timeout: Value = 0, channel: Value = ""
) -> int | None:
    if not _is_mariadb(_channel(slave, channel)):
        deprecated = server_errors.ER_WARN_DEPRECATED_SYNTAX.warning("MASTER_POS_WAIT", "SOURCE_POS_WAIT")
        running_interrupt().notes.append(deprecated)
    return _source_pos_wait(slave, file, position, timeout, channel)


def _source_pos_wait(
    slave: Slave, file: Value, position: Value, timeout: Value = 0, channel: Value = ""
) -> int | None:
    found = _channel(slave, channel)
    seconds = _number(timeout)
    if _is_mariadb(found):
        # MariaDB rounds to whole seconds, and takes everything else for no timeout.
        seconds = float(max(0, math.floor(seconds + 0.5)))
    elif seconds < 0:
        raise server_errors.ER_WRONG_ARGUMENTS("SOURCE_POS_WAIT.")
    place = _place(file, position)
    if place is None or found is None or not found.sql.works:
        return None
    reached: bool | None = False
    advances = -1

    def ask() -> bool:
        nonlocal reached, advances
        advances += 1
        applied = found.relay_log_info
        # The applier never comes to a file whose name is not one of this master's.
        is_elsewhere = bool(applied.source_file) and _base(applied.source_file) != _base(place.file)
        reached = None if is_elsewhere else place.met(applied, _NO_GTIDS)
        return reached is not False or not found.sql.works

    if not _until(slave, ask, seconds or None):
        return -1
    return advances if reached else None


def _is_mariadb(channel: Channel | None) -> bool:
    return channel is not None and channel.master_info.family == "mariadb"


def _channel(slave: Slave, name: Value) -> Channel | None:
    folded = None if name is None else fold_channel(str(name))
    return next((one for one in slave.channels_now if one.name == folded), None)


def _base(file: str) -> str:
    return file.rpartition(".")[0]


def _place(file: Value, position: Value) -> UntilPosition | None:
    """Return the binlog position that two SQL arguments name. Return None if ``file`` has no number at its end, or
    ``position`` is negative.
    """
    offset = _whole(position)
    if file is None or not re.search(r"\.[0-9]+\Z", str(file)) or offset < 0:
        return None
    return UntilPosition("Source", str(file), max(offset, FIRST_EVENT))


def _wait_for_executed_gtid_set(slave: Slave, gtids: Value, timeout: Value = 0) -> int:
    shown = "NULL" if gtids is None else str(gtids)
    try:
        wanted = parse_gtid_set(shown, "mysql")
    except GtidError as error:
        raise server_errors.ER_MALFORMED_GTID_SET_SPECIFICATION(shown) from error
    if timeout is None or _number(timeout) < 0:
        raise server_errors.ER_WRONG_ARGUMENTS("WAIT_FOR_EXECUTED_GTID_SET.")

    def has_all() -> bool:
        return not wanted or _executed(slave, type(wanted)).issuperset(wanted)

    return 0 if _until(slave, has_all, _number(timeout) or None) else 1


def _master_gtid_wait(slave: Slave, gtids: Value, timeout: Value = None) -> int | None:
    if gtids is None:
        return None
    try:
        if not isinstance(gtids, str):
            raise GtidError(f"{gtids!r} is no list of GTIDs")
        wanted = MariadbGtidSet.parse(gtids)
    except GtidError as error:
        raise server_errors.ER_MARIADB_INCORRECT_GTID_STATE() from error

    def has_all() -> bool:
        here = {gtid.domain_id: gtid.seq_no for gtid in _executed(slave, MariadbGtidSet).gtids()}
        return all(here.get(gtid.domain_id, 0) >= gtid.seq_no for gtid in wanted.gtids())

    # A negative timeout is none, and 0 does not wait.
    seconds = None if timeout is None or _number(timeout) < 0 else _number(timeout)
    return 0 if _until(slave, has_all, seconds) else -1


def _executed(slave: Slave, kind: type[S]) -> S:
    """Return the GTIDs that all channels together have applied, as a set of the type ``kind``. Channels of the other
    server family are left out.
    """
    total = kind()
    for one in views(slave.channels_now):
        if isinstance(found := one.executed, kind):
            total.update(found)
    return total


def _until(slave: Slave, ask: Callable[[], bool], timeout: float | None) -> bool:
    """Wait until ``ask`` returns true, and return its last answer.

    The wait ends after ``timeout`` seconds; None: no timeout. Raises SqlError 1317 when the running statement is
    interrupted or the slave stops, and 3024 after the statement's time limit.
    """
    if timeout is not None and timeout > _MOST_SECONDS:
        timeout = None
    interrupt = running_interrupt()
    seconds = interrupt.seconds
    # The bound of the statement ends it with an error, and the function's own timeout with a value.
    is_bounded = seconds is not None and (timeout is None or seconds < timeout)

    def is_over() -> bool:
        return interrupt.is_set() or slave.is_closing

    with interrupt.calling(slave.progress.told):
        answer = slave.progress.until(lambda: is_over() or ask(), seconds if is_bounded else timeout)
    if is_over():
        raise server_errors.ER_QUERY_INTERRUPTED()
    if not answer and is_bounded:
        raise server_errors.ER_QUERY_TIMEOUT()
    return answer


def _number(value: Value) -> float:
    return 0.0 if value is None else float(number_of(value))


def _whole(value: Value) -> int:
    return 0 if value is None else math.floor(number_of(value) + 0.5)
