"""The split of one binlog set into several binlog sets (MySQL's worklog 2387, "Binlog extensions").

Each schema gets a binlog set of its events. Alternatively, a specification names the sets, with a filter for each that
chooses its events. An output is one of the sets that the split writes.

1. The driver divides the files into ranges of complete transactions (:mod:`~dumpfilter.spark_jobs.ranges`).
2. A task for each range plans which output receives which events
   (:class:`~dumpfilter.spark_jobs.split.tasks.PlanRange`).
3. The driver chooses file and offset of each planned event (:class:`Placing`).
4. Tasks copy the events to these files and offsets (:class:`~dumpfilter.spark_jobs.split.tasks.WriteRange`).
5. The driver completes the files, writes the manifest (the list of written files), and publishes the directory.

The driver reads the plans of all ranges (parts of the source's files) in binlog order. From the plans, the driver knows
how many bytes each output has before each range. Tasks can therefore write all ranges in parallel. As on a server, an
output's file ends when it reaches ``max_binlog_size``.

The output directory is published completely or not at all. A job writes into a working directory beside the output
directory. A file in it has the digest of the job's inputs, and the id of the machine's current boot. A failed job
removes its working directory. A killed job leaves it, and the next run of the same job continues there. After a reboot
the job starts again, because a crash may have lost data that was not synced. When all files are written and synced, a
rename turns the working directory's subdirectory ``out`` into the output directory.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from dumpfilter.analyse.split_set import MANIFEST, BinlogPart, Manifest, NamedBinlog, Place, SourceFile, now
from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.base.errors import BinlogError, OutputError
from dumpfilter.base.files import committed, locked, replace_directory
from dumpfilter.base.printable import replace_invalid_utf8
from dumpfilter.binlog.events import HEADER_LENGTH, MAGIC, EventHeader, EventType, seal
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import SEQ_NO_MAX, MariadbGtid, MysqlGtidSet, SourceKey
from dumpfilter.binlog.gtid_events import (
    GtidList,
    decode_gtid_list,
    decode_previous_gtids,
    encode_gtid_list,
    encode_previous_gtids,
)
from dumpfilter.binlog.writer import rebase, rotate_event, with_body
from dumpfilter.index.addresses import file_name
from dumpfilter.spark_jobs.engines import Runner, for_each
from dumpfilter.spark_jobs.options import SplitSettings
from dumpfilter.spark_jobs.ranges import (
    FileIndex,
    IndexedSet,
    Range,
    amount_of,
    grouped,
    parts_of,
    read_set,
    version_of,
)
from dumpfilter.spark_jobs.split import tasks as P
from dumpfilter.spark_jobs.split.ownership import (
    BY_SCHEMA,
    REST,
    Specification,
    decode_name,
    schemas_among,
)
from dumpfilter.spark_jobs.split.tasks import (
    Placement,
    PlanRange,
    RangeFile,
    RangePlan,
    Staging,
    Stretch,
    WriteRange,
    binlog_name,
    opened,
)

_FORMAT = 13
"""The layout version of a working directory. No job continues in a directory with another layout."""


@contextmanager
def _working_directory(
    directory: Path, job: str, *, overwrite: bool, sources: Iterable[Path] = ()
) -> Iterator[Staging | Manifest]:
    """Yield the working directory of a split, which is beside the output directory. The working directory is locked for
    the body of the ``with`` statement, and removed at the end. If the process is killed, the next run of the same job
    continues there.

    Yield the manifest (the list of written files) instead if an earlier run of the same job has published the output
    directory.

    Parameters:
        directory: the output directory. Missing parent directories are created.
        job: a digest of the source files and options, by which an earlier run of the same job is recognized.
        overwrite: whether the job may replace the output of a different split.
        sources: the local paths of the binlogs to split. They must not be below the output directory.

    Raises OutputError if the output directory has other files or another split, or has one of ``sources``. Raises it
    also if another split is writing there, or if a directory cannot be written.
    """
    for source in sources:
        if directory.resolve() in source.resolve().parents:
            raise OutputError(f"{directory}: holds the binlogs that are split; name another directory")
    work = directory.with_name(f".{directory.name}.split-work")
    with ExitStack() as held:
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            work.mkdir(exist_ok=True)
            _lock(held, directory, work)
            finished = _finished(directory, job, overwrite=overwrite)
            if finished is None:
                _prepare(work, f"{_FORMAT} {_boot_id()} {job}")
        except OSError as error:
            raise OutputError(f"{error.filename or directory}: cannot be written: {error.strerror}") from None
        yield finished or Staging(str(work))


_OLD, _JOB = "old", "job"
"""The names of two entries in the working directory of a split: the replaced output directory, and the file that
identifies the job to which the working directory belongs.
"""


def _finished(directory: Path, job: str, *, overwrite: bool) -> Manifest | None:
    """Return the manifest (the list of written files) of the output directory if an earlier run of the same job wrote
    its content. The split then has nothing to do.

    None if the job must run: for an empty or missing directory, and with ``overwrite``. Raises OutputError if the
    directory has anything else that the job may not replace, such as a split of damaged binlogs.
    """
    if not directory.exists():
        return None
    if not directory.is_dir():
        raise OutputError(f"{directory}: is not a directory")
    if not any(directory.iterdir()):
        return None
    if not (directory / MANIFEST).exists():
        raise OutputError(f"{directory}: holds files that no split wrote; name another directory")
    there = Manifest.load(directory)
    # A repaired file may have its former size and time, by which the job knows it.
    if not overwrite and (there.job != job or any(one.damage for one in there.source)):
        raise OutputError(
            f"{directory}: holds the split of other or damaged binlogs, or with other options; name another "
            "directory or use --overwrite"
        )
    return None if overwrite else there


def _lock(held: ExitStack, directory: Path, work: Path) -> None:
    """Lock the working directory ``work`` against other splits into ``directory``, and restore an output directory that
    a killed split had renamed. When ``held`` is closed, the working directory is removed and unlocked.
    """
    busy = f"{directory}: another split is writing to it"
    handle = held.enter_context(locked(work, busy))
    # Another process may have removed the directory, and perhaps made it anew.
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(handle), os.stat(work)):
            # A job may have been killed after it had renamed the old output directory, and before it published the new
            # one.
            if not directory.exists() and (work / _OLD).exists():
                os.rename(work / _OLD, directory)
            held.callback(_discard, work)
            return
    raise OutputError(busy)


def _discard(work: Path) -> None:
    # Without this file, no job continues in half a directory.
    with suppress(OSError):
        (work / _JOB).unlink(missing_ok=True)
    shutil.rmtree(work, ignore_errors=True)


def _prepare(work: Path, job: str) -> None:
    """Prepare the working directory ``work`` for a run of a split, the job that divides a binlog set into several. The
    text ``job`` identifies the job. If a killed run of the same job left the directory, keep its content, so that this
    run can continue there. Otherwise empty the directory, and make its subdirectories.
    """
    marker = work / _JOB
    # The job that published ``out`` as the output directory has left a remainder.
    if (work / "out").is_dir() and marker.exists() and marker.read_text("ascii") == job:
        return
    marker.unlink(missing_ok=True)
    for name in (_OLD, "out", *get_args(RangeFile)):
        shutil.rmtree(work / name, ignore_errors=True)
    for name in ("out", *get_args(RangeFile)):
        (work / name).mkdir()
    with committed(marker, synced=False) as file:
        file.write(job.encode("ascii"))


def _publish(work: Path, directory: Path) -> None:
    """Publish the result of a successful split: rename the directory of finished files in ``work`` to the output
    directory. An older output directory is moved into ``work``, and is later removed with it.

    If a purge is at work in the older output directory, wait for its end, since the purge would go on in the new one.
    Raises OutputError if the rename fails; the output directory is then unchanged.
    """
    busy = f"{directory}: a purge is at work in it"
    try:
        with locked(directory, busy, waits=True) if directory.exists() else nullcontext():
            replace_directory(work / "out", directory, work / _OLD)
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.EXDEV):
            raise OutputError(
                f"{directory}: is a mount point, which cannot appear by a rename; name a directory in it"
            ) from None
        raise OutputError(f"{directory}: cannot be replaced: {error.strerror}") from None


def _boot_id() -> str:
    """Return Linux's id of the machine's current boot, by which a later run detects a reboot. The text is empty if
    there is none.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


_CREATED = HEADER_LENGTH + 2 + 50
"""The offset in a format description event of the field ``created``, the time at which the server started."""


_MOST_WAITING = 1 << 17
"""The number of collected GTIDs at which they are merged into the GTID set of an output (binlog set that the split
writes). Merging many at once is cheaper, but collected GTIDs need memory.
"""


class TransactionSpans(BinlogError):
    """The error for a transaction that has events for several outputs, when the option ``spanning="refuse"`` forbids
    it. An output is a binlog set that the split writes.
    """


class SplitOptions(SplitSettings):
    """All options of a split (the job that divides one binlog set into several). ``specification`` has the names and
    filters of the sets to write. Sizes are in bytes.
    """

    specification: Specification = BY_SCHEMA


class OutputFile(NamedTuple):
    """A file of one of the binlog sets into which a split divides its source. It has the file's first bytes, the format
    description event of the source file, and the file's entry in the manifest (the list of written files).
    """

    head: bytes
    """The first bytes of the file: magic number, format description event, and the event with the GTIDs of the earlier
    files of its binlog set.
    """
    fd: FormatDescription
    """The format description event of the source file from which this file's events come. In ``head`` only its position
    and start time differ.
    """
    part: BinlogPart
    """The file's entry in the manifest (the list of written files). Its size grows while the split is running.

    Its ``source_end`` is the position in the split binlog set at which the next file of the same output (new binlog
    set) begins. An output's files therefore cover the whole source without gaps.
    """


@dataclass
class _Output:
    """The state of one output (a binlog set that the split writes) while the driver chooses files for its events."""

    name: str
    gtids: _Gtids
    files: list[OutputFile] = field(default_factory=list)
    source: int = 0
    """The index of the newest source file that may continue in the newest file of this output (a binlog set that the
    split writes). The server has not restarted before this source file, nor changed its binlog format.
    """
    full: bool = False
    """Whether the newest file of this output (a binlog set that the split writes) has reached ``max_binlog_size``, so
    that the next transaction needs a new file.
    """


class Placing:
    """A planner that chooses the file and offset for every event that a split writes. The caller must pass the plans of
    all ranges (parts of source files) in order. A plan says which bytes of a range each output (binlog set that the
    split writes) receives.

    Parameters:
        indexes: the source's files, in order.
        options: the options of the split. The transaction that reaches ``max_binlog_size`` is its file's last.
    """

    def __init__(self, indexes: Sequence[FileIndex], options: SplitOptions) -> None:
        self._indexes = {one.number: one for one in indexes if one.format_description}
        self._fds = {
            one.number: FormatDescription.parse(one.format_description, file=one.name)
            for one in self._indexes.values()
        }
        self._options = options
        self._outputs: dict[str, _Output] = {}
        self.cut = 0
        """The number of transactions that several outputs (binlog sets of the split) receive, and at least one of them
        only in part.
        """
        self.unassigned = 0
        """The number of transactions that no output (binlog set of the split) receives."""
        for name in options.specification.names:
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
        The result maps an output's name to a list of stretches (consecutive bytes for one file), each with its file and
        offset. Raises TransactionSpans for a transaction with events for several outputs if ``options.spanning`` is
        ``refuse``.
        """
        if plan.first_cut is not None and self._options.spanning == "refuse":
            position, among = plan.first_cut
            raise TransactionSpans(
                f"the transaction that begins here belongs in part to {', '.join(among)}, which --spanning refuse does "
                "not allow",
                file=self._indexes[wanted.file].name,
                position=position,
            )
        self.cut, self.unassigned = self.cut + plan.cut, self.unassigned + plan.unassigned
        outputs = plan.transactions[:, P.T_OUTPUT]
        parts = np.split(plan.transactions, np.searchsorted(outputs, np.arange(1, len(plan.outputs))))
        return {
            name: self._place(name, wanted, part, plan)
            for name, part in zip(plan.outputs, parts, strict=False)
        }

    def _place(self, name: str, wanted: Range, transactions: Ints, plan: RangePlan) -> list[Stretch]:
        output = self._outputs.get(name) or self._open(name)
        if wanted.file != output.source:
            started = self._started(output.source, wanted.file)
            if started or _identity(self._fds[wanted.file]) != _identity(self._fds[output.source]):
                self._next_file(output, wanted.file, 4, started=started)
            output.source = wanted.file
        stretches: list[Stretch] = []
        begin = done = events = 0
        ends = transactions[:, P.T_END]
        while done < len(ends):
            if output.full:
                place = int(transactions[done - 1, P.T_PLACE] if done else plan.blocks[0, 0])
                self._next_file(output, wanted.file, place, started=0)
            part = output.files[-1].part
            k = done + int(np.searchsorted(ends[done:], self._options.max_binlog_size - part.size + begin))
            output.full = k < len(ends)
            last = min(k, len(ends) - 1)
            stop, events_until = transactions[last, [P.T_END, P.T_EVENTS]].tolist()
            stretches.append(Stretch(stop, len(output.files), part.size - begin))
            _count(part, transactions[done : last + 1])
            output.gtids.add(transactions[done : last + 1, [P.T_SOURCE, P.T_NUMBER]], plan.sources)
            part.size += stop - begin
            part.events += events_until - events
            begin, done, events = stop, last + 1, events_until
        return stretches

    def _open(self, name: str) -> _Output:
        first = next(iter(self._indexes.values()))
        output = self._outputs[name] = _Output(name, _Gtids(first, self._fds[first.number]))
        self._next_file(output, first.number, 4, started=self._fds[first.number].created)
        return output

    def _started(self, before: int, now: int) -> int:
        """Return the time of the latest server start recorded in the source files after index ``before``, up to
        index ``now``.

        The result is in Unix seconds, or 0 if no start is recorded. A slave that reads such a time in a format
        description event drops its temporary tables, as it must after a server restart.
        """
        passed = range(before + 1, now + 1)
        return max((self._fds[number].created for number in passed if number in self._fds), default=0)

    def _next_file(self, output: _Output, source: int, position: int, *, started: int) -> None:
        fd, newest = self._fds[source], self._indexes[max(self._indexes)]
        head = bytearray(fd.raw)
        head[_CREATED : _CREATED + 4] = started.to_bytes(4, "little")
        head[13:17] = (4 + len(head)).to_bytes(4, "little")
        if fd.ends_in_checksum:
            seal(head)
        prolog = rebase(output.gtids.event(fd), 4 + len(head), checksum=fd.checksum)
        whole = bytes(MAGIC + head + prolog)
        start = Place(file=replace_invalid_utf8(self._indexes[source].name), position=position)
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
            source_end=Place(file=replace_invalid_utf8(newest.name), position=newest.end),
        )
        output.files.append(OutputFile(whole, fd, part))
        output.source, output.full = source, False


def _count(part: BinlogPart, transactions: Ints) -> None:
    times = transactions[:, P.T_TIME]
    times = times[times > 0]
    if len(times):
        first, last = int(times.min()), int(times.max())
        part.first_time = min(first, part.first_time or first)
        part.last_time = max(last, part.last_time or last)
    part.transactions += len(transactions)


def _identity(fd: FormatDescription) -> tuple[Any, ...]:
    return (fd.server_version, fd.checksum, fd.ends_in_checksum, fd.post_header_lengths, fd.header.server_id)


class _Gtids:
    """The GTIDs of all earlier files of one output (a binlog set that the split writes). An event at the start of the
    output's next file records them.

    MySQL's Previous_gtids event has a GTID set. MariaDB's Gtid_list event has the last GTID of each pair of domain id
    and server id, with a domain's newest entry last. The binlog set that is split may have neither event.
    """

    def __init__(self, index: FileIndex, fd: FormatDescription) -> None:
        self._event = index.prolog
        self._set: MysqlGtidSet | None = None
        self._last: dict[SourceKey, int] = {}
        self._flags = 0
        self._waiting: dict[SourceKey, list[Ints]] = {}
        """The numbers of collected GTIDs that are not merged into the GTID set yet, by server UUID (with tag)."""
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
        """The GTIDs of the output's earlier files, as text. None if the first file of the binlog set that is split does
        not record the GTIDs of the files before it. An output is a binlog set that the split writes.
        """
        if not self._event:
            return None
        return str(self._list().position() if self._set is None else self._take())

    def add(self, gtids: Ints, sources: Sequence[SourceKey]) -> None:
        """Add GTIDs of transactions that the output (the binlog set that the split writes) received.

        A row of ``gtids`` has two columns. The first is an index into ``sources`` (-1: no GTID), which has server
        UUIDs, or MariaDB's domain and server ids. The second is the GTID's number.
        """
        of = gtids[:, 0]
        if self._set is not None:
            for number in np.flatnonzero(np.bincount(of[of >= 0])).tolist():
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
            self._last[source] = int(gtids[place, 1]) & SEQ_NO_MAX

    def _take(self) -> MysqlGtidSet:
        """Merge the GTIDs added since the last call into the GTID set of the output's earlier files, and return this
        set. An output is a binlog set that the split writes.
        """
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
        """Return the Previous_gtids or Gtid_list event for a new file, with a checksum if ``fd`` requires one.

        The result is empty if the files of the binlog set that is split have no such event.
        """
        if not self._event:
            return b""
        body = encode_gtid_list(self._list()) if self._set is None else encode_previous_gtids(self._take())
        return with_body(EventHeader.unpack(self._event), body, checksum=fd.checksum)


_SYNCS = 8
"""The number of threads that sync files to disk in parallel."""


def _finish_set(
    name: str, files: Sequence[OutputFile], directory: Path, specification: Specification
) -> NamedBinlog:
    """Complete the files of the output ``name`` (a binlog set that the split writes), write its index file, and return
    its entry for the manifest.

    Each file gets its first events, and a Rotate event to the next file. ``files`` are in order, in ``directory``.
    ``specification`` is the user's choice of outputs, from which the entry's filter rules are taken. Raises OutputError
    if a file cannot be written or does not have the expected size.
    """
    parts = [file.part for file in files]
    names = [part.name for part in parts]
    with ThreadPoolExecutor(_SYNCS, "sync") as pool:
        list(pool.map(partial(_finish_file, directory), files, [*names[1:], None]))
    with committed(directory / f"{name}-bin.index") as index:
        index.write("".join(f"./{each}\n" for each in names).encode("ascii"))
    if specification.by_schema:
        schema = None if name == REST else replace_invalid_utf8(decode_name(name))
        return NamedBinlog(name=name, schema_name=schema, rest=name == REST, parts=parts)
    for one in specification.binlogs:
        if one.name == name:
            return NamedBinlog(name=name, rules=one.rules, semantics=one.semantics.value, parts=parts)
    return NamedBinlog(name=name, rest=True, parts=parts)


def _finish_file(directory: Path, file: OutputFile, following: str | None) -> None:
    """Write the first events of a file that the split writes in ``directory``, and at its end a Rotate event. The
    Rotate event names ``following``, the next file of the same binlog set (None: no Rotate event).
    """
    path, size, fd = directory / file.part.name, file.part.size, file.fd
    rotate = bytearray()
    if following is not None:
        rotate = rotate_event(following, fd, size, file.part.last_time or fd.header.timestamp)
    with opened(path) as target:
        target.write(file.head)
        # An earlier run of the job may have been killed after it had written the Rotate event of this file.
        if (found := target.seek(0, os.SEEK_END)) not in (size, size + len(rotate)):
            raise OutputError(
                f"{path}: has {found} bytes, but {size} were written: is the directory one that all workers share?"
            )
        target.seek(size)
        target.write(rotate)
        target.flush()
        os.fsync(target.fileno())
    file.part.size += len(rotate)


def split(
    source: str | Path | Sequence[str | Path], output: Path, run: Runner, options: SplitOptions | None = None
) -> tuple[Manifest, bool]:
    """Split a binlog set into several binlog sets in the directory ``output``: one for each schema, or those that
    ``options.specification`` defines by filters. Return the manifest, which lists the written files, and whether an
    earlier run wrote them.

    ``source`` is the set's index file, a directory with an index file, or a list of binlog files. ``run`` executes the
    tasks, for example a :class:`~dumpfilter.spark_jobs.engines.ThreadRunner`. If an earlier run with equal files and
    options wrote the directory, nothing is written.

    Raises BinlogError with file and position for a damaged binlog. With ``options.on_corrupt="skip"``, the damaged part
    of a file is left out instead, and the manifest has a warning. Raises TransactionSpans for a transaction with events
    for several outputs if ``options.spanning`` is ``refuse``, and OutputError if a file cannot be written. After an
    error the directory is unchanged.
    """
    options = options or SplitOptions()
    parts = parts_of(source)
    addresses = [one.path for one in parts]
    job = _digest(addresses, options)
    paths = [Path(one) for one in addresses if "://" not in one]
    directory = Path(os.path.abspath(output))
    with _working_directory(directory, job, overwrite=options.overwrite, sources=paths) as staging:
        if isinstance(staging, Manifest):
            return staging, True
        work = staging.path

        def task_of(indexed: IndexedSet) -> Callable[[Sequence[Range]], list[None]]:
            if any(one.damage for one in indexed.files):
                # No run may continue where another one found other damage.
                _prepare(Path(work), "damaged")
            plan = PlanRange(
                options=options,
                specification=options.specification,
                staging=Staging(work, indexed.is_guessed),
                names=indexed.newest.names,
                unknown_xa_schemas=schemas_among(indexed.subjects),
            )
            return partial(for_each, plan)

        indexed, _ = read_set(parts, run, options, task_of, "deciding")
        files, ranges = indexed.files, indexed.ranges
        staging = Staging(work, indexed.is_guessed)
        placing = Placing(files, options)
        placements = [
            placing.add(one, RangePlan.load(staging.plan(one.number), with_pieces=False)) for one in ranges
        ]
        groups = grouped(ranges, options.range_size, run)
        placed = [[(one, placements[one.number]) for one in group] for group in groups]
        run(partial(for_each, WriteRange(staging)), placed, "writing", amount=amount_of(ranges))
        written = Path(work, "out")
        sets = [
            _finish_set(name, found, written, options.specification)
            for name, found in sorted(placing.outputs.items())
        ]
        warnings = indexed.warnings("in every binlog") + _warnings(placing.cut, placing.unassigned)
        manifest = Manifest(
            job=job,
            made=now(),
            family=indexed.newest.family,
            names=indexed.newest.names.collation,
            lower_case_table_names=options.specification.lower_case_table_names,
            max_binlog_size=options.max_binlog_size,
            source=[_source_file(one) for one in files],
            binlogs=sets,
            cut_transactions=placing.cut,
            unassigned_transactions=placing.unassigned,
            warnings=warnings,
            verified=options.verify,
        )
        manifest.save(written)
        _publish(Path(work), directory)
        return manifest, False


def _digest(addresses: Sequence[str], options: SplitOptions) -> str:
    """Return a digest of the job's inputs: source files and options. Two runs of the same job have equal digests, so
    the second can use the first one's files.
    """
    versions = [(file_name(one), version_of(one)) for one in addresses]
    about = [
        [(name, one and (one.size, one.modified, one.digest)) for name, one in versions],
        repr(options.specification),
        (options.max_binlog_size, options.spanning, options.on_corrupt, options.verify),
        (options.range_size, options.block_size),
    ]
    return hashlib.sha256(json.dumps(about).encode("utf-8", "surrogateescape")).hexdigest()


def _source_file(index: FileIndex) -> SourceFile:
    return SourceFile(
        name=replace_invalid_utf8(index.name),
        size=index.size,
        end=index.end,
        transactions=index.transactions,
        damage=None if index.damage is None else index.damage.told,
        beginning=index.beginning,
    )


def _warnings(cut: int, unassigned: int) -> list[str]:
    told = {
        "transactions in several binlogs, in each with the part that belongs to it": cut,
        "transactions in no binlog, since none of the specification takes them; a [rest] would": unassigned,
    }
    return [f"{what}: {number}" for what, number in told.items() if number]
