"""Sums over all slaves, the traffic of a month and its price, and remarks about them in words."""

from __future__ import annotations

from collections.abc import Sequence

from dumpfilter.printable import visible
from dumpfilter.report.month import GIGABYTE, bytes_of_month, remark_on_month
from dumpfilter.report.text import human_percent, share
from dumpfilter.spark_jobs.bandwidth.results import (
    Month,
    Prices,
    Results,
    Savings,
    SlaveFigures,
    Totals,
    Ways,
)

_MOST_NAMES = 3
"""The most slaves that a remark names."""


def ways_of(slave: SlaveFigures) -> Ways:
    """Return the bytes of a slave's traffic, sent in four ways."""
    return Ways(
        no_filter=slave.no_filter.bytes,
        filter=slave.master_side.bytes,
        compression=slave.compressed_no_filter,
        both=slave.compressed,
    )


def month_of(bytes: Ways, seconds: int, price_per_gb: float | None = None) -> Month | None:
    """Return the traffic and the price of a month, given the bytes of some seconds.

    Return None if the time is too short.
    """
    found = {name: month for name, nbytes in bytes if (month := bytes_of_month(nbytes, seconds)) is not None}
    if not found:
        return None
    price = None
    if price_per_gb is not None:
        price = Prices(**{name: nbytes / GIGABYTE * price_per_gb for name, nbytes in found.items()})
    return Month(bytes=Ways(**found), price=price)


def counted(slaves: Sequence[SlaveFigures]) -> list[SlaveFigures]:
    """Return the slaves that sums count: those to which something passes.

    A misspelled rule that drops everything would otherwise be the largest saving of all.
    """
    return [one for one in slaves if not one.nothing_passes]


def totals_of(slaves: Sequence[SlaveFigures], seconds: int, price_per_gb: float | None = None) -> Totals:
    """Return the sums of the slaves' figures, and the traffic of a month.

    Slaves to which nothing passes are left out. ``seconds`` is the active time of the binlogs.
    """
    given = len(slaves)
    slaves = counted(slaves)
    each = [ways_of(one) for one in slaves]
    bytes = Ways(**{name: sum(getattr(one, name) for one in each) for name in Ways.model_fields})
    replicas = [one.real_replica for one in slaves]
    return Totals(
        slaves=len(slaves),
        slaves_left_out=given - len(slaves),
        bytes=bytes,
        saved=Savings(
            **{name: bytes.no_filter - getattr(bytes, name) for name in Savings.model_fields},
        ),
        split=sum(one.split for one in slaves),
        real_replica=None if None in replicas else sum(one.bytes for one in replicas if one is not None),
        real_replica_is_upper_bound=any(one is not None and one.is_upper_bound for one in replicas),
        month=month_of(bytes, seconds, price_per_gb),
    )


def with_totals(results: Results, price_per_gb: float | None = None) -> Results:
    """Return the results with totals, the figures of a month, the price, and remarks, all made from their figures."""
    seconds = results.source.active_seconds
    slaves = tuple(
        one.model_copy(update={"month": month_of(ways_of(one), seconds, price_per_gb)})
        for one in results.slaves
    )
    totals = totals_of(slaves, seconds, price_per_gb)
    return results.model_copy(
        update={
            "slaves": slaves,
            "totals": totals,
            "price_per_gb": price_per_gb,
            "remarks": (
                *about_nothing(slaves),
                *_about_compression(totals, slaves),
                *filter(None, [remark_on_month(seconds)]),
            ),
        }
    )


def about_nothing(slaves: Sequence[SlaveFigures]) -> list[str]:
    """Return a remark that names the slaves to which nothing passes, and says that sums leave them out."""
    names = [visible(one.name) for one in slaves if one.nothing_passes]
    if not names:
        return []
    several = len(names) > 1
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    told = (
        f"No row and no statement on a table passes the filter{'s' if several else ''} of "
        f"{', '.join(names[:_MOST_NAMES])}{more}. What "
        f"{'these slaves save' if several else 'this slave saves'} is no gain, unless all is meant to be dropped."
    )
    if len(slaves) > 1:
        told += f" Sums, totals and prices leave {'these slaves' if several else 'this slave'} out."
    return [told]


def _about_compression(totals: Totals, slaves: Sequence[SlaveFigures]) -> list[str]:
    whole, saved = totals.bytes.no_filter, totals.saved
    if saved.compression > saved.filter:
        who = "the filters" if totals.slaves > 1 else "the filter"
        return [
            f"Compression alone saves more than {who}: {human_percent(share(saved.compression, whole))} (estimated) "
            f"against {human_percent(share(saved.filter, whole))}. Both together save "
            f"{human_percent(share(saved.both, whole))}."
        ]
    better = [one.name for one in counted(slaves) if one.compressed_no_filter < one.master_side.bytes]
    if not better:
        return []
    number = len(better)
    return [f"For {number} of {totals.slaves} slaves, compression alone saves more than the filter."]
