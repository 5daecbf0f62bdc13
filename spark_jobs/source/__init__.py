"""The parts of the Spark data source "binlog" (:mod:`spark_jobs.binlog_source`)."""
