"""One table's changed rows with typed columns: the option ``table``, and the types that the binlog set tells.

The types come from the Table_map events of the table. After an ALTER TABLE they differ, so the struct has the columns
of all versions of the table.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace

import numpy as np

from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.rows import decode_table_map
from dumpfilter.errors import OptionError
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects, TableSubject
from dumpfilter.rows import Table, describe_table
from dumpfilter.rows.typed import struct_of, with_names
from dumpfilter.spark_jobs.ranges.files import open_file
from dumpfilter.spark_jobs.ranges.ranges import Block, Range, blocks_of
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.planning import in_threads, plan_ranges
from dumpfilter.spark_jobs.source.reading import FileRange

_HINTS = 3
"""The most names of other tables in an error about a table that the set lacks."""

Version = tuple[Table, Family]


def with_types(options: SourceOptions) -> SourceOptions:
    """Return options whose row images are structs with the columns of the table that the option ``table`` names.

    Without the option, or with known types, return the options as they are. Reads the whole set. Raises BinlogError,
    and OptionError when the set has no rows of the table.
    """
    if options.table is None or options.row_types is not None:
        return options
    wanted = TableSubject(*options.table)
    looks = in_threads(lambda one: _versions(one, wanted), plan_ranges(options))
    versions = [
        (with_names(table, options.names), family) for look in looks for table, family in look.versions
    ]
    if not versions:
        raise OptionError(_unknown(wanted, {name for look in looks for name in look.others}))
    found = struct_of(versions)
    return replace(options, row_types=(found, found))


def _unknown(wanted: TableSubject, others: set[str]) -> str:
    name = f"{wanted.database}.{wanted.table}"
    near = difflib.get_close_matches(name, sorted(others), _HINTS)
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"option table: the binlog set has no changed rows of {name}{meant}"


@dataclass(frozen=True)
class _Look:
    """The versions of the wanted table in one range, and the names of the other tables."""

    versions: list[Version]
    others: set[str]


def _versions(wanted: FileRange, table: TableSubject) -> _Look:
    subjects = Subjects()
    found: dict[bytes, Version] = {}
    with open_file(wanted.path) as file:
        inside = Range(0, 0, max(wanted.start, file.first_event), wanted.end, wanted.prepared)
        for block in blocks_of(file, inside, subjects, SourceNumbers(), verify=False):
            for event, fd in _table_maps(block, subjects, table):
                body = fd.body(event)
                # The table id at the begin differs between equal tables.
                key = bytes(body[fd.post_header_length(EventType.TABLE_MAP) - 2 :])
                if key not in found:
                    mapped = decode_table_map(body, fd.post_header_length(EventType.TABLE_MAP))
                    found[key] = describe_table(mapped, fd.family), fd.family
    tables = [subjects[k] for k in range(len(subjects)) if subjects.members(k) is None]
    others = {f"{one.database}.{one.table}" for one in tables if isinstance(one, TableSubject)}
    return _Look(list(found.values()), others)


def _table_maps(
    block: Block, subjects: Subjects, table: TableSubject
) -> list[tuple[bytes, FormatDescription]]:
    segment = block.segment
    found = [
        (block.data[at : at + size].tobytes(), segment.format_description)
        for at, size in _places(segment, subjects, table, segment.start)
    ]
    for number, inner in sorted(segment.payloads.items()):
        places = _places(inner, subjects, table, 0)
        if places:
            at, size = int(segment.offset[number]) - segment.start, int(segment.size[number])
            event = block.data[at : at + size].tobytes()
            opened = decode_transaction_payload(segment.format_description.body(event)).open()
            found += [(opened[at : at + size], inner.format_description) for at, size in places]
    return found


def _places(segment: Segment, subjects: Subjects, table: TableSubject, start: int) -> list[tuple[int, int]]:
    maps = np.flatnonzero(segment.type == EventType.TABLE_MAP)
    chosen = [k for k in np.unique(segment.subject[maps]).tolist() if _is(subjects, k, table)]
    wanted = maps[np.isin(segment.subject[maps], chosen)]
    return [(int(segment.offset[k]) - start, int(segment.size[k])) for k in wanted]


def _is(subjects: Subjects, number: int, table: TableSubject) -> bool:
    return number >= 0 and subjects.members(number) is None and subjects[number] == table
