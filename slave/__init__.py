"""The slave: an I/O thread that keeps relay logs, and an applier that follows them.

- :mod:`slave.slave`: :class:`~slave.slave.Slave`, one slave with its two threads.
- :mod:`slave.io_thread`, :mod:`slave.receiver`: the gRPC shell, and chunks to relay log without the network.
- :mod:`slave.relay_log`, :mod:`slave.master_info`, :mod:`slave.relay_log_info`: what is on the disk.
- :mod:`slave.applier`, :mod:`slave.sql_thread`: events to a target; :func:`~slave.applier.apply_files`.
- :mod:`slave.targets`: what is applied to.
"""
