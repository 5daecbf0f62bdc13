"""The parts of the Spark data source ``binlog``, which reads a binlog set as a table with a row for each event."""
