"""Synthetic binlogs of any size, for benchmarks and load tests."""
