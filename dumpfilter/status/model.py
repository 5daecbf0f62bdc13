"""The facts that ``dumpfilter status`` tells about a master or a slave, and the problems among them."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, computed_field, model_validator

from dumpfilter.errors import ConnectionLost, DumpfilterError, OptionError
from dumpfilter.options.sizes import parse_size


class ExitCode(enum.IntEnum):
    """The exit codes of ``dumpfilter status``. Its errors have the exit codes of :mod:`dumpfilter.errors`."""

    GOOD = 0
    PROBLEM = 4
    """The master or slave was reached, and a thread has stopped, a slave lags, or the master serves nobody."""


class StatusRefused(DumpfilterError):
    """The error for a master or console that refuses to tell its status. The text has the cure."""


class NotOurs(ConnectionLost):
    """The error for an address at which another program answers than the one that was asked for."""


_FEW_BYTES = 1024
"""The size below which a lag in bytes is most probably meant in seconds."""


_TIMES = {"min": 60.0, "h": 3600.0, "s": 1.0}
"""The seconds in each unit of time."""


def no_lag(text: str) -> OptionError:
    """Return the error about a text that names no lag."""
    if text[-1:] == "m" and text[:-1].isdecimal():
        minutes = int(text[:-1])
        return OptionError(
            f"--max-lag: {text!r} could be minutes or bytes: write {minutes}min or {minutes * 60}s, or {minutes}M"
        )
    return OptionError(f"--max-lag: {text!r} is no lag: write a time (30s, 5min, 1h) or bytes (64M)")


def _seconds_in(text: str) -> tuple[str, float | None]:
    """Return the number of a time and the seconds in the time's unit. The seconds are None for all other texts."""
    lower = text.lower()
    return next(
        ((lower.removesuffix(unit), factor) for unit, factor in _TIMES.items() if lower.endswith(unit)),
        (text, None),
    )


@dataclass(frozen=True)
class MaxLag:
    """The largest lag that is no problem, in bytes or in seconds. The default allows any lag."""

    nbytes: float = math.inf
    seconds: float = math.inf

    @classmethod
    def parse(cls, text: str) -> MaxLag:
        """Parse a lag such as ``64M`` or ``64MB`` (bytes), or ``30s``, ``5min`` or ``1h`` (times). Raises OptionError.

        A lower-case ``m`` is refused, since people write it for minutes and for mebibytes.

        >>> MaxLag.parse("30s"), MaxLag.parse("1K"), MaxLag.parse("1KB")
        (MaxLag(nbytes=inf, seconds=30.0), MaxLag(nbytes=1024, seconds=inf), MaxLag(nbytes=1024, seconds=inf))
        """
        number, factor = _seconds_in(text)
        if factor is None:
            if text.endswith("m"):
                raise no_lag(text)
            size = text.upper().removesuffix("B").removesuffix("I")
            try:
                return cls(nbytes=parse_size(size, option="--max-lag"))
            except OptionError:
                raise no_lag(text) from None
        try:
            seconds = float(number) * factor
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < math.inf:
            raise no_lag(text)
        return cls(seconds=seconds)

    def is_odd(self, text: str) -> bool:
        """Tell whether a lag in bytes, parsed from a bare number, is most probably meant in seconds."""
        return text.isdigit() and 0 < self.nbytes < _FEW_BYTES

    def exceeded(self, nbytes: int | None, seconds: float | None) -> bool:
        """Tell whether a lag is a problem. An unknown lag is none."""
        return (nbytes is not None and nbytes > self.nbytes) or (
            seconds is not None and seconds > self.seconds
        )


class Record(BaseModel):
    """Facts from a row, a message or files. A NULL is the member's default, and other columns are left out."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if value is not None}


class SlaveOfMaster(Record):
    """A slave as its master tells it."""

    server_id: int = 0
    uuid: str = ""
    host: str = ""
    port: int = 0
    user: str = ""
    channel: str = ""
    dumping: bool = False
    file: str = ""
    position: int = 0
    lag_bytes: int | None = None
    lag_seconds: float | None = None
    """The time since the first event was written that the slave was not sent. Only the master's console tells it."""
    counts: dict[str, int] = Field(default_factory=dict)
    """The events, bytes and transactions that the master has read, sent and dropped for the slave."""
    filter_warnings: list[str] = Field(default_factory=list)
    """Warnings about rules of the slave's filter that do not do what they seem to do. They are no problems."""
    state: str = ""
    """``connected``, ``gone``, ``refused``, ``drained``, ``never seen``, ``finished`` or ``registered``."""
    gone_since: str = ""
    """The time of the last sign of life of a slave that is gone, ISO 8601 in UTC. Empty for any other slave."""
    drained: bool = False
    entry: str = ""
    """The key of the ``[[replica]]`` that names a slave which was never seen, such as ``replica[2]``."""
    refusal: str = ""
    """The error with which the master refused a replica whose state is ``refused``."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def saved(self) -> float | None:
        """The part of the binlog's bytes that the slave was saved: dropped bytes without stand-ins for GTIDs.

        None before the master has read anything for the slave.
        """
        dropped = self.counts.get("bytes_dropped", 0)
        read = self.counts.get("bytes_sent", 0) + dropped
        return (dropped - self.counts.get("bytes_gtid", 0)) / read if read > 0 else None

    @property
    def shown_state(self) -> str:
        """The state for people."""
        state = self.state if self.state == "gone" else f"{self.state}, gone"
        return f"{state} since {self.gone_since}" if self.gone_since else self.state

    def absence(self) -> str | None:
        """Return why the absence of the slave is a problem, or None when it is none."""
        if self.drained:
            return None
        if self.state == "never seen":
            return (
                f"{self.entry} (user {self.user}): no such replica has ever connected; let one connect, or remove the "
                "table from the master's configuration"
            )
        if self.state == "refused":
            return f"{self} of user {self.user!r} was refused: {self.refusal}; cure this, and start the replica again"
        if self.state != "gone":
            return None
        behind = _lag(self.lag_bytes, self.lag_seconds)
        lag = f" and lags behind by {behind}" if behind else ""
        name = self.server_id or f"'{self.uuid}'"
        return (
            f"{self} of user {self.user!r} is gone since {self.gone_since}{lag}; start it again, or say "
            f"UNREGISTER REPLICA {name} on the master's console"
        )

    def __str__(self) -> str:
        channel = f" on channel {self.channel}" if self.channel else ""
        return f"slave {self.server_id}{channel}"


class MasterStatus(Record):
    """The status of a master, as far as the asker may know it."""

    address: str = ""
    """The master's address for slaves, or an empty text if only its console was asked."""
    console: str = ""
    health: str = ""
    """SERVING, NOT_SERVING, or an empty text if the health service was not asked."""
    hint: str = ""
    """Why the status is not complete, and what to do."""
    version: str = ""
    server_version: str = ""
    file: str = ""
    position: int = 0
    files: int = 0
    bytes: int = 0
    slaves: list[SlaveOfMaster] | None = None
    """The slaves that the asker may know. None if the asker may not know any."""
    drains: list[dict[str, Any]] | None = None
    """The drains in force, or None if the console was not asked."""
    drift: list[dict[str, Any]] | None = None
    """The real replicas whose own filters are wider than those of the master, or None if the console was not asked."""
    source: dict[str, Any] | None = None
    """The running server that the master follows, as its console tells. None if it follows none."""
    problems: list[str] = Field(default_factory=list)

    def judge(self, most: MaxLag) -> None:
        """Fill in :attr:`problems`."""
        self.problems = list(self._problems(most))

    def _problems(self, most: MaxLag) -> Iterator[str]:
        if self.health and self.health != "SERVING":
            yield (
                f"the master answers and is {self.health}: it is draining, or cannot read its binlog; look at its log"
            )
        if self.source is not None and self.source.get("state") != "receiving":
            error = self.source.get("last_error")
            yield (
                f"the source {self.source.get('address')} is not received ({self.source.get('state')})"
                f"{f': {error}' if error else ''}"
            )
        for drifting in self.drift or ():
            yield f"replica {drifting.get('server_id')} of user {drifting.get('user')}: {drifting.get('reason')}"
        for slave in self.slaves or ():
            if (absence := slave.absence()) is not None:
                yield absence
            elif most.exceeded(slave.lag_bytes, slave.lag_seconds):
                state = "" if slave.dumping else ", and has no dump"
                yield f"{slave} lags behind by {_lag(slave.lag_bytes, slave.lag_seconds)}{state}"

    def as_dict(self) -> dict[str, Any]:
        """Return the status as values that JSON can represent."""
        return {"role": "master", **self.model_dump(mode="json")}


class ChannelStatus(Record):
    """One channel of a slave. A value is None if the asked source does not tell it. Times are Unix times, seconds."""

    channel: str = ""
    source: str = ""
    """The address of the channel's master, as HOST:PORT."""
    filter_on: str = ""
    io_running: str | None = None
    """``Replica_IO_Running``: Yes, No or Connecting."""
    sql_running: str | None = None
    io_error: str = ""
    sql_error: str = ""
    last_io_error: str = ""
    """The newest error of the I/O thread at all, even if the thread runs again. Only the relay directory tells it."""
    last_io_error_at: float = 0.0
    last_sql_error: str = ""
    last_sql_error_at: float = 0.0
    received_file: str = ""
    received_position: int = 0
    applied_file: str = ""
    applied_position: int = 0
    relay_file: str = ""
    relay_position: int = 0
    retrieved_gtids: str = ""
    executed_gtids: str = ""
    lag_bytes: int | None = None
    """The bytes of the relay log that are not applied. The lag behind the master is in the master's status."""
    lag_seconds: float | None = None
    counters: dict[str, int] = Field(default_factory=dict)
    hits: dict[str, int] = Field(default_factory=dict)
    unusable: str = ""
    """The error of a state file that cannot be used."""

    @property
    def shown_name(self) -> str:
        """The channel's name for people."""
        return f"channel {self.channel}" if self.channel else "the default channel"

    def problems(self, most: MaxLag) -> Iterator[str]:
        """Yield the channel's problems as sentences."""
        name = self.shown_name
        if self.unusable:
            yield f"{name}: {self.unusable}"
        for thread, running, error in (
            ("I/O thread", self.io_running, self.io_error),
            ("SQL thread", self.sql_running, self.sql_error),
        ):
            if running is not None and running != "Yes":
                state = "is connecting" if running == "Connecting" else "does not run"
                yield f"{name}: the {thread} {state}{': ' + error if error else ''}"
        if most.exceeded(self.lag_bytes, self.lag_seconds):
            yield f"{name}: the SQL thread lags behind by {_lag(self.lag_bytes, self.lag_seconds)}"


class SlaveStatus(Record):
    """The status of a slave: a running one by its console, or its relay directory."""

    console: str = ""
    relay_dir: str = ""
    server_uuid: str = ""
    version: str = ""
    running: bool = True
    """Whether a slave process works in the relay directory, or answers at the console."""
    process: int | None = None
    """The number of the process that has locked the relay directory."""
    channels: list[ChannelStatus] = Field(default_factory=list)
    problems: list[str] = Field(default_factory=list)

    def judge(self, most: MaxLag) -> None:
        """Fill in :attr:`problems`."""
        self.problems = [problem for one in self.channels for problem in one.problems(most)]
        if not self.running:
            self.problems.insert(0, f"no slave runs in {self.relay_dir}: its threads have stopped")
        if not self.channels:
            self.problems.append("the slave has no channel: configure one with CHANGE REPLICATION SOURCE TO")

    def as_dict(self) -> dict[str, Any]:
        """Return the status as values that JSON can represent."""
        return {"role": "slave", **self.model_dump(mode="json")}


Status = MasterStatus | SlaveStatus


def lag_after(files: list[tuple[str, int]], file: str, position: int) -> int | None:
    """Return the bytes of a binlog set after a place. None if the set does not have the file.

    ``files`` are the names and sizes of the set's files in their order.

    >>> lag_after([("b.1", 100), ("b.2", 50)], "b.1", 90)
    60
    """
    names = [name for name, _ in files]
    if file not in names:
        return None
    first = names.index(file)
    return max(0, files[first][1] - position) + sum(size for _, size in files[first + 1 :])


def _lag(nbytes: int | None, seconds: float | None) -> str:
    parts = [f"{nbytes:,} bytes"] if nbytes is not None else []
    if seconds is not None:
        parts.append(f"{seconds:.1f} s")
    return ", ".join(parts)
