"""The kinds of readers for which a report counts the bytes of the filtered stream."""

from __future__ import annotations

import enum


class Audience(enum.StrEnum):
    """The kind of reader for which a report counts the bytes of the filtered stream."""

    REPLICAS = "replicas"
    """Real MySQL or MariaDB replicas, which read MySQL's replication protocol. They receive stand-ins (empty
    transactions) for dropped GTIDs.
    """
    SLAVES = "slaves"
    """Slaves of dumpfilter, which read over gRPC."""
