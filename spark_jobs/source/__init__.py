"""The parts of the Spark data source ``binlog``, which presents a binlog set as a table with one row per event."""
