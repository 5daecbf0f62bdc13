"""The parts of the Spark data source "binlog" (:mod:`dumpfilter.spark_jobs.binlog_source`)."""
