"""The two stages of the split, as functions over Arrow batches that run in Spark's Python workers.

The first shares ranges out and writes the bytes, as they come, into one spill file a range in the staging
directory; the rows that Spark moves and sorts only say where they are. (Moving the bytes themselves through Spark
took fifteen times as long as all the rest.) The second stage reads them in order and writes the parts.

What goes wrong with a binlog or an output travels as data, in rows without a schema (:class:`Message`), so that the
driver can raise the same typed error.
"""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from dumpfilter import errors
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.sources import SourceNumbers
from dumpfilter.binlog.subjects import Subjects
from dumpfilter.errors import BinlogError, OutputError
from spark_jobs.blocks import BLOCK_SIZE, BlockOptions, open_source, opened_blocks, plain_blocks
from spark_jobs.cutting import Range, SourceFile
from spark_jobs.parts import PartWriter
from spark_jobs.sharing import Piece, Sharer

BATCH_ROWS = 4096
"""Rows in an Arrow batch from the first stage."""

MESSAGE = ""
"""Stands for a schema in rows that carry a message."""

PIECES = (
    "schema string, file int, range long, piece long, spill string, at long, length long, events long, "
    "transactions long"
)
"""The first stage's rows, as Spark spells it."""

PIECES_SCHEMA = pa.schema(
    [
        ("schema", pa.string()),
        ("file", pa.int32()),
        ("range", pa.int64()),
        ("piece", pa.int64()),
        ("spill", pa.string()),  # a file's name in the staging directory; JSON in a message's row
        ("at", pa.int64()),
        ("length", pa.int64()),
        ("events", pa.int64()),
        ("transactions", pa.int64()),
    ]
)

MESSAGES = "message string"
"""The second stage's rows: JSON."""

Message = dict[str, Any]
"""``kind`` is "error" (an exception's fields), "note" (a range's counts) or "part" (a file that was written)."""


def error_message(error: BinlogError | OutputError) -> Message:
    """An error as data."""
    if isinstance(error, BinlogError):
        return {
            "kind": "error",
            "type": type(error).__name__,
            "what": error.what,
            "file": error.file,
            "position": error.position,
        }
    return {"kind": "error", "type": type(error).__name__, "what": str(error)}


def error_from(message: Message) -> BinlogError | OutputError:
    """The error that :func:`error_message` was given."""
    kind = getattr(errors, message["type"])
    if issubclass(kind, BinlogError):
        return kind(message["what"], file=message["file"], position=message["position"])  # type: ignore[no-any-return]
    return OutputError(message["what"])


@dataclass(frozen=True)
class SharePieces:
    """The first stage: range numbers in, pieces out."""

    sources: tuple[SourceFile, ...]
    ranges: tuple[Range, ...]
    xa_routes: tuple[dict[int, tuple[str, ...]], ...]
    staging: str
    verify: bool = True
    block_size: int = BLOCK_SIZE

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = _Rows()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._share(self.ranges[number], rows)
        yield from rows.flush()

    def _share(self, wanted: Range, rows: _Rows) -> Iterator[pa.RecordBatch]:
        source = self.sources[wanted.file]
        subjects = Subjects()
        fd = FormatDescription.parse(source.format_description, file=source.name)
        sharer = Sharer(fd, subjects, self.xa_routes[wanted.file])
        read = opened_blocks if wanted.compressed else plain_blocks
        options = BlockOptions(self.verify, True, self.block_size)
        number = 0
        # a name that no other attempt has: rows lead to the bytes of the attempt that made them
        spill = Path(self.staging) / f"range.{wanted.number}.{uuid.uuid4().hex}"
        try:
            with open_source(source.path) as file, _Spill(spill) as out:
                for block in read(file, wanted.start, wanted.end, subjects, SourceNumbers(), options):
                    for piece in sharer.share(block):
                        at = out.append(piece.data)
                        rows.add(wanted.file, wanted.number, number, spill.name, at, piece)
                        number += 1
                        if len(rows) >= BATCH_ROWS:
                            yield from rows.flush()
        except BinlogError as error:
            rows.message(error_message(error.located(source.name)))
        except OutputError as error:
            rows.message(error_message(error))
        except OSError as error:
            failed = BinlogError(f"cannot be read: {error.strerror}", file=source.name)
            rows.message(error_message(failed))
        if sharer.shared_statements:
            rows.message({"kind": "note", "shared_statements": sharer.shared_statements})


class _Spill:
    """A range's bytes on their way to the parts. Raises OutputError when the disk refuses."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def __enter__(self) -> _Spill:
        try:
            self._file = open(self._path, "xb")
        except OSError as error:
            raise OutputError(f"{self._path}: {error.strerror}") from None
        return self

    def append(self, data: bytes) -> int:
        """Write; where it stands."""
        at = self._at
        try:
            self._file.write(data)
        except OSError as error:
            raise OutputError(f"{self._path}: {error.strerror}") from None
        self._at += len(data)
        return at

    def __exit__(self, *_: object) -> None:
        try:
            self._file.close()
        except OSError as error:
            raise OutputError(f"{self._path}: {error.strerror}") from None


class _Spills:
    """Reads spill files; the last one stays open, since the next piece is mostly in it too."""

    def __init__(self, staging: Path) -> None:
        self._staging = staging
        self._name = ""
        self._file: BinaryIO | None = None

    def read(self, name: str, at: int, length: int) -> bytes:
        if name != self._name or self._file is None:
            self.close()
            self._file = open(self._staging / name, "rb", buffering=0)  # noqa: SIM115 (closed by close())
            self._name = name
        data = os.pread(self._file.fileno(), length, at)
        if len(data) < length:
            raise OSError(errno.EIO, "shorter than it was written", name)
        return data

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _Rows:
    """Rows on their way into an Arrow batch."""

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, file: int, range_number: int, number: int, spill: str, at: int, piece: Piece) -> None:
        place = (spill, at, len(piece.data))
        self._rows.append(
            (piece.schema, file, range_number, number, *place, piece.events, piece.transactions)
        )

    def message(self, message: Message) -> None:
        self._rows.append((MESSAGE, 0, 0, 0, json.dumps(message), 0, 0, 0, 0))

    def flush(self) -> Iterator[pa.RecordBatch]:
        if self._rows:
            columns = [
                pa.array(column, field.type)
                for column, field in zip(zip(*self._rows, strict=True), PIECES_SCHEMA, strict=True)
            ]
            self._rows = []
            yield pa.RecordBatch.from_arrays(columns, schema=PIECES_SCHEMA)


@dataclass(frozen=True)
class WriteParts:
    """The second stage: pieces in, sorted by schema, file, range and piece; written parts out, as messages."""

    sources: tuple[SourceFile, ...]
    staging: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        messages: list[Message] = []
        part: PartWriter | None = None
        spills = _Spills(Path(self.staging))
        try:
            for batch in batches:
                columns = (batch.column(name).to_pylist() for name in batch.schema.names)
                for schema, file, _, _, spill, at, length, events, transactions in zip(*columns, strict=True):
                    if schema == MESSAGE:
                        messages.append(json.loads(spill))
                        continue
                    if part is None or (part.schema, part.source.number) != (schema, file):
                        if part is not None:
                            messages.append(_written(part))
                        part = PartWriter(Path(self.staging), schema, self.sources[file])
                    part.append(spills.read(spill, at, length))
                    part.events += events
                    part.transactions += transactions
            if part is not None:
                messages.append(_written(part))
                part = None
        except OSError as error:
            failed = OutputError(f"{error.filename or self.staging}: {error.strerror}")
            messages.append(error_message(failed))
        except BinlogError as error:
            # pieces are missing: the first stage has told why
            messages.append(error_message(error))
        finally:
            spills.close()
            if part is not None:
                part.abandon()
        yield pa.RecordBatch.from_pydict({"message": [json.dumps(message) for message in messages]})


def _written(part: PartWriter) -> Message:
    part.close()
    return {
        "kind": "part",
        "schema": part.schema,
        "file": part.source.number,
        "path": str(part.path),
        "bytes": part.size,
        "events": part.events,
        "transactions": part.transactions,
    }
