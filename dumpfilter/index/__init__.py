"""The scan of binlog files into columns of events, with the tables and statements (subjects) that filters decide
about.

Enters: files and directories. Leaves: segments (up to 4 MiB of events as arrays), positions, subjects, and binlog sets
(the files that an index file names). It imports binlog and base.
"""
