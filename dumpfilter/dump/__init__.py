"""The dump thread, sans-I/O."""

from dumpfilter.dump.thread import DEFAULT_CHUNK_SIZE, ChunkPlan, Counts, DumpThread, render, render_into

__all__ = ["DEFAULT_CHUNK_SIZE", "ChunkPlan", "Counts", "DumpThread", "render", "render_into"]
