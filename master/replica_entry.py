"""The tables ``[[replica]]`` of the master's configuration. Each says which filter some real MySQL or MariaDB replicas
get.

A real replica cannot send its filter to a source. Its user, proved by a password, says which filter the master has for
the replica. Conditions on channel, server id and network refine the choice. The first table that matches is used.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, PrivateAttr, ValidationInfo, model_validator

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.small_file import read_small_file
from dumpfilter.base.options.toml_file import Model, wrong
from dumpfilter.base.security.client_tls import ClientTls, TlsMode
from dumpfilter.base.security.passwords import MOST_PASSWORD, StoredPassword
from dumpfilter.filter import FilterSemantics, ReplicationFilter
from dumpfilter.filter.channels import MAX_CHANNEL_NAME, fold_channel, is_channel_name
from dumpfilter.master.imposed import FilterTable
from dumpfilter.master.who import Peer, Who

CONNECT_TIMEOUT = 10.0
"""The longest time that the master waits for a replica while it reads the replica's filter, seconds."""

MOST_USER = 32
"""The longest user name that MySQL allows, characters."""

_LONGEST_TIMEOUT = 300.0


def _channel(name: str) -> str:
    if not is_channel_name(name):
        raise ValueError("a server allows no space at the end of a channel's name")
    return fold_channel(name)


def _offered(mode: TlsMode) -> TlsMode:
    if mode is TlsMode.PREFERRED:
        raise ValueError("'preferred' could send the password without TLS: give required, or disabled")
    return mode


_Text = Annotated[str, Field(min_length=1, max_length=255)]
_User = Annotated[str, Field(min_length=1, max_length=MOST_USER)]
_Hash = Annotated[str, Field(min_length=1)]
Password = Annotated[str, Field(min_length=1, max_length=MOST_PASSWORD)]
Hashes = _Hash | tuple[_Hash, ...]
"""One hash of a password, or several of different kinds."""


class OnDrift(enum.StrEnum):
    """The action when a replica's own filter would apply events that the master drops for the replica (drift): warn, or
    refuse the replica.
    """

    WARN = "warn"
    """The master and the replica log a warning, and the replica is served."""
    REFUSE = "refuse"
    """The master refuses the replica with error 1236."""


@dataclass(frozen=True)
class Drift:
    """A warning about a replica whose own filter is wider than its filter on the master: it would apply events that the
    master drops. The warning is also given if the two filters cannot be compared.
    """

    peer: Peer
    text: str
    is_refused: bool
    since: float
    """The Unix time at which a comparison showed this difference first, seconds."""


class ConnectBack(Model):
    """The table ``connect`` of a ``[[replica]]``: how the master logs in to a replica and reads its own filter."""

    user: _User
    password_file: Path | None = None
    password_env: _Text | None = None
    """The environment variable with the password. Exactly one of ``password_file`` and ``password_env`` is set."""
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
        """The TLS settings of the connection. With a CA file, the certificate must name the replica's host."""
        default = TlsMode.REQUIRED if self.tls_ca is None else TlsMode.VERIFY_IDENTITY
        return ClientTls(self.tls or default, self.tls_ca)

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        if (self.password_file is None) == (self.password_env is None):
            what = "is missing" if self.password_file is None else "stands beside password_env"
            raise wrong(f"{what}: give one of password_file and password_env", "password_file")
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
        if self.password_env is not None and self.password_env not in os.environ:
            raise wrong(
                f"the environment has no variable {self.password_env!r}: set it before the master starts",
                "password_env",
            )
        return self


class ReplicaEntry(FilterTable):
    """One table ``[[replica]]`` of the configuration: a filter, and the conditions that select the replicas of a user
    that get it.

    A condition that is not set is met by every replica of the user.
    """

    user: _User
    password: Password | None = Field(None, repr=False)
    password_hash: Hashes = Field((), repr=False)
    channel: Annotated[str, Field(max_length=MAX_CHANNEL_NAME), AfterValidator(_channel)] | None = None
    rules: tuple[str, ...] | None = None
    adopt: bool = False
    """Whether the master uses the replica's own filter instead of ``rules``."""
    connect: ConnectBack | None = None
    """How to connect to the replica and read its own filter. None: the master never reads it."""
    on_drift: OnDrift | None = None
    """The action when the replica's own filter differs. None: the default, which is to warn."""
    _key: str = PrivateAttr("replica[1]")
    _stored: StoredPassword = PrivateAttr(StoredPassword())

    @property
    def key(self) -> str:
        """The name of the table in the configuration file, such as ``replica[2]``."""
        return self._key

    @property
    def stored(self) -> StoredPassword:
        """The stored password of the table's user. It is given in this table or in another table of the user."""
        return self._stored

    @cached_property
    def filter(self) -> ReplicationFilter | None:
        """The filter with the table's rules. None: the master uses the replica's own filter."""
        return None if self.rules is None else self.filter_of(self.rules)

    def with_rules(self, rules: Iterable[str]) -> ReplicaEntry:
        """Return a copy of the table with other rules, which an operator gave on the console. Raises OptionError for a
        rule that is not valid.
        """
        changed = self.model_copy(update={"rules": tuple(rules)})
        # The copy has the cached filter of the old rules.
        changed.__dict__.pop("filter", None)
        _ = changed.filter
        return changed

    @cached_property
    def who(self) -> Who:
        """The condition that selects the replicas of this table."""
        return Who(frozenset([self.user]), self.channel, self.server_ids, self.networks)

    def may_share(self, other: ReplicaEntry) -> bool:
        """Tell whether some replica can meet the conditions on user and server id of both tables. Conditions on channel
        and network are not compared.
        """
        apart = self.server_ids and other.server_ids and self.server_ids.isdisjoint(other.server_ids)
        return self.user == other.user and not apart

    @property
    def conditions(self) -> str:
        """The conditions as text, such as ``channel='a', server_ids=7``. Without conditions: ``any replica``."""
        told = [] if self.channel is None else [f"channel={self.channel!r}"]
        if self.server_ids:
            told.append("server_ids=" + ",".join(map(str, sorted(self.server_ids))))
        if self.networks:
            told.append("networks=" + ",".join(map(str, self.networks)))
        return ", ".join(told) or "any replica"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.password is not None and self.password_hash:
            raise wrong(
                "stands beside password: keep one of the two; dumpfilter password-hash makes a hash",
                "password_hash",
            )
        self._stored = stored_password(self.password, self.password_hash)
        for key, reason in self._faults():
            raise wrong(reason, key)
        try:
            _ = self.filter
        except OptionError as error:
            raise wrong(str(error), "rules") from None
        return self

    def _faults(self) -> Iterable[tuple[str, str]]:
        """Yield each key of the table that contradicts other keys, with a text that says why and what to do."""
        if self.adopt:
            if self.rules is not None:
                yield (
                    "rules",
                    "stands beside adopt = true, with which the replica's own filter is used: keep one of the two",
                )
            if self.connect is None:
                yield (
                    "connect",
                    "is missing: adopt = true reads the replica's own filter, and needs a user and a password, such as "
                    'connect = { user = "dumpfilter", password_file = "/etc/dumpfilter/password" }',
                )
            if self.on_drift is not None:
                yield (
                    "on_drift",
                    "stands beside adopt = true, with which the master uses the replica's own filter: leave it out",
                )
            if self.semantics is not FilterSemantics.CLASSIC:
                yield (
                    "semantics",
                    "stands beside adopt = true: a server's own filter is classic; leave it out",
                )
        elif self.rules is None:
            yield (
                "rules",
                "is missing: write the rules of the replica's own filter, or rules = [] to send everything, or "
                "adopt = true",
            )
        elif self.on_drift is not None and self.connect is None:
            yield (
                "on_drift",
                "needs connect, a user and a password with which the master reads the replica's own filter",
            )


def stored_password(password: str | None, hashes: Hashes) -> StoredPassword:
    """Return the stored form of a plain-text password, or of password hashes if ``password`` is None. Raises a
    validation error about ``password_hash``.
    """
    if password is not None:
        return StoredPassword.plain(password)
    try:
        return StoredPassword.parse(*((hashes,) if isinstance(hashes, str) else hashes))
    except OptionError as error:
        raise wrong(str(error), "password_hash") from None


def first_fitting(entries: Iterable[ReplicaEntry], peer: Peer) -> ReplicaEntry | None:
    """Return the first ``[[replica]]`` table in ``entries`` whose conditions the replica ``peer`` meets, or None if
    there is none.

    A replica with an unknown address meets no condition on networks.
    """
    return next((entry for entry in entries if entry.who.fits(peer)), None)


def complete(entries: Sequence[ReplicaEntry]) -> None:
    """Set the key of each ``[[replica]]`` table, such as ``replica[2]``. Copy a user's password to the tables of the
    user that have none.

    Raises a validation error for a user without a password or with two different ones. Also raises a validation error
    for a table that no replica can match, because every such replica matches an earlier table.
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
        earlier = [one for one in entries[:number] if entry.may_share(one)]
        before: dict[str, str] = {}
        for peer in entry.who.samples(one.who for one in earlier):
            first = first_fitting(earlier, peer)
            if first is None:
                break
            before[first.key] = first.conditions
        else:
            named = ", ".join(f"{key} ({conditions})" for key, conditions in before.items())
            raise wrong(
                f"{entry.conditions}: no replica can reach this table, because the first table that fits is used, and "
                f"each replica of user {entry.user!r} that meets these conditions meets those of an earlier one: "
                f"{named}; write this table before them, or remove it",
                "replica",
                number,
            )
