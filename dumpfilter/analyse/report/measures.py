"""Types that the reports about traffic share: the bytes in each period of time, divided by schema or table, and the
kind of replica for which bytes are counted.
"""

from __future__ import annotations

import enum

from pydantic import BaseModel, ConfigDict

PERIODS = (1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 86_400)
"""The preferred period lengths, seconds. Each is a multiple of the previous one."""


class Division(enum.StrEnum):
    """The ways to divide bytes over time: by schema or by table."""

    SCHEMA = "schema"
    TABLE = "table"


class Model(BaseModel):
    """The base class of the parts of a report's result. Objects cannot be changed, and JSON with unknown fields is
    refused.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Period(Model):
    """The traffic of a binlog set in one period of time. ``bytes`` maps the name of each schema or table to the bytes
    of its events in this period.
    """

    start: int
    """The beginning of the period, Unix seconds; 0 for events without a timestamp."""
    bytes: dict[str, int]


class OverTime(Model):
    """The bytes of a binlog set's events in each period of time, before any filter, divided by schema or by table."""

    by: Division
    period_seconds: int
    names: tuple[str, ...]
    """The schemas or tables with most bytes, the largest first."""
    periods: tuple[Period, ...]
    """The periods with traffic."""


def wider(seconds: int) -> int:
    """Return the next longer period length, which is a multiple of ``seconds``.

    >>> wider(1), wider(86_400), wider(7)
    (5, 172800, 14)
    """
    longer = PERIODS[PERIODS.index(seconds) + 1 :] if seconds in PERIODS else ()
    return longer[0] if longer else 2 * seconds


class Audience(enum.StrEnum):
    """The kinds of replica for which a report counts the bytes that the master sends: real replicas, and slaves of
    dumpfilter. The kinds use different protocols.
    """

    REPLICAS = "replicas"
    """Real MySQL or MariaDB replicas, which read MySQL's replication protocol. They receive stand-ins (empty
    transactions) for dropped GTIDs.
    """
    SLAVES = "slaves"
    """Slaves of dumpfilter, which read over gRPC."""
