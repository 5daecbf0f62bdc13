"""The status records of a master or a slave that ``dumpfilter status`` prints, and the detection of problems in them.

A record is a dictionary of values that JSON can represent: ``--json`` prints the record as it is. A record is read from
a console, a gRPC port, or the relay directory of a slave. A value is None where this source does not provide it. Times
are Unix times, seconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.values import parse_size, parse_time

Record = dict[str, Any]


PROBLEM = 4
"""The exit code when the master or slave was reached and has a problem: a thread has stopped, a slave lags, or the
master serves nobody.
"""


class MaxLag(NamedTuple):
    """The largest lag that is not a problem, in bytes or in seconds. The default allows any lag."""

    nbytes: float = math.inf
    seconds: float = math.inf

    @classmethod
    def parse(cls, text: str) -> MaxLag:
        """Parse a lag such as ``64M`` or ``64MB`` (bytes), or ``30s``, ``5min`` or ``1h`` (times). Raises OptionError
        for another text.

        A lower-case ``m`` is refused, since people write it for minutes and for mebibytes.

        >>> MaxLag.parse("30s"), MaxLag.parse("1K"), MaxLag.parse("1KB")
        (MaxLag(nbytes=inf, seconds=30.0), MaxLag(nbytes=1024, seconds=inf), MaxLag(nbytes=1024, seconds=inf))
        """
        minutes = text.removesuffix("m")
        if minutes != text and minutes.isdecimal():
            raise OptionError(
                f"--max-lag: {text!r} could be minutes or bytes: write {minutes}min or {int(minutes) * 60}s, or "
                f"{minutes}M"
            )
        with suppress(OptionError):
            if text.lower().endswith(("s", "min", "h", "d")):
                return cls(seconds=parse_time(text.lower()))
            if minutes == text:
                return cls(nbytes=parse_size(re.sub("i?b$", "", text, flags=re.IGNORECASE)))
        raise OptionError(f"--max-lag: {text!r} is no lag: write a time (30s, 5min, 1h) or bytes (64M)")

    def exceeded(self, record: Record) -> bool:
        """Tell whether the lag in the status record of a slave or channel exceeds this limit. An unknown lag (None)
        does not exceed the limit.
        """
        return (record["lag_bytes"] or 0) > self.nbytes or (record["lag_seconds"] or 0) > self.seconds


MASTER: Record = {
    "role": "master",
    **dict.fromkeys(("address", "console", "health", "hint", "version", "server_version", "file"), ""),
    **dict.fromkeys(("position", "files", "bytes"), 0),
    **dict.fromkeys(("slaves", "drains", "drift", "source")),
    "problems": [],
}
"""The status record of a master of which nothing is known.

``address`` is the master's address for slaves. ``health`` is SERVING, NOT_SERVING, or empty if nobody asked the health
service. ``hint`` says why the record is not complete. ``slaves``, ``drains`` (the slaves that an operator has
disconnected) and ``drift`` (the replicas whose own filter drops less than the master) are None if the login may not
read them. ``source`` is None if the master does not receive its binlog from a running server.
"""

SLAVE: Record = {
    "role": "slave",
    **dict.fromkeys(("console", "relay_dir", "server_uuid", "version"), ""),
    "running": True,
    "process": None,
    "channels": [],
    "problems": [],
}
"""The status record of a slave without channels.

``running`` tells whether a slave answers at the console, or has locked the relay directory. ``process`` is the id of
the process that has locked the directory.
"""

CHANNEL: Record = {
    **dict.fromkeys(("channel", "source", "filter_on", "io_error", "sql_error"), ""),
    **dict.fromkeys(("io_running", "sql_running", "lag_bytes", "lag_seconds")),
    **dict.fromkeys(("last_io_error", "last_sql_error", "received_file", "applied_file", "relay_file"), ""),
    **dict.fromkeys(("last_io_error_at", "last_sql_error_at"), 0.0),
    **dict.fromkeys(("received_position", "applied_position", "relay_position"), 0),
    **dict.fromkeys(("retrieved_gtids", "executed_gtids", "unusable"), ""),
    "counters": {},
    "hits": {},
}
"""The part of a slave's status record about one replication channel of which nothing is known.

``io_running`` and ``sql_running`` have the values of SHOW REPLICA STATUS. ``last_io_error`` and ``last_sql_error`` are
the newest errors, even if the thread runs again; they are known only from the files of the relay directory.
``lag_bytes`` is the number of bytes of the relay log that are not applied yet. ``unusable`` is the error of a state
file that cannot be used.
"""

_COUNTS = ("events_", "bytes_", "transactions_")
"""The prefixes by which the counters are recognized among a slave's status values."""


def files_record(files: Sequence[tuple[str, int]]) -> Record:
    """Return the part of a master's status record about its binlog files: the number and total size of the files, and
    the name and size of the last file.

    ``files`` are the names and sizes of the binlog files, the oldest first.
    """
    file, position = files[-1] if files else ("", 0)
    return {
        "file": file,
        "position": position,
        "files": len(files),
        "bytes": sum(size for _, size in files),
    }


def slave_of_master(facts: Mapping[str, Any], filter_warnings: Sequence[str] = ()) -> Record:
    """Return the status record (dictionary) of a slave from its row of the master's table ``dumpfilter.slaves``.

    ``facts`` has the values by column, from the master's console or from its port for slaves. ``filter_warnings`` are
    texts about the slave's filter rules. ``saved`` in the record is the saved fraction of the bytes that the master
    read for the slave; None if it read nothing. Saved bytes are dropped bytes, minus the bytes of empty transactions
    that are sent to keep GTIDs.
    """
    counts = {name: value or 0 for name, value in facts.items() if name.startswith(_COUNTS)}
    dropped = counts["bytes_dropped"]
    read = counts["bytes_sent"] + dropped
    return {
        **{name: value for name, value in facts.items() if name not in counts},
        "dumping": bool(facts["dumping"]),
        "drained": bool(facts["drained"]),
        "counts": counts,
        "filter_warnings": list(filter_warnings),
        "saved": (dropped - counts["bytes_gtid"]) / read if read > 0 else None,
    }


def channel_of_slave(row: Mapping[str, Any], hits: Mapping[str, int]) -> Record:
    """Return the part of a slave's status record about one channel, from its row of the table ``dumpfilter.channels``.

    ``row`` has the values by column, from the slave's console or from the files of its relay directory. ``hits`` has
    the number of uses of filter rules, by the kind of rule, such as ``replicate-do-db``.
    """
    facts = {name.lower(): value for name, value in row.items()}
    counters = {
        name: value for name, value in facts.items() if isinstance(value, int) and name not in CHANNEL
    }
    rest = {name: value for name, value in facts.items() if name not in counters}
    return {**CHANNEL, "channel": rest.pop("channel_name"), **rest, "counters": counters, "hits": dict(hits)}


def judge(status: Record, most: MaxLag) -> list[str]:
    """Find the problems in the status record (dictionary) of a master or slave, such as a stopped thread or a lag above
    ``most``.

    Return the problems as sentences, and store them in the record as ``problems``.
    """
    problems = _problems_of_master if status["role"] == "master" else _problems_of_slave
    found = status["problems"] = list(problems(status, most))
    return found


def _problems_of_master(status: Record, most: MaxLag) -> Iterator[str]:
    if status["health"] not in ("", "SERVING"):
        yield (
            f"the master answers and is {status['health']}: it is draining, or cannot read its binlog; look at its log"
        )
    source = status["source"]
    if source is not None and source["state"] != "receiving":
        error = f": {source['last_error']}" if source["last_error"] else ""
        yield f"the source {source['address']} is not received ({source['state']}){error}"
    for drifting in status["drift"] or ():
        yield f"replica {drifting['server_id']} of user {drifting['user']}: {drifting['reason']}"
    for slave in status["slaves"] or ():
        if (absence := _absence(slave)) is not None:
            yield absence
        elif most.exceeded(slave):
            state = "" if slave["dumping"] else ", and has no dump"
            yield f"{name_of_slave(slave)} lags behind by {_lag(slave)}{state}"


def _absence(slave: Record) -> str | None:
    """Return a sentence that says why the absence of a slave from its master is a problem; None if it is no problem.

    ``slave`` is the slave's status record, as the master has it.
    """
    if slave["drained"]:
        return None
    name, user = name_of_slave(slave), slave["user"]
    match slave["state"]:
        case "never seen":
            return (
                f"{slave['entry']} (user {user}): no such replica has ever connected; let one connect, or remove the "
                "table from the master's configuration"
            )
        case "refused":
            return f"{name} of user {user!r} was refused: {slave['refusal']}; cure this, and start the replica again"
        case "gone":
            behind = f" and lags behind by {lag}" if (lag := _lag(slave)) else ""
            number = slave["server_id"] or f"'{slave['uuid']}'"
            return (
                f"{name} of user {user!r} is gone since {slave['gone_since']}{behind}; start it again, or say "
                f"UNREGISTER REPLICA {number} on the master's console"
            )
    return None


def _problems_of_slave(status: Record, most: MaxLag) -> Iterator[str]:
    if not status["running"]:
        yield f"no slave runs in {status['relay_dir']}: its threads have stopped"
    for channel in status["channels"]:
        name = name_of_channel(channel)
        if channel["unusable"]:
            yield f"{name}: {channel['unusable']}"
        for thread, title in (("io", "I/O thread"), ("sql", "SQL thread")):
            running, error = channel[f"{thread}_running"], channel[f"{thread}_error"]
            if running not in (None, "Yes"):
                state = "is connecting" if running == "Connecting" else "does not run"
                yield f"{name}: the {title} {state}{': ' + error if error else ''}"
        if most.exceeded(channel):
            yield f"{name}: the SQL thread lags behind by {_lag(channel)}"
    if not status["channels"]:
        yield "the slave has no channel: configure one with CHANGE REPLICATION SOURCE TO"


def name_of_slave(slave: Record) -> str:
    """Return the text by which messages name a slave of a master, such as "slave 101 on channel c"."""
    channel = f" on channel {slave['channel']}" if slave["channel"] else ""
    return f"slave {slave['server_id']}{channel}"


def name_of_channel(channel: Record) -> str:
    """Return the text by which messages name a replication channel of a slave, such as "channel c" or "the default
    channel".
    """
    return f"channel {channel['channel']}" if channel["channel"] else "the default channel"


def _lag(lagging: Record) -> str:
    """Return the known parts of the lag of a slave or channel, such as "1,024 bytes, 3.0 s"; empty if none is known."""
    nbytes, seconds = lagging["lag_bytes"], lagging["lag_seconds"]
    parts = [] if nbytes is None else [f"{nbytes:,} bytes"]
    return ", ".join(parts if seconds is None else [*parts, f"{seconds:.1f} s"])
