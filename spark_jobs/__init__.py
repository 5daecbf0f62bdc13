"""The Spark jobs: the split, the bandwidth report, and the data source ``binlog``."""
