"""The division of a binlog set into ranges. A range is consecutive transactions of one file, for one Spark task."""
