"""The readers of a stream for whom a report is."""

from __future__ import annotations

import enum


class Audience(enum.StrEnum):
    """The readers of the stream for whom the sums are."""

    REPLICAS = "replicas"
    """Real MySQL or MariaDB replicas, which read MySQL's protocol and need stand-ins for dropped GTIDs."""
    SLAVES = "slaves"
    """The slaves of dumpfilter, which read gRPC."""
