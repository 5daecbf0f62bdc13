"""Single GTIDs of MySQL and MariaDB, their parts and their text.

MySQL writes ``uuid:gno`` and, since 8.3, ``uuid:tag:gno``. The text follows MySQL 9.7 (``sql/rpl_gtid_set.cc``,
``libs/mysql/gtids``). MariaDB writes ``domain-server-seq_no``.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

from dumpfilter.base.errors import GtidError

GNO_MAX = 2**63 - 2
"""The largest transaction number (gno) in a GTID of MySQL (``GNO_END - 1``)."""

SEQ_NO_MAX = 2**64 - 1
"""The largest sequence number (seq_no) in a GTID of MariaDB."""

TAG_MAX_LENGTH = 32
"""The length of the longest tag in a GTID of MySQL, characters (``mysql::gtids::tag_max_length``)."""

TsidKey: TypeAlias = tuple[bytes, str]
"""MySQL's transaction source identifier (TSID): the 16 bytes of the server's UUID, and the tag (``""`` for none)."""

Key: TypeAlias = TsidKey | int
"""The key under which a GTID set keeps its intervals of numbers: (UUID, tag) for MySQL, the domain id for MariaDB."""

UUID_TEXT = re.compile(
    r"\{[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\}"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}",
    # Without re.ASCII, a pattern that ignores case would take the letter U+212A (the Kelvin sign) for the letter k.
    re.IGNORECASE | re.ASCII,
)
TAG_TEXT = re.compile(r"[a-z_][a-z0-9_]{0,31}", re.IGNORECASE | re.ASCII)
MARIADB_TEXT = re.compile(r"([0-9]+)-([0-9]+)-([0-9]+)(?::([0-9]+))?")


def format_uuid(uuid: bytes) -> str:
    """Return the server's text of a UUID's 16 bytes: lower case with dashes.

    >>> format_uuid(bytes(range(16)))
    '00010203-0405-0607-0809-0a0b0c0d0e0f'
    """
    text = uuid.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def parse_uuid(text: str) -> bytes:
    """Return the 16 bytes of a UUID's text.

    The server takes three spellings: with dashes, with dashes and braces, or 32 hex digits. Raises GtidError.
    """
    stripped = text.strip()
    if not UUID_TEXT.fullmatch(stripped):
        raise GtidError(f"not a uuid: {shortened(stripped)!r}")
    return bytes.fromhex(stripped.strip("{}").replace("-", ""))


def normalize_tag(text: str) -> str:
    """Return the tag of a MySQL GTID in lower case, as the server keeps tags; the empty text stands for no tag.

    Raises GtidError when the text is not a tag.

    >>> normalize_tag(" Tag_A ")
    'tag_a'
    """
    tag = text.strip()
    if tag and not TAG_TEXT.fullmatch(tag):
        raise GtidError(
            f"not a GTID tag: {shortened(tag)!r} (a letter or _, then up to 31 letters, digits or _)"
        )
    return tag.lower()


class MysqlGtid(NamedTuple):
    """The GTID of a transaction of MySQL: the UUID's 16 bytes, gno, and the tag (``""`` for none).

    >>> str(MysqlGtid.parse("3E11FA47-71CA-11E1-9E33-C80AA9429562:Tag:23"))
    '3e11fa47-71ca-11e1-9e33-c80aa9429562:tag:23'
    """

    uuid: bytes
    gno: int
    tag: str = ""

    @classmethod
    def parse(cls, text: str) -> MysqlGtid:
        """Return the GTID of a text ``uuid:gno`` or ``uuid:tag:gno``. Raises GtidError."""
        pieces = text.split(":")
        if len(pieces) not in (2, 3) or not re.fullmatch(r"\s*[0-9]+\s*", pieces[-1], re.ASCII):
            raise GtidError(f"not a GTID: {text!r} (uuid:number or uuid:tag:number)")
        if len(pieces) == 3 and not pieces[1].strip():
            raise GtidError(f"not a GTID: {text!r} (the tag is empty)")
        gno = read_number(pieces[-1].strip(), GNO_MAX, text)
        return cls(parse_uuid(pieces[0]), gno, normalize_tag(pieces[1]) if len(pieces) == 3 else "")

    def __str__(self) -> str:
        return f"{format_uuid(self.uuid)}:{self.tag + ':' if self.tag else ''}{self.gno}"


class MariadbGtid(NamedTuple):
    """The GTID of a transaction (event group) of MariaDB.

    >>> str(MariadbGtid.parse("0-11-74"))
    '0-11-74'
    """

    domain_id: int
    server_id: int
    seq_no: int

    @classmethod
    def parse(cls, text: str) -> MariadbGtid:
        """Return the GTID of a text ``domain-server-seq_no``. Raises GtidError."""
        match = MARIADB_TEXT.fullmatch(text.strip())
        if not match or match[4] is not None:
            raise GtidError(f"not a GTID: {text!r} (domain-server-number)")
        return cls(*mariadb_ids(match), read_number(match[3], SEQ_NO_MAX, text, least=0))

    def __str__(self) -> str:
        return f"{self.domain_id}-{self.server_id}-{self.seq_no}"


Gtid: TypeAlias = MysqlGtid | MariadbGtid


def parse_gtid(text: str) -> Gtid:
    """Return the GTID that a text names.

    A text with a colon is a GTID of MySQL, and any other of MariaDB. Raises GtidError.
    """
    return MysqlGtid.parse(text) if ":" in text else MariadbGtid.parse(text)


def read_number(digits: str, most: int, where: str, *, least: int = 1) -> int:
    # A number of more than 100 digits is refused unread, because int() raises ValueError for thousands of digits.
    value = int(digits) if len(digits) <= 100 else most + 1
    if not least <= value <= most:
        raise GtidError(f"{digits[:40]} in {where.strip()!r} is out of range ({least} to {most})")
    return value


def mariadb_ids(match: re.Match[str]) -> tuple[int, int]:
    domain, server = (read_number(match[i], 2**32 - 1, match[0], least=0) for i in (1, 2))
    return domain, server


def shortened(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "..."
