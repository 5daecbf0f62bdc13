"""The scan of binlog files into columns of events, with the subjects that filters decide about, and binlog sets.

Enters: files and directories. Leaves: segments, positions, subjects, ends of sets. It imports binlog and base.
"""
