"""The slave: it receives a master's filtered binlog over gRPC, writes relay logs, and applies them to targets.

A target is the object that a slave applies transactions to, where a server has its tables.

- ``slave.py``: a process's channels and their filters. ``channel.py``: one channel and its two threads.
- ``console.py``, ``facts.py``: SQL statements to a slave, and the tables, metrics and SHOW output about its channels.
- ``threads/``: the I/O thread, which writes the relay log, and the SQL thread, which applies the relay log.
- ``state/``: relay logs and state files in the relay directory.
- ``targets/``: the protocol of targets, and the targets that dumpfilter has.
"""
