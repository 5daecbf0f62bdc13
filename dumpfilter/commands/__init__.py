"""The sub-commands of ``dumpfilter``: a module each, which reads its options, calls one room and prints.

Enters: the command line and option files. Leaves: tables, JSON, exit codes. It may import every room.
"""
