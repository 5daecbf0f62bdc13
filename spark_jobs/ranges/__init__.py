"""Ranges of a binlog set: the parts that Spark tasks work on."""
