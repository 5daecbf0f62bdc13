"""The slave: it receives a master's filtered binlog over gRPC, writes relay logs, and applies them to targets.

A target is the object that a slave applies transactions to, where a server has its tables.

- ``channels.py``: a process's channels and their filters. ``process.py``: the process, and the report at its end.
- ``console.py``, ``facts.py``: SQL statements to a slave, and the tables, metrics and SHOW output about its channels.
- ``io_thread.py``, ``connection.py``, ``receiver.py``: the I/O thread, which writes the relay log.
- ``sql_thread.py``, ``applier.py``: the SQL thread, which applies the relay log. ``threads.py``: parts of both threads.
- ``relay_log.py``, ``state.py``: relay logs and state files in the relay directory.
- ``targets.py``: the protocol of targets, and the targets that dumpfilter has.
"""
