"""Reading a split's directory: several binlog sets that ``dumpfilter split`` made from one, with a manifest.

The master, the purge and the command ``manifest`` read such directories.
"""
