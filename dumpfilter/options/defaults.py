"""Defaults of options that both the slave and the master use, or that several objects repeat."""

from __future__ import annotations

NET_TIMEOUT = 60.0
"""The default of ``--replica-net-timeout``, seconds, as in MySQL."""

HEARTBEAT_PERIOD = NET_TIMEOUT / 2
"""The default time between heartbeats when a master has nothing to send, seconds.

MySQL's default is half of ``replica_net_timeout``, too. A slave with another ``--replica-net-timeout`` asks for half
of that.
"""

SYNC_EVENTS = 10_000
"""The default of ``--sync-relay-log`` and ``--sync-master-info``, events, as in MySQL."""

CONNECT_RETRY = 60.0
"""The default of ``--connect-retry``, seconds, as in MySQL."""

FIRST_EVENT = 4
"""The offset of a binlog file's first event, bytes. The magic number is before it."""
