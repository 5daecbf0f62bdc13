"""The sub-commands of ``dumpfilter``. Each has a module that reads its options, calls one other package and prints.

Enters: the command line and option files. Leaves: tables, JSON, exit codes. The package may import every other one.
"""
