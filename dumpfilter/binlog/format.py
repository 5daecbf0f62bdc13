"""The format description event, which describes the layout of the events after it and names the version of their
server.

The server's class is ``Format_description_log_event``.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from dumpfilter.base.errors import BinlogCorrupt, BinlogError, BinlogTruncated, BinlogUnsupported
from dumpfilter.base.printable import printable
from dumpfilter.binlog.events import (
    CHECKSUM_LENGTH,
    ENCRYPTED_MAGIC,
    GTID_INDEX_MAGIC,
    HEADER_LENGTH,
    LOG_EVENT_BINLOG_IN_USE_F,
    MAGIC,
    EventHeader,
    EventType,
    is_sound,
    seal,
)

Family = Literal["mysql", "mariadb"]


class NameCollation(enum.StrEnum):
    """The collations by which MariaDB servers compare names in ``replicate-*-table`` and ``replicate-wild-*-table``
    rules. The server's version decides which collation the server uses. MySQL compares without a collation.
    """

    GENERAL_CI = "general_ci"
    """``utf8mb3_general_ci``, before MariaDB 11.5. Case and accents do not count."""
    GENERAL1400_AS_CI = "general1400_as_ci"
    """``utf8mb3_general1400_as_ci``, from MariaDB 11.5 on. Accents count, case does not."""


class NameRules(NamedTuple):
    """The settings of a server that decide whether two names of databases or tables are equal: its family (MySQL or
    MariaDB), collation and ``lower_case_table_names``.
    """

    family: Family = "mysql"
    collation: NameCollation = NameCollation.GENERAL_CI
    """The collation by which MariaDB's table rules and wild rules compare names. MySQL's rules do not use it."""
    lower_case_table_names: int = 0
    """The server's setting ``lower_case_table_names``. With 0 the case of names counts; with 1 and 2 it does not."""

    def spelled(self, database: str, table: str) -> tuple[str, str]:
        """Return a table's name as the server compares it with another table's name: in lower case if
        ``lower_case_table_names`` is set.

        >>> NameRules(lower_case_table_names=1).spelled("Shop", "Orders")
        ('shop', 'orders')
        """
        return (database.lower(), table.lower()) if self.lower_case_table_names else (database, table)


DEFAULT_NAMES = NameRules()
"""The rules for comparing names when the caller does not know the binlog's server: MySQL's rules, in which case
counts.
"""

_ACCENTS_COUNT = (11, 5)
"""The first MariaDB version that distinguishes accents when it compares the names of databases and tables
(MDEV-31340, in the change log of 11.5.1).
"""


def name_collation_of(family: Family, server_version: str) -> NameCollation:
    """Return the collation by which a MariaDB server of this version compares the names of tables in replication rules.
    For MySQL, whose rules use no collation, the result is GENERAL_CI. An unreadable version counts as an old version.

    >>> name_collation_of("mariadb", "11.8.9-MariaDB-log").value
    'general1400_as_ci'
    """
    new = family == "mariadb" and _version(server_version) >= _ACCENTS_COUNT
    return NameCollation.GENERAL1400_AS_CI if new else NameCollation.GENERAL_CI


_FIXED = struct.Struct("<H50sIB")
_FIRST_ROWS, _FIRST_RELEASED_ROWS = (5, 1, 0), (5, 1, 18)
"""The first version of MySQL with rows events, and the first one whose rows events have the layout of later servers."""
_MOST_TYPES_WITHOUT_CHECKSUMS = 34
# For each checksum algorithm, OFF (0), CRC32 (1) and UNDEF (255), the table tells whether events end in a checksum.
_CHECKSUM_ALGORITHMS = {0: False, 1: True, 255: False}


_OTHER_FILES = {
    ENCRYPTED_MAGIC: "the file is encrypted; decrypt it "
    "(mysqlbinlog --read-from-remote-server --raw fetches it in clear)",
    GTID_INDEX_MAGIC: "a GTID index, which MariaDB keeps beside a binlog: name the binlog itself, without .idx",
}
"""The explanations in errors about files that a user may take for a binlog, by the first four bytes of the file."""


def check_magic(head: bytes) -> None:
    """Raise an error unless a file begins like a binlog. ``head`` is the first 4 bytes of the file, or all bytes of a
    shorter file.

    Raises BinlogUnsupported for an encrypted binlog or a GTID index of MariaDB. Raises BinlogTruncated for fewer than 4
    bytes, and BinlogCorrupt for any other file.
    """
    if head == MAGIC:
        return
    if head in _OTHER_FILES:
        raise BinlogUnsupported(_OTHER_FILES[head], position=0)
    if len(head) < 4:
        what = f"the file has only {len(head)} bytes, less than a binlog's magic number"
        raise BinlogTruncated(what, position=0)
    raise BinlogCorrupt(f"not a binlog: it starts with {head.hex(' ')}, not fe 62 69 6e", position=0)


@dataclass(frozen=True)
class FormatDescription:
    """The content of a format description event. This event begins a binlog file and describes the layout of the
    events after it.
    """

    server_version: str
    created: int
    """The Unix time at which the server started, seconds; 0 in a file that a rotation began."""
    checksum: bool
    """Whether the events after the format description event end in a CRC32 of 4 bytes."""
    post_header_lengths: bytes
    """The length of the post-header of each event type, bytes: one byte for each type from type 1 on.

    A post-header is the part of fixed length with which an event's body begins.
    """
    family: Family
    """The family of the server that wrote the binlog, MySQL or MariaDB."""
    raw: bytes
    """The bytes of the whole event, with LOG_EVENT_BINLOG_IN_USE_F cleared."""

    @classmethod
    def parse(
        cls, event: bytes, *, file: str | None = None, position: int | None = None
    ) -> FormatDescription:
        """Decode a whole format description event, with its header, and verify its checksum when the event has one.

        ``file`` and ``position`` (byte offset of the event) are only for errors. Raises BinlogCorrupt, or
        BinlogUnsupported for a binlog format other than v4.
        """
        try:
            return cls._parsed(event)
        except BinlogError as error:
            raise error.located(file, position) from None

    @classmethod
    def _parsed(cls, event: bytes) -> FormatDescription:
        def corrupt(what: str) -> BinlogCorrupt:
            return BinlogCorrupt(f"format description event: {what}")

        if len(event) < HEADER_LENGTH:
            raise corrupt(f"only {len(event)} bytes")
        header = EventHeader.unpack(event)
        # A START_V3 event is shorter than a format description event, so its type is checked before its length.
        if header.type == EventType.START_V3:
            raise BinlogUnsupported(
                "a binlog of MySQL 4.1 or older (format before v4) is not read; replicate it through a MySQL 5.x "
                "server, which writes format v4"
            )
        if header.type != EventType.FORMAT_DESCRIPTION:
            raise corrupt(f"an event of type {header.type} is in its place")
        if len(event) < HEADER_LENGTH + _FIXED.size + EventType.TABLE_MAP:
            raise corrupt(f"only {len(event)} bytes")
        version, server, created, header_length = _FIXED.unpack_from(event, HEADER_LENGTH)
        if version != 4:
            raise BinlogUnsupported(f"the binlog's format version is {version}; only version 4 is read")
        if header_length != HEADER_LENGTH:
            raise corrupt(f"the header length is {header_length} instead of {HEADER_LENGTH}")
        # The version stands in reports, greetings and comments of SQL texts, where a line end would end the comment.
        server_version = printable(server.partition(b"\0")[0].decode("ascii", "replace"))
        if _FIRST_ROWS <= _version(server_version) < _FIRST_RELEASED_ROWS:
            raise BinlogUnsupported(
                f"a binlog of MySQL {server_version}, before 5.1.18, is not read; replicate it through a MySQL 5.5 "
                "server"
            )
        in_use_cleared = bytearray(event)
        in_use_cleared[17] &= ~LOG_EVENT_BINLOG_IN_USE_F & 0xFF
        raw = bytes(in_use_cleared)
        lengths = event[HEADER_LENGTH + _FIXED.size :]
        checksum = False
        # Servers that cannot write checksums know fewer event types than later servers. The number of types therefore
        # shows whether a checksum ends the event, even when the server's version is unreadable.
        if _knows_checksums(server_version) or len(lengths) > _MOST_TYPES_WITHOUT_CHECKSUMS:
            # A server that knows checksums ends its format description event with the algorithm's byte and a checksum,
            # even when checksums are off.
            if not is_sound(raw):
                raise corrupt("checksum mismatch")
            algorithm = event[-CHECKSUM_LENGTH - 1]
            if algorithm not in _CHECKSUM_ALGORITHMS:
                raise corrupt(f"unknown checksum algorithm {algorithm}")
            checksum = _CHECKSUM_ALGORITHMS[algorithm]
            lengths = lengths[: -CHECKSUM_LENGTH - 1]
        family: Family = "mariadb" if "mariadb" in server_version.lower() or len(lengths) > 150 else "mysql"
        return cls(server_version, created, checksum, bytes(lengths), family, raw)

    @property
    def version(self) -> tuple[int, ...]:
        """The numbers of the server's version, such as (8, 0, 36). An unreadable number is 0."""
        return _version(self.server_version)

    @property
    def names(self) -> NameRules:
        """The settings by which the server that wrote the binlog decides whether two names of databases or tables are
        equal.

        The event does not contain ``lower_case_table_names``, which is therefore 0 in the result.
        """
        return NameRules(self.family, name_collation_of(self.family, self.server_version))

    def post_header_length(self, event_type: int) -> int:
        """Return the length of the post-header of an event type, bytes. The length is 0 for a type that the server did
        not know.

        The post-header is the part of fixed length with which an event's body begins.
        """
        return (
            self.post_header_lengths[event_type - 1]
            if 1 <= event_type <= len(self.post_header_lengths)
            else 0
        )

    def with_post_header_lengths(self, lengths: Mapping[int, int]) -> FormatDescription:
        """Return a copy of the format description event with other post-header lengths. A stream begins with the copy
        if its events are sent in another layout.

        The post-header is the part of fixed length with which an event's body begins. ``lengths`` maps an event type to
        its new length, bytes. Types that the event does not list are ignored.
        """
        event = bytearray(self.raw)
        first = HEADER_LENGTH + _FIXED.size
        end = first + len(self.post_header_lengths)
        for event_type, length in lengths.items():
            if 1 <= event_type <= len(self.post_header_lengths):
                event[first + event_type - 1] = length
        if self.ends_in_checksum:
            seal(event)
        return replace(self, post_header_lengths=bytes(event[first:end]), raw=bytes(event))

    @property
    def checksum_length(self) -> int:
        """The length of the checksum of each event, bytes: 4 with CRC32, 0 without checksums."""
        return CHECKSUM_LENGTH if self.checksum else 0

    def body(self, event: bytes | memoryview) -> memoryview:
        """Return the body of an event: its bytes without the common header and without the checksum.

        ``event`` is any event that follows this format description event in its file.
        """
        return memoryview(event)[HEADER_LENGTH : len(event) - self.checksum_length]

    @property
    def ends_in_checksum(self) -> bool:
        """Whether the format description event itself ends in a CRC32.

        Servers that know checksums always write this CRC32, even when checksums are off.
        """
        return len(self.raw) > HEADER_LENGTH + _FIXED.size + len(self.post_header_lengths)

    @property
    def header(self) -> EventHeader:
        return EventHeader.unpack(self.raw)


def _knows_checksums(server_version: str) -> bool:
    first = (5, 3, 0) if "mariadb" in server_version.lower() else (5, 6, 1)
    return _version(server_version) >= first


def _version(server_version: str) -> tuple[int, ...]:
    parts = [*server_version.partition("-")[0].split("."), "", ""][:3]
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in parts)
