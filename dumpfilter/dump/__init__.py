"""The decision which binlog events a slave gets, and the chunks of bytes to send. This package opens no connection."""

from dumpfilter.dump.chunk import DEFAULT_CHUNK_SIZE, ChunkPlan, Counts, render, render_into
from dumpfilter.dump.thread import DumpThread, plan_many

__all__ = [
    "DEFAULT_CHUNK_SIZE",
    "ChunkPlan",
    "Counts",
    "DumpThread",
    "plan_many",
    "render",
    "render_into",
]
