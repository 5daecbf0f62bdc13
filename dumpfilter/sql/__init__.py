"""The console's language: the parser of statements, the commands, and SELECT.

Nothing here does I/O or depends on a master or a slave.
"""
