"""A filter that drops statements by their kind, such as DROP TABLE, and a filter that combines filters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.statement import StatementKind
from dumpfilter.filter.base import FilterAround, ReplicationFilter
from dumpfilter.filter.decision import Decision, Step, Verdict
from dumpfilter.filter.rules import BaseRuleKind
from dumpfilter.index.subjects import Subject, TableSubject

ROWS = "ROWS"
"""The word that stands for row events as a value of ``--statement-kind`` and ``--ignore-statement-kind``, although row
events are no statements."""


class KindFilter(ReplicationFilter):
    """A filter that passes or drops statements by their kind, such as DROP TABLE.

    Parameters:
        only: the names of the kinds that pass (:class:`StatementKind`'s, or :data:`ROWS` for row events). Empty: all
            kinds.
        ignored: the names of the kinds that the filter drops, even if ``only`` has them.

    A statement that the parser does not understand has the kind UNKNOWN. If ``only`` names other kinds but not UNKNOWN,
    the statement may be of a wanted kind. The verdict is then UNDECIDED, and the statement passes. Raises OptionError
    for a name that does not exist.
    """

    def __init__(self, only: Iterable[str] = (), ignored: Iterable[str] = ()) -> None:
        self.rules = ()
        self.names = NameRules()
        self._only = {kind_name(name, "--statement-kind") for name in only}
        self._ignored = {kind_name(name, "--ignore-statement-kind") for name in ignored}

    @property
    def is_on(self) -> bool:
        return bool(self._only or self._ignored)

    def decide(self, subject: Subject) -> Decision:
        name = ROWS if isinstance(subject, TableSubject) else subject.kind.value
        if name in self._ignored:
            verdict = Verdict.IGNORE
        elif not self._only or name in self._only:
            verdict = Verdict.EXECUTE
        else:
            verdict = Verdict.UNDECIDED if name == StatementKind.UNKNOWN.value else Verdict.IGNORE
        return Decision(verdict, Step.STATEMENT_KIND, None, name)


class AllFilters(FilterAround):
    """A combination of several filters, which passes an event only if each of the filters passes the event.

    The first filter is the slave's own. Only the first filter renames databases and counts hits (matches of rules,
    which MySQL shows in COUNTER). Events that another filter drops never reach the slave, so they count no hit.
    """

    def __init__(self, filters: Sequence[ReplicationFilter]) -> None:
        super().__init__(filters[0])
        self._filters = [one for one in filters if one.is_on]
        self._others = [one for one in filters[1:] if one.is_on]
        self.rules = tuple(rule for one in filters for rule in one.rules)

    @property
    def is_on(self) -> bool:
        return bool(self._filters)

    def decide(self, subject: Subject) -> Decision:
        found = Decision(Verdict.EXECUTE, Step.NO_RULES)
        for one in self._filters:
            decision = one.decide(subject)
            if decision.verdict is Verdict.IGNORE:
                return decision
            if found.verdict is Verdict.EXECUTE:
                found = decision
        return found

    def hits(self, subject: Subject) -> tuple[BaseRuleKind, ...]:
        return super().hits(subject) if all(one.verdict(subject).passes for one in self._others) else ()


def kind_name(name: str, option: str) -> str:
    """Return the exact name of a kind of statement, such as ``DROP TABLE``, for a name that a user wrote.

    Case does not matter, and a dash or an underscore counts as a space. Raises OptionError that names ``option`` and
    lists all kinds.

    >>> kind_name("drop-table", "--statement-kind")
    'DROP TABLE'
    """
    wanted = " ".join(name.upper().replace("-", " ").replace("_", " ").split())
    names = [kind.value for kind in StatementKind] + [ROWS]
    if wanted not in names:
        raise OptionError(f"{option}={name}: there is no such kind; there are: {', '.join(names)}")
    return wanted
