"""Dumps from a split instead of filtering (WL#2387: "One could just use one binlog and then apply the filtering in the
dump thread instead").

A slave whose filter is that of a named binlog is sent that binlog's events, put back to where they stood in the source,
with the source's files, positions and GTIDs: what the dump thread would have sent. Wherever that cannot be had for sure
the dump goes on by filtering, and the slave does not notice.

What is not known here: how often rules were hit by what is not sent (``Chunk.hits``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import numpy.typing as npt
import structlog

from dumpfilter.binlog.events import HEADER_LENGTH, OF_FILES, EventHeader, EventType
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_sources import Membership, SourceKey
from dumpfilter.dump.chunk import Counts, ReadyPlan, gtid_runs
from dumpfilter.errors import BinlogMissing, OutputError
from dumpfilter.filter import FilterSemantics, make_filter, parse_option
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.fileset import BinlogFile
from dumpfilter.master.register import FilterChange
from dumpfilter.printable import printable
from dumpfilter.split_set.directory import SplitDirectory, SplitGone, Stretches, Transactions, read_stretches
from dumpfilter.split_set.manifest import Manifest, NamedBinlog, beginning_digest

log = structlog.get_logger("dumpfilter.master")

_FARTHEST = 64 << 20
"""Bytes of the source after which a chunk ends though there is little in it."""


class Presplit:
    """The splits that a master has. Raises OutputError for a directory that holds none."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._splits = {path: SplitDirectory(path) for path in directories}

    def describe(self) -> Iterator[str]:
        """A line for each split."""
        for path, split in self._splits.items():
            named = ", ".join(one.name for one in split.manifest.binlogs if one.rules)
            source = split.manifest.source
            if not split.manifest.verified:
                told = "nothing is dumped from it, as checksums were not verified when it was made"
            elif not named:
                told = "nothing is dumped from it, as its binlogs have no filters"
            else:
                told = f"dumped from: {named}"
            yield f"split {path}: {source[0].name} to {source[-1].name}; {told}"

    def for_slave(self, change: FilterChange) -> NamedSource | None:
        """The named binlog of a slave's filter; None when there is none. The caller closes it."""
        flags, origin = change.flags, change.origin
        if not flags.is_plain or not flags.filter.is_on:
            return None
        if origin is not None and (origin.do_domain_ids or origin.ignore_domain_ids):
            return None
        for path, split in self._splits.items():
            if not split.is_current:
                try:
                    split = self._splits[path] = SplitDirectory(path)
                except OutputError as error:
                    log.warning("a split cannot be read", error=printable(str(error)))
                    continue
            if not split.manifest.verified:
                continue
            for binlog in split.manifest.binlogs:
                if binlog.rules and _same(_filter_of(split.manifest, binlog), flags.filter):
                    return NamedSource(split.again(), binlog, origin)
        return None


def _filter_of(manifest: Manifest, binlog: NamedBinlog) -> ReplicationFilter:
    semantics = FilterSemantics(binlog.semantics or "classic")
    return make_filter(
        semantics,
        [parse_option(rule, semantics) for rule in binlog.rules],
        names=NameRules(
            "mariadb" if manifest.family == "mariadb" else "mysql",
            manifest.names,
            manifest.lower_case_table_names,
        ),
    )


def _same(one: ReplicationFilter, other: ReplicationFilter) -> bool:
    """Whether two filters are the same. Of classic rules the order tells only between rewrites."""

    def about(rules: ReplicationFilter) -> tuple[object, ...]:
        ordered = [rule for rule in rules.rules if isinstance(rules, EffectiveFilter) or rule.kind.is_rewrite]
        server = rules.names
        return (type(rules), server, frozenset(rules.rules), ordered)

    return about(one) == about(other)


class NamedSource:
    """A named binlog that one dump is served from. Not thread-safe.

    After :meth:`plans` has ended, :attr:`position` tells up to where in the file, and :attr:`at_end` whether the file
    has come to its end there.
    """

    def __init__(self, split: SplitDirectory, binlog: NamedBinlog, origin: OriginFilter | None) -> None:
        self._split = split
        self.binlog = binlog
        self._origin = origin
        self._files: dict[int, BinlogFile] = {}
        self._open = ExitStack()
        self.position = 0
        self.at_end = False
        self.bytes_sent = 0

    @property
    def directory(self) -> Path:
        """The split's."""
        return self._split.path

    def close(self) -> None:
        """Close its files."""
        self._open.close()
        self._files.clear()

    def plans(
        self, source: BinlogFile, position: int, *, chunk_size: int, exclude: GtidSet | None = None
    ) -> Iterator[ReadyPlan]:
        """What there is of a file of the source from a position on; nothing, when that is not for sure what filtering
        would send. Each but those inside a large transaction ends between two transactions, and so does the last.
        ``exclude``: the GTIDs that the slave has."""
        self.position, self.at_end = position, False
        numbers = self._covered(source)
        excluded = None if exclude is None else Membership(exclude)
        start = source.first_event
        try:
            for number in numbers:
                transactions = self._split.transactions(number, self.binlog.name)
                end = int(transactions.end[-1])
                if end > position:
                    first = 0
                    if position > start:
                        first = int(np.searchsorted(transactions.end, position)) + 1
                        if transactions.end[first - 1] != position:
                            return  # inside a transaction, which is for the dump thread to tell
                    if not self._usable(transactions, first, source, excluded):
                        return
                    stretches = self._split.stretches(number, self.binlog.name)
                    yield from _Chunks(self, source, transactions, stretches, start).cut(first, chunk_size)
                    position = end
                start = end
        except SplitGone as error:
            log.warning(
                "goes on by filtering", split=printable(str(self.directory)), reason=printable(str(error))
            )

    def _covered(self, source: BinlogFile) -> range:
        """The ranges of a file of the source that were split; none, when it is another file."""
        found = self._split.source(source.name)
        if found is None:
            return range(0)
        about, numbers = found
        fd = source.format_description
        same = (
            about.damage is None
            and source.size >= about.end
            and fd.family == self._split.manifest.family
            and about.beginning == beginning_digest(fd.raw, _prolog(source))
        )
        return numbers if same else range(0)

    def _usable(
        self, transactions: Transactions, first: int, source: BinlogFile, excluded: Membership | None
    ) -> bool:
        """Whether all of a range from a transaction on is what every slave with this filter is sent."""
        rest = slice(first, None)
        of_file = transactions.of_file[rest]
        if not (transactions.exact[rest] | of_file).all():
            return False
        if self._origin is not None:
            writer = source.format_description.header.server_id
            unwanted = list(self._origin.unwanted_server_ids(writer))
            if (np.isin(transactions.server_id[rest], unwanted) & ~of_file).any():
                return False
        if excluded is not None:
            of, number = transactions.source[rest], transactions.number[rest]
            for k in np.unique(of[of >= 0]).tolist():
                if excluded.contains(self._split.sources[k], number[of == k]).any():
                    return False
        return True

    def events(self, wanted: Stretches, out: npt.NDArray[np.uint8], *, checksum: bool) -> int:
        """See :func:`~dumpfilter.split_set.directory.read_stretches`."""
        for number in np.unique(wanted.file).tolist():
            if number not in self._files:
                self._files[number] = self._open.enter_context(self._split.open(self.binlog, number))
        return read_stretches(out, wanted, self._files, checksum=checksum)

    @property
    def keys(self) -> Sequence[SourceKey]:
        """The GTID sources, by number."""
        return self._split.sources


class _Chunks:
    """Cuts a range into chunks. ``start``: where it begins in the source's file."""

    def __init__(
        self,
        named: NamedSource,
        source: BinlogFile,
        transactions: Transactions,
        stretches: Stretches,
        start: int,
    ) -> None:
        self._named = named
        self._source = source
        self._transactions = transactions
        self._stretches = stretches = stretches.cut_at(transactions.end)
        self._begin = np.concatenate([[start], transactions.end[:-1]])
        self._of = np.searchsorted(transactions.end, stretches.source_start, "right")
        """The transaction that each stretch is of."""
        size = np.zeros(len(transactions.end), np.int64)
        np.add.at(size, self._of, stretches.size)
        self._kept = size > 0
        self._kept |= transactions.of_file
        self._sent = np.cumsum(np.where(transactions.of_file, transactions.end - self._begin, size))

    def cut(self, first: int, chunk_size: int) -> Iterator[ReadyPlan]:
        """The chunks from a transaction on."""
        end = self._transactions.end
        while first < len(end):
            sent = int(self._sent[first - 1]) if first else 0
            filled = int(np.searchsorted(self._sent, sent + chunk_size))
            far = int(np.searchsorted(end, self._begin[first] + _FARTHEST))
            stop = min(filled, far, len(end) - 1) + 1
            large = int(self._sent[stop - 1] - sent) > 2 * chunk_size
            if large and stop - first > 1:
                stop -= 1  # what is large comes alone
            elif large and not self._transactions.of_file[first]:
                yield from self._large(first, chunk_size)
                first = stop
                continue
            yield self._plan(first, stop)
            first = stop

    def _plan(self, first: int, stop: int) -> ReadyPlan:
        """Whole transactions."""
        source, transactions = self._source, self._transactions
        low, high = np.searchsorted(self._of, [first, stop]).tolist()
        stretches = self._stretches[low:high]
        pieces: list[memoryview | bytes] = []
        done, of = 0, self._of[low:high]
        of_file = (first + np.flatnonzero(transactions.of_file[first:stop])).tolist()
        sent = len(of_file)
        for k in [*of_file, stop]:
            before = int(np.searchsorted(of, k))
            if before > done:
                data, events = self._read(stretches[done:before])
                pieces.append(data.data)
                sent += events
                done = before
            if k < stop:
                begin, end = int(self._begin[k]), int(transactions.end[k])
                event = source.read(begin, end - begin)
                if len(event) < end - begin:
                    raise SplitGone(f"{source.name}: is shorter than it was")
                pieces.append(event)
                self._named.at_end = event[4] in (EventType.ROTATE, EventType.STOP)
        if not transactions.of_file[stop - 1]:
            self._named.at_end = False
        begin, end = int(self._begin[first]), int(transactions.end[stop - 1])
        return self._made(
            begin, end, b"".join(pieces), sent, int(transactions.events[first:stop].sum()), first, stop
        )

    def _large(self, number: int, chunk_size: int) -> Iterator[ReadyPlan]:
        """A transaction in parts. What fails after the first of them is an error: there is no going back."""
        low, high = np.searchsorted(self._of, [number, number + 1]).tolist()
        stretches = self._stretches[low:high]
        position, resume = int(self._begin[number]), int(self._begin[number])
        done = told = 0
        sent = np.cumsum(stretches.size)
        while done < high - low:
            before = int(sent[done - 1]) if done else 0
            stop = min(int(np.searchsorted(sent, before + chunk_size)) + 1, high - low)
            try:
                data, events = self._read(stretches[done:stop])
            except SplitGone as error:
                if not done:
                    raise
                raise BinlogMissing(str(error), file=self._source.name, position=resume) from None
            last = stop == high - low
            if last:
                end = int(self._transactions.end[number])
                read = int(self._transactions.events[number]) - told
                yield self._made(position, end, bytes(data), events, read, number, number + 1)
            else:
                end = int(stretches.source_end[stop - 1])
                yield self._made(position, end, bytes(data), events, events, number, number, resume)
            position, done, told = end, stop, told + events
        self._named.at_end = False

    def _read(self, wanted: Stretches) -> tuple[npt.NDArray[np.uint8], int]:
        data = np.empty(int(wanted.size.sum()), np.uint8)
        events = self._named.events(wanted, data, checksum=self._source.format_description.checksum)
        return data, events

    def _made(
        self,
        begin: int,
        end: int,
        data: bytes,
        sent: int,
        read: int,
        first: int,
        stop: int,
        resume: int | None = None,
    ) -> ReadyPlan:
        """The chunk from ``begin`` to ``end`` in the source, which completes transactions ``first`` to ``stop``;
        ``resume``: it lies inside one that begins there."""
        named, transactions = self._named, self._transactions
        some = slice(first, stop)
        real, kept = ~transactions.of_file[some], self._kept[some]
        source = np.where(real, transactions.source[some], np.int32(-1))
        named.position = end if resume is None else resume
        named.bytes_sent += len(data)
        return ReadyPlan(
            self._source.name,
            np.empty((0, 3), np.int64),
            end,
            named.position,
            len(data) if resume is None else 0,
            gtid_runs(source, transactions.number[some], kept, only_dropped=False),
            gtid_runs(source, transactions.number[some], kept, only_dropped=True),
            Counts(
                events_read=read,
                events_sent=sent,
                events_dropped=read - sent,
                bytes_read=end - begin,
                bytes_sent=len(data),
                bytes_dropped=end - begin - len(data),
                events_undecided=int(transactions.undecided[some].sum()),
                transactions_read=int(np.count_nonzero(real)),
                transactions_dropped=int(np.count_nonzero(real & ~kept)),
            ),
            events=data,
            keys=named.keys,
        )


def _prolog(file: BinlogFile) -> bytes:
    """The file's Previous_gtids or Gtid_list event; empty when it does not begin with one."""
    offset = file.first_event
    for _ in range(4):
        head = file.read(offset, HEADER_LENGTH)
        if len(head) < HEADER_LENGTH:
            break
        header = EventHeader.unpack(head)
        if header.type in (EventType.PREVIOUS_GTIDS, EventType.GTID_LIST):
            return file.read(offset, header.size)
        if header.type not in OF_FILES:
            break
        offset += header.size
    return b""
