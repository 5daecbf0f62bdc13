"""Placement: the choice of file and offset at which each planned event is written.

The driver reads the plans of all ranges (parts of the source's files) in binlog order. It then knows how many bytes
each output (a binlog set that the split writes) has before each range. Tasks can therefore write all ranges in
parallel. As on a server, an output's file ends when it reaches ``max_binlog_size``. Placement also makes the first
events of each file: the format description event, and the event with the GTIDs of the output's earlier files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dumpfilter.analyse.split_set import BinlogPart, Place
from dumpfilter.binlog.events import HEADER_LENGTH, MAGIC, EventHeader, EventType, seal
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import MariadbGtid, MysqlGtidSet, SourceKey
from dumpfilter.binlog.gtid_events import (
    GtidList,
    decode_gtid_list,
    decode_previous_gtids,
    encode_gtid_list,
    encode_previous_gtids,
)
from dumpfilter.binlog.writer import rebase, with_body
from dumpfilter.spark_jobs.ranges import FileIndex, Range
from dumpfilter.spark_jobs.split import assign as P
from dumpfilter.spark_jobs.split.assign import Ints, RangePlan

_CREATED = HEADER_LENGTH + 2 + 50
"""The offset in a format description event of the field ``created``, the time at which the server started."""


class Stretch(NamedTuple):
    """A stretch: consecutive bytes that an output receives from a range, all written to one file. A range is a part of
    a source file, and an output is a binlog set that the split writes.

    The bytes that the output receives from the range are numbered from 0, in source order. Usually they are one
    stretch. If the output's file becomes full within the range, the next stretch goes to the next file. A stretch
    begins where the previous one ends.
    """

    stop: int
    """The end of the stretch: the number of the first byte after it."""
    file: int
    """The number of the file that receives the stretch, from 1."""
    offset: int
    """The file offset of byte number 0, as if the file held all bytes that the output receives from the range.

    Byte number n of the stretch is written at this offset plus n. The offset is negative if more of the range's
    bytes are in earlier files than precede the stretch in this file.
    """


Placement = dict[str, list[Stretch]]
"""The stretches (files and offsets) of the bytes that each output receives from one range, by the output's name."""

_MOST_WAITING = 1 << 16
"""The number of collected GTIDs at which they are merged into the output's GTID set. Merging many at once is
cheaper, but collected GTIDs need memory.
"""


class OutputFile(NamedTuple):
    """A binlog file that the split writes, with the events at its beginning and its entry in the manifest (the list of
    written files).
    """

    head: bytes
    """The first bytes of the file: magic number, format description event, and the event with the GTIDs of the
    output's earlier files.
    """
    fd: FormatDescription
    """The format description event of the file's source. It differs only in position and start time."""
    part: BinlogPart
    """The file's entry in the manifest. While the split is running, its size and ``source_end`` are those reached so
    far.

    The part of the source that a file covers ends where the part of the output's next file begins. The files
    therefore cover the source without gaps.
    """


@dataclass
class _Output:
    """The state of one output (a binlog set that the split writes) while the driver chooses files for its events."""

    name: str
    gtids: _Gtids
    files: list[OutputFile] = field(default_factory=list)
    begun_in: int = 0
    """The index of the source file whose format description event was copied to the output's newest file."""
    full: bool = False
    """Whether the output's newest file has reached ``max_binlog_size``, so that the next transaction needs a new
    file.
    """


class Placing:
    """The choice of file and offset for every event that a split writes. The caller must pass the plans of all ranges
    (parts of source files) in order.

    Parameters:
        indexes: the source's files, in order.
        names: the outputs (binlog sets that the split writes) that are written even if they receive no event.
        max_size: the size at which a file ends, bytes (``max_binlog_size``). The transaction that reaches this size is
            the file's last.
    """

    def __init__(self, indexes: Sequence[FileIndex], names: Sequence[str], max_size: int) -> None:
        self._indexes = [one for one in indexes if one.format_description]
        self._fds = {
            one.number: FormatDescription.parse(one.format_description, file=one.name)
            for one in self._indexes
        }
        self._names = {one.number: one.name for one in self._indexes}
        self._max_size = max_size
        self._outputs: dict[str, _Output] = {}
        for name in names:
            self._open(name)

    @property
    def outputs(self) -> dict[str, list[OutputFile]]:
        """The files begun so far for each output (binlog set that the split writes), in order, by the output's name."""
        return {name: one.files for name, one in self._outputs.items()}

    def add(self, wanted: Range, plan: RangePlan) -> Placement:
        """Choose files and offsets for the bytes of a range that each output receives. An output is a binlog set that
        the split writes.

        ``wanted`` is the next range (part of a source file), and ``plan`` tells which bytes each output receives. A new
        file begins when an output's file is full, and where the source's server restarted or changed its binlog format.
        The result has for each output's name the consecutive bytes with their file and offset.
        """
        return {
            plan.outputs[output]: self._place(plan.outputs[output], wanted, transactions, plan.sources)
            for output, transactions in plan.by_output()
        }

    def _place(
        self, name: str, wanted: Range, transactions: Ints, sources: Sequence[SourceKey]
    ) -> list[Stretch]:
        output = self._outputs.get(name) or self._open(name)
        if wanted.file != output.begun_in:
            started = self._started(output.begun_in, wanted.file)
            if started or _identity(self._fds[wanted.file]) != _identity(self._fds[output.begun_in]):
                self._next_file(output, wanted.file, 4, started=started)
        stretches: list[Stretch] = []
        begin = done = events = 0
        ends = transactions[:, P.T_END]
        while done < len(ends):
            if output.full:
                place = int(transactions[done - 1, P.T_PLACE]) if done else wanted.start
                self._next_file(output, wanted.file, place, started=0)
            part = output.files[-1].part
            k = done + int(np.searchsorted(ends[done:], self._max_size - part.size + begin))
            output.full = k < len(ends)
            last = min(k, len(ends) - 1)
            stop, events_until = transactions[last, [P.T_END, P.T_EVENTS]].tolist()
            stretches.append(Stretch(stop, len(output.files), part.size - begin))
            _count(part, transactions[done : last + 1])
            output.gtids.add(transactions[done : last + 1, [P.T_SOURCE, P.T_NUMBER]], sources)
            part.size += stop - begin
            part.events += events_until - events
            begin, done, events = stop, last + 1, events_until
        return stretches

    def _open(self, name: str) -> _Output:
        first = self._indexes[0]
        output = self._outputs[name] = _Output(name, _Gtids(first, self._fds[first.number]))
        self._next_file(output, first.number, 4, started=self._fds[first.number].created)
        return output

    def _started(self, before: int, now: int) -> int:
        """Return the time of the latest server start recorded in the source files after index ``before``, up to
        index ``now``.

        The result is in Unix seconds, or 0 if no start is recorded. A slave that reads such a time in a format
        description event drops its temporary tables, as it must after a server restart.
        """
        return max((fd.created for number, fd in self._fds.items() if before < number <= now), default=0)

    def _next_file(self, output: _Output, source: int, position: int, *, started: int) -> None:
        fd = self._fds[source]
        head = bytearray(fd.raw)
        head[_CREATED : _CREATED + 4] = started.to_bytes(4, "little")
        head[13:17] = (4 + len(head)).to_bytes(4, "little")
        if fd.ends_in_checksum:
            seal(head)
        prolog = rebase(output.gtids.event(fd), 4 + len(head), checksum=fd.checksum)
        whole = bytes(MAGIC + head + prolog)
        start = Place(file=self._names[source], position=position)
        if output.files:
            output.files[-1].part.source_end = start
        part = BinlogPart(
            name=binlog_name(output.name, len(output.files) + 1),
            size=len(whole),
            events=0,
            transactions=0,
            previous_gtids=output.gtids.text,
            first_time=None,
            last_time=None,
            source_start=start,
            source_end=Place(file=self._indexes[-1].name, position=self._indexes[-1].end),
        )
        output.files.append(OutputFile(whole, fd, part))
        output.begun_in, output.full = source, False


def binlog_name(output: str, number: int) -> str:
    """Return the name of file ``number`` (from 1) of the binlog ``output``, such as ``shop-bin.000001``. MySQL's
    worklog 2387 proposes this form.
    """
    return f"{output}-bin.{number:06}"


def _count(part: BinlogPart, transactions: Ints) -> None:
    times = transactions[:, P.T_TIME]
    times = times[times > 0]
    if len(times):
        part.first_time = int(times.min()) if part.first_time is None else part.first_time
        part.last_time = max(part.last_time or 0, int(times.max()))
    part.transactions += len(transactions)


def _identity(fd: FormatDescription) -> tuple[Any, ...]:
    return (fd.server_version, fd.checksum, fd.ends_in_checksum, fd.post_header_lengths, fd.header.server_id)


class _Gtids:
    """The GTIDs of an output's earlier files, which an event at the start of the next file records.

    MySQL's Previous_gtids event has a GTID set. MariaDB's Gtid_list event has the last GTID of each pair of domain
    id and server id, with a domain's newest entry last. A source may have neither event.
    """

    def __init__(self, index: FileIndex, fd: FormatDescription) -> None:
        self._event = index.prolog
        self._set: MysqlGtidSet | None = None
        self._last: dict[SourceKey, int] = {}
        self._flags = 0
        self._waiting: dict[SourceKey, list[Ints]] = {}
        """Collected GTID numbers that are not merged into the set yet, by GTID source."""
        self._waiting_rows = 0
        if not self._event:
            return
        body = bytes(fd.body(self._event))
        if self._event[4] == EventType.PREVIOUS_GTIDS:
            self._set = decode_previous_gtids(body)
        else:
            found = decode_gtid_list(body)
            self._flags = found.flags
            self._last = {(one.domain_id, one.server_id): one.seq_no for one in found.gtids}

    @property
    def text(self) -> str | None:
        """The GTIDs as text. None if the source's first file does not record the GTIDs of earlier files."""
        if not self._event:
            return None
        return str(self._list().position() if self._set is None else self._take())

    def add(self, gtids: Ints, sources: Sequence[SourceKey]) -> None:
        """Add GTIDs of transactions. A row of ``gtids`` has an index into ``sources`` (-1: no GTID) and the GTID's
        number.
        """
        of = gtids[:, 0]
        if self._set is not None:
            for number in np.unique(of[of >= 0]).tolist():
                self._waiting.setdefault(sources[number], []).append(gtids[of == number, 1])
            self._waiting_rows += len(gtids)
            if self._waiting_rows > _MOST_WAITING:
                self._take()
            return
        # A MariaDB server orders the entries of a Gtid_list event by the last transaction of each domain and server id.
        reverse, places = np.unique(of[::-1], return_index=True)
        for place in sorted((len(of) - 1 - places[reverse >= 0]).tolist()):
            source = sources[int(of[place])]
            self._last.pop(source, None)
            self._last[source] = int(gtids[place, 1])

    def _take(self) -> MysqlGtidSet:
        """Merge the collected GTIDs into the set, and return the set."""
        assert self._set is not None
        for source, numbers in self._waiting.items():
            self._set.add_many(source, np.concatenate(numbers))
        self._waiting, self._waiting_rows = {}, 0
        return self._set

    def _list(self) -> GtidList:
        by_domain: dict[object, list[MariadbGtid]] = {}
        for (domain, server), number in self._last.items():
            by_domain.setdefault(domain, []).append(MariadbGtid(int(domain), int(server), number))
        return GtidList(tuple(one for entries in by_domain.values() for one in entries), self._flags)

    def event(self, fd: FormatDescription) -> bytes:
        """Return the Previous_gtids or Gtid_list event for a new file. It has a checksum if ``fd`` requires one.

        The result is empty if the source's files have no such event.
        """
        if not self._event:
            return b""
        body = encode_gtid_list(self._list()) if self._set is None else encode_previous_gtids(self._take())
        return with_body(EventHeader.unpack(self._event), body, checksum=fd.checksum)
