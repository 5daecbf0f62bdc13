"""The slave: channels that each keep relay logs and have an applier that follows them.

- :mod:`slave.slave`: :class:`~slave.slave.Slave`, the channels of a process and their filters;
  :mod:`slave.channel`: :class:`~slave.channel.Channel`, one of them with its two threads.
- :mod:`slave.console`, :mod:`slave.status`: what statements do to a slave, and what they show.
- :mod:`slave.io_thread`, :mod:`slave.receiver`: the gRPC shell, and chunks to relay log without the network.
- :mod:`slave.relay_log`, :mod:`slave.master_info`, :mod:`slave.relay_log_info`, :mod:`slave.source_info`: what is
  on the disk.
- :mod:`slave.applier`, :mod:`slave.sql_thread`: events to a target; :func:`~slave.applier.apply_files`.
- :mod:`slave.targets`: what is applied to.
"""
