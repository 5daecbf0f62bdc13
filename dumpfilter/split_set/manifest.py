"""The manifest of a split, and the schemas of the tables beside the manifest.

The manifest is the file ``manifest.json`` beside the binlogs. It names the source and the options of the split, and the
part of the source that each output file holds. The tables are Parquet files. ``ranges/`` (:data:`RANGES_SCHEMA`) has
the place in the source of every stretch of bytes. ``transactions/`` (:data:`TRANSACTIONS_SCHEMA`) has every transaction
of the source. A directory with a manifest is complete, because one rename makes all files of a split appear together.
The manifest serves WL#2387, "Binlog extensions", which asks for backup and purge of different binlogs at different
times.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from dumpfilter.binlog.format import NameCollation
from dumpfilter.binlog.gtid_sources import SourceKey
from dumpfilter.binlog.writer import sync_path, writing
from dumpfilter.errors import OutputError

MANIFEST = "manifest.json"

RANGES = "ranges"
TRANSACTIONS = "transactions"
"""The directories of the tables. Each has one file for each range of the source, ``000000.parquet`` and so on."""

RANGES_SCHEMA = pa.schema(
    [
        ("binlog", pa.dictionary(pa.int32(), pa.string())),
        ("file", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("source_file", pa.int32()),
        ("source_start", pa.int64()),
        ("source_end", pa.int64()),
    ]
)
"""The columns of ``ranges/``. Each row is a stretch, which is consecutive bytes of an output and of the source.

The bytes of both differ in end_log_pos, in checksums, and in STMT_END_F on the last rows event that the output keeps of
a statement.

- ``binlog``, ``file``, ``start``, ``end``: the output's name, the number of its file from 1, and the offsets in that
  file.
- ``source_file``, ``source_start``, ``source_end``: the number of the source's file from 0, and the offsets in that
  file.

The lengths in output and source differ only where the output has a part of a compressed transaction.
"""

TRANSACTIONS_SCHEMA = pa.schema(
    [
        ("source_file", pa.int32()),
        ("end", pa.int64()),
        ("gtid_source", pa.dictionary(pa.int32(), pa.string())),
        ("gtid_number", pa.int64()),
        ("server_id", pa.int64()),
        ("events", pa.int64()),
        ("of_file", pa.bool_()),
        ("exact", pa.bool_()),
        ("undecided", pa.list_(pa.string())),
    ]
)
"""The columns of ``transactions/``. Each row is a transaction of the source, or an event between two transactions.

The rows have the source's order. Each transaction begins at the end of the transaction before it.

- ``source_file``: the number of the source's file, from 0.
- ``end``: the offset in that file at which the transaction ends.
- ``gtid_source``, ``gtid_number``: the GTID, as :func:`gtid_source_text` and a number. Both are null without a GTID.
- ``server_id``: the server id in the header of the transaction's first event.
- ``events``: the number of the transaction's events.
- ``of_file``: whether the row is an event of the source's file (Rotate, Stop, Gtid_list …), which no output has.
- ``exact``: whether a master can restore the source's bytes from the bytes in an output. Every event of the transaction
  then has 0 or its own end as end_log_pos. The transaction has no event of the file, and no event where no server
  writes one, such as a table map without rows at the end of a statement.
- ``undecided``: the names of binlogs, once for each event that the binlog has because its filter could not decide the
  event. Null without such events.
"""


def gtid_source_text(key: SourceKey) -> str:
    """Return a GTID source as the tables spell it.

    >>> gtid_source_text((0, 11)), gtid_source_text((bytes(16), "tag"))
    ('0-11', '00000000-0000-0000-0000-000000000000:tag')
    """
    first, second = key
    if isinstance(first, bytes):
        return f"{uuid.UUID(bytes=first)}:{second}" if second else str(uuid.UUID(bytes=first))
    return f"{first}-{second}"


def gtid_source_key(text: str) -> SourceKey:
    """Return the GTID source that :func:`gtid_source_text` spelled."""
    if text.count("-") == 1:
        domain, server = text.split("-")
        return int(domain), int(server)
    name, _, tag = text.partition(":")
    return uuid.UUID(name).bytes, tag


def beginning_digest(format_description: bytes, prolog: bytes) -> str:
    """Return a SHA-256 digest of a binlog file's first events, which tells the file from others with the same name.

    Args:
        format_description: the format description event, without the flag LOG_EVENT_BINLOG_IN_USE_F.
        prolog: the Previous_gtids or Gtid_list event.
    """
    return hashlib.sha256(format_description + prolog).hexdigest()


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Place(_Model):
    """A place in the source: a file and a position in it, bytes."""

    file: str
    position: int


class SourceFile(_Model):
    """A file of the source, in the state that the split read. ``size`` is in bytes."""

    name: str
    size: int
    end: int
    """The offset up to which the split used the file. The split leaves out incomplete and damaged events."""
    transactions: int
    damage: str | None = None
    """The damage because of which the split did not use the rest of the file, or None."""
    beginning: str = ""
    """:func:`beginning_digest`."""
    ranges: int = 0
    """The number of ranges that the split divided the file into.

    :data:`RANGES` and :data:`TRANSACTIONS` have one file for each range, in the order of the source's files.
    """


class BinlogPart(_Model):
    """A file of a named binlog. Sizes in bytes, times in Unix seconds."""

    name: str
    size: int
    events: int
    """The number of events from the source, without format description, Previous_gtids, Gtid_list and Rotate."""
    transactions: int
    previous_gtids: str | None
    """The GTID set of everything before this file in the named binlog, as text. None without GTIDs."""
    first_time: int | None
    last_time: int | None
    """The times at which the server wrote the file's first and last transaction. None without transactions."""
    source_start: Place
    source_end: Place
    """The file holds all events of its binlog that the source has from ``source_start`` up to ``source_end``."""
    purged: int | None = None
    """The time of the purge, or None if the file exists."""


class NamedBinlog(_Model):
    """A binlog set that the split wrote, with an index file."""

    name: str
    """The base of the file names: ``<name>-bin.000001`` and so on, and ``<name>-bin.index``."""
    schema_name: str | None = None
    """The schema whose events the binlog has, in a split by schema."""
    rules: tuple[str, ...] = ()
    """The rules of the filter that chose the binlog's events, as options."""
    semantics: str | None = None
    rest: bool = False
    """Whether the binlog has the events that no other binlog has."""
    parts: list[BinlogPart]

    @property
    def index(self) -> str:
        """The index file's name."""
        return f"{self.name}-bin.index"

    @property
    def present(self) -> list[BinlogPart]:
        """The files that have not been purged."""
        return [part for part in self.parts if part.purged is None]


class Manifest(_Model):
    """The contents of ``manifest.json``."""

    format: int = 1
    job: str
    """A digest of the source, the specification and the options. Jobs with equal digests write equal sets."""
    made: int
    """The time at which the split was written, Unix seconds."""
    family: str
    names: NameCollation = NameCollation.GENERAL_CI
    """The collation with which the rules compared names."""
    lower_case_table_names: int = 0
    max_binlog_size: int
    source: list[SourceFile]
    binlogs: list[NamedBinlog]
    cut_transactions: int
    """The number of spanning transactions, which several binlogs have in part."""
    unassigned_transactions: int
    """The number of transactions that no binlog has."""
    warnings: list[str]
    verified: bool = False
    """Whether the split verified the checksums of the source's events."""

    def binlog(self, name: str) -> NamedBinlog:
        """Return the binlog with this name or of this schema. Raises OutputError if there is none."""
        for one in self.binlogs:
            if name in (one.name, one.schema_name):
                return one
        raise OutputError(
            f"there is no binlog {name!r}; there are {', '.join(one.name for one in self.binlogs)}"
        )

    def save(self, directory: Path) -> None:
        """Write the manifest into a directory, atomically and synchronized. Raises OutputError."""
        target = directory / MANIFEST
        beside = (
            directory / f".{MANIFEST}.tmp"
        )  # A fixed name, so that the file of a killed process is replaced.
        with writing(target):
            try:
                with open(beside, "w", encoding="utf-8", errors="surrogateescape") as file:
                    file.write(self.model_dump_json(indent=1) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(beside, target)
                sync_path(directory)
            except BaseException:
                beside.unlink(missing_ok=True)
                raise

    @classmethod
    def load(cls, directory: Path) -> Manifest:
        """Read the manifest of a split's directory. Raises OutputError if the manifest is missing or cannot be read."""
        path = directory / MANIFEST
        try:
            found = cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise OutputError(f"{directory}: no split was written here (there is no {MANIFEST})") from None
        except OSError as error:
            raise OutputError(f"{path}: cannot be read: {error.strerror}") from None
        except ValidationError as error:
            first: Any = error.errors(include_url=False)[0]
            raise OutputError(f"{path}: is not a split's manifest: {first['msg']}") from None
        if found.format != 1:
            raise OutputError(f"{path}: is of format {found.format}; this dumpfilter reads format 1")
        return found


def now() -> int:
    """Return the present time, Unix seconds."""
    return int(time.time())
