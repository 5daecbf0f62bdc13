"""The scan of binlog files into columns of events.

Input: files and directories. Output: segments (up to 8 MiB of events as arrays), positions, and binlog sets (the files
that an index file names). The package also numbers subjects, the tables and statements that filters decide about. This
package imports the packages ``binlog`` and ``base``.
"""
