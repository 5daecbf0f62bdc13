"""The master's configuration file: users for replication, users of the SQL console, and filters imposed on slaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field, IPvAnyNetwork

from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.errors import OptionError
from dumpfilter.filter import FilterSemantics, make_filter, parse_option
from dumpfilter.filter.boundary import OnUndecided
from dumpfilter.master.imposed import ImposedFilter
from dumpfilter.options.toml_file import Model, load_toml

_Name = Annotated[str, Field(min_length=1, max_length=64)]
_ServerId = Annotated[int, Field(ge=1, le=0xFFFFFFFF)]


class _User(Model):
    name: _Name
    password: Annotated[str, Field(min_length=1)]


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
    console_user: tuple[_User, ...] = ()
    imposed: tuple[_Imposed, ...] = ()


@dataclass(frozen=True)
class MasterConfig:
    """The checked contents of the master's configuration file. docs/master.md describes the file."""

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The passwords of the users that slaves may connect as, by user name. When empty, any slave may connect."""
    console_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The passwords of the users who may log in to the master's SQL console, by user name."""
    imposed: tuple[ImposedFilter, ...] = ()


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
    return MasterConfig(users, _passwords(path, "console_user", parsed.console_user), tuple(imposed))


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


def _passwords(path: Path, key: str, users: tuple[_User, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, user in enumerate(users, 1):
        if user.name in found:
            raise OptionError(f"{path}: {key}[{number}]: name: there are two users {user.name!r}")
        found[user.name] = user.password
    return found
