"""The statements about accounts, and the grant tables that such a statement opens, in the server's order.

A replica applies its table rules to the grant tables as to any updated table. The order is that of ``enum ACL_TABLES``
in MySQL (``open_grant_tables``) and of ``Grant_tables::open_and_lock`` in MariaDB, which opens only the tables that
the statement needs. Recorded in tests/oracle/data/recordings/{mysql,mariadb}-forms{,2}.
"""

from __future__ import annotations

from dataclasses import replace

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.definitions import Definition, Thing, Verb
from dumpfilter.binlog.statement.reader import TokenReader
from dumpfilter.binlog.statement.statement import TableLists

_NOT_AN_ACCOUNT = ("CURRENT_USER", "CURRENT_ROLE", "NONE", "ALL", "DEFAULT", "PUBLIC")
_MYSQL = (
    *("user", "db", "tables_priv", "columns_priv", "procs_priv", "proxies_priv", "role_edges"),
    *("default_roles", "global_grants", "password_history"),
)
_MARIADB = ("db", "tables_priv", "columns_priv", "procs_priv", "proxies_priv", "roles_mapping", "global_priv")


def grant_tables(family: Family, *opened: str) -> tuple[TableName, ...]:
    """Return the grant tables that an account statement opens, in the server's order.

    MySQL opens all grant tables. MariaDB opens global_priv and the tables whose names are in ``opened``. The name
    ``"*"`` stands for all grant tables.
    """
    if family == "mysql":
        names: tuple[str, ...] = _MYSQL
    elif "*" in opened:
        names = _MARIADB
    else:
        names = tuple(name for name in _MARIADB if name in opened or name == "global_priv")
    return tuple(TableName("mysql", name) for name in names)


def _account(reader: TokenReader) -> TableName | None:
    if not reader.token.is_name:
        return None
    token = reader.advance()
    if token.word in _NOT_AN_ACCOUNT:
        if reader.accept("("):
            reader.accept(")")
        return TableName("", "")
    host = "%"
    if reader.accept("@"):
        if not reader.token.is_name:
            return None
        host = reader.advance().value
    return TableName(host.lower(), token.value)


def read_accounts(reader: TokenReader) -> tuple[TableName, ...]:
    found = []
    while (account := _account(reader)) is not None:
        if account.table:
            found.append(account)
        # The next account stands behind a comma outside of parentheses and strings.
        while not reader.at_end and not reader.sees(",", "FROM", "TO", "REQUIRE", "WITH", ";"):
            if reader.accept("("):
                reader.skip_parentheses()
            else:
                reader.advance()
        if not reader.accept(","):
            break
    return tuple(dict.fromkeys(found))


def read_rename_user(reader: TokenReader) -> Definition | None:
    pairs = []
    while True:
        old = _account(reader)
        new = _account(reader) if reader.accept("TO") else None
        if old is None or new is None:
            return None
        pairs.append((old, new))
        if not reader.accept(","):
            return Definition(
                Verb.RENAME, Thing.ACCOUNT, tuple(old for old, _ in pairs), renames=tuple(pairs)
            )


def read_grant(
    reader: TokenReader, verb: Verb, family: Family
) -> tuple[TableLists | None, Definition | None]:
    """Read a GRANT or REVOKE behind its verb. Return the lists of updated tables, and the objects that it needs."""
    conditional = reader.exists()
    is_proxy = reader.sees("PROXY")
    words, creates, columns = [], False, False
    while not reader.at_end and not reader.sees("ON", "TO", "FROM"):
        creates |= reader.token.word in ("CREATE", "ALL")
        words.append(reader.token.value.lower())
        if reader.accept("("):
            columns = True
            reader.skip_parentheses()
        else:
            reader.advance()
    head = Definition(verb, Thing.GRANT, conditional=conditional)
    if is_proxy:
        proxied = _account(reader) if reader.accept("ON") else None
        return (grant_tables(family, "proxies_priv"),), _with_accounts(reader, head, f"proxy {proxied}", ())
    if not reader.accept("ON"):
        no_role = ("admin", "option", "for")
        roles = (
            () if "all" in words else (word for word in words if word.isidentifier() and word not in no_role)
        )
        granted = tuple(TableName("%", role) for role in roles)
        opened = "*" if words[:1] == ["all"] else "roles_mapping"
        return (grant_tables(family, opened),), _with_accounts(reader, head, " ".join(words), granted)
    what = reader.accept("PROCEDURE", "FUNCTION", "PACKAGE", "LIBRARY", "TABLE")
    if what == "PACKAGE":
        reader.accept("BODY")
    name = _granted_on(reader)
    if name is None:
        return None, None
    is_routine = what not in ("", "TABLE")
    if what in ("PROCEDURE", "FUNCTION"):
        head = replace(head, routines=((Thing[what], name),))
    elif name.table != "*" and not (creates and verb is Verb.GRANT):
        head = replace(head, tables=(name,))
    found = _with_accounts(reader, head, f"{what} {name.database}.{name.table}", ())
    found = None if what in ("PACKAGE", "LIBRARY") else found
    if name.table == "*":
        return (grant_tables(family, "db"),), found
    opened_for = ["procs_priv" if is_routine else "tables_priv", *(["columns_priv"] if columns else [])]
    return ((name,), grant_tables(family, *opened_for)), found


def _with_accounts(
    reader: TokenReader, head: Definition, on: str, granted: tuple[TableName, ...]
) -> Definition | None:
    if not reader.accept("TO", "FROM"):
        return None
    return replace(head, accounts=(*read_accounts(reader), *granted), on=on)


def _granted_on(reader: TokenReader) -> TableName | None:
    if reader.accept("*"):
        if reader.accept("."):
            reader.advance()
            return TableName("*", "*")
        return TableName(None, "*")
    if not reader.token.is_name:
        return None
    first = reader.advance().value
    if not reader.accept("."):
        return TableName(None, first)
    if reader.accept("*"):
        return TableName(first, "*")
    return TableName(first, reader.advance().value) if reader.token.is_name else None
