"""The scan of binlog files into columns of events.

Enters: files and directories. Leaves: segments (up to 4 MiB of events as arrays), positions, and binlog sets (the files
that an index file names). It also numbers subjects, the tables and statements that filters decide about. It imports
binlog and base.
"""
