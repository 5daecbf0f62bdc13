"""Dumps that read events from a split, a set of binlogs that an earlier job filtered, instead of filtering again.

WL#2387 describes the choice: "One could just use one binlog and then apply the filtering in the dump thread instead".
A split's binlog records the filter that chose its events. A slave with the same filter gets the events of this binlog.
The master gives the events the file names, positions and GTIDs that they have in the source, the unfiltered binlog
set. The slave receives the stream that the dump thread would send. Where the split may lack something of this stream,
the master filters the source instead, and the slave does not notice.

A split does not know how often rules matched the events that are not sent (``Chunk.hits``).
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
from dumpfilter.dump.gaps import NO_GAPS, Gaps, find_gaps
from dumpfilter.dump.hits import NO_HITS
from dumpfilter.errors import BinlogMissing, OutputError
from dumpfilter.filter import FilterSemantics, make_filter, parse_option
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.fileset import BinlogFile
from dumpfilter.index.segment import NO_DROPPED_RUNS
from dumpfilter.master.register import FilterChange
from dumpfilter.printable import printable
from dumpfilter.split_set.directory import SplitDirectory, SplitGone, Stretches, Transactions, read_stretches
from dumpfilter.split_set.manifest import Manifest, NamedBinlog, beginning_digest

log = structlog.get_logger("dumpfilter.master")

_FARTHEST = 64 << 20
"""The largest part of the unfiltered binlog that one chunk (message to the slave) covers, bytes.

The limit makes the slave's position advance even when few events are sent.
"""


class Presplit:
    """The splits (directories of filtered binlogs) that a master may serve slaves from.

    Raises OutputError for a directory without a split.
    """

    def __init__(self, directories: Sequence[Path]) -> None:
        self._splits = {path: SplitDirectory(path) for path in directories}

    def describe(self) -> Iterator[str]:
        """Yield one line about each split for the terminal, which says whether the master can use the split and why."""
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
        """Return the split's binlog that was filtered with the same rules as the slave's filter, or None.

        The result is None, too, when the slave filters by domain ids, or when other filters are imposed on it. The
        caller closes the returned object.
        """
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
    """Tell whether two filters have the same rules for the same server.

    Rules in another order make another filter only where the order matters. In filters of the server's classic rules,
    only the order of the rewrite rules matters.
    """

    def about(rules: ReplicationFilter) -> tuple[object, ...]:
        ordered = [rule for rule in rules.rules if isinstance(rules, EffectiveFilter) or rule.kind.is_rewrite]
        server = rules.names
        return (type(rules), server, frozenset(rules.rules), ordered)

    return about(one) == about(other)


class NamedSource:
    """A filtered binlog of a split, from which the master serves one dump. Not thread-safe.

    The source is the unfiltered binlog set that was split. After :meth:`plans` has ended, :attr:`position` is the
    position in the source's file that the dump has reached, and :attr:`at_end` tells whether the file ends there.
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
        return self._split.path

    def close(self) -> None:
        self._open.close()
        self._files.clear()

    def plans(
        self, source: BinlogFile, position: int, *, chunk_size: int, exclude: GtidSet | None = None
    ) -> Iterator[ReadyPlan]:
        """Yield chunks with the split's events of one file of the source (the unfiltered set), from a position on.

        The method yields nothing where the dump thread might send other events. Every chunk ends between two
        transactions, but for chunks in the middle of a large transaction. ``exclude`` is the set of GTIDs that the
        slave has.
        """
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
                            # The dump thread will report to the slave that the position lies inside a transaction.
                            return
                    if not self._usable(transactions, first, source, excluded):
                        return
                    stretches = self._split.stretches(number, self.binlog.name)
                    yield from _Chunks(self, source, transactions, stretches, start).cut(first, chunk_size)
                    position = end
                start = end
        except SplitGone as error:
            log.warning(
                "dump leaves the damaged split",
                hint="the dump goes on by filtering",
                split=printable(str(self.directory)),
                reason=printable(str(error)),
            )

    def _covered(self, source: BinlogFile) -> range:
        """Return the numbers of the split's ranges that cover a file of the source.

        A range is a number of consecutive transactions of one file that the split treated together. The result is empty
        when the split did not read the file, or read another file of the same name.
        """
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
        """Tell whether the split holds exactly the events that the dump thread would send.

        The answer is for the transactions of one range, from number ``first`` on. The answer is False when the slave
        already has some of their GTIDs, ignores their server id, or when their bytes cannot be restored.
        """
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
        """Read events of the split's binlog into ``out``, as the source has them. Return the number of events.

        ``wanted`` lists stretches, consecutive bytes of the binlog's files. ``checksum`` tells whether the source's
        events end with a checksum. Raises SplitGone.
        """
        for number in np.unique(wanted.file).tolist():
            if number not in self._files:
                self._files[number] = self._open.enter_context(self._split.open(self.binlog, number))
        return read_stretches(out, wanted, self._files, checksum=checksum)

    @property
    def keys(self) -> Sequence[SourceKey]:
        """The GTID sources (server UUID, or domain and server id) of the split's transactions, indexed by number."""
        return self._split.sources


class _Chunks:
    """The chunks of one range, a number of consecutive transactions of one file of the unfiltered source.

    ``start`` is the position in the source's file at which the first transaction begins. A stretch is a number of
    consecutive bytes of the split's binlog; no stretch has bytes of two transactions.
    """

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
        """The number of the transaction that each stretch belongs to: one entry for each stretch, ascending."""
        size = np.zeros(len(transactions.end), np.int64)
        np.add.at(size, self._of, stretches.size)
        self._kept = size > 0
        self._kept |= transactions.of_file
        self._sent = np.cumsum(np.where(transactions.of_file, transactions.end - self._begin, size))

    def cut(self, first: int, chunk_size: int) -> Iterator[ReadyPlan]:
        """Yield the chunks of the range, from transaction number ``first`` on, each of about ``chunk_size`` bytes."""
        end = self._transactions.end
        while first < len(end):
            sent = int(self._sent[first - 1]) if first else 0
            filled = int(np.searchsorted(self._sent, sent + chunk_size))
            far = int(np.searchsorted(end, self._begin[first] + _FARTHEST))
            stop = min(filled, far, len(end) - 1) + 1
            large = int(self._sent[stop - 1] - sent) > 2 * chunk_size
            if large and stop - first > 1:
                # The chunk ends before its last, large transaction. The next turn of the loop sends that transaction in
                # several chunks.
                stop -= 1
            elif large and not self._transactions.of_file[first]:
                yield from self._large(first, chunk_size)
                first = stop
                continue
            yield self._plan(first, stop)
            first = stop

    def _plan(self, first: int, stop: int) -> ReadyPlan:
        """Return one chunk with the transactions from number ``first`` up to, but without, ``stop``."""
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
                pieces.append(event)
                self._named.at_end = event[4] in (EventType.ROTATE, EventType.STOP)
        if not transactions.of_file[stop - 1]:
            self._named.at_end = False
        begin, end = int(self._begin[first]), int(transactions.end[stop - 1])
        return self._made(
            begin, end, b"".join(pieces), sent, int(transactions.events[first:stop].sum()), first, stop
        )

    def _large(self, number: int, chunk_size: int) -> Iterator[ReadyPlan]:
        """Yield the chunks of one transaction that is much larger than a chunk.

        Raises SplitGone when the split's files vanish before the first chunk. After the first chunk the error is
        BinlogMissing, because the slave then has a part of the transaction and the dump cannot change to filtering.
        """
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
        """Return a chunk with events ``data``, which covers the source's bytes from ``begin`` to ``end``.

        The chunk completes the transactions from number ``first`` up to ``stop``. ``resume`` is the position at which
        an incomplete transaction begins, or None when the chunk ends with a whole transaction. ``sent`` and ``read``
        are numbers of events.
        """
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
            gtid_runs(source, transactions.number[some]),
            self._gaps(first, stop, source, kept, len(data), end),
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

    def _gaps(
        self,
        first: int,
        stop: int,
        source: npt.NDArray[np.int32],
        kept: npt.NDArray[np.bool_],
        size: int,
        end: int,
    ) -> Gaps:
        """Return the gaps of a chunk of ``size`` bytes up to ``end``, with transactions ``first`` up to ``stop``."""
        if first == stop:
            return NO_GAPS
        before = np.concatenate([[0], self._sent])[first:stop]
        gaps, _ = find_gaps(
            [stop - first],
            np.array([size]),
            np.array([end]),
            0,
            self._begin[first:stop],
            # The first transaction's earlier chunks are not part of this chunk.
            np.maximum(before - (self._sent[stop - 1] - size), 0),
            source,
            self._transactions.number[first:stop],
            kept,
            NO_DROPPED_RUNS,
            NO_HITS,
        )
        return gaps


def _prolog(file: BinlogFile) -> bytes:
    """Return the Previous_gtids or Gtid_list event at the beginning of a binlog file, empty without such an event."""
    offset = file.first_event
    for _ in range(4):
        head = file.read_up_to(offset, HEADER_LENGTH)
        if len(head) < HEADER_LENGTH:
            break
        header = EventHeader.unpack(head)
        if header.type in (EventType.PREVIOUS_GTIDS, EventType.GTID_LIST):
            return file.read_up_to(offset, header.size)
        if header.type not in OF_FILES and header.type != EventType.IGNORABLE:
            break
        offset += header.size
    return b""
