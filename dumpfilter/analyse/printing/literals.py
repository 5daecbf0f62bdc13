"""The parts of printed statements: quoted names, literals, and the settings of a statement's session.

A printed statement needs the session variables with which the logged statement ran on its server. SET statements before
it restore them (``Query_log_event::print_query_header``). Only variables whose values changed since the last statement
are set again, so most statements need one line.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from dumpfilter.base.errors import BinlogCorrupt, GtidError
from dumpfilter.binlog.charsets import charset_name, collation_name
from dumpfilter.binlog.context_events import DECIMAL_RESULT, INT_RESULT, REAL_RESULT, UserVar, XaPrepare
from dumpfilter.binlog.cursor import encode_name
from dumpfilter.binlog.events import LOG_EVENT_SUPPRESS_USE_F, EventHeader
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.gap_events import Gap, Head
from dumpfilter.binlog.gtid import empty_set
from dumpfilter.binlog.query import QueryEvent
from dumpfilter.binlog.row_image import decimal_text
from dumpfilter.filter.convert import kind_from_number


def quoted_name(name: str) -> bytes:
    """Return an identifier (of a database, table or variable) in backticks, as bytes. Backticks inside it are
    doubled.

    >>> quoted_name("a`b")
    b'`a``b`'
    """
    return b"`" + encode_name(name).replace(b"`", b"``") + b"`"


def quoted_text(text: str) -> bytes:
    r"""Return an SQL string literal for ``text``, as bytes, that has one meaning in every sql_mode.

    Quotes are doubled. A text with a backslash or a control character becomes a hexadecimal literal.

    >>> quoted_text("it's"), quoted_text("a\\b")
    (b"'it''s'", b"X'615c62'")
    """
    raw = encode_name(text)
    if any(byte < 32 or byte == 0x5C for byte in raw):
        return b"X'" + raw.hex().encode() + b"'"
    return b"'" + raw.replace(b"'", b"''") + b"'"


def xa_prepare_text(prepare: XaPrepare) -> str:
    """Return the statement XA PREPARE, or XA COMMIT with ONE PHASE, that an XA_prepare event stands for."""
    return f"XA COMMIT {prepare.xid} ONE PHASE" if prepare.one_phase else f"XA PREPARE {prepare.xid}"


def user_variable(variable: UserVar, family: Family, own_name: Callable[[str], str] = str) -> bytes | None:
    """Return the value of a user variable (from a User_var event) as an SQL expression of equal type, as bytes.

    Return None for a string whose collation is unknown. ``own_name`` maps a collation's name to its name in the
    server's version. Raises BinlogCorrupt for a malformed DECIMAL.

    >>> user_variable(UserVar("a", b"x", charset=45), "mysql")
    b"_utf8mb4 X'78' COLLATE `utf8mb4_general_ci`"
    >>> user_variable(UserVar("a", bytes.fromhex("0000000000001840"), REAL_RESULT), "mysql")
    b'6.0e0'
    """
    value = variable.value
    if value is None:
        return b"NULL"
    if variable.type == REAL_RESULT:
        text = repr(struct.unpack("<d", value)[0])
        # A server reads a number without an exponent as a DECIMAL. The exponent makes the literal a DOUBLE, as the user
        # variable was.
        return (text if "e" in text else text + "e0").encode()
    if variable.type == INT_RESULT:
        return str(int.from_bytes(value, "little", signed=not variable.unsigned)).encode()
    if variable.type == DECIMAL_RESULT:
        if len(value) < 2:
            raise BinlogCorrupt("User_var event: a decimal without its precision")
        return decimal_text(value[2:], value[0], value[1]).encode()
    collation = collation_name(variable.charset, family)
    if collation is None:
        return None
    collation = own_name(collation)
    charset = collation.partition("_")[0]
    return f"_{charset} X'{value.hex()}' COLLATE `{collation}`".encode()


def gap_text(content: Gap | Head | None) -> str:
    r"""Return the text of an event that dumpfilter wrote into a relay log, or an empty text for ``content`` None.

    A :class:`Gap` records transactions that the master dropped. A :class:`Head` identifies the master at the
    beginning of a relay log. In the text, ``hits`` are the matches of filter rules, by the kind of rule. Raises
    BinlogCorrupt for GTIDs that no server can write.

    >>> gap_text(Gap(4711, {1: 3}, ((bytes(4) + b"\x0b\0\0\0", 5, 7),)))
    'dropped by the master: GTIDs 0-11-5:7, up to position 4711; hits REPLICATE_DO_DB=3'
    >>> gap_text(Head({"master_uuid": "5a8b8d0a-e543-11f1-9c8d-02fc00000001"}))
    'head of a relay log: master_uuid=5a8b8d0a-e543-11f1-9c8d-02fc00000001'
    """
    if content is None:
        return ""
    if isinstance(content, Head):
        members = ", ".join(f"{name}={value}" for name, value in content.members.items())
        return f"head of a relay log: {members or 'no member'}"
    told = []
    if content.runs:
        told.append(f"GTIDs {_gtids(content)}")
    if content.end:
        told.append(f"up to position {content.end}")
    parts = [", ".join(told)] if told else []
    if content.hits:
        parts.append("hits " + ", ".join(f"{_kind(kind)}={n}" for kind, n in content.hits.items()))
    return f"dropped by the master: {'; '.join(parts) or 'nothing'}"


def _gtids(gap: Gap) -> str:
    gtids = empty_set("mariadb" if len(gap.runs[0][0]) == 8 else "mysql")
    try:
        gap.add_to(gtids)
    except GtidError as error:
        raise BinlogCorrupt(f"a Gap event has impossible GTIDs: {error}") from None
    return str(gtids)


def _kind(number: int) -> str:
    kind = kind_from_number(number)
    return f"rule kind {number}" if kind is None else kind.value.upper().replace("-", "_")


# The session variables that a Query event stores as bits of its field flags2. Each row has the variable's name, its
# bit, the variable's value when the bit is set, and the first version of MariaDB that has the variable; None for a
# variable of MySQL, too. The bits of MariaDB's variables were found by an experiment with MariaDB 10.11.
_OPTIONS: tuple[tuple[str, int, bool, tuple[int, int] | None], ...] = (
    ("foreign_key_checks", 1 << 26, False, None),
    ("sql_auto_is_null", 1 << 14, True, None),
    ("unique_checks", 1 << 27, False, None),
    ("autocommit", 1 << 19, False, None),
    ("check_constraint_checks", 1 << 15, False, (10, 2)),
    ("sql_if_exists", 1 << 28, True, (10, 5)),
    ("explicit_defaults_for_timestamp", 1 << 24, True, (10, 10)),
    ("system_versioning_insert_history", 1 << 30, True, (10, 11)),
)
# MySQL's session variables that a client sets in a version comment, with the first version that has each variable.
_VERSIONED = {
    "default_collation_for_utf8mb4": 80011,
    "sql_require_primary_key": 80013,
    "default_table_encryption": 80016,
}
_UTF8 = 33
"""The number of the collation ``utf8mb3_general_ci``, which all server versions know. Names of databases and tables can
have only characters of utf8mb3.
"""

_NAMELESS = re.compile(
    r"\s*ALTER\s+(DATABASE|SCHEMA)\s+(DEFAULT|CHARACTER|CHARSET|COLLATE|ENCRYPTION|COMMENT|READ)\b", re.I
)
"""The pattern of ALTER DATABASE without a database name, which changes the default database.

Servers log this statement with LOG_EVENT_SUPPRESS_USE_F, as if it did not depend on the default database.
"""
_VERSION = re.compile(r"(?:5\.5\.5-)?(\d+)\.(\d+)")


def server_version(fd: FormatDescription) -> tuple[int, int]:
    """Return major and minor version of the server that wrote the binlog, such as (10, 11).

    Return (0, 0) for a version text without these numbers.
    """
    match = _VERSION.match(fd.server_version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


class Session:
    """The session variables that the printed SET statements have set so far.

    ``fd`` is the binlog's format description event. Its server family and version determine the names of variables
    and character sets.
    """

    def __init__(self, fd: FormatDescription) -> None:
        self.family: Family = fd.family
        self._version = server_version(fd)
        self._set: dict[str, object] = {}
        self._options = [
            (name, bit, meaning)
            for name, bit, meaning, since in _OPTIONS
            if since is None or (fd.family == "mariadb" and self._version >= since)
        ]

    def charset(self, collation: int) -> str | None:
        """Return the name of a collation's character set, as the server that wrote the binlog spells it, or None for an
        unknown collation.
        """
        name = charset_name(collation, self.family)
        return None if name is None else self.own_name(name)

    def own_name(self, name: str) -> str:
        """Return the name of a character set or collation as the server that wrote the binlog spells it.

        Older versions use ``utf8`` for ``utf8mb3``.
        """
        if name.startswith("utf8mb3") and self._version < ((10, 6) if self.family == "mariadb" else (8, 1)):
            return "utf8" + name.removeprefix("utf8mb3")
        return name

    def before(self, query: QueryEvent, header: EventHeader, *, database: str, use: bool) -> list[bytes]:
        """Return the USE and SET statements to print before a logged statement, without delimiters.

        The printed statements set the session variables that the Query event ``query`` records, except those that
        earlier printed statements have already set to these values. ``database`` is the default database on the target,
        the server that runs the printed text. ``use`` False omits USE, for a statement that does not depend on the
        default database.
        """
        lines = self._use(query, header, database) if use else []
        status = query.status
        when = f"SET TIMESTAMP={header.timestamp}"
        if status.microseconds is not None:
            when += f".{status.microseconds:06}"
        lines.append(when.encode())
        self._one(lines, "pseudo_thread_id", query.thread_id)
        if status.flags2 is not None:
            flags = status.flags2
            self._several(
                lines, "options", {name: int(bool(flags & bit) is set_) for name, bit, set_ in self._options}
            )
        if status.sql_mode is not None:
            self._one(lines, "sql_mode", status.sql_mode)
        increment = (
            1 if status.auto_increment_increment is None else status.auto_increment_increment,
            1 if status.auto_increment_offset is None else status.auto_increment_offset,
        )
        names = ("auto_increment_increment", "auto_increment_offset")
        self._several(lines, "increment", dict(zip(names, increment, strict=True)))
        self._charsets(lines, query)
        if status.time_zone is not None and self._changed("time_zone", status.time_zone):
            lines.append(b"SET @@session.time_zone=" + quoted_text(status.time_zone))
        self._one(lines, "lc_time_names", status.lc_time_names or 0)
        self._one(lines, "collation_database", status.charset_database or "DEFAULT")
        if self.family == "mysql":
            for variable, since in _VERSIONED.items():
                value = getattr(status, variable)
                if value is not None and self._changed(variable, value):
                    lines.append(f"/*!{since} SET @@session.{variable}={value}*/".encode())
            if status.explicit_defaults_for_timestamp is not None:
                self._one(lines, "explicit_defaults_for_timestamp", status.explicit_defaults_for_timestamp)
        return lines

    def is_new_thread(self, thread_id: int) -> bool:
        """Tell whether the connection id ``thread_id`` differs from that of the last printed SET statement for
        ``pseudo_thread_id``. If so, the caller must print such a statement, and the new id is remembered.
        """
        return self._changed("pseudo_thread_id", thread_id)

    def _use(self, query: QueryEvent, header: EventHeader, database: str) -> list[bytes]:
        if header.flags & LOG_EVENT_SUPPRESS_USE_F and not _NAMELESS.match(query.text):
            # The logged statement may drop the default database. Therefore USE is printed again before the next
            # statement.
            self._set.pop("use", None)
            return []
        if not database or not self._changed("use", database):
            return []
        return self.in_utf8(b"use " + quoted_name(database))

    def in_utf8(self, statement: bytes) -> list[bytes]:
        """Return a list that ends with ``statement``, whose names are UTF-8. Lines that set the character sets of
        client and server to UTF-8 precede the statement, unless it is ASCII or the character sets are already UTF-8.
        """
        if statement.isascii() or not self._changed("charsets", {"character_set_client": _UTF8}):
            return [statement]
        client = f"/*!\\C {self.charset(_UTF8)} */"
        return [client.encode(), b"SET @@session.character_set_client=%d" % _UTF8, statement]

    def _charsets(self, lines: list[bytes], query: QueryEvent) -> None:
        status = query.status
        if status.charset_client is None:
            return
        wanted = {
            "character_set_client": status.charset_client,
            "collation_connection": status.collation_connection,
            "collation_server": status.collation_server,
        }
        if self._set.get("charsets") != wanted and (name := self.charset(status.charset_client)) is not None:
            # In some character sets, such as gbk, the second byte of a character can be a backslash. The printed \C
            # command tells the client the character set, so that the client does not take this byte for an escape.
            lines.append(f"/*!\\C {name} */".encode())
        self._several(lines, "charsets", wanted)
        chosen = status.character_set_collations
        if chosen is not None and self._changed("character_set_collations", chosen):
            pairs = (
                (charset_name(of_set, self.family), collation_name(number, self.family))
                for of_set, number in chosen
            )
            # A character set that the SET statement leaves out gets the default collation of the server that runs the
            # text.
            text = ",".join(f"{charset}={name}" for charset, name in pairs if charset and name)
            # A server without this variable takes the text as a comment, as a replica ignores the variable.
            lines.append(f"/*M!110201 SET @@session.character_set_collations='{text}'*/".encode())

    def _changed(self, key: str, value: object) -> bool:
        if self._set.get(key) == value:
            return False
        self._set[key] = value
        return True

    def _one(self, lines: list[bytes], variable: str, value: object) -> None:
        if self._changed(variable, value):
            lines.append(f"SET @@session.{variable}={value}".encode())

    def _several(self, lines: list[bytes], key: str, values: dict[str, int] | dict[str, int | None]) -> None:
        if self._changed(key, values):
            pairs = ", ".join(f"@@session.{name}={value}" for name, value in values.items())
            lines.append(f"SET {pairs}".encode())
