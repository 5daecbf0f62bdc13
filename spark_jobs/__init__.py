"""What runs on Spark: the split of a binlog set by schema."""
