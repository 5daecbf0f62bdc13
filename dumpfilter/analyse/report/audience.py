"""The type of reader of a stream for which a report is computed."""

from __future__ import annotations

import enum


class Audience(enum.StrEnum):
    """The type of reader of the stream for which a report sums bytes."""

    REPLICAS = "replicas"
    """Real MySQL or MariaDB replicas, which read MySQL's protocol. They get stand-ins (empty transactions) for dropped
    GTIDs.
    """
    SLAVES = "slaves"
    """Slaves of dumpfilter, which read gRPC."""
