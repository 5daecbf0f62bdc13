"""The position in an origin's binlog up to which a real replica has applied everything, found by the replica's GTIDs.

The origin of a node is the node that wrote the binlog which the node applies.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from dumpfilter.base.errors import BinlogError, BinlogTruncated, GtidError
from dumpfilter.binlog.events import GTIDS, OF_FILES
from dumpfilter.binlog.gtid import GtidSet, parse_gtid_set
from dumpfilter.binlog.gtid_events import decode_gtid
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.testbed.binlogs import Files
from dumpfilter.testbed.values import Place


class AppliedPlaces:
    """The positions that one channel of a replica reaches in the binlog of its origin (the node that wrote the binlog).

    The position that a replica reports can lie far before the position that the replica has reached. MariaDB goes back
    to the beginning of a file when its threads start again by GTID, and stays there while the next transaction is
    delayed. Every server stays before transactions that a filter has dropped at the end of the stream.
    """

    def __init__(self) -> None:
        self._known: tuple[GtidSet, Place] | None = None
        """The GTIDs and the position of the last answer, at which the next search begins; None before the first."""

    def find(
        self, paths: Mapping[str, os.PathLike[str]], files: Files, told: Place, gtids: str
    ) -> Place | None:
        """Return the position of the first transaction that a replica has not applied, or the binlog's end without one.

        ``paths`` and ``files`` are the origin's binlog files. ``told`` is the position that the replica reports, and
        ``gtids`` are the GTIDs that it has applied. The result is None if the binlog cannot be read, or does not have
        the file of ``told``.
        """
        try:
            applied, begin = parse_gtid_set(gtids), told
            if self._known is not None and self._known[1] > told and self._known[0].issubset(applied):
                begin = self._known[1]
            found = _first_missing(paths, files, begin, applied)
        except (BinlogError, GtidError, OSError):
            return None
        if found is not None and applied:
            self._known = applied, found
        return found


def _first_missing(
    paths: Mapping[str, os.PathLike[str]], files: Files, begin: Place, applied: GtidSet
) -> Place | None:
    names = [name for name, _ in files]
    if begin.file and begin.file not in names:
        return None
    place = begin
    is_applied = False
    for name, size in files[names.index(begin.file) if begin.file else 0 :]:
        place = begin if name == begin.file else Place(name, 0)
        try:
            with open(paths[name], "rb") as file:
                for event in iter_events(
                    file, file=name, start=max(place.position, 4), verify=False, end=size
                ):
                    if event.type in GTIDS:
                        is_applied = _has(applied, event)
                    if not is_applied and event.type not in OF_FILES:
                        return Place(name, event.offset)
                    place = Place(name, event.offset + len(event.raw))
        except BinlogTruncated:
            # The server is just writing the event.
            return place
        place = Place(name, size)
    return place


def _has(applied: GtidSet, event: Event) -> bool:
    """Tell whether a GTID event begins a transaction that is applied. An event without a GTID gives False."""
    gtid: object = decode_gtid(event.header, event.body).gtid
    return bool(applied) and gtid is not None and gtid in applied
