"""The slave's filter for a channel with ``FILTER_ON = 'MASTER'``, where the master filters and the slave trusts it."""

from __future__ import annotations

from dumpfilter.filter.base import FilterAround
from dumpfilter.filter.decision import Decision, Step, Verdict


class TrustedRows(FilterAround):
    """A filter that passes all row events, and asks another filter about statements.

    The master has already dropped all unwanted row events, since row events name their table. But the master also sends
    statements that it cannot decide, so the slave asks its rules about each statement.
    """

    def decide_rows(self, database: str, table: str) -> Decision:
        return Decision(Verdict.EXECUTE, Step.NO_RULES, None, f"{database}.{table}")
