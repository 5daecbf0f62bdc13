"""The reading of the tables ``[[replica]]`` of the master's configuration into checked entries."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, IPvAnyNetwork

from dumpfilter.binlog.format import NameRules
from dumpfilter.errors import OptionError
from dumpfilter.filter import FilterSemantics, ReplicationFilter, make_filter, parse_option
from dumpfilter.filter.channels import MAX_CHANNEL_NAME, fold_channel, is_channel_name
from dumpfilter.master.replica_entry import (
    CONNECT_TIMEOUT,
    ConnectBack,
    ConnectTls,
    OnDrift,
    ReplicaEntry,
    check_clear,
)
from dumpfilter.options.small_file import read_small_file
from dumpfilter.options.toml_file import Model
from dumpfilter.security.passwords import MOST_PASSWORD, ConsolePassword

MOST_USER = 32
"""The longest user name that MySQL allows, characters. A replica cannot log in with a longer one."""

_LONGEST_TIMEOUT = 300.0

_Text = Annotated[str, Field(min_length=1, max_length=255)]
_User = Annotated[str, Field(min_length=1, max_length=MOST_USER)]
_Hash = Annotated[str, Field(min_length=1)]


class ConnectTable(Model):
    """The table ``connect`` of a ``[[replica]]``, as the file has it."""

    user: _User
    password_file: Path | None = None
    password_env: _Text | None = None
    host: _Text | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    tls: ConnectTls | None = None
    tls_ca: Path | None = None
    timeout: Annotated[float, Field(gt=0, le=_LONGEST_TIMEOUT)] = CONNECT_TIMEOUT
    commas_separate: bool = False


class ReplicaTable(Model):
    """One table ``[[replica]]``, as the file has it."""

    user: _User
    password: Annotated[str, Field(min_length=1, max_length=MOST_PASSWORD)] | None = None
    password_hash: _Hash | tuple[_Hash, ...] = ()
    channel: Annotated[str, Field(max_length=MAX_CHANNEL_NAME)] | None = None
    server_ids: tuple[Annotated[int, Field(ge=1, le=0xFFFFFFFF)], ...] = ()
    networks: tuple[IPvAnyNetwork, ...] = ()
    semantics: FilterSemantics = FilterSemantics.CLASSIC
    rules: tuple[str, ...] | None = None
    adopt: bool = False
    connect: ConnectTable | None = None
    on_drift: OnDrift | None = None


def replica_entries(path: Path, tables: Sequence[ReplicaTable], names: NameRules) -> tuple[ReplicaEntry, ...]:
    """Check the tables ``[[replica]]`` of the file ``path``, and return their entries.

    ``names`` tells how rules compare names. Raises OptionError that names the file and the key, and no password.
    """
    passwords: dict[str, ConsolePassword] = {}
    for number, table in enumerate(tables, 1):
        _note_password(f"{path}: replica[{number}]", table, passwords)
    entries = []
    for number, table in enumerate(tables, 1):
        key = f"replica[{number}]"
        where = f"{path}: {key}"
        if table.user not in passwords:
            raise OptionError(
                f"{where}.password_hash: is missing, and no other [[replica]] of user {table.user!r} has one; "
                "dumpfilter password-hash --plugin caching_sha2_password makes a hash"
            )
        if table.channel is not None and not is_channel_name(table.channel):
            raise OptionError(f"{where}.channel: a server allows no space at the end of a channel's name")
        entries.append(
            ReplicaEntry(
                key,
                table.user,
                passwords[table.user],
                _filter(where, table, names),
                table.semantics,
                None if table.channel is None else fold_channel(table.channel),
                frozenset(table.server_ids),
                table.networks,
                _connect(where, table.connect),
                table.on_drift or OnDrift.WARN,
            )
        )
    check_clear(path, entries)
    return tuple(entries)


def _note_password(where: str, table: ReplicaTable, passwords: dict[str, ConsolePassword]) -> None:
    """Add a table's password to ``passwords``. Only the first table of a user must have one."""
    given = table.password_hash
    if table.password is None and not given:
        return
    if table.password is not None and given:
        raise OptionError(f"{where}.password_hash: stands beside password: keep one of the two")
    try:
        password = (
            ConsolePassword.plain(table.password)
            if table.password is not None
            else ConsolePassword.parse(*((given,) if isinstance(given, str) else given))
        )
    except OptionError as error:
        raise OptionError(f"{where}.password_hash: {error}") from None
    if passwords.setdefault(table.user, password) != password:
        raise OptionError(
            f"{where}: password_hash: user {table.user!r} has another password in an earlier [[replica]]: a user has "
            "one password; leave it out here"
        )


def _filter(where: str, table: ReplicaTable, names: NameRules) -> ReplicationFilter | None:
    if table.adopt:
        if table.rules is not None:
            raise OptionError(
                f"{where}.rules: stands beside adopt = true, with which the replica's own filter is used: keep one "
                "of the two"
            )
        if table.connect is None:
            raise OptionError(
                f"{where}.connect: is missing: adopt = true reads the replica's own filter, and needs a user and a "
                'password, such as connect = { user = "dumpfilter", password_file = "/etc/dumpfilter/password" }'
            )
        if table.on_drift is not None:
            raise OptionError(
                f"{where}.on_drift: stands beside adopt = true, with which the master uses the replica's own filter: "
                "leave it out"
            )
        if table.semantics is not FilterSemantics.CLASSIC:
            raise OptionError(
                f"{where}.semantics: stands beside adopt = true: a server's own filter is classic; leave it out"
            )
        return None
    if table.rules is None:
        raise OptionError(
            f"{where}.rules: is missing: write the rules of the replica's own filter, or rules = [] to send "
            "everything, or adopt = true"
        )
    if table.on_drift is not None and table.connect is None:
        raise OptionError(
            f"{where}.on_drift: needs connect, a user and a password with which the master reads the replica's own "
            "filter"
        )
    try:
        return make_filter(
            table.semantics, [parse_option(rule, table.semantics) for rule in table.rules], names=names
        )
    except OptionError as error:
        raise OptionError(f"{where}.rules: {error}") from None


def _connect(where: str, table: ConnectTable | None) -> ConnectBack | None:
    if table is None:
        return None
    if (table.password_file is None) == (table.password_env is None):
        what = "is missing" if table.password_file is None else "stands beside password_env"
        raise OptionError(
            f"{where}.connect.password_file: {what}: give one of password_file and password_env"
        )
    if table.tls is ConnectTls.DISABLED and table.tls_ca is not None:
        raise OptionError(f'{where}.connect.tls_ca: stands beside tls = "disabled": keep one of the two')
    tls = table.tls or (ConnectTls.REQUIRED if table.tls_ca is None else ConnectTls.VERIFY_IDENTITY)
    connect = ConnectBack(
        table.user,
        table.password_file,
        table.password_env,
        table.host,
        table.port,
        tls,
        table.tls_ca,
        table.timeout,
        table.commas_separate,
    )
    for key, file in (("password_file", table.password_file), ("tls_ca", table.tls_ca)):
        if file is not None:
            _check_readable(f"{where}.connect.{key}", file)
    if table.password_env is not None and table.password_env not in os.environ:
        raise OptionError(
            f"{where}.connect.password_env: the environment has no variable {table.password_env!r}: set it before "
            "the master starts"
        )
    return connect


def _check_readable(where: str, file: Path) -> None:
    try:
        read_small_file(file)
    except OSError as error:
        raise OptionError(f"{where}: {file} cannot be read: {error.strerror}") from None
