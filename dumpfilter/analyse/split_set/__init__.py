"""The directory that ``dumpfilter split`` writes: several binlog sets made from one, with a manifest.

The manifest (``manifest.json``) records which part of the source each file holds. The master and the commands
``purge`` and ``manifest`` read such directories.
"""
