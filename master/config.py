"""The master's configuration file: users for replication, users of the SQL console, imposed filters, real replicas.

An ``[[imposed]]`` table is a filter that the operator imposes on slaves besides their own; WL#2387 leaves such filters
as an open issue. A real replica cannot send its filter to a source. Its user, proved by a password, chooses among the
``[[replica]]`` tables. Conditions on channel, server id and network refine the choice, and the first table that matches
is used.
"""

from __future__ import annotations

import contextlib
import enum
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, IPvAnyNetwork, PrivateAttr, ValidationInfo, model_validator

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import Model, load_toml, read_small_file, wrong
from dumpfilter.base.security.client_tls import ClientTls, TlsMode
from dumpfilter.base.security.passwords import MOST_PASSWORD, StoredPassword
from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.console.sql.grammar import Role
from dumpfilter.filter.base import BoundaryFilter, OnUndecided, ReplicationFilter
from dumpfilter.filter.channels import MAX_CHANNEL_NAME, fold_channel, is_channel_name
from dumpfilter.filter.filter import make_filter
from dumpfilter.filter.rules import FilterSemantics, parse_option
from dumpfilter.master.who import Peer, Who

CONNECT_TIMEOUT = 10.0
"""The longest time that the master waits for a replica while it reads the replica's filter, seconds."""

MOST_USER = 32
"""The longest user name that MySQL allows, characters."""

_LONGEST_TIMEOUT = 300.0

Name = Annotated[str, Field(min_length=1, max_length=64)]

ServerId = Annotated[int, Field(ge=1, le=0xFFFFFFFF)]

_Text = Annotated[str, Field(min_length=1, max_length=255)]

_User = Annotated[str, Field(min_length=1, max_length=MOST_USER)]

_Hash = Annotated[str, Field(min_length=1)]

Password = Annotated[str, Field(min_length=1, max_length=MOST_PASSWORD)]

Hashes = _Hash | tuple[_Hash, ...]
"""One hash of a password, or several of different kinds."""


class _Login(Model):
    """The base class of the tables of the configuration file that have a password, in plain text or as hashes."""

    password: Password | None = Field(None, repr=False)
    password_hash: Hashes = Field((), repr=False)
    _stored: StoredPassword = PrivateAttr(StoredPassword())

    @model_validator(mode="after")
    def _store(self, info: ValidationInfo) -> Self:
        hashes = self.password_hash
        if self.password is None:
            try:
                self._stored = StoredPassword.parse(*((hashes,) if isinstance(hashes, str) else hashes))
            except OptionError as error:
                raise wrong(str(error), "password_hash") from None
        elif hashes:
            raise wrong(
                "stands beside password: keep one of the two; dumpfilter password-hash makes a hash",
                "password_hash",
            )
        elif (info.context or {}).get("is_shared"):
            raise wrong(
                "is in the clear, and other users of this machine can read the file: keep password_hash instead "
                "(dumpfilter password-hash makes one), or set the file's mode to 0600",
                "password",
            )
        else:
            self._stored = StoredPassword.plain(self.password)
        return self

    @property
    def stored(self) -> StoredPassword:
        """The stored password of the user that this table of the configuration file names. For a ``[[replica]]`` table
        without a password, it is the password in another table of the same user.
        """
        return self._stored


class Account(_Login):
    """A ``[[user]]`` table of the configuration file, which names a user that slaves log in as."""

    name: Name

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.password is None and not self.password_hash:
            raise wrong("is missing; dumpfilter password-hash makes a hash", "password_hash")
        return self


class _ConsoleUser(Account):
    """A ``[[console_user]]`` table of the configuration file, which names a user of the SQL console, and the role that
    decides what statements the user may run.
    """

    role: Role = Role.READ


class FilterTable(Model):
    """The base class of the TOML tables of the configuration file that give a filter to slaves. A TOML table has
    conditions on the slaves' server ids and networks, and says by which semantics its filter rules decide.

    Effective rules (WL#2516) decide by the tables that a statement changes. Classic rules decide as a MySQL server
    does.
    """

    semantics: FilterSemantics = FilterSemantics.CLASSIC
    server_ids: frozenset[ServerId] = frozenset()
    networks: tuple[IPvAnyNetwork, ...] = ()
    _names: NameRules = PrivateAttr(DEFAULT_NAMES)

    @model_validator(mode="after")
    def _take_names(self, info: ValidationInfo) -> Self:
        self._names = (info.context or {}).get("names", DEFAULT_NAMES)
        return self

    def filter_of(self, rules: Iterable[str]) -> ReplicationFilter:
        """Return the filter with ``rules``, which are texts. This table of the configuration file says how the rules
        are parsed and how the filter decides.

        With classic semantics a rule is an option of a server, such as ``--replicate-do-db=shop``. With effective
        semantics (WL#2516) a rule is a text such as ``--ignore=shop.t``. Raises OptionError for a rule that is not
        valid in the table's semantics.
        """
        parsed = [parse_option(rule, self.semantics) for rule in rules]
        return make_filter(self.semantics, parsed, names=self._names)


class ImposedFilter(FilterTable):
    """An ``[[imposed]]`` table of the configuration file: a filter that the master's operator imposes on some slaves.

    A slave gets the events that pass its own filter and every filter imposed on it. The conditions name server ids,
    users and networks; an empty condition is met by every slave. The rules compare the names that databases have on the
    master, before any ``--replicate-rewrite-db`` of the slave. ``on_undecided`` says whether an event that the filter
    cannot decide is sent, dropped, or stops the dump. A table with a rewrite rule is refused.
    """

    name: Name
    rules: Annotated[tuple[str, ...], Field(min_length=1)]
    users: frozenset[Name] = frozenset()
    on_undecided: OnUndecided = OnUndecided.STOP

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            rewrites = [rule for rule in self.filter.rules if rule.kind.is_rewrite]
        except OptionError as error:
            raise wrong(f"{self.name!r}: {error}", "rules") from None
        if rewrites:
            raise wrong(
                f"{self.name!r}: {rewrites[0]}: a master imposes what passes; names are rewritten by the slave alone",
                "rules",
            )
        return self

    @cached_property
    def filter(self) -> ReplicationFilter:
        """The filter with the rules of this ``[[imposed]]`` table of the configuration file, which the master applies
        besides the slave's own filter.
        """
        return self.filter_of(self.rules)

    @cached_property
    def who(self) -> Who:
        """The condition that selects the slaves on which the master's operator imposes this filter."""
        return Who(users=self.users, server_ids=self.server_ids, networks=self.networks)

    @property
    def sends(self) -> tuple[object, ...]:
        """A hashable key of this ``[[imposed]]`` table, without the table's conditions on slaves. Filters with equal
        keys send and drop the same events.
        """
        return self.name, self.on_undecided, type(self.filter), self.filter.rules, self.filter.names

    @property
    def boundary(self) -> BoundaryFilter:
        """The filter by which the master keeps the rows of excluded tables from the slave, whatever the slave's own
        filter is. Rules about the default database may pass a statement that writes excluded tables only. In contrast
        to an ordinary filter, the boundary filter drops such a statement.

        The setting :attr:`on_undecided` says whether an event about which the filter cannot decide is sent, dropped, or
        stops the dump.
        """
        return BoundaryFilter(self.filter, self.on_undecided, name=self.name)


def imposed_on(filters: Iterable[ImposedFilter], peer: Peer) -> tuple[ImposedFilter, ...]:
    """Return the filters among ``filters`` that the master's operator imposes on the slave ``peer``, besides the
    slave's own filter.

    A slave with an unknown address meets every condition on networks, so that no slave escapes a filter.
    """
    return tuple(one for one in filters if one.who.fits(peer, unknown_address=True))


def _channel(name: str) -> str:
    if not is_channel_name(name):
        raise ValueError("a server allows no space at the end of a channel's name")
    return fold_channel(name)


def _offered(mode: TlsMode) -> TlsMode:
    if mode is TlsMode.PREFERRED:
        raise ValueError("'preferred' could send the password without TLS: give required, or disabled")
    return mode


class OnDrift(enum.StrEnum):
    """An action against drift, which means that a replica's own filter would apply events that the master drops for the
    replica: warn, or refuse the replica.
    """

    WARN = "warn"
    """The master and the replica log a warning. The replica is served at its next attempt."""
    REFUSE = "refuse"
    """The master refuses the replica with error 1236."""


@dataclass(frozen=True)
class Drift:
    """A warning about a replica whose own filter would apply events that the master drops for the replica. A warning is
    also given if the master's filter for the replica and the replica's own filter cannot be compared.
    """

    peer: Peer
    text: str
    is_refused: bool
    since: float
    """The Unix time at which the master first found this difference between the two filters, seconds."""


class ConnectBack(Model):
    """The table ``connect`` inside a ``[[replica]]`` table of the configuration file: how the master logs in to a
    replica to read the filter that the replica itself applies.
    """

    user: _User
    password_file: Path
    """The file with the user's password. The master reads the file at each login, so that the password can change."""
    host: _Text | None = None
    """The replica's host. None: the address from which the replica connects to the master."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """The replica's port. None: the port that the replica reports when it registers (COM_REGISTER_SLAVE)."""
    tls: Annotated[TlsMode, AfterValidator(_offered)] | None = None
    tls_ca: Path | None = None
    """The file with the certificates of trusted CAs. None: those of the system."""
    timeout: Annotated[float, Field(gt=0, le=_LONGEST_TIMEOUT)] = CONNECT_TIMEOUT
    commas_separate: bool = False
    """Whether the operator assures that no name in the replica's rules has a comma.

    A server shows its rules with commas between them. A rule for one database ``a,b`` looks like two rules.
    """

    @property
    def client_tls(self) -> ClientTls:
        """The TLS settings of the connection to the replica. Without the setting ``tls``, TLS is required, and with a
        CA file the certificate must also name the replica's host.
        """
        default = TlsMode.REQUIRED if self.tls_ca is None else TlsMode.VERIFY_IDENTITY
        return ClientTls(self.tls or default, self.tls_ca)

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        if self.tls is TlsMode.DISABLED and self.tls_ca is not None:
            raise wrong('stands beside tls = "disabled": keep one of the two', "tls_ca")
        if info.context is None:
            return self
        for key, file in (("password_file", self.password_file), ("tls_ca", self.tls_ca)):
            try:
                if file is not None:
                    read_small_file(file)
            except OSError as error:
                raise wrong(f"{file} cannot be read: {error.strerror}", key) from None
        return self


class ReplicaEntry(_Login, FilterTable):
    """A ``[[replica]]`` table of the configuration file: a filter for a user's replicas, and conditions that select the
    replicas to which the filter applies.

    A condition that is not set is met by every replica of the user.
    """

    user: _User
    channel: Annotated[str, Field(max_length=MAX_CHANNEL_NAME), AfterValidator(_channel)] | None = None
    rules: tuple[str, ...] | None = None
    adopt: bool = False
    """Whether the master uses the replica's own filter instead of ``rules``."""
    connect: ConnectBack | None = None
    """How to connect to the replica and read its own filter. None: the master never reads it."""
    on_drift: OnDrift | None = None
    """The action when the replica's own filter would apply events that the filter in this table drops. None: the
    default, which is to warn.
    """
    _key: str = PrivateAttr("replica[1]")

    @property
    def key(self) -> str:
        """The name of the table in the configuration file, such as ``replica[2]``."""
        return self._key

    @cached_property
    def filter(self) -> ReplicationFilter | None:
        """The filter with the rules of this ``[[replica]]`` table of the configuration file. None: the master uses the
        filter that the replica itself has.
        """
        return None if self.rules is None else self.filter_of(self.rules)

    def with_rules(self, rules: Iterable[str]) -> ReplicaEntry:
        """Return a copy of this ``[[replica]]`` table of the configuration with other filter rules, which an operator
        gave on the console. Raises OptionError for a rule that is not valid.
        """
        changed = self.model_copy(update={"rules": tuple(rules)})
        # The copy has the cached filter of the old rules.
        changed.__dict__.pop("filter", None)
        _ = changed.filter
        return changed

    @cached_property
    def who(self) -> Who:
        """The condition that selects the replicas to which this ``[[replica]]`` table of the configuration file
        applies.
        """
        return Who(frozenset([self.user]), self.channel, self.server_ids, self.networks)

    @property
    def conditions(self) -> str:
        """The conditions of this ``[[replica]]`` table of the configuration file as text, such as ``channel='a',
        server_ids=7``. Without conditions: ``any replica``.
        """
        told = [] if self.channel is None else [f"channel={self.channel!r}"]
        if self.server_ids:
            told.append("server_ids=" + ",".join(map(str, sorted(self.server_ids))))
        if self.networks:
            told.append("networks=" + ",".join(map(str, self.networks)))
        return ", ".join(told) or "any replica"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.adopt:
            beside = {
                "rules": self.rules is not None,
                "on_drift": self.on_drift is not None,
                "semantics": self.semantics is not FilterSemantics.CLASSIC,
            }
            for key in [key for key, is_set in beside.items() if is_set]:
                raise wrong(
                    "stands beside adopt = true, with which the replica's own filter, a classic one, is used: leave it "
                    "out",
                    key,
                )
            if self.connect is None:
                raise wrong(
                    "is missing: adopt = true reads the replica's own filter, and needs a user and a password, such as "
                    'connect = { user = "dumpfilter", password_file = "/etc/dumpfilter/password" }',
                    "connect",
                )
        elif self.rules is None:
            raise wrong(
                "is missing: write the rules of the replica's own filter, or rules = [] to send everything, or "
                "adopt = true",
                "rules",
            )
        elif self.on_drift is not None and self.connect is None:
            raise wrong(
                "needs connect, a user and a password with which the master reads the replica's own filter",
                "on_drift",
            )
        try:
            _ = self.filter
        except OptionError as error:
            raise wrong(str(error), "rules") from None
        return self


def first_fitting(entries: Iterable[ReplicaEntry], peer: Peer) -> ReplicaEntry | None:
    """Return the first ``[[replica]]`` table of the configuration file in ``entries`` whose conditions the replica
    ``peer`` meets. This table gives the replica its filter. Return None if there is none.

    A replica with an unknown address meets no condition on networks.
    """
    return next((entry for entry in entries if entry.who.fits(peer)), None)


def complete(entries: Sequence[ReplicaEntry]) -> None:
    """Set the key of each ``[[replica]]`` table of the configuration file, such as ``replica[2]``. Copy a user's
    password to the tables of the user that have none.

    Raises a validation error for a user without a password or with two different ones. Also raises a validation error
    for a table that is never used, because each replica that meets its conditions also meets those of one earlier
    table.
    """
    passwords: dict[str, StoredPassword] = {}
    for number, entry in enumerate(entries):
        entry._key = f"replica[{number + 1}]"
        if not entry.stored.is_empty and passwords.setdefault(entry.user, entry.stored) != entry.stored:
            raise wrong(
                f"user {entry.user!r} has another password in an earlier [[replica]]: a user has one password; leave "
                "it out here",
                "replica",
                number,
                "password_hash",
            )
    for number, entry in enumerate(entries):
        if entry.user not in passwords:
            raise wrong(
                f"is missing, and no other [[replica]] of user {entry.user!r} has one; dumpfilter password-hash "
                "--plugin caching_sha2_password makes a hash",
                "replica",
                number,
                "password_hash",
            )
        entry._stored = passwords[entry.user]
        first = next((one for one in entries[:number] if one.who.covers(entry.who)), None)
        if first is not None:
            raise wrong(
                f"{entry.conditions}: no replica can reach this table, because the first table that fits is used, and "
                f"each replica of user {entry.user!r} that meets these conditions meets those of an earlier one: "
                f"{first.key} ({first.conditions}); write this table before it, or remove it",
                "replica",
                number,
            )


class MasterConfig(Model):
    """The contents of the master's configuration file, as pydantic parses and checks them. docs/master.md describes the
    file.
    """

    accounts: tuple[Account, ...] = Field(default=(), alias="user")
    """The users that slaves may connect as. When empty, any slave may connect."""
    console_accounts: tuple[_ConsoleUser, ...] = Field(default=(), alias="console_user")
    """The users who may log in to the master's SQL console."""
    imposed: tuple[ImposedFilter, ...] = ()
    replicas: tuple[ReplicaEntry, ...] = Field(default=(), alias="replica")
    """The filters and passwords of real MySQL and MariaDB replicas, in the order of the file."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        tables: dict[str, tuple[Account | ImposedFilter, ...]] = {
            "user": self.accounts,
            "console_user": self.console_accounts,
            "imposed": self.imposed,
        }
        for table, entries in tables.items():
            names = [one.name for one in entries]
            for number, name in enumerate(names):
                if name in names[:number]:
                    raise wrong(
                        f"there are two of the name {name!r}; rename or remove one", table, number, "name"
                    )
        known = self.users.keys() | {one.user for one in self.replicas}
        for number, imposed in enumerate(self.imposed):
            for user in sorted(imposed.users - known):
                raise wrong(
                    f"{imposed.name!r}: there is no [[user]] and no [[replica]] {user!r}; without a password a slave "
                    "can call itself anything",
                    "imposed",
                    number,
                    "users",
                )
        complete(self.replicas)
        return self

    @cached_property
    def users(self) -> Mapping[str, StoredPassword]:
        """The passwords of the users that slaves may connect as, by user name."""
        return {one.name: one.stored for one in self.accounts}

    @property
    def replica_users(self) -> Mapping[str, StoredPassword]:
        """The passwords of the users that real replicas may log in as, by user name."""
        return {one.user: one.stored for one in self.replicas}

    @property
    def console_users(self) -> Mapping[str, StoredPassword]:
        """The passwords of the users who may log in to the master's SQL console, by user name."""
        return {one.name: one.stored for one in self.console_accounts}

    @property
    def console_roles(self) -> Mapping[str, Role]:
        """The roles of the users of the master's SQL console, by user name. A role decides which statements the user
        may run.
        """
        return {one.name: one.role for one in self.console_accounts}


def load_config(path: Path, *, names: NameRules = DEFAULT_NAMES) -> MasterConfig:
    """Read and check the master's configuration file, a TOML file.

    ``names`` says how the server that wrote the binlog compares database and table names; the rules compare alike.
    Raises OptionError for a file that is missing or has a wrong key or value. The error's text names the file and the
    key but no value, which may be a password. A file with a plain-text password is refused unless only its owner can
    read the file.
    """
    is_shared = False
    with contextlib.suppress(OSError):
        is_shared = bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    return load_toml(path, MasterConfig, {"names": names, "is_shared": is_shared})
