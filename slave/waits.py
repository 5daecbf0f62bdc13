"""The SQL functions of the console that wait for an applier, such as SOURCE_POS_WAIT and WAIT_FOR_EXECUTED_GTID_SET.

Values, errors and warnings are those of MySQL 9.7. On a channel with MariaDB's binlogs, MASTER_POS_WAIT acts as in
MariaDB 10.11. MASTER_GTID_WAIT is MariaDB's function.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from dumpfilter.base.errors import GtidError
from dumpfilter.base.options.defaults import FIRST_EVENT
from dumpfilter.binlog.gtid import GtidSet, MariadbGtidSet, MysqlGtidSet, parse_gtid_set
from dumpfilter.console.sql import server_errors
from dumpfilter.console.sql.functions import number_of
from dumpfilter.console.sql.interruption import Interrupt
from dumpfilter.console.sql.result import Note
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.console.sql.waits import Value, Wait, Waited
from dumpfilter.filter.channels import fold_channel
from dumpfilter.slave.channel import Channel
from dumpfilter.slave.facts import views
from dumpfilter.slave.slave import Slave
from dumpfilter.slave.threads.until import UntilPosition

_NO_GTID_LIST = (1941, "HY000", "Could not parse GTID list")
"""MariaDB's error ER_INCORRECT_GTID_STATE."""
_MOST_SECONDS = 10_000_000.0
"""The longest timeout, seconds. A longer one counts as no timeout."""

_NO_GTIDS = MysqlGtidSet()

S = TypeVar("S", bound=GtidSet)

_Until = Callable[[Callable[[], bool], float | None], bool]
"""A function ``until(ask, seconds)`` that waits until ``ask`` returns true, at most ``seconds`` (None: no limit), and
returns the last answer.
"""


def wait(slave: Slave, call: Wait, interrupt: Interrupt, seconds: float | None) -> Waited:
    """Execute an SQL function that waits for an applier, and return its value. Raises SqlError.

    ``seconds`` limits the statement's time (``max_execution_time``); None: no limit. Setting ``interrupt`` ends the
    wait.
    """
    until = partial(_until, slave, interrupt, seconds)
    if call.name == "wait_for_executed_gtid_set":
        return _for_gtid_set(slave, call, until)
    if call.name == "master_gtid_wait":
        return _for_mariadb_gtids(slave, call, until)
    return _for_position(slave, call, until)


def _for_position(slave: Slave, call: Wait, until: _Until) -> Waited:
    notes: list[Note] = []
    has_name = len(call.arguments) > 3
    name = call.argument(3)
    found = None if has_name and name is None else _channel(slave, str(name or ""))
    is_mariadb = found is not None and found.master_info.family == "mariadb"
    if call.name == "master_pos_wait" and not is_mariadb:
        notes.append(server_errors.ER_WARN_DEPRECATED_SYNTAX.warning("MASTER_POS_WAIT", "SOURCE_POS_WAIT"))
    timeout = _number(call.argument(2))
    if timeout < 0 and not is_mariadb:
        raise server_errors.ER_WRONG_ARGUMENTS("SOURCE_POS_WAIT.")
    if is_mariadb:
        # MariaDB rounds to whole seconds, and takes everything else for no timeout.
        timeout = float(max(0, math.floor(timeout + 0.5)))
    place = _place(call.argument(0), call.argument(1))
    if place is None or found is None or not found.applier_runs:
        return Waited(None, notes)
    reached: bool | None = False
    advances = -1

    def ask() -> bool:
        nonlocal reached, advances
        advances += 1
        applied = found.relay_log_info
        # The applier never comes to a file whose name is not one of this master's.
        is_elsewhere = bool(applied.source_file) and _base(applied.source_file) != _base(place.file)
        reached = None if is_elsewhere else place.met(applied, _NO_GTIDS)
        return reached is not False or not found.applier_runs

    if not until(ask, timeout or None):
        return Waited(-1, notes)
    return Waited(advances if reached else None, notes)


def _channel(slave: Slave, name: str) -> Channel | None:
    folded = fold_channel(name)
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


def _for_gtid_set(slave: Slave, call: Wait, until: _Until) -> Waited:
    text = call.argument(0)
    shown = "NULL" if text is None else str(text)
    try:
        wanted = parse_gtid_set(shown, "mysql")
    except GtidError as error:
        raise server_errors.ER_MALFORMED_GTID_SET_SPECIFICATION(shown) from error
    timeout = _number(call.argument(1))
    if len(call.arguments) > 1 and (call.argument(1) is None or timeout < 0):
        raise server_errors.ER_WRONG_ARGUMENTS("WAIT_FOR_EXECUTED_GTID_SET.")
    has_all = until(lambda: not wanted or _executed(slave, type(wanted)).issuperset(wanted), timeout or None)
    return Waited(0 if has_all else 1)


def _for_mariadb_gtids(slave: Slave, call: Wait, until: _Until) -> Waited:
    text = call.argument(0)
    if text is None:
        return Waited(None)
    try:
        if not isinstance(text, str):
            raise GtidError(f"{text!r} is no list of GTIDs")
        wanted = MariadbGtidSet.parse(text)
    except GtidError as error:
        raise SqlError(*_NO_GTID_LIST) from error
    timeout = None if call.argument(1) is None else _number(call.argument(1))

    def has_all() -> bool:
        here = {gtid.domain_id: gtid.seq_no for gtid in _executed(slave, MariadbGtidSet).gtids()}
        return all(here.get(gtid.domain_id, 0) >= gtid.seq_no for gtid in wanted.gtids())

    # A negative timeout is none, and 0 does not wait.
    limit = timeout if timeout is None or timeout >= 0 else None
    return Waited(0 if until(has_all, limit) else -1)


def _executed(slave: Slave, kind: type[S]) -> S:
    """Return the GTIDs that all channels together have applied, as a set of the type ``kind``. Channels of the other
    server family are left out.
    """
    total = kind()
    for one in views(slave.channels_now):
        if isinstance(found := one.executed, kind):
            total.update(found)
    return total


def _until(
    slave: Slave,
    interrupt: Interrupt,
    seconds: float | None,
    ask: Callable[[], bool],
    timeout: float | None,
) -> bool:
    """Wait until ``ask`` returns true, and return its last answer.

    The wait ends after ``timeout`` seconds; None: no timeout. Raises SqlError 1317 when ``interrupt`` is set or the
    slave stops, and 3024 after ``seconds`` (None: no limit).
    """
    if timeout is not None and timeout > _MOST_SECONDS:
        timeout = None
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
