"""The slave: channels that each keep relay logs and have an applier that follows them.

- ``slave.py``: a process's channels and their filters. ``channel.py``: one channel with its two threads.
- ``console.py``, ``status.py``: the effect of statements on a slave, and the tables and SHOW output of a slave.
- ``io_thread.py``: the gRPC shell of the I/O thread. ``receiver.py``: chunks to relay log, without the network.
- ``relay_log.py``, ``master_info.py``, ``relay_log_info.py``, ``source_info.py``: the files of a channel.
- ``applier.py``, ``sql_thread.py``: events to calls of a target.
- ``targets/``: the targets that transactions are applied to.
"""
