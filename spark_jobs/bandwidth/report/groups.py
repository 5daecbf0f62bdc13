"""Groups of slaves with equal figures, such as four replicas of one service, which the page shows as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from dumpfilter.report.audience import Audience
from dumpfilter.spark_jobs.bandwidth.results import Results, SlaveFigures, Ways
from dumpfilter.spark_jobs.bandwidth.totals import ways_of

_DIGITS = "0123456789"
_SAME = {"name": "", "server_id": None}
"""Values in place of the figures in which equal slaves may differ."""


@dataclass(frozen=True)
class Group:
    """Slaves with the same rules and the same figures."""

    members: tuple[SlaveFigures, ...]

    @property
    def figures(self) -> SlaveFigures:
        """The figures of each member."""
        return self.members[0]

    @property
    def name(self) -> str:
        """The names of the members, as short as "web-1…4" if they differ in numbers at their ends."""
        names = [member.name for member in self.members]
        if len(names) == 1:
            return names[0]
        pairs = zip(min(names), max(names), strict=False)
        start = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)).rstrip(_DIGITS)
        ends = [name.removeprefix(start) for name in names]
        if all(set(end) <= set(_DIGITS) and end for end in ends):
            return f"{names[0]}…{ends[-1]}"
        return f"{names[0]}{', ' if len(names) == 2 else ' … '}{names[-1]}"

    @property
    def count(self) -> int:
        """The number of members."""
        return len(self.members)

    def ways(self, audience: Audience) -> Ways:
        """Return the bytes of each member in four ways, for readers of a kind."""
        return ways_of(self.figures, audience)

    def saved(self, audience: Audience) -> int:
        """Return the bytes that each member's filter saves for readers of a kind."""
        ways = self.ways(audience)
        return ways.no_filter - ways.filter


def groups_of(results: Results) -> list[Group]:
    """Return the slaves in groups with equal figures, in the order of the slaves."""
    found: dict[object, list[SlaveFigures]] = {}
    for slave in results.slaves:
        key = (slave.model_copy(update=_SAME), results.series.slaves[slave.name])
        found.setdefault(key, []).append(slave)
    return [Group(tuple(members)) for members in found.values()]


def by_saving(groups: Sequence[Group], audience: Audience) -> list[Group]:
    """Return the groups with the largest saving of a member first, and groups to which nothing passes last."""
    return sorted(
        groups, key=lambda group: (group.figures.nothing_passes, -group.saved(audience), group.name)
    )


def by_traffic(groups: Sequence[Group]) -> list[Group]:
    """Return the groups with the most bytes with the filter on the master first."""
    return sorted(groups, key=lambda group: (-group.figures.master_side.bytes, group.name))
