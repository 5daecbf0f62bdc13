"""The split's stages in this process, without Spark: for many small splits."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from spark_jobs.split import SplitOptions, SplitResult, split
from spark_jobs.stages import PIECES_SCHEMA, Message, SharePieces, WriteParts


def run_here(share: SharePieces, write: WriteParts, options: SplitOptions) -> list[Message]:
    """Both stages, the rows between them sorted as Spark does."""
    del options
    # the last range first, as tasks may end in any order
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(share.ranges)))[::-1]})
    table = pa.Table.from_batches(share(iter([numbers])), PIECES_SCHEMA)
    keys = [(name, "ascending") for name in ("schema", "file", "range", "piece")]
    batches = table.sort_by(keys).to_batches(max_chunksize=3)
    return [json.loads(text) for batch in write(iter(batches)) for text in batch.column(0).to_pylist()]


def split_here(source: Path, output: Path, options: SplitOptions | None = None) -> SplitResult:
    return split(source, output, run_here, options)
