"""The two kinds of replicas for which a report can count the bytes that the master sends: real MySQL or MariaDB
replicas, and slaves of dumpfilter.
"""

from __future__ import annotations

import enum


class Audience(enum.StrEnum):
    """The kind of replica for which a report counts the bytes that the master sends, since the two protocols
    differ.
    """

    REPLICAS = "replicas"
    """Real MySQL or MariaDB replicas, which read MySQL's replication protocol. They receive stand-ins (empty
    transactions) for dropped GTIDs.
    """
    SLAVES = "slaves"
    """Slaves of dumpfilter, which read over gRPC."""
