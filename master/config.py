"""The master's configuration file: users for replication, users of the SQL console, imposed filters, real replicas."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field, IPvAnyNetwork

from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.console.roles import Role
from dumpfilter.errors import OptionError
from dumpfilter.filter import FilterSemantics, make_filter, parse_option
from dumpfilter.filter.boundary import OnUndecided
from dumpfilter.master.imposed import ImposedFilter
from dumpfilter.master.replica_entry import ReplicaEntry
from dumpfilter.master.replica_tables import ReplicaTable, replica_entries
from dumpfilter.options.toml_file import Model, load_toml
from dumpfilter.security.passwords import (
    MOST_PASSWORD,
    ConsolePassword,
    PlainPassword,
    ScryptHash,
    StoredPassword,
)

_Name = Annotated[str, Field(min_length=1, max_length=64)]
_ServerId = Annotated[int, Field(ge=1, le=0xFFFFFFFF)]


_Password = Annotated[str, Field(min_length=1, max_length=MOST_PASSWORD)]
_Hash = Annotated[str, Field(min_length=1)]


class _User(Model):
    name: _Name
    password: _Password | None = None
    password_hash: _Hash | None = None


class _ConsoleUser(Model):
    name: _Name
    password: _Password | None = None
    password_hash: _Hash | tuple[_Hash, ...] = ()
    role: Role = Role.READ


class _Imposed(Model):
    name: _Name
    server_ids: tuple[_ServerId, ...] = ()
    users: tuple[_Name, ...] = ()
    networks: tuple[IPvAnyNetwork, ...] = ()
    semantics: FilterSemantics = FilterSemantics.CLASSIC
    rules: Annotated[tuple[str, ...], Field(min_length=1)]
    on_undecided: OnUndecided = OnUndecided.STOP


class _File(Model):
    user: tuple[_User, ...] = ()
    console_user: tuple[_ConsoleUser, ...] = ()
    imposed: tuple[_Imposed, ...] = ()
    replica: tuple[ReplicaTable, ...] = ()


@dataclass(frozen=True)
class MasterConfig:
    """The checked contents of the master's configuration file. docs/master.md describes the file."""

    users: Mapping[str, StoredPassword] = field(default_factory=dict, repr=False)
    """The passwords of the users that slaves may connect as, by user name. When empty, any slave may connect."""
    console_users: Mapping[str, ConsolePassword] = field(default_factory=dict, repr=False)
    """The passwords of the users who may log in to the master's SQL console, by user name."""
    imposed: tuple[ImposedFilter, ...] = ()
    console_roles: Mapping[str, Role] = field(default_factory=dict)
    """The roles of the users of the master's SQL console, by user name."""
    plain: tuple[str, ...] = ()
    """The keys of the passwords that the file holds in the clear, such as ``user[1].password``."""
    replicas: tuple[ReplicaEntry, ...] = ()
    """The filters and passwords of real MySQL and MariaDB replicas, in the order of the file."""


def load_config(
    path: Path,
    *,
    names: NameRules = DEFAULT_NAMES,
) -> MasterConfig:
    """Read and check the master's configuration file.

    ``names`` tells how rules compare database and table names. It describes the server that wrote
    the binlog. Raises OptionError, whose text names the file and the key but no value, which may be a password. A file
    with a password in the clear is refused unless only its owner can read the file.
    """
    parsed = load_toml(path, _File)
    users = _users(path, parsed.user)
    console_users = _console_users(path, parsed.console_user)
    replicas = replica_entries(path, parsed.replica, names)
    plain = _plain(path, parsed)
    known = {*users, *(replica.user for replica in replicas)}
    imposed: list[ImposedFilter] = []
    for number, one in enumerate(parsed.imposed, 1):
        where = f"{path}: imposed[{number}] {one.name!r}"
        if any(one.name == other.name for other in imposed):
            raise OptionError(f"{where}: name: there are two of this name")
        for user in one.users:
            if user not in known:
                raise OptionError(
                    f"{where}: users: there is no [[user]] and no [[replica]] {user!r}; without a "
                    "password a slave can call itself anything"
                )
        imposed.append(_imposed(where, one, names))
    roles = {user.name: user.role for user in parsed.console_user}
    return MasterConfig(users, console_users, tuple(imposed), roles, plain, replicas)


def _imposed(where: str, one: _Imposed, names: NameRules) -> ImposedFilter:
    try:
        rules = [parse_option(rule, one.semantics) for rule in one.rules]
        rule_filter = make_filter(
            one.semantics,
            rules,
            names=names,
        )
        return ImposedFilter(
            one.name,
            rule_filter,
            frozenset(one.server_ids),
            frozenset(one.users),
            one.networks,
            one.on_undecided,
        )
    except OptionError as error:
        raise OptionError(f"{where}: rules: {error}") from None


def _users(path: Path, users: tuple[_User, ...]) -> dict[str, StoredPassword]:
    found: dict[str, StoredPassword] = {}
    for key, user in _named(path, "user", users):
        _check_one_of(key, user.password, user.password_hash)
        try:
            found[user.name] = (
                ScryptHash.parse(user.password_hash)
                if user.password_hash is not None
                else PlainPassword(user.password or "")
            )
        except OptionError as error:
            raise OptionError(f"{key}.password_hash: {error}") from None
    return found


def _console_users(path: Path, users: tuple[_ConsoleUser, ...]) -> dict[str, ConsolePassword]:
    found: dict[str, ConsolePassword] = {}
    for key, user in _named(path, "console_user", users):
        _check_one_of(key, user.password, user.password_hash or None)
        hashes = user.password_hash
        try:
            found[user.name] = (
                ConsolePassword.plain(user.password)
                if user.password is not None
                else ConsolePassword.parse(*((hashes,) if isinstance(hashes, str) else hashes))
            )
        except OptionError as error:
            raise OptionError(f"{key}.password_hash: {error}") from None
    return found


_AnyUser = TypeVar("_AnyUser", _User, _ConsoleUser)


def _named(path: Path, table: str, users: tuple[_AnyUser, ...]) -> Iterator[tuple[str, _AnyUser]]:
    """Yield the key of each user in the file, and the user. Raises OptionError for two users of one name."""
    names: set[str] = set()
    for number, user in enumerate(users, 1):
        if user.name in names:
            raise OptionError(f"{path}: {table}[{number}]: name: there are two users {user.name!r}")
        names.add(user.name)
        yield f"{path}: {table}[{number}]", user


def _check_one_of(key: str, password: str | None, password_hash: object) -> None:
    if (password is None) == (password_hash is None):
        what = "is missing" if password is None else "stands beside password: keep one of the two"
        raise OptionError(f"{key}.password_hash: {what}; dumpfilter password-hash makes a hash")


def _plain(path: Path, parsed: _File) -> tuple[str, ...]:
    """Return the keys of the passwords in the clear. Raises OptionError when others can read a file with such keys."""
    tables: dict[str, tuple[_User | _ConsoleUser | ReplicaTable, ...]] = {
        "user": parsed.user,
        "console_user": parsed.console_user,
        "replica": parsed.replica,
    }
    plain = tuple(
        f"{table}[{number}].password"
        for table, users in tables.items()
        for number, user in enumerate(users, 1)
        if user.password is not None
    )
    if plain and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise OptionError(
            f"{path}: {plain[0]}: the file holds a password in the clear, and other users of this machine can read "
            "it: keep password_hash instead (dumpfilter password-hash makes one), or set the file's mode to 0600"
        )
    return plain
