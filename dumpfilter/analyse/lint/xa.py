"""The XA transactions that a filter drops whole, at which the servers' own replicas stop."""

from __future__ import annotations

from collections.abc import Iterator

from dumpfilter.analyse.lint.findings import Code
from dumpfilter.analyse.lint.items import Item, few
from dumpfilter.analyse.lint.knowledge import SetEvent, SetKnowledge
from dumpfilter.filter import ReplicationFilter


def dropped_xa(rule_filter: ReplicationFilter, knowledge: SetKnowledge) -> Iterator[Item]:
    """Yield the XA transactions of which the filter drops everything."""
    if rule_filter.names.family == "mysql":
        stop = "stops with error 3898"
    else:
        # Seen with MariaDB 10.11: the replica writes its empty XA COMMIT under the GTID of the XA PREPARE.
        stop = "stops with error 1950 if it has gtid_strict_mode and log_slave_updates"
    for subjects, evidence in knowledge.xa_transactions:
        if subjects and not any(rule_filter.verdict(subject).passes for subject in subjects):
            yield Item(
                Code.XA_DROPPED,
                few(rule_filter.rules),
                "the filter drops all changes of an XA transaction. A replica that reads everything and filters for "
                f"itself {stop}",
                "Nothing is to do behind dumpfilter, which does not send such a transaction",
                events=(SetEvent(subjects[0], evidence),),
            )
