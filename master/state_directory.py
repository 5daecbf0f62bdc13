"""The master's state directory, which keeps counts, drains and changed filters for the next start of the master.

The directory is the master's own, beside the binlogs and never among them. Each file is a JSON object. The member
``kind`` says which file it is, ``format`` is the version of the format, and ``crc32`` is a checksum over the rest. The
master always replaces the whole file. A file that cannot be used costs the counts in it, and never the service.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import zlib
from pathlib import Path
from typing import Any, TypeVar

import structlog
from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from dumpfilter.binlog.writer import committed
from dumpfilter.dump import Counts
from dumpfilter.errors import DirectoryBusy, OptionError
from dumpfilter.filter import FilterSemantics
from dumpfilter.master.counters import MOST_REMEMBERED, SlaveCounts, SlaveKey
from dumpfilter.master.drain import MOST_DRAINS, Drain, Kind, Slaves
from dumpfilter.master.replicas.changes import ChangedFilter, Scope
from dumpfilter.printable import printable

log = structlog.get_logger("dumpfilter.master")

FORMAT = 1
"""The version of the format of the state files. This release reads and writes only this version."""

COUNTERS, DRAINS, REPLICA_FILTERS = "slave-counters.json", "drains.json", "replica-filters.json"
LOCK = "master.lock"
"""The names of the files in a state directory."""

_LARGEST = 64 << 20
"""The largest state file that the master reads, bytes. The most counts with the longest names take less."""


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Counts(_Model):
    events_read: NonNegativeInt
    events_sent: NonNegativeInt
    events_dropped: NonNegativeInt
    bytes_read: NonNegativeInt
    bytes_sent: NonNegativeInt
    bytes_dropped: NonNegativeInt
    events_undecided: NonNegativeInt
    transactions_read: NonNegativeInt
    transactions_dropped: NonNegativeInt
    bytes_gtid: NonNegativeInt = 0
    """A file that was written before real replicas could attach does not have this count."""


class _Slave(_Model):
    user: str
    channel: str
    uuid: str
    server_id: NonNegativeInt
    host: str
    dumps: NonNegativeInt
    first_seen_at: float
    last_seen_at: float
    counts: _Counts
    file: str = ""
    position: NonNegativeInt = 0
    peer: str = ""
    is_done: bool = False
    """A file of a release that did not tell which slaves are gone does not have these four."""


class _Counters(_Model):
    slaves: list[_Slave]


class _Drain(_Model):
    kind: str
    value: str
    channel: str | None
    reason: str
    since: float


class _Drains(_Model):
    drains: list[_Drain]


class _ReplicaFilter(_Model):
    user: str
    channel: str | None
    server_ids: list[NonNegativeInt]
    networks: list[str]
    semantics: str
    rules: list[str]
    in_place_of: list[str]
    changed_at: float


class _ReplicaFilters(_Model):
    filters: list[_ReplicaFilter]


M = TypeVar("M", bound=_Model)


class StateDirectory:
    """The state directory of a running master, which locks it until :meth:`close`.

    Raises OptionError when the directory cannot be made or used, and DirectoryBusy when another master uses it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._lock = os.open(path / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise OptionError(
                f"--state-dir={path}: cannot be used: {error.strerror}; name a directory that this user may write to"
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise DirectoryBusy(
                f"--state-dir={path}: another master keeps its state here; stop that process, or give this master a "
                "state directory of its own"
            ) from None

    def close(self) -> None:
        """Give up the lock on the directory."""
        os.close(self._lock)

    def load_counters(self) -> list[SlaveCounts]:
        """Return the saved counts of the slaves. Without a usable file there are none."""
        found = self._load(COUNTERS, _Counters)
        return [
            SlaveCounts(
                SlaveKey(one.user, one.channel, one.uuid),
                one.server_id,
                one.host,
                one.dumps,
                one.first_seen_at,
                one.last_seen_at,
                Counts(**one.counts.model_dump()),
                one.file,
                one.position,
                one.peer,
                one.is_done,
            )
            for one in (found.slaves[:MOST_REMEMBERED] if found is not None else ())
        ]

    def save_counters(self, records: list[SlaveCounts]) -> None:
        """Replace the saved counts of the slaves. Raises OutputError."""
        names = Counts.__slots__
        slaves = [
            {
                **record.key._asdict(),
                "server_id": record.server_id,
                "host": record.host,
                "dumps": record.dumps,
                "first_seen_at": record.first_seen_at,
                "last_seen_at": record.last_seen_at,
                "counts": {name: getattr(record.counts, name) for name in names},
                "file": record.file,
                "position": record.position,
                "peer": record.peer,
                "is_done": record.is_done,
            }
            for record in records
        ]
        self._save(COUNTERS, {"slaves": slaves})

    def load_drains(self) -> list[Drain]:
        """Return the saved drains. Without a usable file there are none."""
        found = self._load(DRAINS, _Drains)
        kinds = {kind.value for kind in Kind}
        return [
            Drain(Slaves(Kind(one.kind), one.value, one.channel), one.reason, one.since)
            for one in (found.drains[:MOST_DRAINS] if found is not None else ())
            if one.kind in kinds
        ]

    def save_drains(self, drains: list[Drain]) -> None:
        """Replace the saved drains, without the drain of a master that ends. Raises OutputError."""
        kept = [
            {
                "kind": drain.slaves.kind.value,
                "value": drain.slaves.value,
                "channel": drain.slaves.channel,
                "reason": drain.reason,
                "since": drain.since,
            }
            for drain in drains
            if not drain.ends_with_master
        ]
        self._save(DRAINS, {"drains": kept})

    def load_replica_filters(self) -> list[ChangedFilter]:
        """Return the saved filters of real replicas that were changed on the console. Without a usable file: none."""
        found = self._load(REPLICA_FILTERS, _ReplicaFilters)
        return [
            ChangedFilter(
                Scope(one.user, one.channel, tuple(one.server_ids), tuple(one.networks)),
                FilterSemantics(one.semantics),
                tuple(one.rules),
                tuple(one.in_place_of),
                one.changed_at,
            )
            for one in (found.filters if found is not None else ())
            if one.semantics in set(FilterSemantics)
        ]

    def save_replica_filters(self, changed: list[ChangedFilter]) -> None:
        """Replace the saved filters of real replicas that were changed on the console. Raises OutputError."""
        filters = [
            {
                "user": one.scope.user,
                "channel": one.scope.channel,
                "server_ids": list(one.scope.server_ids),
                "networks": list(one.scope.networks),
                "semantics": one.semantics.value,
                "rules": list(one.rules),
                "in_place_of": list(one.in_place_of),
                "changed_at": one.changed_at,
            }
            for one in changed
        ]
        self._save(REPLICA_FILTERS, {"filters": filters})

    def _load(self, name: str, model: type[M]) -> M | None:
        path = self.path / name
        try:
            return _parse(path, name, model)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            aside = path.with_name(f"{name}.unusable")
            with contextlib.suppress(OSError):
                os.replace(path, aside)
            log.warning(
                "state file cannot be used",
                file=str(path),
                reason=printable(str(reason)),
                hint=f"the master begins without the state in it; the file is kept as {aside.name}, and a copy of a "
                "whole file can be put back while the master is stopped",
            )
            return None

    def _save(self, name: str, members: dict[str, Any]) -> None:
        path = self.path / name
        text = json.dumps({"kind": name, "format": FORMAT, **members, "crc32": _checksum(name, members)})
        with committed(path, mode=0o640) as file:
            file.write(f"{text}\n".encode())


def _checksum(kind: str, members: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps([kind, FORMAT, members], sort_keys=True, separators=(",", ":")).encode())


def _parse(path: Path, name: str, model: type[M]) -> M:
    """Return the content of a state file. Raises OSError, or ValueError with a text that says what is wrong."""
    with open(path, "rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError(f"larger than {_LARGEST >> 20} MiB")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    if not isinstance(document, dict) or document.pop("kind", None) != name:
        raise ValueError(f"no {name} of dumpfilter")
    version = document.pop("format", None)
    if version != FORMAT:
        raise ValueError(f"has format {version!r}, this release reads format {FORMAT}")
    if document.pop("crc32", None) != _checksum(name, document):
        raise ValueError("damaged or edited: its crc32 does not match")
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        member = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"has no usable {member!r}: {first['msg']}") from None
