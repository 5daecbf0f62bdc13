"""The SQL of the console: the parser of its statements, the commands that they are parsed into, and SELECT.

The console is the port of a master or slave that MySQL clients connect to. Nothing in this package does I/O or imports
the master or the slave.
"""
