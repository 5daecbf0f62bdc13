"""The binlog index: a scan of binlog files into columns, the subjects that filters decide on, and binlog sets."""
