"""The binlog index: a scan of binlog files into columns, the tables and statements that filters decide about, and
binlog sets.
"""
