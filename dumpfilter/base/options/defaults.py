"""Default values of options that several programs or commands share, so that the values agree."""

from __future__ import annotations

NET_TIMEOUT = 60.0
"""The default of ``--replica-net-timeout``, seconds, as in MySQL. A slave waits so long for a silent master."""

HEARTBEAT_PERIOD = NET_TIMEOUT / 2
"""The default time between the heartbeats of a master that has nothing to send, seconds.

As in MySQL the default is half of ``--replica-net-timeout``. A slave with another timeout asks the master for half of
its own timeout.
"""

SYNC_EVENTS = 10_000
"""The default of ``--sync-relay-log``, as in MySQL: the number of events after which the files are synced to disk."""

CONNECT_RETRY = 60.0
"""The default of ``--connect-retry``, as in MySQL: the seconds before a slave connects to its master again."""

FIRST_EVENT = 4
"""The offset of the first event of a binlog file, bytes. The file's magic number comes before the event."""
