"""The master's configuration file: users for replication, users of the SQL console, imposed filters, real replicas."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pydantic import model_validator

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.toml_file import Model, load_toml, wrong
from dumpfilter.base.security.passwords import StoredPassword
from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.console.roles import Role
from dumpfilter.master.imposed import ImposedFilter, Name
from dumpfilter.master.replica_entry import Hashes, Password, ReplicaEntry, complete, stored_password


class _Account(Model):
    """One TOML table of the configuration file, with a user's name and password."""

    name: Name
    password: Password | None = None
    password_hash: Hashes = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.password is None) == (not self.password_hash):
            what = "is missing" if self.password is None else "stands beside password: keep one of the two"
            raise wrong(f"{what}; dumpfilter password-hash makes a hash", "password_hash")
        _ = self.stored
        return self

    @property
    def stored(self) -> StoredPassword:
        """The user's password in the form that the master stores. Raises a validation error about ``password_hash`` if
        the hash cannot be parsed.
        """
        return stored_password(self.password, self.password_hash)


class _ConsoleUser(_Account):
    """A table ``[[console_user]]``: a user of the SQL console."""

    role: Role = Role.READ


class _File(Model):
    """The contents of the configuration file, as pydantic parses and checks them."""

    user: tuple[_Account, ...] = ()
    console_user: tuple[_ConsoleUser, ...] = ()
    imposed: tuple[ImposedFilter, ...] = ()
    replica: tuple[ReplicaEntry, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        for table, named in (
            ("user", self.user),
            ("console_user", self.console_user),
            ("imposed", self.imposed),
        ):
            names = [one.name for one in named]
            for number, name in enumerate(names):
                if name in names[:number]:
                    raise wrong(
                        f"there are two of the name {name!r}; rename or remove one", table, number, "name"
                    )
        known = {one.name for one in self.user} | {one.user for one in self.replica}
        for number, imposed in enumerate(self.imposed):
            for user in sorted(imposed.users - known):
                raise wrong(
                    f"{imposed.name!r}: there is no [[user]] and no [[replica]] {user!r}; without a password a slave "
                    "can call itself anything",
                    "imposed",
                    number,
                    "users",
                )
        complete(self.replica)
        return self

    @property
    def plain(self) -> Iterator[str]:
        """The keys of the passwords that the file holds in plain text, such as ``user[1].password``."""
        tables: dict[str, tuple[_Account | ReplicaEntry, ...]] = {
            "user": self.user,
            "console_user": self.console_user,
            "replica": self.replica,
        }
        for table, users in tables.items():
            for number, user in enumerate(users, 1):
                if user.password is not None:
                    yield f"{table}[{number}].password"


@dataclass(frozen=True)
class MasterConfig:
    """The checked contents of the master's configuration file. docs/master.md describes the file."""

    users: Mapping[str, StoredPassword] = field(default_factory=dict, repr=False)
    """The passwords of the users that slaves may connect as, by user name. When empty, any slave may connect."""
    console_users: Mapping[str, StoredPassword] = field(default_factory=dict, repr=False)
    """The passwords of the users who may log in to the master's SQL console, by user name."""
    imposed: tuple[ImposedFilter, ...] = ()
    console_roles: Mapping[str, Role] = field(default_factory=dict)
    """The roles of the users of the master's SQL console, by user name."""
    plain: tuple[str, ...] = ()
    """The keys of the passwords that the file holds in plain text, such as ``user[1].password``."""
    replicas: tuple[ReplicaEntry, ...] = ()
    """The filters and passwords of real MySQL and MariaDB replicas, in the order of the file."""


def load_config(path: Path, *, names: NameRules = DEFAULT_NAMES) -> MasterConfig:
    """Read and check the master's configuration file, a TOML file.

    ``names`` says how the server that wrote the binlog compares database and table names; the rules compare alike.
    Raises OptionError, whose text names the file and the key but no value, which may be a password. A file with a
    plain-text password is refused unless only its owner can read the file.
    """
    file = load_toml(path, _File, {"names": names})
    plain = tuple(file.plain)
    if plain and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise OptionError(
            f"{path}: {plain[0]}: the file holds a password in the clear, and other users of this machine can read "
            "it: keep password_hash instead (dumpfilter password-hash makes one), or set the file's mode to 0600"
        )
    return MasterConfig(
        {user.name: user.stored for user in file.user},
        {user.name: user.stored for user in file.console_user},
        file.imposed,
        {user.name: user.role for user in file.console_user},
        plain,
        file.replica,
    )
