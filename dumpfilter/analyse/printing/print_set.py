"""The work of ``dumpfilter binlog``: print a filtered binlog set as SQL text, or write it as new binlog files."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rich.console import Console

from dumpfilter.analyse.printing.options import MayFail, SelectionOptions, TextOptions
from dumpfilter.analyse.printing.text import TextPrinter
from dumpfilter.base.byte_bar import byte_progress
from dumpfilter.base.errors import BinlogError, OptionError
from dumpfilter.base.options.values import whole_number
from dumpfilter.base.printable import visible
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.gtid import GtidSet, MariadbGtidSet, parse_gtid_set
from dumpfilter.dump.chunk import Counts
from dumpfilter.dump.set_pass import PassOptions, Range, filter_set, kept_pieces, on_boundaries
from dumpfilter.dump.with_tables_info import Converted
from dumpfilter.filter.base import AllFilters
from dumpfilter.filter.clever import CleverFilter
from dumpfilter.filter.filter import FilterOptions
from dumpfilter.index.fileset import BinlogSet


def print_binlog(
    binlogs: BinlogSet,
    filters: FilterOptions,
    selection: SelectionOptions,
    options: TextOptions,
    out: BinaryIO,
    log: Console,
    *,
    verify: bool = True,
) -> Counts:
    """Print the events that pass the filter to ``out``, as SQL text for the client programs ``mysql`` and ``mariadb``.
    Return the counts of events and bytes.

    Parameters:
        binlogs: the binlog set to print.
        filters: the rules of the filter, as the user gave them.
        selection: the positions, times and GTIDs between which events are printed.
        options: the form of the text.
        out: receives the text.
        log: receives warnings, and a progress bar if ``log`` is a terminal and ``out`` is not.
        verify: whether event checksums are verified.

    Raises BinlogError for a damaged binlog, after printing the events before the damage. Raises PositionError for a
    start position inside a transaction, OptionError for other bad options, and OutputError if a LOAD DATA file cannot
    be written.
    """
    for pattern in options.target_has or ():
        if "." not in pattern:
            raise OptionError(
                f"--target-has={pattern}: it is not in the form db_pattern.table_pattern; a database is 'db.'"
            )
    work = _Work(binlogs, filters, selection, log, verify=verify)
    counts = Counts()
    if not work.is_filtered:
        options = options.model_copy(update={"may_fail": MayFail.PRINT})
    printer = TextPrinter(
        out.write,
        options,
        rules=work.rules,
        warn=work.warn,
        kinds=filters.kind_filter(),
    )
    begun = False
    try:
        with work.reading("printing", is_shown=not out.isatty()) as taken:
            for kept in kept_pieces(
                binlogs,
                work.rules,
                counts=counts,
                left_out=printer.left_out if work.is_filtered else None,
                **taken,
            ):
                if not begun:
                    printer.begin()
                    begun = True
                printer.events(kept)
            if begun:
                printer.end()
    except BinlogError:
        printer.flush()
        raise
    finally:
        out.flush()
        # The text up to an error has these shortcomings, too, and names the files of LOAD DATA.
        work.report(counts)
        for text in printer.shortcomings():
            work.warn(text)
    return counts


def write_binlog(
    binlogs: BinlogSet,
    filters: FilterOptions,
    selection: SelectionOptions,
    output: Path,
    log: Console,
    *,
    verify: bool = True,
    base: str = "",
    overwrite: bool = False,
    tables_info: bool = False,
) -> Counts:
    """Write the events that pass the filter to new binlogs: ``<base>.000001`` … and ``<base>.index`` in
    ``output``. Return the counts of events and bytes.

    An empty ``base`` stands for the base name of the source's files. With ``tables_info`` True every Query event gets
    the names of its statement's tables, a format that servers cannot read. With False Query events keep their format.

    Raises BinlogError for a damaged binlog, PositionError for a start position inside a transaction, OptionError for
    other bad options, and OutputError if the new files cannot be written. After an error no new files are left.
    """
    work = _Work(binlogs, filters, selection, log, verify=verify)
    base = base or binlogs.names[0].rpartition(".")[0] or binlogs.names[0]

    if any(os.path.dirname(one) == str(output.resolve()) for one in binlogs.addresses):
        raise OptionError(f"--output={output}: the binlogs themselves are there; name another directory")
    told = Converted() if tables_info else None
    with work.reading("filtering") as taken:
        counts = filter_set(binlogs, work.rules, output, base, overwrite=overwrite, tables_info=told, **taken)
    if told is not None and told.untold:
        work.warn(f"of {told.untold} statements the tables could not be told; their tables info is empty")
    work.report(counts)
    return counts


class _Work:
    """The filters and the range of events that the options of ``dumpfilter binlog`` select for one binlog set."""

    def __init__(
        self,
        binlogs: BinlogSet,
        filters: FilterOptions,
        selection: SelectionOptions,
        log: Console,
        *,
        verify: bool,
    ) -> None:
        self._binlogs = binlogs
        self._log = log
        written_by = binlogs.written_by
        self.rules = filters.slave_filter(written_by)
        self.also = AllFilters([filters.write_filter(written_by), filters.kind_filter()])
        self.is_filtered = bool(self.rules.rules) or self.also.is_on
        self._taken: PassOptions = {
            "clever": CleverFilter(self.rules, warn=self.warn) if filters.clever else None,
            "also": self.also,
            "wanted": on_boundaries(range_of(selection, written_by.family), binlogs, warn=self.warn),
            "verify": verify,
        }

    @contextmanager
    def reading(self, what: str, *, is_shown: bool = True) -> Iterator[PassOptions]:
        """Yield keyword arguments for a function that reads the binlog set once, such as the selected range of events.
        If ``is_shown`` is True and the log is a terminal, show a progress bar with the text ``what`` until the ``with``
        block ends.
        """
        total = sum(map(self._binlogs.size, self._binlogs.names))
        with byte_progress(self._log if is_shown else None, what, total) as advance:
            yield {**self._taken, "progress": advance}

    def warn(self, text: str) -> None:
        shown = f"dumpfilter: warning: {visible(text)}"
        self._log.print(shown, markup=False, highlight=False, soft_wrap=True)

    def report(self, counts: Counts) -> None:
        if counts.events_undecided:
            self.warn(
                f"{counts.events_undecided} events could not be decided and are in the output "
                "(dumpfilter explain tells which and why)"
            )


def range_of(options: SelectionOptions, family: Family) -> Range:
    """Return the range of events that the options select by position, date and time, and GTIDs.

    Raises OptionError for a bad value, for malformed GTIDs, and for two options that exclude each other.
    """
    start, after = _position(options.start_position, "--start-position", family)
    stop, up_to = _position(options.stop_position, "--stop-position", family)
    if start is not None and start < 4:
        raise OptionError(f"--start-position={start}: a binlog's first event is at 4")
    include = _gtids(options.include_gtids, "--include-gtids", family)
    exclude = _gtids(options.exclude_gtids, "--exclude-gtids", family)
    if after is not None and exclude is not None:
        raise OptionError("--start-position with GTIDs and --exclude-gtids: use one of the two")
    if up_to is not None and include is not None:
        raise OptionError("--stop-position with GTIDs and --include-gtids: use one of the two")
    return Range(
        start_position=start,
        stop_position=stop,
        start_time=_seconds(options.start_datetime, "--start-datetime"),
        stop_time=_seconds(options.stop_datetime, "--stop-datetime"),
        include=include if up_to is None else up_to,
        exclude=exclude if after is None else after,
    )


def _position(text: str, option: str, family: Family) -> tuple[int | None, GtidSet | None]:
    # The value of --start-position or --stop-position is a file offset. MariaDB also accepts the last GTID of each
    # domain. The function returns the offset and None, or None and the GTIDs.
    if not text:
        return None, None
    if (offset := whole_number(text)) is not None:
        return offset, None
    gtids = _gtids(text, option, family) if family == "mariadb" else None
    if not isinstance(gtids, MariadbGtidSet) or not gtids.is_position():
        wanted = "bytes, or GTIDs (0-1-5,1-2-7)" if family == "mariadb" else "bytes"
        raise OptionError(f"{option}={text}: not a position ({wanted})")
    return None, gtids


def _gtids(text: str | None, option: str, family: Family) -> GtidSet | None:
    if text is None:
        return None
    try:
        return parse_gtid_set(text, family)
    except ValueError as error:
        raise OptionError(f"{option}: {error}") from None


def _seconds(text: str, option: str) -> int | None:
    # A date and time without an offset from UTC is in local time, as in mysqlbinlog.
    if not text:
        return None
    try:
        return int(datetime.datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        raise OptionError(
            f"{option}={text}: not a date and time (2026-11-21 13:05:00, in local time, or with an offset)"
        ) from None
