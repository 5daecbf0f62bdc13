"""The generator of synthetic binlog sets, for benchmarks and load tests."""
