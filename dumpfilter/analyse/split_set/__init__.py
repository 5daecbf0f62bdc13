"""The reading of a split's directory: several binlog sets that a job made from one, with a manifest.

The master, the purge and the command ``manifest`` read such directories.
"""
