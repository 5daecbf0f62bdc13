"""The slave: channels with relay logs, and appliers that apply them to targets.

- ``slave.py``: a process's channels and their filters. ``channel.py``: one channel and its two threads.
- ``console.py``, ``status.py``: SQL statements to a slave, and the tables and SHOW output about its channels.
- ``threads/``: the I/O thread with its receiver, and the SQL thread with its applier.
- ``state/``: relay logs and state files in the relay directory.
- ``targets/``: the objects that transactions are applied to.
"""
