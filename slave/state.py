"""The files of a slave besides its relay logs: the positions and options of each channel, and the slave's identity.

A channel has these state files, with one class for the content of each:

- ``source.info``: the options that the channel got by CHANGE REPLICATION SOURCE TO, the filters that the master
  imposes, and a secret. The secret proves to the master that a registration is this slave's. A server keeps the options
  in the table ``mysql.slave_master_info``. The slave's own filters come from the command line or the option file at
  every start (WL#7057).
- ``master.info``: the position and GTIDs up to which the I/O thread has received everything.
- ``relay-log.info``: the applier's position, and the state there of the target, the object that holds the slave's data.
- ``counters.info``: the counts of the channel, such as connections, events and errors
  (:class:`dumpfilter.slave.threads.ChannelCounters`).

The slave replaces each file atomically, but never two files at once. ``relay-log.info`` holds position and target state
together, so that no transaction is applied twice or lost.

The slave makes its ``server_uuid`` at its first start, and keeps it in ``auto.cnf``, as mysqld does in its data
directory.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import Field, NonNegativeInt

from dumpfilter.base import files
from dumpfilter.base.errors import OptionError, StateCorrupt
from dumpfilter.base.files import DirectoryLock
from dumpfilter.base.options.values import FIRST_EVENT, HEARTBEAT_PERIOD
from dumpfilter.base.security.listening import host_and_port
from dumpfilter.base.state_file import Format, State, StateFile
from dumpfilter.slave.options import SourceOptions, TlsOptions
from dumpfilter.slave.relay_position import AFRESH, BASENAME, RelayPosition

# The status of a relay directory needs none of these packages, which take longer to import than all else.
if TYPE_CHECKING:
    from dumpfilter.base.security.client_tls import ClientTls
    from dumpfilter.binlog.gtid import GtidSet

LOCK = "slave.lock"
"""The name of the lock file in a relay directory."""

CHANNELS = "channels"
"""The subdirectory of the relay directory in which each named channel has its own directory.

The default channel keeps its files in the relay directory itself.
"""

FORMAT = Format(2, "relay directory", AFRESH)
"""The format of the state files that this release writes and reads."""


def lock_directory(directory: Path, *, patience: float = 1.0) -> DirectoryLock:
    """Lock a relay directory, so that no other slave uses it, and return the lock. Wait up to ``patience`` seconds,
    then raise DirectoryBusy.
    """
    return DirectoryLock(
        directory / LOCK,
        f"{directory}: another slave works here (process {{process}}): stop that process, or give this slave "
        "a relay directory of its own",
        patience=patience,
    )


def server_uuid(directory: Path) -> str:
    """Return the slave's UUID from the file ``auto.cnf`` in ``directory``. If there is no such file, make a new UUID
    and write the file.

    Raises StateCorrupt when an existing file has no UUID, and OutputError when the slave cannot write the file.
    """
    path = directory / "auto.cnf"
    if path.exists():
        try:
            found = re.search(r"^\s*server-uuid\s*=\s*(\S+)", path.read_text("utf-8"), re.MULTILINE)
            return str(uuid.UUID(found and found[1]))
        except (OSError, ValueError, TypeError):
            raise StateCorrupt(
                f"{path}: holds no server-uuid; remove the file, and the slave makes a new one"
            ) from None
    made = str(uuid.uuid4())
    files.replace(path, f"[auto]\nserver-uuid={made}\n".encode())
    return made


class Info(State):
    """The base class of pydantic models for the state files of a channel, such as ``master.info``. A subclass has the
    fields of one file.
    """

    NAME: ClassVar[str]
    """The name of the state file, such as ``master.info``."""
    MODE: ClassVar[int] = 0o640
    """The permissions of the state file."""

    @classmethod
    def file(cls, directory: Path) -> StateFile[Self]:
        """Return an object that loads and saves this class's state file in ``directory``, a channel's directory."""
        return StateFile(directory / cls.NAME, cls, FORMAT, mode=cls.MODE)

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read the state file that this class describes, such as ``master.info``, from ``directory``, a channel's
        directory. If the file does not exist, return an object with the defaults. Raises StateCorrupt for an unusable
        file.
        """
        return cls.file(directory).load() or cls()


class SourceInfo(SourceOptions, TlsOptions, Info):
    """The content of ``source.info``: how one channel connects to its master, and where the channel begins to read.

    The fields are the options of CHANGE REPLICATION SOURCE TO. The defaults are a MySQL server's. The command line has
    other defaults for some of these options, such as ``retry_count``.
    """

    NAME = "source.info"
    # The file holds a password and a secret.
    MODE = 0o600

    channel: str = ""
    host: str = ""
    port: int = 3306
    password: str = Field(default="", repr=False)
    retry_count: int = 10
    heartbeat_period: float = HEARTBEAT_PERIOD
    ssl: bool = False
    filter_on: Literal["MASTER", "SLAVE", "BOTH"] = "BOTH"  # type: ignore[assignment]  # as the server spells words
    afresh: bool = False
    """Whether the channel must still forget its position, because CHANGE REPLICATION SOURCE TO named another master or
    position. False when the statement has ended.
    """
    imposed: list[str] = Field(default_factory=list)
    """The filters that the master's operator had set for this slave at its last registration, each as a serialized
    protobuf message ``ImposedFilter`` in base64.

    The applier drops events by these filters, too, even after a restart of the slave while the master is unreachable.
    """
    secret: str = Field(default_factory=partial(secrets.token_hex, 32), repr=False)
    """The registration secret as hexadecimal digits, which the slave makes when the channel is added. Only a slave with
    the same secret can replace a registration with this slave's server UUID.
    """

    def reconfigured(self, to: SourceInfo, *, afresh: bool = False) -> SourceInfo:
        """Return a copy of the configuration ``to`` with the present values of the fields that are no options, such as
        the registration secret (by which the master recognizes the slave). With ``afresh`` the copy has a mark by which
        the channel discards its position in the master's binlog.
        """
        kept = self.model_dump(include={"imposed", "secret"})
        return to.model_copy(update={**kept, "afresh": self.afresh or afresh})

    @property
    def address(self) -> str:
        """The master's address as ``host:port``. An IPv6 address gets brackets, as in ``[::1]:3306``."""
        return host_and_port(self.host, self.port)

    @property
    def endpoint(self) -> tuple[str, int]:
        """The master's host, without brackets, and port."""
        return self.host.removeprefix("[").removesuffix("]"), self.port

    @property
    def start_position(self) -> int:
        """The byte offset in the binlog file at which the channel's first dump begins. Without a configured file it is
        4, the offset of the first event.
        """
        return self.log_pos if self.log_file else FIRST_EVENT

    @property
    def verifies_host(self) -> bool:
        """Whether the master's certificate must name the master's host (``Source_SSL_Verify_Server_Cert``)."""
        return bool(self.ssl and self.ssl_ca) and self.ssl_verify_server_cert is not False

    @property
    def tls(self) -> ClientTls | None:
        """The TLS settings of the connection to the master, or None for a connection without TLS."""
        if not self.ssl:
            return None
        from dumpfilter.base.security.client_tls import ClientTls, TlsMode

        for_any_host = TlsMode.VERIFY_CA if self.ssl_ca else TlsMode.REQUIRED
        mode = TlsMode.VERIFY_IDENTITY if self.verifies_host else for_any_host
        ca, certificate, key = (
            Path(name) if name else None for name in (self.ssl_ca, self.ssl_cert, self.ssl_key)
        )
        return ClientTls(mode, ca, certificate, key, "SOURCE_SSL_CA", "SOURCE_SSL_CERT")

    def check_tls(self) -> None:
        """Raise OptionError for TLS options that contradict each other. For a channel without TLS the options are not
        checked.
        """
        if self.ssl and bool(self.ssl_cert) != bool(self.ssl_key):
            given, missing = ("CERT", "KEY") if self.ssl_cert else ("KEY", "CERT")
            raise OptionError(f"SOURCE_SSL_{given} needs SOURCE_SSL_{missing}: give both, or none")
        if self.ssl and self.ssl_verify_server_cert and not self.ssl_ca:
            raise OptionError(
                "SOURCE_SSL_VERIFY_SERVER_CERT=1 needs SOURCE_SSL_CA, the file with the CA of the master's certificate"
            )


class PlaceInfo(Info):
    """The content of ``master.info`` or ``relay-log.info``: the position of the I/O thread or of the applier, always at
    a transaction boundary. The file has the position in the master's binlog and the corresponding position in the relay
    log.

    Before anything was received, file names are empty and numbers are 0. Fields are named as in SHOW REPLICA STATUS,
    where MySQL calls the master "source".
    """

    GTIDS: ClassVar[str]
    """The name of the file's field with the set of GTIDs up to the recorded position."""

    master_uuid: str = ""
    """The server_uuid of the master that the position belongs to. A master whose binlogs contain no server_uuid
    makes a new one at each start."""
    source_file: str = ""
    """The base name of the master's binlog file (``Source_Log_File``, ``Relay_Source_Log_File``)."""
    source_position: NonNegativeInt = 0
    """The byte offset in ``source_file`` up to which every event was received (I/O thread), or was applied or dropped
    (applier).
    """
    relay_file: str = ""
    """The base name of the relay log file that holds the events of ``source_file`` (``Relay_Log_File``)."""
    relay_offset: NonNegativeInt = 0
    """The byte offset in ``relay_file`` that corresponds to ``source_position`` (``Relay_Log_Pos``)."""

    @property
    def relay_position(self) -> RelayPosition | None:
        """The file and byte offset in the relay log up to which the I/O thread has received all transactions, or the
        applier has applied them. None before the first relay log file.
        """
        return RelayPosition(self.relay_file, self.relay_offset) if self.relay_file else None

    @property
    def gtid_set(self) -> GtidSet:
        """The GTIDs of the transactions that the I/O thread has received completely, or that the applier has executed.
        Transactions that the master dropped count, too.
        """
        from dumpfilter.binlog.gtid import parse_gtid_set

        return parse_gtid_set(getattr(self, self.GTIDS))


class MasterInfo(PlaceInfo):
    """The content of ``master.info``: the I/O thread's resume point, and the filter that selected the events.

    The resume point is the last transaction boundary up to which everything is received. The next dump continues from
    there. After a crash the slave truncates the relay log to the resume point.
    """

    NAME = "master.info"
    GTIDS = "retrieved"

    family: Literal["", "mysql", "mariadb"] = ""
    """The family of the servers that wrote the master's binlog, by which the GTID set ``retrieved`` is parsed. Empty
    before the first stream.
    """
    names: Literal["", "general_ci", "general1400_as_ci"] = ""
    """The collation by which filters compare names of databases and tables. Empty before the first stream.

    Slave and master agreed on the collation in the first stream, and the channel keeps it.
    """
    retrieved: str = ""
    """The GTIDs of all transactions that the slave has received completely or that the master dropped
    (``Retrieved_Gtid_Set``)."""
    except_gtids: str = ""
    """The GTIDs that the slave had when it asked this master for a dump by GTID set (``SOURCE_AUTO_POSITION``).

    The master's binlog may hold these transactions after the position, too. Each later dump from the position leaves
    these transactions out, so that the slave does not apply them again.
    """
    filter_digest: str = ""
    """A hash of the filter that selected those events in the relay log that the applier has not applied.

    If a slave starts with another filter, the hash differs, and the slave requests these events again.
    """
    other_filters: bool = False
    """Whether the channel once had a filter other than the current one.

    If so, the applier may hold prepared XA transactions that the current filter would have dropped. The master
    must then send their XA COMMIT or XA ROLLBACK nevertheless.
    """

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read ``master.info`` in a channel's directory. If the file does not exist, return the defaults. Raises
        StateCorrupt for an unusable file, and for relay logs without the file.
        """
        info = cls.file(directory).load()
        if info is None and any(directory.glob(f"{BASENAME}.[0-9]*")):
            raise StateCorrupt(f"{directory / cls.NAME}: the file is missing beside relay logs; {AFRESH}")
        return info or cls()

    @property
    def gtid_set(self) -> GtidSet:
        from dumpfilter.binlog.gtid import parse_gtid_set

        return parse_gtid_set(self.retrieved, self.family or None)

    def back_at(self, applied: RelayLogInfo) -> MasterInfo:
        """Return the content of ``master.info`` for a slave that has received nothing after the applier's position
        ``applied``. With this content the master sends everything after that position again.

        The result keeps the server family (MySQL or MariaDB). If the applier has a position, the result also keeps the
        collation for names.
        """
        if not applied.source_file:
            return MasterInfo(family=self.family, retrieved=applied.executed)
        # `except_gtids` belongs to the newest dump by GTID. After a failover and a failback the applier may still be in
        # an earlier dump of the same master, and lack some of these transactions.
        except_gtids = applied.executed if self.except_gtids else ""
        place = applied.model_dump(include=set(PlaceInfo.model_fields))
        return self.model_copy(update={**place, "except_gtids": except_gtids, "retrieved": applied.executed})


class RelayLogInfo(PlaceInfo):
    """The content of ``relay-log.info``: the applier's position, and the state at that position of the target, the
    object to which transactions are applied.

    After a crash the slave restores the target to that state, and the applier continues at that position.
    """

    NAME = "relay-log.info"
    GTIDS = "executed"

    executed: str = ""
    """The GTIDs of the transactions that the applier has applied or the master dropped (``Executed_Gtid_Set``)."""
    target: dict[str, Any] = Field(default_factory=dict)
    """The state that the target returned at this position (:meth:`dumpfilter.slave.targets.Target.state`)."""


class CountersInfo(Info):
    """The content of ``counters.info``: the counts of a channel since its first start, such as connections, events and
    errors. Times are Unix times in seconds, 0 for never.
    """

    NAME = "counters.info"

    since: float = 0.0
    """The Unix time at which the channel began to count."""
    counts: dict[str, NonNegativeInt] = Field(default_factory=dict)
    """The numbers by name. The fields of the protobuf message ``Counts`` are here under their names, summed over the
    master's messages. There are also these numbers:

    - ``connections``, ``heartbeats`` and ``chunks`` (all messages).
    - ``bytes_received``: the size of all events. Events that the slave had to receive twice count twice.
    - ``io_errors``: lost connections, failed attempts to connect, and errors that ended the I/O thread.
    - ``sql_errors``: the errors that ended the SQL thread.
    """
    hits: dict[str, NonNegativeInt] = Field(default_factory=dict)
    """The number of hits (matches with events) of filter rules of each kind, by the kind's option (such as
    ``replicate-do-db``).
    """
    last_io_error: str = ""
    last_io_error_at: float = 0.0
    last_sql_error: str = ""
    last_sql_error_at: float = 0.0


P = TypeVar("P", bound=PlaceInfo)


class Place(Generic[P]):
    """The position and the GTIDs up to which the I/O thread has received, or the applier has applied. The position and
    the GTIDs are kept in memory and in a state file.

    One thread at a time changes the position. Any thread may read :attr:`info`. ``kind`` is the class of the file's
    content, and ``save_period`` the shortest time between two periodic saves, seconds. The constructor reads the file
    in ``directory``. Raises StateCorrupt for an unusable file.
    """

    def __init__(self, kind: type[P], directory: Path, *, save_period: float) -> None:
        self._kind = kind
        self._file = kind.file(directory)
        self._save_period = save_period
        self._saved_at = time.monotonic()
        self.lock = threading.Lock()
        """The lock under which position and GTIDs change together. No thread holds the lock while it writes a file."""
        self.go_back(kind.read(directory))
        self.saved = self.now
        """The content of the state file, as it was last read or written."""

    @property
    def path(self) -> Path:
        """The path of the state file, ``master.info`` or ``relay-log.info``."""
        return self._file.path

    def go_back(self, info: P) -> None:
        """Replace the position and GTIDs in memory by those of ``info``, for example after the relay log was truncated.
        The state file does not change.
        """
        with self.lock:
            self.now = info
            """The present position. The text of its GTIDs may be older than :attr:`gtids`."""
            self.gtids = info.gtid_set
            """The present GTIDs."""
            self._has_moved = False

    def move(self, **members: Any) -> None:
        """Set fields of the position in memory, such as ``relay_offset``, because the I/O thread or the applier has
        advanced. ``members`` has the new values by the names of the fields. The caller holds :attr:`lock` if it changes
        :attr:`gtids`, too.
        """
        self.now = self.now.model_copy(update=members)
        self._has_moved = True

    @property
    def info(self) -> P:
        """The position and the GTIDs of the I/O thread or of the applier at this moment, from memory.

        The result has the fields of ``master.info`` (I/O thread) or ``relay-log.info`` (applier), and may be newer than
        the file.
        """
        with self.lock:
            if not self._has_moved:
                return self.now
            return self.now.model_copy(update={self._kind.GTIDS: str(self.gtids)})

    @property
    def is_due(self) -> bool:
        """Whether the position must be saved now: it differs from the position in the state file, and the last save is
        at least ``save_period`` seconds ago.
        """
        return self.now is not self.saved and time.monotonic() - self._saved_at >= self._save_period

    def save(self, *, synced: bool = True, **members: Any) -> None:
        """Write the present position and GTIDs to the state file (``master.info`` or ``relay-log.info``). ``members``
        are new values of fields, such as ``relay_file``, both in memory and in the file.

        With ``synced`` the file is also synced to the disk. Raises OutputError if the file cannot be written. Memory
        and file are unchanged after this error.
        """
        info = self.info.model_copy(update=members) if members else self.info
        self._file.save(info, synced=synced)
        with self.lock:
            self.saved = self.now = info
            self._has_moved = False
        self._saved_at = time.monotonic()
