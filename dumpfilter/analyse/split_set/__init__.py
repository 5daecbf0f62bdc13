"""The directory that ``dumpfilter split`` writes: several binlog sets made from one, with a manifest.

The master, the purge and the command ``manifest`` read such directories.
"""
