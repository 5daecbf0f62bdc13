"""The gRPC service that slaves call: registration, binlog dump, reports that the slave is alive, and status.

A registration is checked against the users and passwords of the configuration. Clients that gave wrong passwords must
wait. The answer has warnings about suspicious rules in the slave's filter. This check uses the tables and statements
that the master has scanned for any slave so far, and reads no file. ``dumpfilter lint`` reads the whole binlog set, and
shows the events.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import math
import secrets
import threading
import time
import uuid as uuids
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import grpc

from dumpfilter import __version__
from dumpfilter.analyse.lint.findings import FilterWarning, Level
from dumpfilter.analyse.lint.knowledge import knowledge_of
from dumpfilter.analyse.lint.linting import lint
from dumpfilter.base.errors import BinlogMissing, DumpfilterError, OptionError
from dumpfilter.base.logs import Seldom, logger
from dumpfilter.base.printable import printable
from dumpfilter.base.security.audit import audit
from dumpfilter.base.security.passwords import (
    CHECKS_AT_ONCE,
    MOST_PASSWORD,
    StoredPassword,
    password_of,
    to_bytes,
)
from dumpfilter.base.security.throttle import Recent, Throttle
from dumpfilter.binlog.format import NameRules
from dumpfilter.dump.chunk import MessageBytes
from dumpfilter.dump.stream.message import PROTOCOL, Kept, Speaker, check_versions
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.convert import (
    family_to_proto,
    filter_from_proto,
    filter_to_proto,
    origin_from_proto,
)
from dumpfilter.index.lag import BinlogEnd
from dumpfilter.index.subjects import Subject, Subjects
from dumpfilter.master import dump as dumps
from dumpfilter.master import limits
from dumpfilter.master.advance import counts_to_proto
from dumpfilter.master.config import MasterConfig, imposed_on
from dumpfilter.master.dump_start import check_place, start_of, wanted_by
from dumpfilter.master.facts import Slaves, SlaveView
from dumpfilter.master.register import (
    KnownSlave,
    KnownSlaves,
    NotRegistered,
    Register,
    RegisteredSlave,
    definition,
)
from dumpfilter.master.replica_filters import ReplicaFilters
from dumpfilter.master.sharing import SharedReader
from dumpfilter.master.store import BinlogStore, uuid_of
from dumpfilter.master.who import SHUTTING_DOWN, Drain, Drained, Drains, Peer, Who, audit_slave, peer_address
from dumpfilter.v1 import dumpfilter_pb2 as pb

log = logger("dumpfilter.master")

LONGEST_TURN = 1.0
"""The longest time that a call waits to have its password hashed, seconds."""

FREE_GUESSES = 3
"""The number of wrong passwords from one network address after which the address must wait."""
FREE_GUESSES_OF_A_USER = 20
"""The number of wrong passwords for one user, from all addresses, after which addresses that have guessed wrong must
wait.
"""

_MOST_DEVICES = 10_000
_IPV6_NETWORK = 64
_SHOWN_USER = 64


class AccessDenied(DumpfilterError):
    """The error for an unknown user or a wrong password.

    The text does not say whether the user or the password is wrong, because an attacker could use the answer.
    """

    grpc_code = "UNAUTHENTICATED"


class TryLater(DumpfilterError):
    """The error for a password that the master does not check now. The client has given wrong passwords, which were
    logged, or the master is checking too many passwords at once. The error itself is not logged.
    """

    grpc_code = "RESOURCE_EXHAUSTED"


class Access:
    """The users that slaves may connect as, and the check of their passwords. Thread-safe.

    Without users every slave is accepted. After a wrong password, the client's network address must wait before its
    next password is checked, longer each time. Many wrong passwords for one user also cause waits.

    A slave sends a registration secret (random bytes that it made at its first start) with its password. Once a secret
    has come with the right password, its slave no longer waits because of wrong passwords of other clients. A correct
    password is hashed once; later checks compare a digest that the master keeps in memory. ``users`` is a function that
    returns the stored passwords in force, by user name.
    """

    def __init__(
        self,
        users: Callable[[], Mapping[str, StoredPassword]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._users = users
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(CHECKS_AT_ONCE)
        self._addresses = Throttle(free=FREE_GUESSES, clock=clock)
        self._users_guessed = Throttle(free=FREE_GUESSES_OF_A_USER, clock=clock)
        self._devices: Recent[bytes, None] = Recent(_MOST_DEVICES)
        self._right: Recent[tuple[str, StoredPassword], bytes] = Recent(_MOST_DEVICES)
        """The digest of the right password of each user, by the user's name and stored password."""

    def check(self, user: str, password: str, *, peer: str, secret: bytes = b"") -> StoredPassword | None:
        """Check the user name and password of a slave. Return the stored password that matched, or None if the master
        has no users.

        ``peer`` is the slave's address in gRPC's notation. ``secret`` is the random secret that the slave sends with
        each registration; empty for none. A slave that has logged in with this secret before does not wait when others
        at its address guess passwords. Raises AccessDenied when the name or the password is wrong, and TryLater when
        the client must wait.
        """
        users = self._users()
        if not users:
            return None
        kept = users.get(user)
        device = self._digest(b"device", user, secret) if secret else None
        # Wrong passwords count for the address and for the user. A slave that has proved its password before has a
        # count of its own.
        is_known = device in self._devices
        guesser, guessed = (device, None) if is_known else (_address(peer), user)
        self._check_wait(guesser, guessed)
        digest = self._digest(b"password", user, to_bytes(password))
        if kept is None or not hmac.compare_digest(self._right.get((user, kept), b""), digest):
            if not self._slots.acquire(timeout=LONGEST_TURN):
                raise TryLater("the master is checking many passwords: try again")
            try:
                # Others may have guessed wrong from this address, or proved this password, during the wait.
                self._check_wait(guesser, guessed)
                stored, is_possible = password_of(users, user), len(to_bytes(password)) <= MOST_PASSWORD
                right = is_possible and stored.matches(password)
            finally:
                self._slots.release()
            if not right or kept is None:
                with self._lock:
                    self._addresses.failed(guesser)
                    if guessed is not None:
                        self._users_guessed.failed(guessed)
                used = "YES" if password else "NO"
                raise AccessDenied(
                    f"Access denied for user {user[:_SHOWN_USER]!r} from {peer} (using password: {used})"
                )
        with self._lock:
            self._right[user, kept] = digest
            if device is not None:
                self._devices[device] = None
        return kept

    def _digest(self, kind: bytes, user: str, secret: bytes) -> bytes:
        name = to_bytes(user)
        return hmac.digest(self._key, b"%s%d:%s%s" % (kind, len(name), name, secret), "sha256")

    def _check_wait(self, guesser: Hashable, guessed: str | None) -> None:
        """Raise TryLater if the client must wait because of wrong passwords. ``guesser`` is the key under which the
        client's wrong passwords are counted: its address, or its secret if it has logged in before.

        ``guessed`` is the name of the user whose password was given. For a client with wrong passwords, those that all
        clients gave for this user count, too. None: the slave has proved its password before, so that only its own
        wrong passwords count.
        """
        with self._lock:
            wait = self._addresses.wait(guesser)
            if guessed is not None and self._addresses.failures(guesser):
                wait = max(wait, self._users_guessed.wait(guessed))
            if wait:
                raise TryLater(f"too many wrong passwords: the next one is checked in {math.ceil(wait)} s")


def _address(peer: str) -> Hashable:
    """Return the key under which wrong passwords of a client's network address are counted. ``peer`` is the address in
    gRPC's notation.

    All addresses of an IPv6 network of /64 share a key. The key is None for a client without an address.
    """
    address = peer_address(peer)
    if isinstance(address, ipaddress.IPv6Address):
        return ipaddress.ip_network((address, _IPV6_NETWORK), strict=False)
    return address


MOST_SUBJECTS = 2000
"""The largest number of tables and statements with which the master compares a filter's rules, to warn of suspicious
ones. The limit bounds the time.
"""

MOST_RULES = 100
"""The largest number of rules in a filter that the master checks for suspicious rules. Larger filters get no
warnings.
"""

_MOST_PAIRS = 20_000
"""The largest number of pairs of a rule and a table or statement that one check for suspicious rules compares. Such a
check takes at most some 0.2 s of CPU time.
"""

_CHECK_SHARE = 0.1
"""The fraction of a processor that checks for suspicious rules may take over a long time, however many filters slaves
register.
"""

_CHECK_BURST = 1.0
"""The CPU time that checks for suspicious rules may take in a burst, after a time without checks, seconds."""

_CHECK_SECONDS = 60.0
"""The shortest time between two checks of the same filter for suspicious rules, seconds."""

_MOST_FILTERS = 4096
"""The largest number of filters whose warnings about suspicious rules are cached."""

_LONGEST_WARNING = 600
"""The length to which a warning is cut, characters, because a slave can choose long names in its rules."""


class _Checked(NamedTuple):
    """The result of the last check of one filter for suspicious rules: the warnings, and the time of the check on the
    monotonic clock, seconds.
    """

    subjects: int
    """The number of tables and statements in the scanned part of the binlog at the time of the check."""
    at: float
    warnings: tuple[FilterWarning, ...]


_NEVER = _Checked(-1, -math.inf, ())
"""The result for a filter that was not checked for suspicious rules yet."""


class FilterWarnings:
    """The warnings about suspicious rules in filters. The rules are compared with the tables and statements in the
    binlog that were scanned so far. Thread-safe.

    ``clock`` returns a monotonic time in seconds.
    """

    def __init__(self, subjects: Subjects, clock: Callable[[], float] = time.monotonic) -> None:
        self._subjects = subjects
        self._clock = clock
        self._lock = threading.Lock()
        self._paid_until = clock()
        """The monotonic time up to which earlier checks have used up the CPU time that checks may take
        (``_CHECK_SHARE``), seconds. A burst of checks may begin up to 10 seconds earlier.
        """
        self._checked: Recent[Hashable, _Checked] = Recent(_MOST_FILTERS)

    def of(self, rule_filter: ReplicationFilter) -> tuple[FilterWarning, ...]:
        """Return the warnings about suspicious rules in a filter. The result of the last check is stored. The check
        runs again at most once a minute, and only when the scanned binlog has shown new tables or statements.

        If checks have taken much processor time, return the warnings of the last check, or none if there was no check.
        A filter with more than MOST_RULES rules is not checked, and the result is empty.
        """
        if not rule_filter.rules or len(rule_filter.rules) > MOST_RULES:
            return ()
        key = definition(rule_filter)
        with self._lock:
            before = self._checked.get(key, _NEVER)
            now = self._clock()
            is_allowed = now > self._paid_until - _CHECK_BURST / _CHECK_SHARE
            if not is_allowed or before.subjects == len(self._subjects) or now < before.at + _CHECK_SECONDS:
                # Only checked filters are stored, since a client can register many others.
                if before is not _NEVER:
                    self._checked.move_to_end(key)
                return before.warnings
            begin = time.thread_time()
            most = min(MOST_SUBJECTS, _MOST_PAIRS // len(rule_filter.rules))
            with self._subjects.lock:
                count = len(self._subjects)
                subjects = list(islice(self._subjects.since(0), most))
            warnings = _checked(rule_filter, subjects)
            self._paid_until = max(self._paid_until, now) + (time.thread_time() - begin) / _CHECK_SHARE
            self._checked[key] = _Checked(count, now, warnings)
            return warnings

    def texts(self, rule_filter: ReplicationFilter) -> list[str]:
        """Return the warnings about suspicious rules in a filter as lines of text."""
        return [_text(warning) for warning in self.of(rule_filter)]

    def log(self, slave: RegisteredSlave) -> None:
        """Write the warnings about the filter of a slave, which has just registered, to the log."""
        for warning in self.of(slave.filter):
            log.warning(
                "filter warning",
                **slave.peer.fields,
                code=warning.code.value,
                warning=_text(warning),
                hint="dumpfilter lint shows the events",
            )


def _text(warning: FilterWarning) -> str:
    return printable(str(warning), _LONGEST_WARNING)


def _checked(rule_filter: ReplicationFilter, subjects: list[Subject]) -> tuple[FilterWarning, ...]:
    try:
        found = lint(rule_filter, knowledge_of(subjects, is_whole=False))
    except Exception:
        # A fault of the check must not keep a slave from its binlog.
        log.exception("a filter could not be checked", rules=len(rule_filter.rules))
        return ()
    return tuple(each for each in found if each.level is Level.WARNING)


Context = grpc.aio.ServicerContext[Any, Any]
"""The object with which gRPC describes a call in the asyncio loop that serves it."""

SHORTEST_SECRET, LONGEST_SECRET = 16, 64
"""The least and the largest length of a slave's registration secret, bytes. A slave without a secret can never replace
its registration.
"""

_FACTS = frozenset(pb.Slave.DESCRIPTOR.fields_by_name) - {"position", "counts"}
"""The names that columns of the table ``dumpfilter.slaves`` share with fields of the gRPC message ``Slave``, with
values of the same types.
"""

_STOPPING = frozenset(
    {"ALREADY_EXISTS", "INVALID_ARGUMENT", "OUT_OF_RANGE", "FAILED_PRECONDITION", "DATA_LOSS"}
)
"""The gRPC status codes at which a slave stops until its operator has removed the cause. After all other codes the
slave tries again.
"""

_SHOWN_UUID = 80


class DumpFilterService:
    """The master's implementation of the gRPC service that ``dumpfilter.proto`` defines.

    The methods are coroutines of one asyncio loop. The methods raise DumpfilterError, which the gRPC port turns into
    gRPC status codes. ``reader`` reads the binlog for all dumps. Its worker threads also do other work that may wait
    for the disk or take long.

    An edge (a slave that serves its relay log) passes None for ``reader``. Its subclass of this class opens the relay
    log, and a reader for it, when a slave or replica connects.

    ``write_filter`` has rules like ``--binlog-do-db``. With it every slave sees the binlog as if a server with these
    rules had written it.
    """

    def __init__(
        self,
        reader: SharedReader | None,
        *,
        write_filter: ReplicationFilter | None = None,
        config: MasterConfig | None = None,
    ) -> None:
        self._reader = reader
        self.subjects = Subjects() if reader is None else reader.store.subjects
        self.config = config or MasterConfig()
        """The configuration in force. :meth:`reconfigure` replaces it."""
        self.load: Callable[[NameRules], MasterConfig] | None = None
        """The function that reads and checks the configuration file. Its argument says how the server that wrote the
        binlog compares names. None: there is no file.
        """
        self.on_change: list[Callable[[MasterConfig], None]] = []
        """Functions that are called after a new configuration is in force, such as those of the ports for clients."""
        self._reloading = threading.Lock()
        self.register = Register(self.subjects, write_filter, imposed=self.config.imposed)
        self.master_uuid = "" if reader is None else uuid_of(reader.store.binlogs)
        self.access = Access(lambda: self.config.users)
        self.filter_warnings = FilterWarnings(self.subjects)
        self.drains = Drains()
        self.drains.on_change.append(self._wake_drained)
        self.filters = ReplicaFilters(self.config.replicas, self.register)
        """The filters of real replicas. A master without a port for replicas has none."""
        self.known_slaves = KnownSlaves(self.register, self.drains, lambda: self.filters.entries)
        self._refusals = Seldom(most=limits.REFUSALS_LOGGED)
        """The rate limit for audit lines about refused calls, of which a stranger can cause thousands in a second."""
        self.stopping = False
        """Whether the master is shutting down. Dumps then end with UNAVAILABLE, so that the slaves reconnect."""

    @property
    def reader(self) -> SharedReader:
        """The :class:`SharedReader` through which all dumps of the master read the binlog. On an edge (a slave that
        serves its relay log) the property raises BinlogUnreadable while there is no binlog.
        """
        assert self._reader is not None
        return self._reader

    async def opened_reader(self) -> SharedReader:
        """Return :attr:`reader`, through which all dumps read the binlog. An edge (a slave that serves its relay log)
        opens the reader on first use, and raises BinlogError while it has no readable relay log.
        """
        return self.reader

    @property
    def store(self) -> BinlogStore:
        """The object that reads the served binlog set once for all dumps, and caches the scanned events.
        On an edge (a slave that serves its relay log) the property raises BinlogUnreadable before the first relay log
        file exists.
        """
        return self.reader.store

    def end_dumps(self) -> None:
        """End all dumps with an error after which slaves connect again, because the master shuts down."""
        self.stopping = True
        self.register.remove_all(lambda slave: Drain(Who(), SHUTTING_DOWN).error())

    async def Register(self, request: pb.RegisterRequest, context: Context) -> pb.RegisterResponse:
        """Register a slave with its filter. Return the slave's id, the filters that the master's operator imposes on
        the slave, and warnings about the slave's filter. Also return properties of the server that wrote the binlog,
        such as its version.

        Raises AccessDenied for a wrong user or password, OptionError for a wrong request, and AlreadyRegistered when
        the UUID or server id is in use. Raises other kinds of DumpfilterError, for example for a slave that the
        operator has drained (sent away).
        """
        peer = context.peer()
        with self._auditing_refusal("Register", request.user, peer, server_id=request.server_id):
            reader = await self.opened_reader()
            slave = await reader.serve(lambda: self._register(request, peer))
            # The answer repeats the filter, which may have 10,000 rules.
            answer = await reader.serve(lambda: self._answer(slave))
        audit_slave("Register", slave.peer, peer)
        imposed = [printable(each.name) for each in slave.imposed]
        version, rules = printable(slave.peer.program_version), len(slave.filter.rules)
        log.info("registered", peer=peer, **slave.peer.fields, rules=rules, version=version, imposed=imposed)
        return answer

    def _answer(self, slave: RegisteredSlave) -> pb.RegisterResponse:
        """Return the answer to the registration of a slave: its id, the filters, and properties of the server that
        wrote the binlog. The answer has warnings about the slave's filter, which are also logged. Raises BinlogError if
        the binlog cannot be read.
        """
        fd = self.store.format_description
        self.filter_warnings.log(slave)
        return pb.RegisterResponse(
            slave_id=slave.slave_id,
            filter=filter_to_proto(slave.filter),
            master_uuid=self._uuid_for_slaves(),
            family=family_to_proto(fd.family),
            server_version=fd.server_version,
            imposed=[
                pb.ImposedFilter(name=one.name, filter=filter_to_proto(one.filter)) for one in slave.imposed
            ],
            server_id=fd.header.server_id,
            protocol=slave.peer.protocol,
            program_version=__version__,
            filter_warnings=self.filter_warnings.texts(slave.filter),
        )

    def _uuid_for_slaves(self) -> str:
        """Return the UUID by which a slave recognizes the files and positions of the binlog.

        A relay log has the files and positions of its slave's own master. If that slave moves to another master, the
        result changes, and slaves with auto-positioning ask by GTID. While the relay log has files of several masters,
        each call returns another UUID, so that no slave takes positions of one master for those of another. Raises
        BinlogError for an unreadable relay log.
        """
        store = self.store
        *others, newest = store.binlogs.names
        origin = store.open_file(newest).file.begin.origin.get("master_uuid")
        if not origin:
            return self.master_uuid
        for name in others:
            # A purge may remove an old file meanwhile.
            with contextlib.suppress(BinlogMissing), store.binlogs.file(name) as file:
                if file.begin.origin.get("master_uuid") != origin:
                    return str(uuids.uuid4())
        return str(uuids.uuid5(uuids.NAMESPACE_OID, f"{self.master_uuid} {origin}"))

    @contextlib.contextmanager
    def _auditing_refusal(self, call: str, account: str, peer: str, **details: int) -> Iterator[None]:
        """Write a line to the audit log, as the result of the call ``call``, if the ``with`` block raises a
        DumpfilterError. The error is raised again.

        ``account`` is the user name and ``peer`` the address of the client; ``details`` are further fields of the line.
        Lines are suppressed when a stranger causes many. No line is written for TryLater.
        """
        try:
            yield
        except DumpfilterError as error:
            held = None if isinstance(error, TryLater) else self._refusals.fields()
            if held is not None:
                audit(call, account=account, peer=peer, result=str(error), **details, **held)
            raise

    def _register(self, request: pb.RegisterRequest, peer: str) -> RegisteredSlave:
        uuid = check_registration(request)
        config = self.config
        password = self.access.check(request.user, request.password, peer=peer, secret=request.secret)
        asking = Peer(
            request.user,
            request.channel,
            request.server_id,
            peer,
            uuid,
            request.host,
            request.port,
            request.protocol,
            request.program_version,
        )
        self.drains.check(asking)
        with self._noting_refusal(asking):
            slave = self.register.add(
                asking,
                filter_from_proto(request.filter, default=self.store.names),
                origin=origin_from_proto(request.filter.origin),
                password=password,
                secret=request.secret,
            )
        if self.config is not config and self._no_longer_valid(slave) is not None:
            # The configuration changed between the check and the entry into the register.
            with contextlib.suppress(NotRegistered):
                self.register.remove(slave.slave_id)
            return self._register(request, peer)
        return slave

    @contextlib.contextmanager
    def _noting_refusal(self, peer: Peer) -> Iterator[None]:
        """Record that the slave ``peer`` was refused, if the ``with`` block raises an error after which a slave stops.
        The master's status then shows the slave as refused. The error is raised again in any case.
        """
        try:
            yield
        except DumpfilterError as error:
            if error.grpc_code in _STOPPING:
                self.known_slaves.refuse(peer, str(error))
            raise

    def wake_dumps(self) -> None:
        """Wake the dumps that wait for new events, because they may have to end. Any thread may call this method."""
        for slave in self.register.all():
            slave.notify()

    def _wake_drained(self) -> None:
        for slave in self.register.all():
            if self.drains.of(slave.peer) is not None:
                slave.notify()

    def reload(self, names: NameRules) -> None:
        """Read the configuration file again by :attr:`load`, and put its users and filters into force, also in running
        dumps. ``names`` says how the server that wrote the binlog compares names. Thread-safe.

        If the file cannot be used, or has lost all its users, the present configuration stays. The error is logged, and
        the method raises OptionError. The method also raises OptionError when there is no configuration file.
        """
        if self.load is None:
            raise OptionError("there is nothing to read again: the master was started without --config")
        with self._reloading:
            try:
                config = self.load(names)
                if self.config.users and not config.users:
                    raise OptionError(
                        "no [[user]] is left, and every slave could connect: to open this master, restart it"
                    )
            except OptionError as error:
                log.error(
                    "the configuration was not read again",
                    hint="the old one stays",
                    reason=printable(str(error)),
                )
                raise OptionError(f"{error} (the old configuration stays)") from None
            ended = self.reconfigure(config)
            for change in self.on_change:
                change(config)
            log.info(
                "the configuration was read again",
                users=len(config.users),
                console_users=len(config.console_users),
                imposed=len(config.imposed),
                replicas=len(config.replicas),
                registrations_ended=ended,
            )

    def reconfigure(self, config: MasterConfig) -> int:
        """Put the users, the filters that the operator imposes on slaves, and the filters of real replicas in
        ``config`` into force. Return the number of registrations of slaves that have ended. Only one thread at a time
        calls this method.

        Dumps of slaves whose user is gone or has another password end with UNAUTHENTICATED. Dumps of slaves on which
        other filters are imposed now end with NOT_FOUND. These slaves register again, receive the filters, and resume
        at their last complete transaction. Dumps of real replicas continue with their new filters, apart from the cases
        of :meth:`ReplicaFilters.take_over`.
        """
        self.filters.take_over(config.replicas)
        self.config = config
        self.register.change_imposed(config.imposed)
        ended = self.register.remove_all(self._no_longer_valid)
        for slave in ended:
            audit_slave(f"end of the registration: {slave.ended_by}", slave.peer, slave.peer.endpoint)
        return len(ended)

    def _no_longer_valid(self, slave: RegisteredSlave) -> DumpfilterError | None:
        """Return the error with which a slave's registration must end under the present configuration. Return None if
        the registration may stay.

        A registration ends if the operator now imposes other filters on the slave. The registration of a dumpfilter
        slave also ends if its user is gone or has another password.
        """
        config = self.config
        # The replication port itself ends the connections of real replicas whose accounts have changed.
        if (
            config.users
            and not slave.peer.is_real_replica
            and (slave.password is None or config.users.get(slave.peer.user) != slave.password)
        ):
            return AccessDenied(
                f"the master's configuration no longer has this password for user {printable(slave.peer.user)!r}"
            )
        now = imposed_on(config.imposed, slave.peer)
        if [one.sends for one in now] != [one.sends for one in slave.imposed]:
            return NotRegistered("the filters imposed on this slave have changed: register again")
        return None

    async def Unregister(self, request: pb.UnregisterRequest, context: Context) -> pb.UnregisterResponse:
        """Remove the slave with the request's id from the register, and end its dump. Raises NotRegistered for an
        unknown id.
        """
        peer = context.peer()
        with self._auditing_refusal("Unregister", "", peer):
            slave = await self.reader.serve(lambda: self.register.remove(request.slave_id))
        audit_slave("Unregister", slave.peer, peer)
        return pb.UnregisterResponse()

    async def Dump(self, request: pb.DumpRequest, context: Context) -> AsyncIterator[MessageBytes]:
        """Stream the filtered binlog to a slave in chunks (serialized messages), from the position or GTID set that the
        slave sent.

        Raises NotRegistered for an unknown slave id, and PositionError for a position at which no dump can begin.
        Raises Drained for a slave that the operator has sent away, and when the master shuts down. Raises DumpOver when
        a newer dump of the slave has begun, and other kinds of DumpfilterError, for example where the binlog is
        damaged.
        """
        slave = await (await self.opened_reader()).serve(lambda: self.register.get(request.slave_id))
        with self._noting_refusal(replace(slave.peer, endpoint=context.peer())):
            dump = await self._begin_dump(request, slave)
            try:
                async with contextlib.aclosing(dump.messages()) as messages:
                    async for message in messages:
                        yield message
            except DumpfilterError as error:
                if isinstance(error, Drained):
                    log.info("dump drained", **slave.peer.fields, reason=printable(str(error)))
                else:
                    log.warning("dump stopped", **slave.peer.fields, error=printable(str(error)))
                raise
            finally:
                dump.close()
                log.info(
                    "dump ended",
                    **slave.peer.fields,
                    file=slave.file,
                    position=slave.position,
                    events_sent=slave.record.counts.events_sent,
                    events_dropped=slave.record.counts.events_dropped,
                    events_undecided=slave.record.counts.events_undecided,
                )

    async def Alive(self, request: pb.AliveRequest, context: Context) -> pb.AliveResponse:
        """Answer a slave that reports to be alive, and store the rate that its connection carries (bytes per second).
        Raises NotRegistered for an unknown slave id.

        A slave that makes no calls for a certain time loses its dump. The gRPC port restarts this timeout at each call,
        so that this method need not.
        """
        self.register.get(request.slave_id).line_rate = request.line_rate
        return pb.AliveResponse()

    async def Status(self, request: pb.StatusRequest, context: Context) -> pb.StatusResponse:
        """Return the master's binlog files, and the slaves that the client may see.

        Raises AccessDenied for a client without a valid slave id or login, and TryLater for a client that must wait
        after wrong passwords. Raises BinlogError if the binlog's index file cannot be read.
        """
        peer = context.peer()
        slaves = await (await self.opened_reader()).serve(lambda: self._known_to(request, peer))
        return await self.reader.serve(lambda: self._status(slaves))

    def _known_to(self, request: pb.StatusRequest, peer: str) -> list[KnownSlave]:
        """Return the slaves that a client may see: the slave with the request's id, or all slaves of the request's
        user.

        Raises AccessDenied for an unknown id, a wrong password, or a master without users. Raises TryLater for a client
        that must wait after wrong passwords.
        """
        if request.slave_id:
            try:
                return [self.known_slaves.of(self.register.get(request.slave_id))]
            except NotRegistered as error:
                raise AccessDenied(str(error)) from None
        if not self.config.users:
            raise AccessDenied(
                "this master has no users: ask with the slave_id of a registration, or look at the master's console"
            )
        self.access.check(request.user, request.password, peer=peer)
        return [one for one in self.known_slaves.all() if one.peer.user == request.user]

    def _status(self, slaves: list[KnownSlave]) -> pb.StatusResponse:
        """Return the answer to a Status request: the version of the server that wrote the binlog, the binlog files with
        their sizes, and a description of each of ``slaves``. These are the slaves that the client may see.

        The method reads the binlog's index file again, and raises BinlogError if this file cannot be read.
        """
        files = [pb.BinlogFile(name=printable(name), size=size) for name, size in self.store.sizes()]
        status = pb.StatusResponse(server_version=self.store.format_description.server_version, files=files)
        end = BinlogEnd(self.store.binlogs.paths, time.time())
        for one in slaves:
            texts = () if one.registered is None else self.filter_warnings.texts(one.registered.filter)
            status.slaves.append(slave_to_proto(SlaveView(one, end), texts))
        return status

    async def _begin_dump(self, request: pb.DumpRequest, slave: RegisteredSlave) -> dumps.Dump:
        wanted = await self.reader.serve(lambda: wanted_by(request, self.store))
        await check_place(wanted, self.reader, self.master_uuid)
        start = await self.reader.serve(lambda: start_of(request, wanted, self.store))
        if request.chunk_size > limits.MAX_CHUNK_SIZE:
            raise OptionError(f"chunk_size {request.chunk_size}: at most {limits.MAX_CHUNK_SIZE}")
        self.drains.check(slave.peer)
        options = dumps.DumpOptions(
            once=request.once,
            chunk_size=request.chunk_size and max(request.chunk_size, limits.MIN_CHUNK_SIZE),
            line_rate=request.line_rate,
            kept=Kept(request.kept_bytes, request.kept_crc32),
            heartbeat_period=request.heartbeat_period_ms
            and max(request.heartbeat_period_ms / 1000, limits.MIN_HEARTBEAT_PERIOD),
            earlier=self.register.earlier(
                slave,
                self.store.binlogs.names,
                (start.file, start.position),
                is_any=request.other_filters_before,
            ),
        )
        return dumps.Dump(self.reader, self.register, slave, start, options, drains=self.drains)


def check_registration(request: pb.RegisterRequest) -> str:
    """Check the fields of a slave's registration, and return the slave's UUID in lower case with hyphens.

    Raises OptionError for server id 0, a malformed UUID, or a secret of a wrong length. Raises
    ProtocolMismatch when this master does not support the version of the gRPC protocol that the slave uses.
    """
    if not request.server_id:
        raise OptionError("server_id 0: a slave needs a server id from 1 to 4294967295")
    try:
        uuid = str(uuids.UUID(request.uuid))
    except ValueError:
        raise OptionError(f"uuid {request.uuid[:_SHOWN_UUID]!r} is not a UUID") from None
    if request.secret and not SHORTEST_SECRET <= len(request.secret) <= LONGEST_SECRET:
        raise OptionError(
            f"secret: {len(request.secret)} bytes; give {SHORTEST_SECRET} to {LONGEST_SECRET} random bytes, or none"
        )
    check_versions(
        slave=Speaker(request.protocol, printable(request.program_version)),
        master=Speaker(PROTOCOL, __version__),
    )
    return uuid


def slave_to_proto(view: SlaveView, filter_warnings: Iterable[str] = ()) -> pb.Slave:
    """Return the gRPC message that describes a slave, registered or not, without its id and secret.

    ``filter_warnings`` are the warnings about the slave's filter.
    """
    slave = view.slave
    facts = {name: value for name, value in Slaves.document(view, _FACTS).items() if value is not None}
    return pb.Slave(
        **facts,
        position=pb.BinlogPosition(file=slave.file, position=slave.position),
        counts=counts_to_proto(slave.counts),
        filter_warnings=filter_warnings,
    )
