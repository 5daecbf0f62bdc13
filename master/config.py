"""The master's configuration file: users for replication, users of the SQL console, and filters imposed on slaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field, IPvAnyNetwork

from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.console.roles import Role
from dumpfilter.errors import OptionError
from dumpfilter.filter import FilterSemantics, make_filter, parse_option
from dumpfilter.master.imposed import ImposedFilter
from dumpfilter.options.toml_file import Model, load_toml

_Name = Annotated[str, Field(min_length=1, max_length=64)]
_ServerId = Annotated[int, Field(ge=1, le=0xFFFFFFFF)]


class _User(Model):
    name: _Name
    password: Annotated[str, Field(min_length=1)]


class _ConsoleUser(_User):
    role: Role = Role.READ


class _Imposed(Model):
    name: _Name
    server_ids: tuple[_ServerId, ...] = ()
    users: tuple[_Name, ...] = ()
    networks: tuple[IPvAnyNetwork, ...] = ()
    semantics: FilterSemantics = FilterSemantics.CLASSIC
    rules: Annotated[tuple[str, ...], Field(min_length=1)]


class _File(Model):
    user: tuple[_User, ...] = ()
    console_user: tuple[_ConsoleUser, ...] = ()
    imposed: tuple[_Imposed, ...] = ()


@dataclass(frozen=True)
class MasterConfig:
    """The checked contents of the master's configuration file. docs/master.md describes the file."""

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The passwords of the users that slaves may connect as, by user name. When empty, any slave may connect."""
    console_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The passwords of the users who may log in to the master's SQL console, by user name."""
    imposed: tuple[ImposedFilter, ...] = ()
    console_roles: Mapping[str, Role] = field(default_factory=dict)
    """The roles of the users of the master's SQL console, by user name."""


def load_config(
    path: Path,
    *,
    names: NameRules = DEFAULT_NAMES,
) -> MasterConfig:
    """Read and check the master's configuration file.

    ``names`` tells how rules of imposed filters compare database and table names. It describes the server that wrote
    the binlog. Raises OptionError, whose text names the file and the key but no value, which may be a password.
    """
    parsed = load_toml(path, _File)
    users = _passwords(path, "user", parsed.user)
    imposed: list[ImposedFilter] = []
    for number, one in enumerate(parsed.imposed, 1):
        where = f"{path}: imposed[{number}] {one.name!r}"
        if any(one.name == other.name for other in imposed):
            raise OptionError(f"{where}: name: there are two of this name")
        for user in one.users:
            if user not in users:
                raise OptionError(
                    f"{where}: users: there is no [[user]] {user!r}; without a password a slave can call "
                    "itself anything"
                )
        imposed.append(_imposed(where, one, names))
    console_users = _passwords(path, "console_user", parsed.console_user)
    roles = {user.name: user.role for user in parsed.console_user}
    return MasterConfig(users, console_users, tuple(imposed), roles)


def _imposed(where: str, one: _Imposed, names: NameRules) -> ImposedFilter:
    try:
        rules = [parse_option(rule, one.semantics) for rule in one.rules]
        rule_filter = make_filter(
            one.semantics,
            rules,
            names=names,
        )
        return ImposedFilter(
            one.name, rule_filter, frozenset(one.server_ids), frozenset(one.users), one.networks
        )
    except OptionError as error:
        raise OptionError(f"{where}: rules: {error}") from None


def _passwords(path: Path, key: str, users: Sequence[_User]) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, user in enumerate(users, 1):
        if user.name in found:
            raise OptionError(f"{path}: {key}[{number}]: name: there are two users {user.name!r}")
        found[user.name] = user.password
    return found
