"""GTID sets of MySQL: intervals of transaction numbers for each server UUID and tag."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Self

from dumpfilter.base.errors import GtidError
from dumpfilter.binlog.gtid.base import GtidSet
from dumpfilter.binlog.gtid.gtids import (
    GNO_MAX,
    TAG_TEXT,
    Gtid,
    Key,
    MysqlGtid,
    TsidKey,
    format_uuid,
    parse_uuid,
    read_number,
    shortened,
)

_INTERVAL = re.compile(r"([0-9]+)(?:\s*-\s*([0-9]+))?", re.ASCII)


class MysqlGtidSet(GtidSet):
    """A set of MySQL's GTIDs: intervals of gno for each UUID and tag.

    >>> executed = MysqlGtidSet.parse("3E11FA47-71CA-11E1-9E33-C80AA9429562:1-3:5:tag_a:7")
    >>> executed.add(MysqlGtid.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:4"))
    >>> str(executed)
    '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:tag_a:7'
    >>> len(executed)
    6
    """

    family = "mysql"
    max_number = GNO_MAX
    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the GTID set that a text names, as ``SET GLOBAL gtid_purged`` reads it.

        Like the server, it accepts letters of either case, white space between any two tokens, and empty pieces
        between commas. A UUID without an interval adds nothing, and neither does an interval that ends before it
        begins, such as ``5-3``. Raises GtidError, which names the wrong piece.
        """
        made = cls()
        for piece in text.split(","):
            item = piece.strip()
            if item:
                made._add_text(item)
        return made

    def _add_text(self, item: str) -> None:
        head, *rest = item.split(":")
        try:
            uuid = parse_uuid(head)
        except GtidError as error:
            raise GtidError(f"{error}, in {shortened(item)!r}") from None
        key = (uuid, "")
        for token in map(str.strip, rest):
            interval = _INTERVAL.fullmatch(token)
            if interval:
                first = read_number(interval[1], GNO_MAX, shortened(item))
                last = first
                if interval[2] is not None:
                    last = read_number(interval[2], GNO_MAX, shortened(item), least=0)
                if first <= last:
                    self._intervals(key).add_range(first, last)
            elif token and TAG_TEXT.fullmatch(token):
                key = (uuid, token.lower())
            else:
                raise GtidError(f"{shortened(token)!r} is no interval and no tag, in {shortened(item)!r}")

    def __str__(self) -> str:
        pieces: list[str] = []
        before: TsidKey | None = None
        for key, first, last in self:
            if before is None or key[0] != before[0]:
                pieces.append(("," if pieces else "") + format_uuid(key[0]))
            if key[1] and key != before:
                pieces.append(f":{key[1]}")
            before = key
            pieces.append(f":{first}" if first == last else f":{first}-{last}")
        return "".join(pieces)

    def __iter__(self) -> Iterator[tuple[TsidKey, int, int]]:
        return super().__iter__()  # type: ignore[return-value]  # the keys are this family's

    def add(self, gtid: Gtid) -> None:
        """Add one GTID. Raises GtidError for a GTID of MariaDB, or a gno out of range."""
        key, gno = self._place(gtid)
        if not 1 <= gno <= GNO_MAX:
            raise GtidError(f"gno {gno} is out of range (1 to {GNO_MAX})")
        self._intervals(key).add_range(gno, gno)

    def has_tags(self) -> bool:
        """Tell whether any GTID of the set has a tag. Servers before MySQL 8.3 cannot read a set with tags."""
        return any(tag for _, tag in self._sets)

    def _place(self, gtid: Gtid) -> tuple[TsidKey, int]:
        if not isinstance(gtid, MysqlGtid):
            raise GtidError(f"not a GTID of MySQL: {gtid}")
        return (gtid.uuid, gtid.tag), gtid.gno

    def _check_key(self, key: Key) -> None:
        if not (isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], bytes) and len(key[0]) == 16):
            raise GtidError(f"not a key of a MySQL GTID set: {key!r} (uuid's 16 bytes, tag)")
