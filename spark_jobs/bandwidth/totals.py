"""Sums over all slaves, the traffic of a month and its price, and remarks about them in words."""

from __future__ import annotations

from collections.abc import Sequence

from dumpfilter.printable import visible
from dumpfilter.report.audience import Audience
from dumpfilter.report.month import GIGABYTE, bytes_of_month, remark_on_month
from dumpfilter.report.text import human_bytes, human_percent, share
from dumpfilter.spark_jobs.bandwidth.results import (
    PACKET_BYTES,
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


def ways_of(slave: SlaveFigures, audience: Audience) -> Ways:
    """Return the bytes of a slave's traffic, sent in four ways to a reader of a kind."""
    real = slave.real_replica
    if audience is Audience.REPLICAS and real is not None:
        return Ways(
            no_filter=real.bytes_from_source,
            filter=real.bytes,
            compression=real.compressed_from_source,
            both=real.compressed,
        )
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


def totals_of(
    slaves: Sequence[SlaveFigures],
    seconds: int,
    audience: Audience,
    price_per_gb: float | None = None,
) -> Totals:
    """Return the sums of the slaves' figures, and the traffic of a month.

    Slaves to which nothing passes are left out. ``seconds`` is the active time of the binlogs.
    """
    given = len(slaves)
    slaves = counted(slaves)
    bytes = _sums(slaves, audience)
    replicas = [one.real_replica for one in slaves if one.real_replica is not None]
    return Totals(
        slaves=len(slaves),
        slaves_left_out=given - len(slaves),
        bytes=bytes,
        saved=Savings(
            **{name: bytes.no_filter - getattr(bytes, name) for name in Savings.model_fields},
        ),
        of_slaves=_sums(slaves, Audience.SLAVES),
        of_replicas=_sums(slaves, Audience.REPLICAS) if len(replicas) == len(slaves) else None,
        stand_ins=sum(one.stand_ins for one in replicas),
        stand_in_bytes=sum(one.bytes_gtid for one in replicas),
        is_upper_bound=any(one.is_upper_bound for one in replicas),
        split=sum(one.split for one in slaves),
        month=month_of(bytes, seconds, price_per_gb),
    )


def _sums(slaves: Sequence[SlaveFigures], audience: Audience) -> Ways:
    each = [ways_of(one, audience) for one in slaves]
    return Ways(**{name: sum(getattr(one, name) for one in each) for name in Ways.model_fields})


def with_totals(results: Results, price_per_gb: float | None = None) -> Results:
    """Return the results with totals, the figures of a month, the price, and remarks, all made from their figures."""
    seconds = results.source.active_seconds
    slaves = tuple(
        one.model_copy(update={"month": month_of(ways_of(one, results.audience), seconds, price_per_gb)})
        for one in results.slaves
    )
    totals = totals_of(slaves, seconds, results.audience, price_per_gb)
    return results.model_copy(
        update={
            "slaves": slaves,
            "totals": totals,
            "price_per_gb": price_per_gb,
            "remarks": (
                *about_nothing(slaves),
                *_about_readers(totals, results.audience),
                *_about_compression(totals, slaves, results),
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


def _about_readers(totals: Totals, audience: Audience) -> list[str]:
    """Return a remark that tells what the filters save for real replicas, and what for slaves of dumpfilter."""
    replicas, slaves = totals.of_replicas, totals.of_slaves
    if replicas is None:
        return [
            "The figures are for dumpfilter's own slaves. The binlogs have no GTIDs, which a real replica of MySQL "
            "behind a filter needs."
        ]
    if not slaves.no_filter:
        return []
    of_slaves = human_percent(share(slaves.no_filter - slaves.filter, slaves.no_filter))
    of_replicas = human_percent(share(replicas.no_filter - replicas.filter, replicas.no_filter))
    if totals.is_upper_bound:
        of_replicas = f"at least {of_replicas}"
    filters = "filters" if totals.slaves > 1 else "filter"
    save = "save" if totals.slaves > 1 else "saves"
    stand_ins = (
        f"MySQL's protocol adds {PACKET_BYTES} bytes to each event, and {'at most ' if totals.is_upper_bound else ''}"
        f"{totals.stand_ins:,} stand-ins ({human_bytes(totals.stand_in_bytes)}) take the place of dropped "
        "transactions, so that a replica has their GTIDs."
    )
    if audience is Audience.REPLICAS:
        return [
            f"For real replicas the {filters} {save} {of_replicas}. {stand_ins} For dumpfilter's own slaves the "
            f"{filters} would save {of_slaves} (--for slaves)."
        ]
    return [
        f"For dumpfilter's own slaves the {filters} {save} {of_slaves}. For real replicas the {filters} would save "
        f"{of_replicas} (--for replicas). {stand_ins}"
    ]


def _about_compression(totals: Totals, slaves: Sequence[SlaveFigures], results: Results) -> list[str]:
    whole, saved = totals.bytes.no_filter, totals.saved
    if saved.compression > saved.filter:
        who = "the filters" if totals.slaves > 1 else "the filter"
        told = (
            f"Compression alone saves more than {who}: {human_percent(share(saved.compression, whole))} (estimated) "
            f"with zstd {compression_name(results)}, against {human_percent(share(saved.filter, whole))}. "
            f"Both together save {human_percent(share(saved.both, whole))}."
        )
        of_slaves = totals.of_slaves
        if results.audience is Audience.REPLICAS:
            in_blocks = share(of_slaves.no_filter - of_slaves.compression, of_slaves.no_filter)
            told += f" In blocks of 256 KiB, zstd alone would save {human_percent(in_blocks)}."
        return [told]
    ways = [ways_of(one, results.audience) for one in counted(slaves)]
    number = sum(one.compression < one.filter for one in ways)
    return (
        [f"For {number} of {totals.slaves} slaves, compression alone saves more than the filter."]
        if number
        else []
    )


def compression_name(results: Results) -> str:
    """Return words for the way in which the estimates of the sums compress."""
    if results.audience is Audience.SLAVES:
        return "in blocks of 256 KiB"
    option = ", as binlog_transaction_compression does" if results.source.family == "mysql" else ""
    return f"on each transaction alone{option}"
