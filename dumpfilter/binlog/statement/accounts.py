"""The parsing of statements about accounts (GRANT, CREATE USER …), and the grant tables that such statements open.

A replica applies its table rules to the grant tables as to any updated table. The order is that of ``enum ACL_TABLES``
in MySQL (``open_grant_tables``) and of ``Grant_tables::open_and_lock`` in MariaDB, which opens only the tables that
the statement needs. Recorded in tests/oracle/data/recordings/{mysql,mariadb}-forms{,2}.
"""

from __future__ import annotations

from dataclasses import replace

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.reader import StatementReader, TokenReader
from dumpfilter.binlog.statement.statement import StatementFacts, StatementKind, Thing, Verb

_NOT_AN_ACCOUNT = ("CURRENT_USER", "CURRENT_ROLE", "NONE", "ALL", "DEFAULT", "PUBLIC")
_MYSQL = (
    *("user", "db", "tables_priv", "columns_priv", "procs_priv", "proxies_priv", "role_edges"),
    *("default_roles", "global_grants", "password_history"),
)
_MARIADB = ("db", "tables_priv", "columns_priv", "procs_priv", "proxies_priv", "roles_mapping", "global_priv")


def grant_tables(family: Family, *opened: str) -> tuple[TableName, ...]:
    """Return the grant tables (``mysql.user``, ``mysql.db`` and so on) that a statement such as GRANT or CREATE USER
    opens, in the server's order. The server applies its table rules to them.

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


def read_account(reader: TokenReader) -> TableName | None:
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
    while (account := read_account(reader)) is not None:
        if account.table:
            found.append(account)
        # The next account stands behind a comma outside of parentheses and strings.
        while not reader.at_end and not reader.sees(",", "FROM", "TO", "REQUIRE", "WITH", ";"):
            if reader.accept("IDENTIFIED"):
                reader.accept("WITH")
            elif not reader.accept_parentheses():
                reader.advance()
        if not reader.accept(","):
            break
    return tuple(dict.fromkeys(found))


def read_grant(reader: StatementReader, verb: Verb) -> StatementFacts:
    """Parse a GRANT or REVOKE statement, and return its kind, accounts and tables. The cursor ``reader`` stands after
    the word GRANT or REVOKE, which ``verb`` tells.
    """
    conditional = reader.exists()
    is_proxy = reader.sees("PROXY")
    words, creates, columns = [], False, False
    while not reader.at_end and not reader.sees("ON", "TO", "FROM"):
        creates |= reader.token.word in ("CREATE", "ALL")
        words.append(reader.token.value.lower())
        if reader.accept_parentheses():
            columns = True
        else:
            reader.advance()
    granted: tuple[TableName, ...] = ()
    needs: tuple[tuple[Thing, TableName], ...] = ()
    of_object: tuple[TableName, ...] = ()
    is_known = True
    if is_proxy:
        opened = ["proxies_priv"]
        on = f"proxy {read_account(reader) if reader.accept('ON') else None}"
    elif not reader.accept("ON"):
        no_role = ("admin", "option", "for")
        if "all" not in words:
            granted = tuple(
                TableName("%", word) for word in words if word.isidentifier() and word not in no_role
            )
        opened = ["*" if words[:1] == ["all"] else "roles_mapping"]
        on = " ".join(words)
    else:
        what = reader.accept("PROCEDURE", "FUNCTION", "PACKAGE", "LIBRARY", "TABLE")
        if what == "PACKAGE":
            reader.accept("BODY")
        name = _granted_on(reader)
        if name is None:
            return StatementFacts(StatementKind.ACCOUNT)
        if what in ("PROCEDURE", "FUNCTION"):
            needs = ((Thing[what], name),)
        elif name.table != "*" and not (creates and verb is Verb.GRANT):
            needs = ((Thing.TABLE, name),)
        is_known = what not in ("PACKAGE", "LIBRARY")
        if name.table == "*":
            opened = ["db"]
        else:
            of_object = (name,)
            opened = ["tables_priv" if what in ("", "TABLE") else "procs_priv"]
            opened += ["columns_priv"] if columns else []
        on = f"{what} {name.database}.{name.table}"
    opens = grant_tables(reader.family, *opened)
    found = StatementFacts(
        StatementKind.ACCOUNT, updated=(of_object, opens) if of_object else (opens,), objects=()
    )
    if not is_known or not reader.accept("TO", "FROM"):
        return found
    return replace(
        found,
        verb=verb,
        thing=Thing.GRANT,
        conditional=conditional,
        needs=needs,
        accounts=(*read_accounts(reader), *granted),
        on=on,
    )


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
