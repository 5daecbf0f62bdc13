"""The two stages of the split, as functions over Arrow batches that run in Spark's Python workers.

What goes wrong with a binlog or an output travels as data, in rows without a schema (:class:`Message`), so that the
driver can raise the same typed error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

BATCH_BYTES = 4 << 20
"""Bytes of events in an Arrow batch from the first stage, about."""

MESSAGE = ""
"""Stands for a schema in rows that carry a message."""

PIECES = "schema string, file int, range long, piece long, data binary, events long, transactions long"
"""The first stage's rows, as Spark spells it."""

PIECES_SCHEMA = pa.schema(
    [
        ("schema", pa.string()),
        ("file", pa.int32()),
        ("range", pa.int64()),
        ("piece", pa.int64()),
        ("data", pa.binary()),
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
        try:
            with open_source(source.path) as file:
                for block in read(file, wanted.start, wanted.end, subjects, SourceNumbers(), options):
                    for piece in sharer.share(block):
                        rows.add(wanted.file, wanted.number, number, piece)
                        number += 1
                        if rows.size >= BATCH_BYTES:
                            yield from rows.flush()
        except BinlogError as error:
            rows.message(error_message(error.located(source.name)))
        except OSError as error:
            failed = BinlogError(f"cannot be read: {error.strerror}", file=source.name)
            rows.message(error_message(failed))
        if sharer.shared_statements:
            rows.message({"kind": "note", "shared_statements": sharer.shared_statements})


class _Rows:
    """Rows on their way into an Arrow batch."""

    def __init__(self) -> None:
        self.size = 0
        self._rows: list[tuple[Any, ...]] = []

    def add(self, file: int, range_number: int, number: int, piece: Piece) -> None:
        self._rows.append(
            (piece.schema, file, range_number, number, piece.data, piece.events, piece.transactions)
        )
        self.size += len(piece.data)

    def message(self, message: Message) -> None:
        self._rows.append((MESSAGE, 0, 0, 0, json.dumps(message).encode(), 0, 0))

    def flush(self) -> Iterator[pa.RecordBatch]:
        if self._rows:
            columns = [
                pa.array(column, field.type)
                for column, field in zip(zip(*self._rows, strict=True), PIECES_SCHEMA, strict=True)
            ]
            self._rows, self.size = [], 0
            yield pa.RecordBatch.from_arrays(columns, schema=PIECES_SCHEMA)


@dataclass(frozen=True)
class WriteParts:
    """The second stage: pieces in, sorted by schema, file, range and piece; written parts out, as messages."""

    sources: tuple[SourceFile, ...]
    staging: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        messages: list[Message] = []
        part: PartWriter | None = None
        try:
            for batch in batches:
                columns = {name: batch.column(name) for name in batch.schema.names}
                schemas, files = columns["schema"].to_pylist(), columns["file"].to_pylist()
                events, transactions = columns["events"].to_pylist(), columns["transactions"].to_pylist()
                for i, (schema, file) in enumerate(zip(schemas, files, strict=True)):
                    data = memoryview(columns["data"][i].as_buffer())
                    if schema == MESSAGE:
                        messages.append(json.loads(bytes(data)))
                        continue
                    if part is None or (part.schema, part.source.number) != (schema, file):
                        if part is not None:
                            messages.append(_written(part))
                        part = PartWriter(Path(self.staging), schema, self.sources[file])
                    part.append(data)
                    part.events += events[i]
                    part.transactions += transactions[i]
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
