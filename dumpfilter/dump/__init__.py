"""The dump thread, sans-I/O."""

from dumpfilter.dump.thread import DEFAULT_CHUNK_SIZE, ChunkPlan, Counts, DumpThread, render

__all__ = ["DEFAULT_CHUNK_SIZE", "ChunkPlan", "Counts", "DumpThread", "render"]
